// Calibrated rounding, block by block.
#include "block_pass.hpp"

#include <algorithm>

#include "bantam/compress/nearest.hpp"

namespace bantam::inline v0 {

namespace {

using Inputs = TensorView<const float, 2>;

/// What the readers of one place in readers() read; `attention` is what q, k and v do.
Inputs inputs_of(const Forward& forward, Inputs attention, std::size_t group) {
  const Inputs all[] = {attention, forward.output_inputs(), forward.mlp_inputs(), forward.down_inputs()};
  return all[group];
}

}  // namespace

BlockPass::BlockPass(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration)
    : checkpoint_(checkpoint), recipe_(recipe), cache_({1, checkpoint.config().kv_heads, checkpoint.config().head_dim}, "f32") {
  const ModelConfig& config = checkpoint.config();
  std::int64_t longest = 0;
  for (const std::vector<TokenId>& sample : calibration.samples) {
    if (sample.empty()) continue;
    lengths_.push_back(static_cast<std::int64_t>(sample.size()));
    longest = std::max(longest, lengths_.back());
  }
  if (lengths_.empty()) fail(Errc::invalid_argument, "calibration: expected text, found none");
  const auto embedding = std::ranges::find_if(checkpoint.tensors(), [](const CheckpointTensor& t) { return t.role == Role::embedding; });
  RowCodes scratch;
  for (const std::vector<TokenId>& sample : calibration.samples) {
    for (const TokenId id : sample) {
      if (id < 0 || id >= config.vocab) fail(Errc::invalid_argument, "calibration: expected token ids below ", config.vocab, ", found ", id);
      hidden_.resize(hidden_.size() + static_cast<std::size_t>(config.dim));
      checkpoint.read_row(*embedding, id, std::span(hidden_).last(static_cast<std::size_t>(config.dim)), scratch);
    }
  }
  forward_ = std::make_unique<Forward>(config, none_, longest, 0);
}

/// Calls f with the hidden states of each sample.
template <class F>
void BlockPass::for_each_sample(F&& f) {
  std::int64_t first = 0;
  for (const std::int64_t length : lengths_) {
    const std::int64_t dim = checkpoint_.config().dim;
    f(std::span(hidden_).subspan(static_cast<std::size_t>(first * dim), static_cast<std::size_t>(length * dim)));
    first += length;
  }
}

std::vector<Hessian> BlockPass::observe(const LayerWeights& block, std::int64_t layer, std::size_t first, std::size_t last) {
  ModelWeights weights;
  weights.layers.push_back(block);
  std::vector<Hessian> hessians;
  for (std::size_t g = first; g <= last; ++g) hessians.emplace_back(matrix_of(weights, readers()[g].roles[0], 0)->columns());
  const std::int64_t dim = checkpoint_.config().dim;
  std::vector<float> states, attention;
  for_each_sample([&](std::span<const float> hidden) {
    states.assign(hidden.begin(), hidden.end());
    attention.resize(hidden.size());
    forward_->run_block(block, layer, states, cache_, attention.data());
    const Inputs attention_inputs(attention.data(), {static_cast<std::int64_t>(hidden.size()) / dim, dim});
    for (std::size_t g = first; g <= last; ++g) hessians[g - first].add(inputs_of(*forward_, attention_inputs, g));
  });
  return hessians;
}

void BlockPass::advance(const LayerWeights& block, std::int64_t layer) {
  for_each_sample([&](std::span<float> hidden) { forward_->run_block(block, layer, hidden, cache_); });
}

BlockPass::Work BlockPass::begin(std::int64_t layer) const {
  Work work;
  work.weights.layers.push_back(load_block(checkpoint_, layer));
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.layer != layer || !tensor.is_matrix) continue;
    work.names[tensor.role] = tensor.name;
    const FormatInfo& format = recipe_.format_of(tensor.name, false);
    if (&format == &tensor.format() && !format.is_float) work.copied.insert(tensor.role);
  }
  return work;
}

void BlockPass::scale(Work& work, std::vector<Hessian>& hessians, RoundedBlock& result) const {
  for (std::size_t g = 0; g < readers().size(); ++g) {
    const Readers& group = readers()[g];
    std::vector<Role> touched = group.roles;
    touched.push_back(group.source);
    if (!can_fold(work.weights, group) || std::ranges::any_of(touched, [&](Role role) { return work.copied.contains(role); })) continue;
    std::vector<Tensor<float, 2>> weights;
    std::vector<AwqReader> all;
    for (const Role role : group.roles) weights.push_back(matrix_of(work.weights, role, 0)->dequantize());
    for (std::size_t i = 0; i < weights.size(); ++i) all.push_back({weights[i], &recipe_.format_of(work.names.at(group.roles[i]), false)});
    const AwqScales scales = naming(work.names.at(group.roles[0]), [&] { return awq_scales(all, hessians[g], recipe_.options().awq); });
    if (!(scales.loss < scales.unscaled_loss)) continue;
    fold(work.weights, group, scales.scales);
    hessians[g].divide_inputs(scales.scales);
    work.folded.insert(touched.begin(), touched.end());
    for (const Role role : {group.source, Role::v_bias}) {
      const std::vector<float>* vector = vector_of(work.weights, role, 0);
      if (vector != nullptr && !vector->empty() && (role == group.source || group.source == Role::v)) result.vectors[role] = *vector;
    }
  }
}

WeightMatrix BlockPass::round(const Tensor<float, 2>& weights, const Hessian& hessian, const FormatInfo& format, Role role) const {
  switch (recipe_.method()) {
    case Method::gptq:
    case Method::awq_gptq: return gptq(weights, hessian, format, recipe_.options().gptq).weights;
    case Method::awq:
      if (!recipe_.options().awq.clip || !can_clip(format)) break;
      // Clipping q and k harms: their errors meet in a product, and pass through the softmax. The authors leave them, too.
      if (role == Role::q || role == Role::k) return nearest(weights, format, {.search = GridSearch::range});
      return nearest(awq_clip(weights, hessian, format), format, {.search = GridSearch::range});
    default: break;
  }
  return nearest(weights, format, {.importance = hessian.mean_squares()});
}

RoundedBlock BlockPass::round_block(std::int64_t layer) {
  Work work = begin(layer);
  LayerWeights& block = work.weights.layers[0];
  RoundedBlock result;
  const bool scales = recipe_.method() == Method::awq || recipe_.method() == Method::awq_gptq;
  const bool one_by_one = recipe_.options().true_sequential;
  std::vector<Hessian> hessians;
  if (scales || !one_by_one) hessians = observe(block, layer, 0, readers().size() - 1);
  if (scales) scale(work, hessians, result);
  for (std::size_t g = 0; g < readers().size(); ++g) {
    // What the first group reads, no rounding in this block has changed.
    const bool known = !hessians.empty() && (g == 0 || !one_by_one);
    const Hessian hessian = known ? std::move(hessians[g]) : std::move(observe(block, layer, g, g)[0]);
    for (const Role role : readers()[g].roles) {
      WeightMatrix& matrix = *matrix_of(work.weights, role, 0);
      if (matrix.empty() || work.copied.contains(role)) continue;
      const std::string& name = work.names.at(role);
      const FormatInfo& format = recipe_.format_of(name, false);
      if (format.is_float && !work.folded.contains(role)) continue;
      const Tensor<float, 2> weights = matrix.dequantize();
      if (format.is_float) {
        result.matrices[role] = round_matrix(name, weights, format);
      } else {
        result.matrices[role] = measured(name, weights, naming(name, [&] { return round(weights, hessian, format, role); }));
      }
      matrix = result.matrices[role].matrix;
    }
  }
  advance(block, layer);
  return result;
}

void BlockPass::skip_block(std::int64_t layer, const RoundedBlock& done) {
  Work work = begin(layer);
  for (const auto& [role, rounded] : done.matrices) *matrix_of(work.weights, role, 0) = rounded.matrix;
  for (const auto& [role, vector] : done.vectors) *vector_of(work.weights, role, 0) = vector;
  advance(work.weights.layers[0], layer);
}

}  // namespace bantam::inline v0
