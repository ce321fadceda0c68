// Folding scales into weights.
#include "fold.hpp"

#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

void change(WeightMatrix& matrix, FunctionRef<void(Tensor<float, 2>&)> f) {
  Tensor<float, 2> weights = matrix.dequantize();
  f(weights);
  matrix = WeightMatrix::quantize(weights, format_info<F32Format>());
}

void scale_columns(Tensor<float, 2>& weights, std::span<const float> factors) {
  for (std::int64_t r = 0; r < weights.extent(0); ++r) {
    for (std::int64_t c = 0; c < weights.extent(1); ++c) weights(r, c) *= factors[static_cast<std::size_t>(c)];
  }
}

bool can_fold(const LayerWeights& block, const InputGroup& group, const ArchSpec& arch) {
  if (group.fixed) return false;
  const Role source = source_of(block, group);
  if (source == Role::ffn_norm && !block.experts.experts.empty()) return false;
  // Without a gate the activation is between what up makes and what down reads; and a limit does not scale.
  if (source == Role::up && (block.mlp.gate.empty() || block.mlp.limit > 0)) return false;
  // One norm for blocks side by side, or a branch that adds what the norm makes: what the other reads would be scaled, too.
  const bool beside = block.ffn_norm.empty() || !block.laurel.left.empty() || (!block.attention.o.empty() && !block.state_space.out.empty());
  if (source == Role::attention_norm && beside) return false;
  const WeightMatrix* reader = first_of(block, group);
  if (reader == nullptr) return false;
  // Norms of values would take scales away, clipping would not let them pass, and what makes no values cannot.
  const bool changes_values = arch.norms_values || arch.find(Field::qkv_clip) != nullptr;
  if (source == Role::v && (changes_values || block.attention.v.empty())) return false;
  const std::int64_t columns = reader->columns();
  if (const std::vector<float>* norm = vector_of(block, source)) return static_cast<std::int64_t>(norm->size()) == columns;
  return matrix_of(block, source)->rows() == columns;
}

void fold(LayerWeights& block, const InputGroup& group, std::span<const float> scales) {
  const Role source = source_of(block, group);
  if (std::vector<float>* norm = vector_of(block, source)) {
    std::vector<float>* bias = source == Role::attention_norm ? &block.attention_norm_bias : source == Role::cross_norm ? &block.cross_norm_bias : source == Role::ffn_norm ? &block.ffn_norm_bias : nullptr;
    if (bias != nullptr && bias->empty()) bias = nullptr;
    for (std::size_t c = 0; c < scales.size(); ++c) {
      (*norm)[c] /= scales[c];
      if (bias != nullptr) (*bias)[c] /= scales[c];
    }
  } else {
    change(*matrix_of(block, source), [&](Tensor<float, 2>& weights) {
      for (std::int64_t r = 0; r < weights.extent(0); ++r) {
        for (std::int64_t c = 0; c < weights.extent(1); ++c) weights(r, c) /= scales[static_cast<std::size_t>(r)];
      }
    });
    if (std::vector<float>* bias = bias_of(block, source)) {
      for (std::size_t r = 0; r < scales.size(); ++r) (*bias)[r] /= scales[r];
    }
  }
  for (const Role role : group.roles) {
    WeightMatrix& matrix = *matrix_of(block, role);
    if (matrix.empty()) continue;
    change(matrix, [&](Tensor<float, 2>& weights) { scale_columns(weights, scales); });
  }
}

}  // namespace bantam::inline v0
