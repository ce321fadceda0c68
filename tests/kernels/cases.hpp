// What kernel tests share: random matrices and activations, products by one table, comparison by bits.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/core/random.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/weights.hpp"
#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "support.hpp"

namespace bantam::test {

inline const std::int64_t widths[] = {1, 4, 31, 32, 33, 64, 100, 172, 256, 300, 1000};
inline const std::int64_t heights[] = {1, 15, 16, 17, 32, 33, 100};

/// n normal numbers.
inline std::vector<float> normal_row(std::int64_t n, std::uint64_t seed, double deviation = 1) {
  const auto row = random::normal<float>({n}, seed, {.deviation = deviation});
  return {row.span().begin(), row.span().end()};
}

/// The table that defines what the others must compute.
inline const KernelTable& generic_table() { return *kernel_tables().back(); }

/// Activations (tokens, columns) as floats and rounded to 8 bits by the generic table.
class Inputs {
 public:
  /// `block`: columns an activation scale (FormatInfo::activation_block of the matrix to come).
  Inputs(std::int64_t tokens, std::int64_t columns, std::uint64_t seed, std::int64_t block = block_columns)
      : tokens_(tokens),
        columns_(columns),
        block_(block),
        stride_(round_up<std::int64_t>(columns, block_columns)),
        floats_(random::normal<float>({tokens, columns}, seed)),
        values_(static_cast<std::size_t>(tokens * stride_)),
        width_(tokens < 16 ? tokens : round_up<std::int64_t>(tokens, 16)),
        scales_(static_cast<std::size_t>(width_ * stride_ / block + 15)),
        sums_(static_cast<std::size_t>(width_ * stride_ / sum_columns + 15)),
        interleaved_(static_cast<std::size_t>(width_ * stride_)) {
    // An outlier a row, as real activations have them.
    for (std::int64_t t = 0; t < tokens; ++t) floats_(t, t * 7 % columns) *= 20;
    round();
  }
  /// Rounds the floats again, after a change.
  void round() {
    for (std::int64_t t = 0; t < tokens_; ++t) generic_table().quantize_row(&floats_(t, 0), columns_, quantized(), t, 0, columns_);
  }

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] Tensor<float, 2>& floats() { return floats_; }
  [[nodiscard]] FloatRows float_rows(std::int64_t token = 0) const { return {floats_.data() + token * columns_, columns_}; }
  /// All rows from `token` on; side by side too where that is possible.
  [[nodiscard]] QuantizedRows quantized(std::int64_t token = 0) {
    std::uint8_t* const sixteens = side_by_side_ && width_ % 16 == 0 && token % 16 == 0 ? interleaved_.data() + token * stride_ : nullptr;
    return {values_.data() + token * stride_, scales_.data() + token, sums_.data() + token, stride_, width_, block_, sixteens};
  }
  /// From now on there are rows only.
  void drop_interleaved() { side_by_side_ = false; }
  /// What the 8-bit activation stands for.
  [[nodiscard]] double rounded(std::int64_t token, std::int64_t column) const {
    return static_cast<double>(values_[static_cast<std::size_t>(token * stride_ + column)]) *
           static_cast<double>(scales_[static_cast<std::size_t>(column / block_ * width_ + token)]);
  }

 private:
  std::int64_t tokens_;
  std::int64_t columns_;
  std::int64_t block_;
  std::int64_t stride_;
  Tensor<float, 2> floats_;
  AlignedBuffer<std::int8_t> values_;
  std::int64_t width_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<std::int32_t> sums_;
  AlignedBuffer<std::uint8_t> interleaved_;
  bool side_by_side_ = true;
};

/// Which of a format's two products.
enum class Product { q8, f32 };

/// Runs panels begin .. end for tokens token .. token + count into `out` (all tokens, rows), which keeps the rest.
inline void multiply(const KernelTable& table, Product product, const WeightMatrix& w, Inputs& x, std::vector<float>& out,
                     std::int64_t token, std::int64_t count, std::int64_t panel_begin, std::int64_t panel_end) {
  const FormatKernels& kernels = kernels_of(w.format(), table);
  const OutputRows to{out.data() + token * w.rows(), w.rows()};
  const MatmulPart part{count, panel_begin, panel_end};
  if (product == Product::q8) {
    kernels.matmul_q8(w.view(), x.quantized(token), to, part);
  } else {
    kernels.matmul_f32(w.view(), x.float_rows(token), to, part);
  }
}

/// The whole product, (tokens, rows).
inline std::vector<float> multiply(const KernelTable& table, Product product, const WeightMatrix& w, Inputs& x) {
  std::vector<float> out(static_cast<std::size_t>(x.tokens() * w.rows()), 12345.0f);
  multiply(table, product, w, x, out, 0, x.tokens(), 0, div_up<std::int64_t>(w.rows(), panel_rows));
  return out;
}

/// How many floats differ in any bit.
inline int differing_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return -1;
  int differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differing += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  return differing;
}

/// The formats that have a product against 8-bit activations.
inline std::vector<const FormatInfo*> quantized_formats() {
  std::vector<const FormatInfo*> list;
  for (const FormatInfo& info : formats()) {
    if (!info.is_float) list.push_back(&info);
  }
  return list;
}

/// Weights that any codes make, where finding the codes that make given weights takes its time.
inline WeightMatrix random_paths(const FormatInfo& format, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(rows, columns)));
  Random dice(seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    RowCodes codes;
    std::byte* panel = data.get() + r / panel_rows * format.panel_bytes(columns);
    format.load_codes(panel, static_cast<int>(r % panel_rows), columns, codes);
    for (std::int8_t& code : codes.codes) code = static_cast<std::int8_t>(dice.next() & 7);
    for (GroupSide& side : codes.sides) side.scale = 0.001f * static_cast<float>(dice.next() % 16 + 1);
    format.store_codes(panel, static_cast<int>(r % panel_rows), columns, codes);
  }
  return {format, rows, columns, data};
}

/// Formats that hold some of the weights get matrices that are too dense for them, and by turns some that are sparser than need be.
inline WeightMatrix random_weights(const FormatInfo& format, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  if (format.step_bits != 0) return random_paths(format, rows, columns, seed);
  auto weights = random::normal<float>({rows, columns}, seed, {.deviation = 0.05});
  if (format.kept != Kept::all && seed % 2 == 1) {
    Random dice(seed);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) weights(r, c) *= static_cast<float>((r / 16 + c / 4) % 3 == 0 && dice.next() % 3 == 0);
    }
  }
  return WeightMatrix::quantize(weights, format);
}

}  // namespace bantam::test
