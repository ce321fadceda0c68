// Folding scales into weights.
#include "fold.hpp"

#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

namespace {

/// The bias that a matrix's rows carry; null where there is none.
std::vector<float>* bias_of(LayerWeights& layer, Role role) {
  std::vector<float>* bias = role == Role::v ? &layer.v_bias : nullptr;
  return bias == nullptr || bias->empty() ? nullptr : bias;
}

}  // namespace

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

std::span<const Readers> readers() noexcept {
  static const Readers all[] = {
      {{Role::q, Role::k, Role::v}, Role::attention_norm},
      {{Role::o}, Role::v},
      {{Role::gate, Role::up}, Role::ffn_norm},
      {{Role::down}, Role::up},  // the gate multiplies what up makes
  };
  return all;
}

bool can_fold(ModelWeights& block, const Readers& readers) {
  const std::int64_t columns = matrix_of(block, readers.roles[0], 0)->columns();
  if (const std::vector<float>* norm = vector_of(block, readers.source, 0)) return static_cast<std::int64_t>(norm->size()) == columns;
  return matrix_of(block, readers.source, 0)->rows() == columns;
}

void fold(ModelWeights& block, const Readers& readers, std::span<const float> scales) {
  if (std::vector<float>* norm = vector_of(block, readers.source, 0)) {
    for (std::size_t c = 0; c < scales.size(); ++c) (*norm)[c] /= scales[c];
  } else {
    change(*matrix_of(block, readers.source, 0), [&](Tensor<float, 2>& weights) {
      for (std::int64_t r = 0; r < weights.extent(0); ++r) {
        for (std::int64_t c = 0; c < weights.extent(1); ++c) weights(r, c) /= scales[static_cast<std::size_t>(r)];
      }
    });
    if (std::vector<float>* bias = bias_of(block.layers[0], readers.source)) {
      for (std::size_t r = 0; r < scales.size(); ++r) (*bias)[r] /= scales[r];
    }
  }
  for (const Role role : readers.roles) {
    WeightMatrix& matrix = *matrix_of(block, role, 0);
    if (matrix.empty()) continue;
    change(matrix, [&](Tensor<float, 2>& weights) { scale_columns(weights, scales); });
  }
}

}  // namespace bantam::inline v0
