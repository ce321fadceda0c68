// Weight matrices in strip16: of a format chosen at run time, or known to the type.
#pragma once

#include <memory>
#include <vector>

#include "bantam/quant/format_info.hpp"
#include "bantam/quant/weight_view.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// Which column of the model each stored column is: a permutation. Groups of GPTQ's activation order are scattered; sorted,
/// they are runs as in any other matrix, and the activations are gathered in that order before they are rounded.
using ColumnPermutation = std::vector<std::int32_t>;

/// A weight matrix (rows = outputs, columns = inputs). Immutable; copies share the bytes, which may be mapped from a
/// file or lie in memory.
class WeightMatrix {
 public:
  WeightMatrix() = default;
  /// `data` holds format.matrix_bytes(rows, columns) bytes, aligned to 64. `order`: of a quantized format's columns; null:
  /// the model's.
  WeightMatrix(const FormatInfo& format, std::int64_t rows, std::int64_t columns, std::shared_ptr<const std::byte> data,
               std::shared_ptr<const ColumnPermutation> order = nullptr)
      : format_(&format), rows_(rows), columns_(columns), data_(std::move(data)), order_(std::move(order)) {
    BANTAM_ASSERT(order_ == nullptr || !format.is_float);
  }

  /// Rounds (rows, columns) floats to nearest. Throws invalid_argument for weights that are not finite.
  [[nodiscard]] static WeightMatrix quantize(TensorView<const float, 2> weights, const FormatInfo& format);

  [[nodiscard]] bool empty() const noexcept { return data_ == nullptr; }
  [[nodiscard]] const FormatInfo& format() const noexcept { return *format_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return empty() ? 0 : format_->matrix_bytes(rows_, columns_); }
  [[nodiscard]] double bits_per_weight() const noexcept { return format_->bits_per_weight; }
  [[nodiscard]] WeightView view() const noexcept { return {data_.get(), rows_, columns_}; }

  /// Null unless columns are stored in another order than the model's. Products with view() take activations in it.
  [[nodiscard]] const std::shared_ptr<const ColumnPermutation>& order() const noexcept { return order_; }

  /// One row as floats, exactly as the format defines them, in the model's order. `out` has `columns` elements.
  void read_row(std::int64_t row, std::span<float> out, RowCodes& scratch) const;
  /// All of it as floats.
  [[nodiscard]] Tensor<float, 2> dequantize() const;

 private:
  const FormatInfo* format_ = nullptr;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::shared_ptr<const std::byte> data_;
  std::shared_ptr<const ColumnPermutation> order_;
};

/// A weight matrix whose format is part of the type.
template <QuantFormat F>
class QTensor : public WeightMatrix {
 public:
  explicit QTensor(TensorView<const float, 2> weights)
      : WeightMatrix(WeightMatrix::quantize(weights, format_info<F>())) {}
};

/// Rounds a matrix to a format: quantize<Nf4>(weights).
template <QuantFormat F>
[[nodiscard]] QTensor<F> quantize(TensorView<const float, 2> weights) {
  return QTensor<F>(weights);
}

/// ||a - b|| / ||a||, in double precision; 0 when both are zero.
[[nodiscard]] double relative_error(TensorView<const float, 2> a, TensorView<const float, 2> b);

}  // namespace bantam::inline v0
