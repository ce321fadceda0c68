// The activations that a linear layer reads: floats, and the same rounded to 8 bits once for every layer that shares them.
#pragma once

#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/quant/strip16.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0::nn {

/// Room for (tokens, columns) activations, floats and their 8-bit form.
class Activations {
 public:
  Activations() = default;
  /// Grows to hold (tokens, columns); content is lost when it grows or changes width. Call outside parallel regions.
  void resize(std::int64_t tokens, std::int64_t columns);

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] float* row(std::int64_t token) noexcept { return floats_.data() + token * columns_; }
  [[nodiscard]] const float* row(std::int64_t token) const noexcept { return floats_.data() + token * columns_; }
  [[nodiscard]] FloatRows floats() const noexcept { return {floats_.data(), columns_}; }
  [[nodiscard]] const QuantizedRows& quantized() const noexcept { return quantized_; }
  /// Rounds one row to 8 bits; needed before a quantized matrix reads it.
  void quantize_row(const KernelTable& kernels, std::int64_t token) const noexcept {
    kernels.quantize_row(row(token), columns_, quantized_, token);
  }

 private:
  std::int64_t tokens_ = 0;
  std::int64_t columns_ = 0;
  AlignedBuffer<float> floats_;
  AlignedBuffer<std::int8_t> values_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<std::int32_t> sums_;
  QuantizedRows quantized_;
};

inline void Activations::resize(std::int64_t tokens, std::int64_t columns) {
  tokens_ = tokens;
  columns_ = columns;
  const std::int64_t stride = round_up<std::int64_t>(columns, block_columns);
  floats_.ensure(static_cast<std::size_t>(tokens * columns));
  values_.ensure(static_cast<std::size_t>(tokens * stride));
  scales_.ensure(static_cast<std::size_t>(tokens * stride / block_columns));
  sums_.ensure(static_cast<std::size_t>(tokens * stride / 32));
  quantized_ = {values_.data(), scales_.data(), sums_.data(), stride};
}

}  // namespace bantam::inline v0::nn
