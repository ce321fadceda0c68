// Rounding whole matrices and reading them back: definitions of quant/weights.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/core/once.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

BANTAM_ONCE WeightMatrix WeightMatrix::quantize(TensorView<const float, 2> weights, const FormatInfo& format) {
  const std::int64_t rows = weights.extent(0);
  const std::int64_t columns = weights.extent(1);
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(rows, columns)));
  const std::int64_t panel_size = format.panel_bytes(columns);
  const auto width = static_cast<std::size_t>(columns);
  // Half of the largest f16: no scale, minimum or weight overflows below it.
  constexpr float surely_representable = 32752.0f;
  std::vector<float> of_panel;
  RowCodes scratch;
  for (std::int64_t first = 0; first < rows; first += panel_rows) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(panel_rows, rows - first));
    std::byte* panel = data.get() + first / panel_rows * panel_size;
    of_panel.resize(count * width);
    for (std::size_t i = 0; i < of_panel.size(); ++i) {
      const std::int64_t r = first + static_cast<std::int64_t>(i / width), c = static_cast<std::int64_t>(i % width);
      const float w = weights(r, c);
      if (!std::isfinite(w)) fail(Errc::invalid_argument, "quantize: expected finite weights, found ", w, " at (", r, ", ", c, ")");
      of_panel[i] = w;
    }
    if (format.keep_part != nullptr) format.keep_part(panel, columns, of_panel);
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<float> row = std::span(of_panel).subspan(i * width, width);
      float largest = 0;
      for (const float w : row) largest = std::max(largest, std::fabs(w));
      format.encode_row(panel, static_cast<int>(i), row, scratch);
      if (largest <= surely_representable) continue;
      format.decode_row(panel, static_cast<int>(i), row, scratch);
      for (const float w : row) {
        if (!std::isfinite(w)) {
          fail(Errc::invalid_argument, "quantize: expected weights that ", format.name, " can hold, found ", largest, " in row ",
               first + static_cast<std::int64_t>(i));
        }
      }
    }
  }
  return {format, rows, columns, data};
}

BANTAM_ONCE void WeightMatrix::read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const {
  BANTAM_ASSERT(row >= 0 && row < rows_ && static_cast<std::int64_t>(out.size()) == columns_);
  const std::byte* panel = data_.get() + row / panel_rows * format_->panel_bytes(columns_);
  if (order_ == nullptr) return format_->decode_row(panel, static_cast<int>(row % panel_rows), out, scratch);
  std::vector<float> stored(out.size());
  format_->decode_row(panel, static_cast<int>(row % panel_rows), stored, scratch);
  for (std::size_t i = 0; i < stored.size(); ++i) out[static_cast<std::size_t>((*order_)[i])] = stored[i];
}

BANTAM_ONCE Tensor<float, 2> WeightMatrix::dequantize() const {
  Tensor<float, 2> out({rows_, columns_});
  RowCodes scratch;
  for (std::int64_t r = 0; r < rows_; ++r) read_row(r, {out.data() + r * columns_, static_cast<std::size_t>(columns_)}, scratch);
  return out;
}

BANTAM_ONCE double relative_error(TensorView<const float, 2> a, TensorView<const float, 2> b) {
  if (a.shape() != b.shape()) {
    fail(Errc::invalid_argument, "relative_error: expected equal shapes, found ", to_string(a.shape()), " and ", to_string(b.shape()));
  }
  double difference = 0;
  double size = 0;
  for (std::int64_t r = 0; r < a.extent(0); ++r) {
    for (std::int64_t c = 0; c < a.extent(1); ++c) {
      const double d = static_cast<double>(a(r, c)) - static_cast<double>(b(r, c));
      difference += d * d;
      size += static_cast<double>(a(r, c)) * static_cast<double>(a(r, c));
    }
  }
  return size > 0 ? std::sqrt(difference / size) : 0.0;
}

}  // namespace bantam::inline v0
