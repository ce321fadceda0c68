// strip16: the one physical layout of weight matrices, in files and in memory alike (docs/formats.md).
//
// A strip is 16 output channels interleaved, a panel two strips (32 channels), a block 256 columns. Storage order:
//   panel -> [header] -> block -> [scales s0, s1][zeros s0, s1][kept blocks s0, s1][padding to 64][plane s0][plane s1]
// so that a thread reads one sequential stream, a register holds 16 channels, and no sum ever crosses lanes.
// Rows are padded to 32 and columns to the format's unit, with weights that decode to anything: activations are zero there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cmath>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/quant/codes.hpp"
#include "bantam/quant/dynamic_map.hpp"
#include "bantam/quant/e4m3.hpp"
#include "bantam/quant/format.hpp"
#include "bantam/quant/sparse_codes.hpp"
#include "bantam/quant/trellis_codes.hpp"

namespace bantam::inline v0 {

inline constexpr int strip_rows = 16;
inline constexpr int panel_rows = 32;
/// Columns that share one activation scale: llama.cpp's q8_K length, 4 KiB of int4 a panel.
inline constexpr int block_columns = 256;

/// Sizes and offsets of a format's panels; all in bytes unless named otherwise. Constant expressions throughout:
/// kernels fold them.
template <QuantFormat F>
struct Strip16 {
  using Plane = typename F::Plane;
  static constexpr bool row_scales = std::same_as<typename F::Scale, scale::Row>;
  static constexpr bool nested_scales = std::same_as<typename F::Scale, scale::Nested>;
  static constexpr bool e4m3_scales = std::same_as<typename F::Scale, scale::E4M3>;
  static constexpr bool f16_scales = std::same_as<typename F::Scale, scale::F16>;
  static constexpr bool f32_scales = std::same_as<typename F::Scale, scale::F32>;
  static constexpr bool group_scales = f16_scales || f32_scales;
  static constexpr bool zero_points = std::same_as<typename F::Zero, zero::Point>;
  static constexpr bool minimums = std::same_as<typename F::Zero, zero::Min>;
  static constexpr bool exponents = std::same_as<typename F::Scale, scale::E8M0>;
  /// Bits of a group's number under the block's unit; 0: the format has none.
  static constexpr int number_bits = detail::super_bits<typename F::Scale>;
  static constexpr bool super_scales = number_bits != 0;
  /// Bits of an unsigned code; 0 for signed bytes and floats.
  static constexpr int bits = code_bits<Plane>;
  static constexpr bool two_of_four = kept_by<Plane> == Kept::two_of_four;
  static constexpr bool half_of_blocks = kept_by<Plane> == Kept::half_of_blocks;
  /// Codes depend on those before them in their block, which is rounded as a whole.
  static constexpr bool trellis = step_bits<Plane> != 0;

  /// Columns under one scale inside a block.
  static constexpr int group = F::group == 0 ? block_columns : F::group;
  static constexpr int column_unit = F::group == 0 ? Plane::column_unit : std::max(Plane::column_unit, F::group);

  /// Columns of activations under one scale: those of a group where it is 32, so that products agree with llama.cpp's,
  /// which rounds both sides by 32 then; else 256, as it does for its k-quants, which costs no work a group.
  static constexpr int activation_block = group == 32 && !super_scales ? 32 : block_columns;

  /// f32 scale of each row, of its weights or of its E4M3 scales; or the nested scales then the offsets of each row.
  static constexpr std::int64_t header = row_scales || e4m3_scales ? panel_rows * 4 : nested_scales ? panel_rows * 8 : 0;

  [[nodiscard]] static constexpr std::int64_t padded_columns(std::int64_t columns) noexcept {
    return round_up<std::int64_t>(columns, column_unit);
  }
  [[nodiscard]] static constexpr std::int64_t panels(std::int64_t rows) noexcept {
    return div_up<std::int64_t>(rows, panel_rows);
  }
  /// Groups that begin in `k` columns of one block.
  [[nodiscard]] static constexpr int groups(int k) noexcept { return (k + group - 1) / group; }

  static constexpr int scale_bytes = f32_scales ? 4 : f16_scales ? 2 : nested_scales || e4m3_scales || exponents ? 1 : 0;
  static constexpr int zero_bytes = zero_points ? 1 : minimums && !super_scales ? 2 : 0;

  /// Of scale::Super: the units, then those of the minimums, 16 f16 each, then the groups' numbers (quant/codes.hpp).
  /// With minimums number 2 g is the scale's and 2 g + 1 the minimum's.
  static constexpr int number_offset = minimums || number_bits == 8 ? 0 : 1 << number_bits >> 1;
  static constexpr int numbers_at = (minimums ? 2 : 1) * strip_rows * 2;
  [[nodiscard]] static constexpr int numbers(int k) noexcept { return groups(k) * (minimums ? 2 : 1); }

  // Offsets inside a block of `k` columns.
  [[nodiscard]] static constexpr std::int64_t scales_at(int k, int strip) noexcept {
    if constexpr (super_scales) return strip * (numbers_at + detail::number_bytes<number_bits>(numbers(k)));
    return std::int64_t{strip} * groups(k) * strip_rows * scale_bytes;
  }
  [[nodiscard]] static constexpr std::int64_t zeros_at(int k, int strip) noexcept {
    return scales_at(k, 2) + std::int64_t{strip} * groups(k) * strip_rows * zero_bytes;
  }
  /// The words that say which blocks a strip holds, one a group.
  [[nodiscard]] static constexpr std::int64_t kept_at(int k, int strip) noexcept {
    return zeros_at(k, 2) + (half_of_blocks ? std::int64_t{strip} * groups(k) * 4 : 0);
  }
  [[nodiscard]] static constexpr std::int64_t plane_bytes(int k) noexcept {
    if constexpr (trellis) return std::int64_t{k} * step_bits<Plane>;  // for two columns of 16 rows
    return std::int64_t{k} * strip_rows * Plane::bits / 8;
  }
  [[nodiscard]] static constexpr std::int64_t plane_at(int k, int strip) noexcept {
    return round_up<std::int64_t>(kept_at(k, 2), 64) + strip * plane_bytes(k);
  }
  [[nodiscard]] static constexpr std::int64_t block_bytes(int k) noexcept {
    return round_up<std::int64_t>(plane_at(k, 2), 64);
  }
  [[nodiscard]] static constexpr std::int64_t panel_bytes(std::int64_t columns) noexcept {
    const std::int64_t padded = padded_columns(columns);
    const std::int64_t whole = padded / block_columns;
    const int rest = static_cast<int>(padded % block_columns);
    return header + whole * block_bytes(block_columns) + (rest != 0 ? block_bytes(rest) : 0);
  }
  [[nodiscard]] static constexpr std::int64_t matrix_bytes(std::int64_t rows, std::int64_t columns) noexcept {
    return panels(rows) * panel_bytes(columns);
  }

  /// Where the float or signed byte of `row` (0..15 of its strip) and `column` (of the block) lies in its plane, in bytes.
  [[nodiscard]] static constexpr std::int64_t code_at(int row, int column) noexcept {
    if constexpr (std::same_as<Plane, plane::F32>) {
      return column * 64 + row * 4;
    } else if constexpr (std::same_as<Plane, plane::F16>) {
      return column * 32 + row * 2;
    } else if constexpr (std::same_as<Plane, plane::BF16>) {
      return column / 2 * 64 + row * 4 + column % 2 * 2;
    } else {
      static_assert(std::same_as<Plane, plane::I8>);
      return column / 4 * 64 + row * 4 + column % 4;
    }
  }
};

/// The codes and shared numbers of one row: what encoders make and importers of other formats fill.
struct RowCodes {
  std::vector<std::int8_t> codes;  ///< padded columns
  std::vector<GroupSide> sides;    ///< one a group; one in all for row scales
};

namespace detail {

/// Calls f(block pointer, first column, columns) for each block of a panel.
template <class F, class Byte, class Visitor>
void for_each_block(Byte* panel, std::int64_t columns, Visitor&& f) {
  const std::int64_t padded = Strip16<F>::padded_columns(columns);
  Byte* block = panel + Strip16<F>::header;
  for (std::int64_t first = 0; first < padded; first += block_columns) {
    const int k = static_cast<int>(std::min<std::int64_t>(block_columns, padded - first));
    f(block, first, k);
    block += Strip16<F>::block_bytes(k);
  }
}

}  // namespace detail

}  // namespace bantam::inline v0
