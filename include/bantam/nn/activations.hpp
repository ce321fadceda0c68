// The activations that linear layers read: floats, and the same rounded to 8 bits once for every layer that shares them.
#pragma once

#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/quant/weights.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0::nn {

/// Room for (tokens, columns) activations: floats, and the 8-bit forms that the matrices served ask for.
class Activations {
 public:
  Activations() = default;

  /// Announces a matrix that will read these activations. Call before resize().
  void serve(const WeightMatrix& w) noexcept {
    if (!w.format().is_float) form(w.format().activation_block).used = true;
  }
  /// Grows to hold (tokens, columns); content is lost when it grows or changes width. Call outside parallel regions.
  void resize(std::int64_t tokens, std::int64_t columns);

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] float* row(std::int64_t token) noexcept { return floats_.data() + token * columns_; }
  [[nodiscard]] const float* row(std::int64_t token) const noexcept { return floats_.data() + token * columns_; }
  [[nodiscard]] FloatRows floats() const noexcept { return {floats_.data(), columns_}; }
  /// The form with a scale every `block` columns.
  [[nodiscard]] const QuantizedRows& quantized(int block) const noexcept {
    return (block == block_columns ? coarse_ : fine_).rows;
  }
  /// Rounds one row to the forms in use; needed before a quantized matrix reads it.
  void quantize_row(const KernelTable& kernels, std::int64_t token) const noexcept { quantize_part(kernels, token, 0, columns_); }
  /// The same for columns begin .. end: multiples of 256, or the last.
  void quantize_part(const KernelTable& kernels, std::int64_t token, std::int64_t begin, std::int64_t end) const noexcept {
    for (const Form* f : {&coarse_, &fine_}) {
      if (f->used) kernels.quantize_row(row(token), columns_, f->rows, token, begin, end);
    }
  }

 private:
  struct Form {
    bool used = false;
    AlignedBuffer<std::int8_t> values;
    AlignedBuffer<float> scales;
    AlignedBuffer<std::int32_t> sums;
    QuantizedRows rows;

    void resize(std::int64_t tokens, std::int64_t stride, std::int64_t block) {
      if (!used) return;
      values.ensure(static_cast<std::size_t>(tokens * stride));
      scales.ensure(static_cast<std::size_t>(tokens * stride / block));
      sums.ensure(static_cast<std::size_t>(tokens * stride / sum_columns));
      rows = {values.data(), scales.data(), sums.data(), stride, block};
    }
  };
  [[nodiscard]] Form& form(int block) noexcept { return block == block_columns ? coarse_ : fine_; }

  std::int64_t tokens_ = 0;
  std::int64_t columns_ = 0;
  AlignedBuffer<float> floats_;
  Form coarse_;  ///< a scale every 256 columns
  Form fine_;    ///< a scale every 32
};

inline void Activations::resize(std::int64_t tokens, std::int64_t columns) {
  tokens_ = tokens;
  columns_ = columns;
  std::int64_t stride = round_up<std::int64_t>(columns, block_columns);
  // Rows a multiple of 4 KiB apart would fall into the same few lines of a first-level cache.
  if (stride % 2048 == 0) stride += block_columns;
  floats_.ensure(static_cast<std::size_t>(tokens * columns));
  coarse_.resize(tokens, stride, block_columns);
  fine_.resize(tokens, stride, 32);
}

}  // namespace bantam::inline v0::nn
