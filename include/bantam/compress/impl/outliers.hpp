// Splitting a matrix at its large inputs: definitions of compress/outliers.hpp.
#pragma once

#include <cmath>

#include "bantam/compress/outliers.hpp"
#include "bantam/core/half.hpp"
#include "bantam/core/once.hpp"
#include "bantam/nn/ops.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

BANTAM_ONCE OutlierSplit split_outliers(TensorView<const float, 2> weights, std::span<const float> largest_inputs, const FormatInfo& format, float threshold) {
  const std::int64_t rows = weights.extent(0), columns = weights.extent(1);
  if (format.is_float) fail(Errc::invalid_argument, "outliers: expected a format of integers or levels, found ", format.name);
  if (static_cast<std::int64_t>(largest_inputs.size()) != columns) {
    fail(Errc::invalid_argument, "outliers: expected the largest of ", columns, " inputs, found ", largest_inputs.size());
  }
  OutlierSplit split;
  for (std::int64_t c = 0; c < columns; ++c) {
    if (largest_inputs[static_cast<std::size_t>(c)] >= threshold) split.columns.push_back(c);
  }
  Tensor<float, 2> rest({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) rest(r, c) = weights(r, c);
  }
  if (!split.columns.empty()) {
    Tensor<float, 2> kept({rows, static_cast<std::int64_t>(split.columns.size())});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < split.columns.size(); ++i) {
        const float w = rest(r, split.columns[i]);
        if (!std::isfinite(static_cast<float>(f16(w)))) {
          fail(Errc::invalid_argument, "outliers: expected weights that f16 can hold, found ", w, " at (", r, ", ", split.columns[i], ")");
        }
        kept(r, static_cast<std::int64_t>(i)) = w;
        rest(r, split.columns[i]) = 0;
      }
    }
    split.kept = WeightMatrix::quantize(kept, format_info<F16Format>());
  }
  split.rest = WeightMatrix::quantize(rest, format);
  return split;
}

BANTAM_ONCE Tensor<float, 2> OutlierSplit::multiply(TensorView<const float, 2> x) const {
  if (x.extent(1) != rest.columns()) fail(Errc::invalid_argument, "outliers: expected inputs of ", rest.columns(), " columns, found ", x.extent(1));
  Tensor<float, 2> usual({x.extent(0), x.extent(1)});
  Tensor<float, 2> large({x.extent(0), static_cast<std::int64_t>(columns.size())});
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t c = 0; c < x.extent(1); ++c) usual(t, c) = x(t, c);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      large(t, static_cast<std::int64_t>(i)) = x(t, columns[i]);
      usual(t, columns[i]) = 0;
    }
  }
  Tensor<float, 2> sum = ops::matmul(usual, rest, ops::Precision::fast);
  if (columns.empty()) return sum;
  const Tensor<float, 2> added = ops::matmul(large, kept);
  for (std::int64_t t = 0; t < sum.extent(0); ++t) {
    for (std::int64_t r = 0; r < sum.extent(1); ++r) sum(t, r) += added(t, r);
  }
  return sum;
}

}  // namespace bantam::inline v0
