// LLM.int8(): the few inputs that are much larger than the others keep weights of 16 bits (arXiv:2208.07339).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

/// A matrix in two parts that add up: W x = rest x + kept x(columns).
struct OutlierSplit {
  std::vector<std::int64_t> columns;  ///< those of large inputs, ascending
  WeightMatrix rest;                  ///< (rows, all columns), zeros in those
  WeightMatrix kept;                  ///< (rows, those columns) in f16; empty where there are none

  /// x WT, (tokens, rows): inputs of the rest rounded to 8 bits as in inference, the large ones as they are. x: (tokens,
  /// columns). Throws invalid_argument when its shape does not fit.
  [[nodiscard]] Tensor<float, 2> multiply(TensorView<const float, 2> x) const;
};

/// Splits weights (rows, columns) at the inputs whose largest magnitude, in `largest_inputs` (columns), reaches `threshold`:
/// the authors' 6.0 finds the outlier features of transformers of 6.7 billion parameters and more. Throws invalid_argument
/// when shapes do not fit, `format` holds floats, or weights are not finite or beyond f16.
[[nodiscard]] OutlierSplit split_outliers(TensorView<const float, 2> weights, std::span<const float> largest_inputs,
                                          const FormatInfo& format, float threshold = 6.0f);

}  // namespace bantam::inline v0
