// How a calibrated result does on text that was kept apart, beside plain rounding.
#pragma once

#include "bantam/compress/compress.hpp"
#include "calibrate/block_pass.hpp"

namespace bantam::inline v0 {

/// Carries the calibration's held-out tokens through the blocks as they were, and through the same rounded to nearest. Errors of
/// matrices alone do not tell: with too little text GPTQ still changes the outputs of most matrices less, and the model more.
/// Matrices that stay floats are carried exact, whatever type of floats the file has.
/// Memory: the states twice, a block, and its rounded form.
class HeldOut {
 public:
  HeldOut(const ModelSource& source, const Recipe& recipe, const Calibration& calibration);
  /// Over block `layer`, in order.
  void advance(std::int64_t layer);
  /// After the last: `states`, (tokens, ModelConfig::state_dim()), are those of the compressed model.
  [[nodiscard]] HeldOutReport report(std::span<const float> states) const;

 private:
  [[nodiscard]] Tensor<float, 2> normed(std::span<const float> states) const;

  const ModelSource& source_;
  const Recipe& recipe_;
  ResidualStreams streams_;
  BlockPass pass_;  ///< of plain rounding, beside the original
  std::vector<float> final_norm_, final_norm_bias_;
};

}  // namespace bantam::inline v0
