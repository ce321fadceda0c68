// Calibrated rounding, block by block.
#include "block_pass.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "bantam/calibrate/product.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/compress/smooth.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace {

/// Numbers that observe() keeps at most.
constexpr std::size_t most_kept = (std::size_t{1} << 28) / sizeof(float);

bool is_gptq(const Recipe& recipe) { return recipe.method() == Method::gptq || recipe.method() == Method::awq_gptq; }
/// Only GPTQ, and SparseGPT, which is GPTQ without rounding, make up for what came before, and only for inputs that are those
/// of the rounded model.
bool follows_original(const Recipe& recipe) {
  const MethodOptions& options = recipe.options();
  const bool makes_up = is_gptq(recipe) || (options.pruning && options.pruning->method == PruneMethod::sparsegpt);
  return makes_up && options.true_sequential && options.follow_original > 0;
}

bool is_sparse(const LayerWeights& block) { return !block.experts.experts.empty(); }

}  // namespace

bool folds_scales(const Recipe& recipe) noexcept {
  return recipe.options().smooth || recipe.method() == Method::awq || recipe.method() == Method::awq_gptq;
}

BlockPass::BlockPass(const ModelSource& source, const Recipe& recipe, const Calibration& calibration, bool judged)
    : source_(source), checkpoint_(source.checkpoint()), recipe_(recipe), judged_(judged), judges_(input_groups().size()),
      cache_(checkpoint_.config().block_kv_shape(), "f32") {
  const ModelConfig& config = checkpoint_.config();
  std::int64_t longest = 0;
  if (std::ranges::all_of(calibration.samples, [](const std::vector<TokenId>& sample) { return sample.empty(); })) {
    fail(Errc::invalid_argument, "calibration: expected text, found none");
  }
  const auto embedding = std::ranges::find_if(checkpoint_.tensors(), [](const CheckpointTensor& t) { return t.role == Role::embedding; });
  RowCodes scratch;
  const auto take = [&](const std::vector<std::vector<TokenId>>& samples) {
    for (const std::vector<TokenId>& sample : samples) {
      if (sample.empty()) continue;
      lengths_.push_back(static_cast<std::int64_t>(sample.size()));
      longest = std::max(longest, lengths_.back());
      for (const TokenId id : sample) {
        if (id < 0 || id >= config.vocab) fail(Errc::invalid_argument, "calibration: expected token ids below ", config.vocab, ", found ", id);
        hidden_.resize(hidden_.size() + static_cast<std::size_t>(config.dim));
        source.embed(*embedding, id, std::span(hidden_).last(static_cast<std::size_t>(config.dim)), scratch);
      }
    }
  };
  take(calibration.samples);
  fitted_ = hidden_.size();
  if (judged) take(calibration.held_out);
  source.checkpoint().drop(*embedding);
  // Targets of what a block adds are states; a norm behind it, or a block beside it, stands between.
  if (follows_original(recipe) && config.arch->norms_before_blocks()) original_ = hidden_;
  forward_ = std::make_unique<Forward>(config, none_, longest, parallel_threads());
}

void BlockPass::keep_judges(std::size_t group, std::span<const float> hidden, TensorView<const float, 2> inputs) {
  constexpr std::int64_t most = 256;  // of samples; of tokens that are held out there are no more
  std::vector<float>& kept = judges_[group];
  const bool any_held_out = fitted_ < hidden_.size();
  if (!judged_ || any_held_out != is_held_out(hidden)) return;
  for (std::int64_t t = 0; t < inputs.extent(0); ++t) {
    if (!any_held_out && static_cast<std::int64_t>(kept.size()) >= most * inputs.extent(1)) return;
    kept.insert(kept.end(), &inputs(t, 0), &inputs(t, 0) + inputs.extent(1));
  }
}

Rounded BlockPass::judged(Rounded&& rounded, const WeightMatrix& original, std::size_t group) const {
  if (judges_[group].empty()) return std::move(rounded);
  const std::int64_t columns = original.columns();
  const TensorView<const float, 2> inputs(judges_[group].data(), {static_cast<std::int64_t>(judges_[group].size()) / columns, columns});
  rounded.output_error = output_error(inputs, original, rounded.matrix);
  return std::move(rounded);
}

void BlockPass::count(std::size_t group, TensorView<const float, 2> inputs) {
  std::mutex mutex;
  parallel_for(inputs.extent(0), 128, [&](Range tokens) {
    Histogram<float> histogram;
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) histogram.add({&inputs(t, 0), static_cast<std::size_t>(inputs.extent(1))});
    const std::lock_guard lock(mutex);
    seen_[group].merge(histogram);  // the same in any order
  });
}

std::span<float> BlockPass::original_of(std::span<const float> hidden) {
  return std::span(original_).subspan(static_cast<std::size_t>(hidden.data() - hidden_.data()), hidden.size());
}

Tensor<float, 2> BlockPass::original_inputs(const Work& work, std::int64_t layer, std::size_t group, std::span<const float> hidden) {
  forward_->run_block(work.original, layer, input_groups()[group].inputs, original_of(hidden), cache_);
  const TensorView<const float, 2> x = forward_->stage_inputs();
  const auto scales = work.scales.find(group);
  Tensor<float, 2> inputs({x.extent(1), x.extent(0)});
  parallel_for(x.extent(1), 64, [&](Range range) {
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t c = range.begin; c < range.end; ++c) {
        inputs(c, t) = scales == work.scales.end() ? x(t, c) : x(t, c) / scales->second[static_cast<std::size_t>(c)];
      }
    }
  });
  return inputs;
}

Hessian BlockPass::observe(Work& work, std::int64_t layer, std::size_t group, Tensor<float, 2>* drift) {
  const std::int64_t columns = first_of(work.block, input_groups()[group])->columns(), dim = checkpoint_.config().dim;
  Hessian hessian(columns);
  seen_[group] = {};
  judges_[group].clear();
  if (drift != nullptr) *drift = Tensor<float, 2>({input_groups()[group].adds ? dim : columns, columns});
  std::size_t past = 0;  // what the samples so far had as inputs
  for_each_sample([&](std::span<float> hidden) {
    Tensor<float, 2> beside;  // (columns, tokens): the inputs of the original, then what they have beside ours
    if (drift != nullptr && input_groups()[group].adds) {
      forward_->run_block(work.original, layer, input_groups()[group].half, original_of(hidden), cache_);
    } else if (drift != nullptr) {
      beside = original_inputs(work, layer, group, hidden);
    }
    forward_->run_block(work.block, layer, input_groups()[group].inputs, hidden, cache_);
    const TensorView<const float, 2> x = forward_->stage_inputs();
    keep_judges(group, hidden, x);
    const bool fitted = !is_held_out(hidden);
    if (fitted) hessian.add(x);
    if (fitted) count(group, x);
    const auto inputs = static_cast<std::size_t>(x.size());
    const bool ends_half = input_groups()[group].adds && !parallel() && !(input_groups()[group].half == BlockStage::mlp && is_sparse(work.block));
    if (ends_half && kept_.size() == past && past + inputs <= most_kept) {
      for (std::int64_t t = 0; t < x.extent(0); ++t) kept_.insert(kept_.end(), &x(t, 0), &x(t, 0) + x.extent(1));
    }
    past += inputs;
    if (drift == nullptr || !fitted) return;
    if (input_groups()[group].adds) return add_products(*drift, lacking(work, group, hidden, x), x);
    parallel_for(columns, 64, [&](Range range) {
      for (std::int64_t t = 0; t < x.extent(0); ++t) {
        for (std::int64_t c = range.begin; c < range.end; ++c) beside(c, t) -= x(t, c);
      }
    });
    add_products(*drift, beside, x);
  });
  return hessian;
}

Tensor<float, 2> BlockPass::lacking(const Work& work, std::size_t group, std::span<const float> hidden, TensorView<const float, 2> x) {
  const Role last = input_groups()[group].roles[0];
  const std::vector<float>* biases = bias_of(work.block, last);
  const Tensor<float, 2> added = outputs_of(*matrix_of(work.block, last), x);
  const std::span<const float> original = original_of(hidden);
  const std::int64_t dim = added.extent(1);
  Tensor<float, 2> lacking({dim, x.extent(0)});
  parallel_for(dim, 64, [&](Range rows) {
    for (std::int64_t t = 0; t < x.extent(0); ++t) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const auto at = static_cast<std::size_t>(t * dim + row);
        const float bias = biases != nullptr ? (*biases)[static_cast<std::size_t>(row)] : 0.0f;
        lacking(row, t) = original[at] - (hidden[at] + (added(t, row) + bias));
      }
    }
  });
  return lacking;
}

Tensor<float, 2> BlockPass::pull_of(const WeightMatrix& matrix, std::size_t group, Tensor<float, 2>& drift) const {
  const auto share = static_cast<float>(recipe_.options().follow_original);
  if (input_groups()[group].adds) {  // one matrix reads
    for (std::int64_t i = 0; i < drift.size(); ++i) drift.data()[i] *= share;
    return std::move(drift);
  }
  const Tensor<float, 2> weights = matrix.dequantize();
  Tensor<float, 2> pull({weights.extent(0), weights.extent(1)});
  for_products(weights, drift.view().transposed(), false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) pull(row, first + static_cast<std::int64_t>(i)) = share * values[i];
  });
  return pull;
}

std::vector<Hessian> BlockPass::observe_all(const LayerWeights& block, std::int64_t layer) {
  std::vector<std::size_t> groups(input_groups().size());
  std::iota(groups.begin(), groups.end(), 0);
  return observe_some(block, layer, groups);
}

std::vector<Hessian> BlockPass::observe_some(const LayerWeights& block, std::int64_t layer, std::span<const std::size_t> groups) {
  std::vector<Hessian> hessians;
  for (const std::size_t g : groups) {
    const WeightMatrix* reader = first_of(block, input_groups()[g]);
    hessians.emplace_back(reader == nullptr ? 0 : reader->columns());
  }
  seen_.assign(input_groups().size(), {});
  judges_.assign(input_groups().size(), {});
  std::vector<float> states;
  for_each_sample([&](std::span<const float> hidden) {
    states.assign(hidden.begin(), hidden.end());
    bool attended = false;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (first_of(block, input_groups()[groups[i]]) == nullptr) continue;
      const BlockStage stage = input_groups()[groups[i]].inputs;
      if (stage >= BlockStage::mlp_inputs && !std::exchange(attended, true)) forward_->run_block(block, layer, BlockStage::attention, states, cache_);
      forward_->run_block(block, layer, stage, states, cache_);
      keep_judges(groups[i], hidden, forward_->stage_inputs());
      if (is_held_out(hidden)) continue;
      hessians[i].add(forward_->stage_inputs());
      count(groups[i], forward_->stage_inputs());
    }
  });
  return hessians;
}

void BlockPass::project(const Rotation& rotation, std::int64_t kept) {
  const std::int64_t dim = rotation.size();
  original_.resize(hidden_.size());
  for_each_sample([&](std::span<float> hidden) {
    Tensor<float, 2> states({static_cast<std::int64_t>(hidden.size()) / dim, dim});
    std::ranges::copy(hidden, states.span().begin());
    rotation.rotate_columns(states);
    std::ranges::copy(states.span(), original_of(hidden).begin());
    for (std::int64_t t = 0; t < states.extent(0); ++t) std::fill(&states(t, 0) + kept, &states(t, 0) + dim, 0.0f);
    std::ranges::copy(states.span(), hidden.begin());
  });
}

Hessian BlockPass::observe_here(const LayerWeights& block, std::int64_t layer, std::size_t group) {
  Work work;
  work.block = block;
  seen_.resize(input_groups().size());
  Hessian hessian = observe(work, layer, group, nullptr);
  kept_.clear();  // the block is about to change
  return hessian;
}

BlockPass::Beside BlockPass::observe_beside(const LayerWeights& block, const LayerWeights& original, std::int64_t layer,
                                            std::size_t group) {
  Work work;
  work.block = block;
  work.original = original;
  seen_.resize(input_groups().size());
  Tensor<float, 2> drift;
  Hessian hessian = observe(work, layer, group, &drift);
  return {std::move(hessian), std::move(drift)};
}

void BlockPass::advance_over(const LayerWeights& block, std::int64_t layer) {
  for (const BlockStage half : {BlockStage::attention, BlockStage::mlp}) advance(block, layer, half);
}

void BlockPass::advance(const LayerWeights& block, std::int64_t layer, BlockStage half) {
  const std::vector<float> kept = std::exchange(kept_, {});
  const auto last = std::ranges::find_if(input_groups(), [&](const InputGroup& group) { return group.adds && group.half == half; });
  const std::int64_t dim = checkpoint_.config().dim, columns = matrix_of(block, last->roles[0])->columns();
  std::size_t past = 0;
  for_each_sample([&](std::span<float> hidden) {
    const std::int64_t tokens = static_cast<std::int64_t>(hidden.size()) / dim;
    if (past < kept.size()) {
      forward_->end_half(block, half, {kept.data() + past, {tokens, columns}}, hidden);
    } else {
      forward_->run_block(block, layer, half, hidden, cache_);
    }
    past += static_cast<std::size_t>(tokens * columns);
  });
}

void BlockPass::advance_original(const LayerWeights& original, std::int64_t layer, BlockStage half) {
  if (original_.empty()) return;
  for_each_sample([&](std::span<float> hidden) { forward_->run_block(original, layer, half, original_of(hidden), cache_); });
}

BlockPass::Work BlockPass::begin(std::int64_t layer) const {
  Work work;
  work.block = source_.load_block(layer);
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.layer == layer && tensor.expert < 0) add(work, tensor.role, tensor);
  }
  if (!original_.empty()) work.original = original(work, layer);
  return work;
}

void BlockPass::add(Work& work, Role role, const CheckpointTensor& tensor) const {
  work.tensors[role] = &tensor;
  if (source_.rotated() || is_pruned(recipe_, tensor)) work.changed.insert(role);
  if (!tensor.is_matrix || work.changed.contains(role)) return;
  const FormatInfo& format = recipe_.format_of(tensor.name, false);
  if (&format == &tensor.format() && !format.is_float) work.copied.insert(role);
}

LayerWeights BlockPass::original(const Work& work, std::int64_t layer) const {
  LayerWeights block = work.block;
  const FormatInfo& bytes = format_info<Int8<32>>();
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    // Experts are run over once, before they are rounded: a second copy of all of them would take more memory than anything else.
    if (tensor.layer != layer || !tensor.is_matrix || tensor.expert >= 0) continue;
    WeightMatrix& matrix = *matrix_of(block, tensor);
    const bool coarse = recipe_.format_of(tensor.name, false).bits_per_weight < 6 || recipe_.pruning_of(tensor.name);
    if (matrix.format().is_float && coarse) matrix = WeightMatrix::quantize(matrix.dequantize(), bytes);
  }
  return block;
}

void BlockPass::scale(Work& work, std::vector<Hessian>& hessians) {
  for (std::size_t g = 0; g < input_groups().size(); ++g) {
    const InputGroup& group = input_groups()[g];
    std::vector<Role> readers;
    std::ranges::copy_if(group.roles, std::back_inserter(readers), [&](Role role) { return !matrix_of(work.block, role)->empty(); });
    std::vector<Role> touched = readers;
    touched.push_back(group.source);
    // What is clamped cannot be scaled.
    const bool clamped = group.source == Role::up && checkpoint_.config().gate == ops::Gate::clamped_silu;
    if (clamped || !can_fold(work.block, group) || std::ranges::any_of(touched, [&](Role role) { return work.copied.contains(role); })) continue;
    std::vector<Tensor<float, 2>> weights;
    for (const Role role : readers) weights.push_back(matrix_of(work.block, role)->dequantize());
    std::vector<float> scales;
    if (recipe_.options().smooth) {
      scales = smooth_scales(std::vector<TensorView<const float, 2>>(weights.begin(), weights.end()), hessians[g].largest(), *recipe_.options().smooth);
    } else {
      std::vector<AwqReader> all;
      for (std::size_t i = 0; i < weights.size(); ++i) all.push_back({weights[i], &recipe_.format_of(work.tensors.at(readers[i])->name, false)});
      AwqScales found = naming(work.tensors.at(readers[0])->name, [&] { return awq_scales(all, hessians[g], recipe_.options().awq); });
      if (!(found.loss < found.unscaled_loss)) continue;
      scales = std::move(found.scales);
    }
    fold(work.block, group, scales);
    hessians[g].divide_inputs(scales);
    for (std::size_t i = 0; i < judges_[g].size(); ++i) judges_[g][i] /= scales[i % scales.size()];
    work.scales[g] = scales;
    work.changed.insert(touched.begin(), touched.end());
    if (const auto bias = bias_role_of(group.source)) work.changed.insert(*bias);
    if (group.source == Role::attention_norm) work.changed.insert(Role::attention_norm_bias);
    if (group.source == Role::ffn_norm) work.changed.insert(Role::ffn_norm_bias);
  }
}

namespace {

/// GPTQ with what the recipe removes, or, where the moments cannot be factorized, rounding of what is left to nearest.
WeightMatrix gptq_or_nearest(const std::string& name, const WeightMatrix& matrix, Hessian& hessian, bool last, const FormatInfo& format,
                             const Recipe& recipe, Tensor<float, 2>&& pull, std::vector<std::string>& warnings) {
  const GptqOptions& options = recipe.options().gptq;
  const std::optional<Pruning> pruning = recipe.pruning_of(name);
  const std::vector<float> squares = hessian.mean_squares();
  const auto silent = std::ranges::count(squares, 0.0f);
  if (silent > 0) warnings.push_back(message(name, ": ", silent, " of ", squares.size(), " inputs are always 0 in the calibration text: so are their weights now"));
  Mask mask;
  GptqZeros zeros;
  if (pruning && pruning->method == PruneMethod::sparsegpt) {
    zeros.choose = pruning->sparsity;
  } else if (pruning) {
    mask = mask_of(*pruning, matrix.dequantize(), squares);
    zeros.mask = &mask;
  }
  try {
    GptqResult result = gptq(matrix.dequantize(), last ? std::move(hessian) : hessian.clone(), format, options, std::move(pull), zeros);
    if (result.damping > options.damping) {
      warnings.push_back(message(name, ": second moments are singular: damping raised from ", options.damping, " to ", result.damping));
    }
    return std::move(result.weights);
  } catch (const Error& error) {
    if (error.code() != Errc::corrupt) throw;
    warnings.push_back(message(name, ": second moments cannot be factorized: ", zeros.choose.any() ? "pruned as by wanda, " : "", "rounded to nearest"));
    const Tensor<float, 2> weights = matrix.dequantize();
    if (!pruning) return nearest(weights, format, {.importance = squares});
    if (zeros.mask == nullptr) mask = mask_of(*pruning, weights, squares);
    const Tensor<float, 2> left = masked(weights, mask);
    return format.is_float ? WeightMatrix::quantize(left, format) : nearest(left, format, {.importance = squares});
  }
}

}  // namespace

WeightMatrix BlockPass::round(const std::string& name, const WeightMatrix& matrix, Hessian& hessian, bool last, const FormatInfo& format,
                              Role role, std::vector<std::string>& warnings, Tensor<float, 2>&& pull) const {
  const std::optional<Pruning> pruning = recipe_.pruning_of(name);
  if (is_gptq(recipe_) && !format.is_float) return gptq_or_nearest(name, matrix, hessian, last, format, recipe_, std::move(pull), warnings);
  if (!pruning) return round_left(matrix.dequantize(), hessian, format, role);
  if (pruning->method != PruneMethod::sparsegpt) {
    const Tensor<float, 2> weights = matrix.dequantize();
    return round_left(masked(weights, mask_of(*pruning, weights, hessian.mean_squares())), hessian, format, role);
  }
  const WeightMatrix left = gptq_or_nearest(name, matrix, hessian, false, format_info<F32Format>(), recipe_, std::move(pull), warnings);
  return round_left(left.dequantize(), hessian, format, role);
}

WeightMatrix BlockPass::round_left(const Tensor<float, 2>& weights, const Hessian& hessian, const FormatInfo& format, Role role) const {
  if (format.is_float) return WeightMatrix::quantize(weights, format);
  if (recipe_.method() == Method::awq && recipe_.options().awq.clip && can_clip(format)) {
    // Clipping q and k harms: their errors meet in a product, and pass through the softmax. The authors leave them, too.
    if (role == Role::q || role == Role::k) return nearest(weights, format, {.search = GridSearch::range});
    return nearest(awq_clip(weights, hessian, format), format, {.search = GridSearch::range});
  }
  const std::vector<float> importance = hessian.mean_squares();
  return nearest(weights, format, nearest_options(recipe_.options().clip.value_or(Clip{}), importance));
}

void BlockPass::round_group(Work& work, std::size_t g, Hessian& hessian, Tensor<float, 2>& drift, RoundedBlock& result) {
  const InputGroup& group = input_groups()[g];
  for (const Role role : group.roles) {
    WeightMatrix& matrix = *matrix_of(work.block, role);
    if (matrix.empty() || work.copied.contains(role)) continue;
    const CheckpointTensor& tensor = *work.tensors.at(role);
    const FormatInfo& format = recipe_.format_of(tensor.name, false);
    if (format.is_float && !work.changed.contains(role)) continue;
    Rounded& rounded = result.matrices[tensor];
    if (format.is_float && !recipe_.pruning_of(tensor.name)) {
      rounded = round_matrix(tensor.name, matrix.dequantize(), format);
    } else {
      WeightMatrix made = naming(tensor.name, [&] {
        return round(tensor.name, matrix, hessian, role == group.roles.back(), format, role, result.warnings,
                     drift.size() == 0 ? Tensor<float, 2>() : pull_of(matrix, g, drift));
      });
      rounded = judged(measured(tensor.name, matrix, std::move(made)), matrix, g);
    }
    matrix = rounded.matrix;
  }
}

void BlockPass::round_ungrouped(Work& work, RoundedBlock& result) {
  for (const auto& [role, tensor] : work.tensors) {
    if (!info_of(role).by_heads || work.copied.contains(role)) continue;
    WeightMatrix& matrix = *matrix_of(work.block, role);
    const FormatInfo& format = recipe_.format_of(tensor->name, false);
    if (format.is_float && !work.changed.contains(role)) continue;
    const Rounded& rounded = result.matrices[*tensor] = round_matrix(tensor->name, matrix.dequantize(), format);
    matrix = rounded.matrix;
  }
}

RoundedBlock BlockPass::round_block(std::int64_t layer) {
  Work work = begin(layer);
  RoundedBlock result;
  round_ungrouped(work, result);
  seen_.assign(input_groups().size(), {});
  const bool one_by_one = recipe_.options().true_sequential;
  std::vector<Hessian> hessians;
  if (folds_scales(recipe_) || !one_by_one) hessians = observe_all(work.block, layer);
  if (folds_scales(recipe_)) scale(work, hessians);
  // What the first group reads, no rounding in this block will change; of what follows the original, drift is seen besides.
  if (one_by_one && !hessians.empty()) hessians.erase(hessians.begin() + (original_.empty() ? 1 : 0), hessians.end());
  for (std::size_t g = 0; g < input_groups().size(); ++g) {
    const InputGroup& group = input_groups()[g];
    if (first_of(work.block, group) != nullptr) {
      // Beside experts no MLP makes up for anything: what they add is not known yet.
      const bool follows = !original_.empty() && !(group.half == BlockStage::mlp && is_sparse(work.block));
      Tensor<float, 2> drift;
      Hessian hessian = g < hessians.size() ? std::move(hessians[g]) : observe(work, layer, g, follows ? &drift : nullptr);
      if (group.inputs == BlockStage::down_inputs && follows) work.original = {};  // is past this block; GPTQ of down takes most memory of all
      round_group(work, g, hessian, drift, result);
      InputReport& inputs = result.inputs.emplace_back(InputReport{{}, seen_[g].range(), central_range(seen_[g], 99.9)});
      for (const Role role : group.roles) {
        if (!matrix_of(work.block, role)->empty()) inputs.matrices.push_back(work.tensors.at(role)->name);
      }
    }
    // What the rounded half makes is what the next half reads.
    if (group.inputs == BlockStage::output_inputs) advance(work.block, layer, BlockStage::attention);
    if (group.inputs == BlockStage::output_inputs && is_sparse(work.block)) {
      advance_original(work.original, layer, BlockStage::mlp);  // nothing beside experts follows it
      work.original = {};
    }
  }
  if (is_sparse(work.block)) round_experts(work, layer, result);
  for (const Role role : work.changed) {
    if (info_of(role).stays_float()) {
      const CheckpointTensor& tensor = *work.tensors.at(role);
      result.matrices[tensor] = round_matrix(tensor.name, matrix_of(work.block, role)->dequantize(), recipe_.format_of(tensor.name, false));
    }
    const std::vector<float>* vector = vector_of(work.block, role);
    if (vector != nullptr && !vector->empty()) result.vectors[TensorId(role, layer)] = *vector;
  }
  advance(work.block, layer, BlockStage::mlp);
  return result;
}

void BlockPass::skip_block(std::int64_t layer, const RoundedBlock& done) {
  Work work = begin(layer);
  for (const auto& [id, rounded] : done.matrices) *matrix_of(work.block, id) = rounded.matrix;
  for (const auto& [id, vector] : done.vectors) *vector_of(work.block, id) = vector;
  for (const BlockStage half : {BlockStage::attention, BlockStage::mlp}) advance_original(work.original, layer, half);
  advance_over(work.block, layer);
}

}  // namespace bantam::inline v0
