// Taking rows of a matrix.
#include "row_sample.hpp"

#include <algorithm>

#include "bantam/calibrate/product.hpp"
#include "bantam/quant/formats.hpp"

namespace bantam::inline v0 {

MatrixParts::MatrixParts(WeightMatrix original, const Tensor<float, 2>& moments) : moments_(moments), whole_(measured(original, original.dequantize())) {}

MatrixPart MatrixParts::measured(WeightMatrix original, Tensor<float, 2> weights) const {
  const double size = moments_.size() > 0 ? squared_outputs(weights, moments_) : 0;
  return {std::move(original), std::move(weights), size};
}

const MatrixPart& MatrixParts::part_for(const FormatInfo& format, bool runs) {
  const std::int64_t step = sample_step(whole_.original.rows());
  if (runs || step == 1 || !is_searched(format)) return whole_;
  if (!some_) {
    Tensor<float, 2> rows({div_up(whole_.weights.extent(0), step), whole_.weights.extent(1)});
    for (std::int64_t r = 0; r < rows.extent(0); ++r) std::copy_n(&whole_.weights(r * step, 0), rows.extent(1), &rows(r, 0));
    WeightMatrix floats = WeightMatrix::quantize(rows, format_info<F32Format>());
    some_ = measured(std::move(floats), std::move(rows));
  }
  return *some_;
}

}  // namespace bantam::inline v0
