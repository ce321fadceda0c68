// SmoothQuant: large inputs made smaller, the weights that read them larger by as much (arXiv:2211.10438).
#pragma once

#include <span>
#include <vector>

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// s_j = (max |x_j|)^alpha / (max |w_j|)^(1 - alpha): what column j of the weights is multiplied by and input j divided by.
/// alpha = 0 leaves the difficulty of rounding to the inputs, 1 gives all of it to the weights; the paper takes 0.5.
/// largest_inputs: (columns), over the calibration text; `readers`: the matrices that read them, all of `columns`. Throws
/// invalid_argument when shapes do not fit, or alpha is not in 0 .. 1.
[[nodiscard]] std::vector<float> smooth_scales(std::span<const TensorView<const float, 2>> readers, std::span<const float> largest_inputs,
                                               double alpha = 0.5);

}  // namespace bantam::inline v0
