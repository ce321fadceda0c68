// AWQ: weights of large inputs made larger before rounding, the inputs smaller by as much (arXiv:2306.00978).
#pragma once

#include <vector>

#include "bantam/calibrate/hessian.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

struct AwqOptions {
  /// Exponents tried: 0, 1 / ratios, 2 / ratios ... below 1.
  int ratios = 20;
  /// Scales are also tried divided by (mean of the columns' weights)^(1 - ratio), as in later implementations.
  bool weigh_weights = true;
  /// Weights are clipped before they are rounded (awq_clip), as by the authors; otherwise, and for formats that cannot be
  /// clipped, grids are fitted to weights and mean squares of inputs (nearest). For passes over a model.
  bool clip = true;
};

/// One of the matrices that read the same inputs, and the format that it will get. Float formats count no error.
struct AwqReader {
  TensorView<const float, 2> weights;
  const FormatInfo* format;
};

struct AwqScales {
  std::vector<float> scales;  ///< (columns): what columns of weights are multiplied by, and inputs divided by
  double ratio = 0;           ///< the exponent that won
  double loss = 0;            ///< squared error of the outputs with these scales, a token, summed over rows
  double unscaled_loss = 0;   ///< of plain rounding to nearest; never less
};

/// The scales s = (root mean square of each input)^ratio, their range centered on 1, that lose least. The loss is the
/// squared error of the matrices' own outputs over all tokens of H, trace(D H DT) with D = W - round(W s) / s: exact, as
/// linear layers go, at the cost of one product with H instead of a run of the block for each ratio. What follows them in
/// the block (softmax, gate) has no say, unlike in the authors' code. Scales of 1 win where nothing is better. On all
/// cores: ratios rows columns^2 multiply-adds, twice that with `weigh_weights`. Throws invalid_argument when shapes do not
/// fit or there is no reader.
[[nodiscard]] AwqScales awq_scales(std::span<const AwqReader> readers, const Hessian& hessian, const AwqOptions& options = {});

/// Weights clamped, group by group, to the share of their largest magnitude (1, 0.95 ... 0.55) under which the rounded group
/// changes its part of the outputs least over the inputs of H. On all cores: 10 rows columns group multiply-adds. Weights for
/// formats that cannot be clipped come back as they are.
[[nodiscard]] Tensor<float, 2> awq_clip(TensorView<const float, 2> weights, const Hessian& hessian, const FormatInfo& format);
/// Whether each group of a format has a grid of its own.
[[nodiscard]] inline bool can_clip(const FormatInfo& format) noexcept {
  return !format.is_float && format.group != 0 && format.grid_columns == format.group;
}

}  // namespace bantam::inline v0
