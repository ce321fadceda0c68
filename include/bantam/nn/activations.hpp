// The activations that linear layers read: floats, and the same rounded to 8 bits once for every layer that shares them.
#pragma once

#include <array>
#include <initializer_list>

#include "bantam/core/team.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/weights.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0::nn {

/// Rows of floats that products write, an odd number of cache lines apart: a tile writes one line of each of many rows, which a
/// power of two would put into the same few places of every cache.
class RowBuffer {
 public:
  /// Floats from one row to the next.
  [[nodiscard]] static constexpr std::int64_t stride_of(std::int64_t columns) noexcept {
    constexpr std::int64_t line = 16;
    return (div_up(columns, line) | 1) * line;
  }
  /// Grows to hold (rows, columns); content is lost when it grows or changes width.
  void resize(std::int64_t rows, std::int64_t columns) {
    stride_ = stride_of(columns);
    floats_.ensure(static_cast<std::size_t>(rows * stride_));
  }
  [[nodiscard]] float* row(std::int64_t i) noexcept { return floats_.data() + i * stride_; }
  [[nodiscard]] const float* row(std::int64_t i) const noexcept { return floats_.data() + i * stride_; }
  [[nodiscard]] OutputRows output() noexcept { return {floats_.data(), stride_}; }
  [[nodiscard]] FloatRows input() const noexcept { return {floats_.data(), stride_}; }

 private:
  AlignedBuffer<float> floats_;
  std::int64_t stride_ = 0;
};

/// Matrices that read the same activations at one place of a model, at most six: which of them have columns in orders of
/// their own, and which share one.
class Readers {
 public:
  static constexpr std::size_t most = 6;

  Readers(std::initializer_list<const WeightMatrix*> matrices) noexcept {
    BANTAM_ASSERT(matrices.size() <= most);
    for (const WeightMatrix* w : matrices) matrices_[count_++] = w;
  }
  /// The ordered form that matrix `i` reads: the number of the first with the same order; meaningless without an order, which empty ones lack.
  [[nodiscard]] int form_of(int i) const noexcept {
    for (int k = 0; k < i && at(i).order() != nullptr; ++k) {
      if (at(k).order() == at(i).order() && at(k).format().activation_block == at(i).format().activation_block) return k;
    }
    return i;
  }
  /// Calls f(form, matrix) for each ordered form that they need.
  template <class F>
  void for_each_form(F&& f) const {
    for (int i = 0; i < count_; ++i) {
      if (at(i).order() != nullptr && form_of(i) == i) f(i, at(i));
    }
  }

 private:
  [[nodiscard]] const WeightMatrix& at(int i) const noexcept { return *matrices_[static_cast<std::size_t>(i)]; }
  std::array<const WeightMatrix*, most> matrices_{};
  int count_ = 0;
};

/// Room for (tokens, columns) activations: floats, and the 8-bit forms that the matrices served ask for.
class Activations {
 public:
  Activations() = default;

  /// Announces a matrix that will read these activations. Call before resize().
  void serve(const KernelTable& kernels, const WeightMatrix& w) noexcept {
    if (w.order() != nullptr) {
      for (Form& f : ordered_) f.used = true;
    } else if (!w.format().is_float) {
      Form& f = form(w.format().activation_block);
      f.used = true;
      f.interleaves = f.interleaves || kernels_of(w.format(), kernels).reads_interleaved;
    }
  }
  /// Bytes of a row, of 8-bit forms for so many kinds of activation blocks, or in orders of matrices' own: floats, and of each form its numbers, once more where
  /// tokens stand side by side, with scales and sums.
  [[nodiscard]] static constexpr std::int64_t row_bytes(std::int64_t columns, int forms, bool has_orders) noexcept {
    constexpr auto plain = static_cast<std::int64_t>(sizeof(float));
    const std::int64_t stride = form_stride(columns), form = 2 * stride + plain * (stride / 32 + stride / sum_columns);
    return RowBuffer::stride_of(columns) * plain + forms * form + (has_orders ? static_cast<std::int64_t>(Readers::most) * (form + columns * plain) : 0);
  }
  /// Whether some matrix reads columns in an order of its own.
  [[nodiscard]] bool has_orders() const noexcept { return ordered_[0].used; }
  /// Grows to hold (tokens, columns); content is lost when it grows or changes width. Call outside parallel regions, or
  /// from one worker, between barriers, where it was at least as large before: it allocates nothing then.
  void resize(std::int64_t tokens, std::int64_t columns);

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] float* row(std::int64_t token) noexcept { return floats_.row(token); }
  [[nodiscard]] const float* row(std::int64_t token) const noexcept { return floats_.row(token); }
  [[nodiscard]] FloatRows floats() const noexcept { return floats_.input(); }
  [[nodiscard]] OutputRows output() noexcept { return floats_.output(); }
  /// The form with a scale every `block` columns.
  [[nodiscard]] const QuantizedRows& quantized(int block) const noexcept {
    return (block == block_columns ? coarse_ : fine_).rows;
  }
  /// What `w` reads; `ordered_form` as its Readers say.
  [[nodiscard]] const QuantizedRows& quantized(const WeightMatrix& w, int ordered_form = 0) const noexcept {
    return w.order() != nullptr ? ordered_[static_cast<std::size_t>(ordered_form)].rows : quantized(w.format().activation_block);
  }
  /// Rounds one row to the forms in use; needed before a quantized matrix reads it.
  void quantize_row(const KernelTable& kernels, std::int64_t token) const noexcept { quantize_part(kernels, token, 0, columns_); }
  /// The same for columns begin .. end: multiples of 256, or the last.
  void quantize_part(const KernelTable& kernels, std::int64_t token, std::int64_t begin, std::int64_t end) const noexcept {
    for (const Form* f : {&coarse_, &fine_}) {
      if (f->used) kernels.quantize_row(row(token), columns_, f->rows, token, begin, end);
    }
  }
  /// The same in the orders of `readers`; all columns of the row must be there.
  void gather_row(const KernelTable& kernels, const Readers& readers, std::int64_t token) const noexcept {
    gather_part(kernels, readers, token, 0, columns_);
  }
  void gather_part(const KernelTable& kernels, const Readers& readers, std::int64_t token, std::int64_t begin, std::int64_t end) const noexcept {
    if (!has_orders()) return;
    readers.for_each_form([&](int i, const WeightMatrix& w) {
      const Form& f = ordered_[static_cast<std::size_t>(i)];
      float* gathered = f.gathered + token * columns_;
      for (std::int64_t c = begin; c < end; ++c) gathered[c] = row(token)[(*w.order())[static_cast<std::size_t>(c)]];
      QuantizedRows rows = f.rows;
      rows.block = w.format().activation_block;
      kernels.quantize_row(gathered, columns_, rows, token, begin, end);
    });
  }

 private:
  struct Form {
    bool used = false;
    bool interleaves = false;  ///< some matrix reads them so
    AlignedBuffer<std::int8_t> values;
    AlignedBuffer<float> scales;
    AlignedBuffer<std::int32_t> sums;
    AlignedBuffer<std::uint8_t> interleaved;
    QuantizedRows rows;
    AlignedBuffer<float> gather_buffer;
    float* gathered = nullptr;  ///< (tokens, columns) in another order; ordered forms only

    void resize(std::int64_t tokens, std::int64_t stride, std::int64_t block) {
      if (!used) return;
      const bool sixteens = interleaves && tokens >= 16;
      const std::int64_t width = sixteens ? round_up<std::int64_t>(tokens, 16) : tokens;
      values.ensure(static_cast<std::size_t>(tokens * stride));
      scales.ensure(static_cast<std::size_t>(stride / block * width + 15));
      sums.ensure(static_cast<std::size_t>(stride / sum_columns * width + 15));
      if (sixteens) interleaved.ensure(static_cast<std::size_t>(width * stride));
      rows = {values.data(), scales.data(), sums.data(), stride, width, block, sixteens ? interleaved.data() : nullptr};
    }
  };
  [[nodiscard]] Form& form(int block) noexcept { return block == block_columns ? coarse_ : fine_; }
  /// Numbers of a row of a form. Rows a multiple of 4 KiB apart would fall into the same few lines of a first-level cache.
  [[nodiscard]] static constexpr std::int64_t form_stride(std::int64_t columns) noexcept {
    const std::int64_t stride = round_up<std::int64_t>(columns, block_columns);
    return stride % 2048 == 0 ? stride + block_columns : stride;
  }

  std::int64_t tokens_ = 0;
  std::int64_t columns_ = 0;
  RowBuffer floats_;
  Form coarse_;  ///< a scale every 256 columns
  Form fine_;    ///< a scale every 32
  std::array<Form, Readers::most> ordered_;  ///< in orders of their own, with room for a scale every 32
};

inline void Activations::resize(std::int64_t tokens, std::int64_t columns) {
  tokens_ = tokens;
  columns_ = columns;
  const std::int64_t stride = form_stride(columns);
  floats_.resize(tokens, columns);
  coarse_.resize(tokens, stride, block_columns);
  fine_.resize(tokens, stride, 32);
  for (Form& f : ordered_) {
    f.resize(tokens, stride, 32);
    if (!f.used) continue;
    f.gather_buffer.ensure(static_cast<std::size_t>(tokens * columns));
    f.gathered = f.gather_buffer.data();
  }
}

}  // namespace bantam::inline v0::nn
