// Judging a calibrated result by held-out text.
#include "held_out.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/nn/ops.hpp"

namespace bantam::inline v0 {

HeldOut::HeldOut(const ModelSource& source, const Recipe& recipe, const Calibration& calibration)
    : source_(source), recipe_(recipe), streams_(source), pass_(source, {calibration.held_out}) {
  pass_.follow();
  const std::vector<CheckpointTensor>& tensors = source.checkpoint().tensors();
  for (const auto& [role, vector] : {std::pair{Role::final_norm, &final_norm_}, {Role::final_norm_bias, &final_norm_bias_}}) {
    if (const auto tensor = std::ranges::find(tensors, role, &CheckpointTensor::role); tensor != tensors.end()) *vector = source.load_vector(*tensor);
  }
}

void HeldOut::advance(std::int64_t layer) {
  LayerWeights block = *source_.acquire(layer);
  for (const Half half : halves) pass_.advance_original(block, layer, half);
  for (const CheckpointTensor& tensor : source_.checkpoint().tensors()) {
    if (tensor.layer != layer || !tensor.is_matrix) continue;
    const FormatInfo& format = recipe_.format_of(tensor.name, false);
    WeightMatrix& matrix = *matrix_of(block, tensor);
    if (!format.is_float && &format != &matrix.format()) matrix = WeightMatrix::quantize(matrix.dequantize(), format);
  }
  pass_.advance_over(block, layer);
}

Tensor<float, 2> HeldOut::normed(std::span<const float> states) const {
  Tensor<float, 2> out = streams_.merge(states);
  for (std::int64_t t = 0; t < out.extent(0); ++t) {
    normalize_row(kernels_in_use(), source_.checkpoint().config(), &out(t, 0), final_norm_, final_norm_bias_, &out(t, 0));
  }
  return out;
}

HeldOutReport HeldOut::report(std::span<const float> states) const {
  const Tensor<float, 2> original = normed(pass_.original_states());
  const auto error = [&](std::span<const float> others) {
    const Tensor<float, 2> changed = normed(others);
    double difference = 0, size = 0;
    for (std::int64_t i = 0; i < original.size(); ++i) {
      const double y = original.data()[i], d = y - static_cast<double>(changed.data()[i]);
      difference += d * d;
      size += y * y;
    }
    return size > 0 ? std::sqrt(difference / size) : 0.0;
  };
  return {original.extent(0), error(states), error(pass_.states())};
}

}  // namespace bantam::inline v0
