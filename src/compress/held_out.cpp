// Judging a calibrated result by held-out text.
#include "held_out.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/parallel.hpp"
#include "bantam/nn/ops.hpp"

namespace bantam::inline v0 {

HeldOut::HeldOut(const ModelSource& source, const Recipe& recipe, const Calibration& calibration)
    : source_(source), recipe_(recipe), cache_(source.checkpoint().config().block_kv_shape(), "f32") {
  const Checkpoint& checkpoint = source.checkpoint();
  const auto dim = static_cast<std::size_t>(checkpoint.config().dim);
  const auto of_role = [&](Role role) { return std::ranges::find(checkpoint.tensors(), role, &CheckpointTensor::role); };
  const auto embedding = of_role(Role::embedding);
  RowCodes scratch;
  for (const std::vector<TokenId>& sample : calibration.held_out) {
    if (sample.empty()) continue;
    lengths_.push_back(static_cast<std::int64_t>(sample.size()));
    for (const TokenId id : sample) {
      original_.resize(original_.size() + dim);
      source.embed(*embedding, id, std::span(original_).last(dim), scratch);
    }
  }
  nearest_ = original_;
  for (const auto& [role, vector] : {std::pair{Role::final_norm, &final_norm_}, {Role::final_norm_bias, &final_norm_bias_}}) {
    if (const auto tensor = of_role(role); tensor != checkpoint.tensors().end()) *vector = source.load_vector(*tensor);
  }
  forward_ = std::make_unique<Forward>(checkpoint.config(), none_, *std::ranges::max_element(lengths_), parallel_threads());
}

void HeldOut::advance(std::int64_t layer) {
  LayerWeights block = source_.load_block(layer);
  const auto run = [&](std::vector<float>& states) {
    std::span<float> rest(states);
    for (const std::int64_t length : lengths_) {
      check_cancelled();
      const auto count = static_cast<std::size_t>(length * source_.checkpoint().config().dim);
      for (const BlockStage half : {BlockStage::attention, BlockStage::mlp}) forward_->run_block(block, layer, half, rest.first(count), cache_);
      rest = rest.subspan(count);
    }
  };
  run(original_);
  for (const CheckpointTensor& tensor : source_.checkpoint().tensors()) {
    if (tensor.layer != layer || !tensor.is_matrix) continue;
    const FormatInfo& format = recipe_.format_of(tensor.name, false);
    WeightMatrix& matrix = *matrix_of(block, tensor);
    if (!format.is_float && &format != &matrix.format()) matrix = WeightMatrix::quantize(matrix.dequantize(), format);
  }
  run(nearest_);
}

Tensor<float, 2> HeldOut::normed(std::span<const float> states) const {
  const auto dim = static_cast<std::int64_t>(final_norm_.size());
  Tensor<float, 2> out({static_cast<std::int64_t>(states.size()) / dim, dim});
  for (std::int64_t t = 0; t < out.extent(0); ++t) {
    normalize_row(kernels_in_use(), source_.checkpoint().config(), states.data() + t * dim, final_norm_, final_norm_bias_, &out(t, 0));
  }
  return out;
}

HeldOutReport HeldOut::report(std::span<const float> states) const {
  const Tensor<float, 2> original = normed(original_);
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
  return {static_cast<std::int64_t>(states.size() / final_norm_.size()), error(states), error(nearest_)};
}

}  // namespace bantam::inline v0
