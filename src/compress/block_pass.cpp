// Calibrated rounding, block by block.
#include "block_pass.hpp"

#include <algorithm>

#include "bantam/compress/gptq.hpp"

namespace bantam::inline v0 {

namespace {

/// Linear layers that read the same.
struct Readers {
  std::vector<Role> roles;
  TensorView<const float, 2> (*inputs)(const Forward& forward, TensorView<const float, 2> attention);
};

const Readers groups[] = {
    {{Role::q, Role::k, Role::v}, [](const Forward&, TensorView<const float, 2> attention) { return attention; }},
    {{Role::o}, [](const Forward& f, TensorView<const float, 2>) { return f.output_inputs(); }},
    {{Role::gate, Role::up}, [](const Forward& f, TensorView<const float, 2>) { return f.mlp_inputs(); }},
    {{Role::down}, [](const Forward& f, TensorView<const float, 2>) { return f.down_inputs(); }},
};

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

std::map<Role, WeightMatrix> BlockPass::round_block(std::int64_t layer) {
  const std::int64_t dim = checkpoint_.config().dim;
  ModelWeights before, after;
  before.layers.push_back(load_block(checkpoint_, layer));
  after.layers = before.layers;
  std::map<Role, WeightMatrix> rounded;
  std::map<Role, std::string> names;
  for (const CheckpointTensor& tensor : checkpoint_.tensors()) {
    if (tensor.layer == layer && tensor.is_matrix) names[tensor.role] = tensor.name;
  }
  // All at once: one at a time would need a pass over the block each.
  std::vector<Hessian> hessians;
  for (const Readers& readers : groups) hessians.emplace_back(matrix_of(before, readers.roles[0], 0)->columns());
  std::vector<float> states = hidden_;
  std::vector<float> attention;
  const auto each_sample = [&](std::vector<float>& hidden, auto&& f) {
    std::int64_t first = 0;
    for (const std::int64_t length : lengths_) {
      f(std::span(hidden).subspan(static_cast<std::size_t>(first * dim), static_cast<std::size_t>(length * dim)), length);
      first += length;
    }
  };
  each_sample(states, [&](std::span<float> hidden, std::int64_t length) {
    attention.resize(static_cast<std::size_t>(length * dim));
    forward_->run_block(before.layers[0], layer, hidden, cache_, attention.data());
    for (std::size_t g = 0; g < hessians.size(); ++g) {
      hessians[g].add(groups[g].inputs(*forward_, {attention.data(), {length, dim}}));
    }
  });
  for (std::size_t g = 0; g < hessians.size(); ++g) {
    for (const Role role : groups[g].roles) {
      const WeightMatrix& original = *matrix_of(before, role, 0);
      if (original.empty()) continue;
      const FormatInfo& format = recipe_.format_of(names.at(role), false);
      if (format.is_float || &format == &original.format()) continue;
      try {
        rounded[role] = gptq(original.dequantize(), hessians[g], format, recipe_.gptq_options()).weights;
      } catch (const Error& error) {
        fail(error.code(), names.at(role), ": ", error.what());
      }
      *matrix_of(after, role, 0) = rounded[role];
    }
  }
  each_sample(hidden_, [&](std::span<float> hidden, std::int64_t) { forward_->run_block(after.layers[0], layer, hidden, cache_); });
  return rounded;
}

}  // namespace bantam::inline v0
