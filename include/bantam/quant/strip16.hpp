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

/// Decides which weights of a panel's first rows, (rows, columns), are kept, the largest; notes it in the panel where rows share
/// the decision, and sets the others to 0. Comes before rows are encoded or stored: what they have elsewhere is lost then.
template <QuantFormat F>
void keep_part(std::byte* panel, std::int64_t columns, std::span<float> rows) noexcept {
  using L = Strip16<F>;
  const auto width = static_cast<std::size_t>(columns);
  if constexpr (L::two_of_four) {
    for (std::size_t at = 0; at < rows.size(); at += width) detail::keep_two_of_four(rows.subspan(at, width));
  } else {
    static_assert(L::half_of_blocks);
    detail::for_each_block<F>(panel, columns, [&](std::byte* block, std::int64_t first, int k) {
      for (int strip = 0; static_cast<std::size_t>(strip * strip_rows) * width < rows.size(); ++strip) {
        const std::size_t at = static_cast<std::size_t>(strip * strip_rows) * width;
        const std::span<float> of_strip = rows.subspan(at, std::min(strip_rows * width, rows.size() - at));
        for (int g = 0; g < L::groups(k); ++g) {
          detail::store_as(block + L::kept_at(k, strip) + g * 4, detail::keep_half_of_blocks(of_strip, columns, first + g * L::group));
        }
      }
    });
  }
}

namespace detail {

/// What the E4M3 scales of a row are multiplied by: as the row has it, else a power of two under which scales of 4 bits are what they are, the
/// largest from 128 to 240.
[[nodiscard]] inline float e4m3_unit(std::span<const GroupSide> sides) noexcept {
  float largest = 0;
  for (const GroupSide& side : sides) {
    if (side.unit > 0) return side.unit;
    largest = std::max(largest, side.scale);
  }
  return largest > 0 ? std::ldexp(1.0f, std::max(std::ilogb(largest) - 7, -126)) : 0.0f;
}

}  // namespace detail

/// Writes one block of row `row` (0..31) of a panel: the columns from `first`, a multiple of 256, on. `codes` and `sides`
/// are those of the block, or its rest. Scales are cut to what the format stores; those of the row (`sides[0]` of a row
/// scale, that of E4M3 scales, the two of nested ones) stand in the header, which store_codes writes.
template <QuantFormat F>
void store_block(std::byte* panel, int row, std::int64_t columns, std::int64_t first, const std::int8_t* codes,
                 const GroupSide* sides) noexcept {
  using L = Strip16<F>;
  const int strip = row / strip_rows;
  const int lane = row % strip_rows;
  const int k = static_cast<int>(std::min<std::int64_t>(block_columns, L::padded_columns(columns) - first));
  std::byte* block = panel + L::header + first / block_columns * L::block_bytes(block_columns);
  std::byte* scales = block + L::scales_at(k, strip);
  for (int g = 0; g < (L::row_scales ? 0 : L::groups(k)); ++g) {
    const GroupSide& side = sides[g];
    if constexpr (L::f16_scales) detail::store_as(scales + (g * strip_rows + lane) * 2, f16(side.scale));
    if constexpr (L::f32_scales) detail::store_as(scales + (g * strip_rows + lane) * 4, side.scale);
    if constexpr (L::exponents) detail::store_as(scales + g * strip_rows + lane, detail::exponent_byte(side.scale));
    if constexpr (L::e4m3_scales) {
      // Of numbers that come with their unit each block has it; else store_codes has written it.
      if (side.unit > 0 && g == 0) detail::store_as(panel + row * 4, side.unit);
      const auto unit = detail::load_as<float>(panel + row * 4);
      detail::store_as(scales + g * strip_rows + lane, detail::e4m3_byte(unit > 0 ? side.scale / unit : 0.0f));
    }
    if constexpr (L::nested_scales) {
      const auto scale = detail::load_as<float>(panel + row * 4);
      const auto offset = detail::load_as<float>(panel + (panel_rows + row) * 4);
      detail::store_as(scales + g * strip_rows + lane, dynamic_map_index(scale > 0 ? (side.scale - offset) / scale : 0.0f));
    }
    if constexpr (L::super_scales) {
      detail::store_as(scales + lane * 2, f16(side.unit));
      if constexpr (L::minimums) {
        detail::store_as(scales + (strip_rows + lane) * 2, f16(side.min_unit));
        detail::store_number<L::number_bits>(scales + L::numbers_at, L::numbers(k), 2 * g, lane, side.number);
        detail::store_number<L::number_bits>(scales + L::numbers_at, L::numbers(k), 2 * g + 1, lane, side.min_number);
      } else {
        detail::store_number<L::number_bits>(scales + L::numbers_at, L::numbers(k), g, lane, side.number + L::number_offset);
      }
    } else if constexpr (L::minimums) {
      detail::store_as(block + L::zeros_at(k, strip) + (g * strip_rows + lane) * 2, f16(side.min));
    }
    if constexpr (L::zero_points) {
      detail::store_as(block + L::zeros_at(k, strip) + g * strip_rows + lane, static_cast<std::uint8_t>(side.zero));
    }
  }
  std::byte* plane = block + L::plane_at(k, strip);
  if constexpr (L::two_of_four) {
    for (int column = 0; column < k; column += 32) {
      detail::store_unit(typename F::Plane{}, plane + L::plane_bytes(column), lane, codes + column, columns - first - column);
    }
  } else if constexpr (L::trellis) {
    detail::store_stream<step_bits<typename F::Plane>>(plane, lane, codes, k);
  } else if constexpr (L::bits == 0) {
    for (int column = 0; column < k; column += 4) std::memcpy(plane + L::code_at(lane, column), codes + column, 4);
  } else if constexpr (L::half_of_blocks) {
    for (int g = 0; g < L::groups(k); ++g) {
      const std::uint32_t kept = detail::load_kept(block + L::kept_at(k, strip) + g * 4);
      detail::store_blocks(plane + L::plane_bytes(g * L::group), kept, lane, codes + g * L::group);
    }
  } else {
    for (int column = 0; column < k; column += 32) detail::store_unit<L::bits>(plane + L::plane_bytes(column), lane, codes + column);
  }
}

/// Writes row `row` (0..31) of a panel from codes. For quantized formats.
template <QuantFormat F>
void store_codes(std::byte* panel, int row, std::int64_t columns, const RowCodes& codes) {
  using L = Strip16<F>;
  if constexpr (L::row_scales) detail::store_as(panel + row * 4, codes.sides[0].scale);
  if constexpr (L::e4m3_scales) detail::store_as(panel + row * 4, detail::e4m3_unit(codes.sides));
  if constexpr (L::nested_scales) {
    double sum = 0;
    for (const GroupSide& side : codes.sides) sum += side.scale;
    const auto offset = static_cast<float>(sum / static_cast<double>(codes.sides.size()));
    float scale = 0;
    for (const GroupSide& side : codes.sides) scale = std::max(scale, std::fabs(side.scale - offset));
    detail::store_as(panel + row * 4, scale);
    detail::store_as(panel + (panel_rows + row) * 4, offset);
  }
  for (std::int64_t first = 0; first < L::padded_columns(columns); first += block_columns) {
    store_block<F>(panel, row, columns, first, codes.codes.data() + first,
                   codes.sides.data() + (L::row_scales ? 0 : first / L::group));
  }
}

/// Reads row `row` (0..31) of a panel back into codes and the numbers as stored. Inverse of store_codes.
template <QuantFormat F>
void load_codes(const std::byte* panel, int row, std::int64_t columns, RowCodes& codes) {
  using L = Strip16<F>;
  const int strip = row / strip_rows;
  const int lane = row % strip_rows;
  const std::int64_t padded = L::padded_columns(columns);
  codes.codes.resize(static_cast<std::size_t>(padded));
  codes.sides.assign(static_cast<std::size_t>(L::row_scales ? 1 : padded / L::group), {});
  if constexpr (L::row_scales) codes.sides[0].scale = detail::load_as<float>(panel + row * 4);
  detail::for_each_block<F>(panel, columns, [&](const std::byte* block, std::int64_t first, int k) {
    const std::byte* scales = block + L::scales_at(k, strip);
    for (int g = 0; g < L::groups(k) && !L::row_scales; ++g) {
      GroupSide& side = codes.sides[static_cast<std::size_t>(first / L::group + g)];
      if constexpr (L::f16_scales) side.scale = float(detail::load_as<f16>(scales + (g * strip_rows + lane) * 2));
      if constexpr (L::f32_scales) side.scale = detail::load_as<float>(scales + (g * strip_rows + lane) * 4);
      if constexpr (L::exponents) side.scale = detail::power_of_two(detail::load_as<std::uint8_t>(scales + g * strip_rows + lane));
      if constexpr (L::e4m3_scales) {
        side.unit = detail::load_as<float>(panel + row * 4);
        side.scale = detail::magnitude_of_e4m3(detail::load_as<std::uint8_t>(scales + g * strip_rows + lane)) * side.unit;
      }
      if constexpr (L::nested_scales) {
        const auto index = detail::load_as<std::uint8_t>(scales + g * strip_rows + lane);
        // One rounding for the product and the sum, as the kernels do it.
        side.scale = std::fma(dynamic_map[index], detail::load_as<float>(panel + row * 4),
                              detail::load_as<float>(panel + (panel_rows + row) * 4));
      }
      if constexpr (L::super_scales) {
        const auto number = [&](int i) { return detail::load_number<L::number_bits>(scales + L::numbers_at, L::numbers(k), i, lane); };
        side.unit = float(detail::load_as<f16>(scales + lane * 2));
        if constexpr (L::minimums) {
          side.min_unit = float(detail::load_as<f16>(scales + (strip_rows + lane) * 2));
          side.number = static_cast<std::int16_t>(number(2 * g));
          side.min_number = static_cast<std::int16_t>(number(2 * g + 1));
        } else {
          side.number = static_cast<std::int16_t>(number(g) - L::number_offset);
        }
        apply_units<F>(side);
      } else if constexpr (L::minimums) {
        side.min = float(detail::load_as<f16>(block + L::zeros_at(k, strip) + (g * strip_rows + lane) * 2));
      }
      if constexpr (L::zero_points) {
        side.zero = detail::load_as<std::uint8_t>(block + L::zeros_at(k, strip) + g * strip_rows + lane);
      }
    }
    const std::byte* plane = block + L::plane_at(k, strip);
    std::int8_t* code = codes.codes.data() + first;
    if constexpr (L::trellis) detail::load_stream<step_bits<typename F::Plane>>(plane, lane, k, code);
    for (int column = 0; !L::trellis && column < k; column += 4) {
      std::uint32_t four = 0;
      if constexpr (L::two_of_four) {
        four = detail::load_four(typename F::Plane{}, plane, lane, column);
      } else if constexpr (L::half_of_blocks) {
        const int g = column / L::group;
        const std::uint32_t kept = detail::load_kept(block + L::kept_at(k, strip) + g * 4);
        four = detail::load_four_of_blocks(plane + L::plane_bytes(g * L::group), kept, lane, column % L::group);
      } else if constexpr (L::bits == 0) {
        four = detail::load_as<std::uint32_t>(plane + L::code_at(lane, column));
      } else {
        four = detail::load_four<L::bits>(plane, lane, column);
      }
      detail::store_as(reinterpret_cast<std::byte*>(code + column), four);
    }
  });
}

/// Rounds one row to codes. `weights` holds the unpadded columns, all finite.
template <QuantFormat F>
void encode_codes(std::span<const float> weights, RowCodes& codes) {
  using L = Strip16<F>;
  const auto columns = static_cast<std::int64_t>(weights.size());
  const std::int64_t padded = L::padded_columns(columns);
  codes.codes.assign(static_cast<std::size_t>(padded), 0);
  if constexpr (L::row_scales) {
    codes.sides.assign(1, {});
    F::encode(weights, codes.codes.data(), codes.sides[0]);
  } else {
    codes.sides.assign(static_cast<std::size_t>(padded / L::group), {});
    // A group that the row ends in is fitted to the weights that are there.
    constexpr bool whole_block = L::super_scales || L::trellis;
    constexpr std::int64_t unit = whole_block ? block_columns : L::group;
    for (std::int64_t first = 0; first < columns; first += unit) {
      const auto part = weights.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(unit, columns - first)));
      const auto side = static_cast<std::size_t>(first / L::group);
      if constexpr (whole_block) {
        const auto groups = static_cast<std::size_t>(std::min(unit, padded - first) / L::group);
        F::encode(part, codes.codes.data() + first, std::span(codes.sides).subspan(side, groups));
      } else {
        F::encode(part, codes.codes.data() + first, codes.sides[side]);
      }
    }
  }
}

/// Encodes and stores row `row` (0..31) of a panel: round to nearest, or a plain conversion for float formats.
template <QuantFormat F>
void encode_row(std::byte* panel, int row, std::span<const float> weights, RowCodes& scratch) {
  using L = Strip16<F>;
  const auto columns = static_cast<std::int64_t>(weights.size());
  if constexpr (is_float_format<F>) {
    detail::for_each_block<F>(panel, columns, [&](std::byte* block, std::int64_t first, int k) {
      std::byte* plane = block + L::plane_at(k, row / strip_rows);
      const int n = static_cast<int>(std::min<std::int64_t>(k, columns - first));
      for (int column = 0; column < n; ++column) {
        const float w = weights[static_cast<std::size_t>(first + column)];
        std::byte* place = plane + L::code_at(row % strip_rows, column);
        if constexpr (std::same_as<typename F::Plane, plane::F32>) detail::store_as(place, w);
        if constexpr (std::same_as<typename F::Plane, plane::F16>) detail::store_as(place, f16(w));
        if constexpr (std::same_as<typename F::Plane, plane::BF16>) detail::store_as(place, bf16(w));
      }
    });
  } else {
    encode_codes<F>(weights, scratch);
    store_codes<F>(panel, row, columns, scratch);
  }
}

/// The weights of row `row` (0..31) of a panel, as the format defines them.
template <QuantFormat F>
void decode_row(const std::byte* panel, int row, std::span<float> weights, RowCodes& scratch) {
  using L = Strip16<F>;
  const auto columns = static_cast<std::int64_t>(weights.size());
  if constexpr (is_float_format<F>) {
    detail::for_each_block<F>(panel, columns, [&](const std::byte* block, std::int64_t first, int k) {
      const std::byte* plane = block + L::plane_at(k, row / strip_rows);
      const int n = static_cast<int>(std::min<std::int64_t>(k, columns - first));
      for (int column = 0; column < n; ++column) {
        const std::byte* place = plane + L::code_at(row % strip_rows, column);
        float& w = weights[static_cast<std::size_t>(first + column)];
        if constexpr (std::same_as<typename F::Plane, plane::F32>) w = detail::load_as<float>(place);
        if constexpr (std::same_as<typename F::Plane, plane::F16>) w = float(detail::load_as<f16>(place));
        if constexpr (std::same_as<typename F::Plane, plane::BF16>) w = float(detail::load_as<bf16>(place));
      }
    });
  } else {
    load_codes<F>(panel, row, columns, scratch);
    if constexpr (L::trellis) detail::resolve_stream<step_bits<typename F::Plane>>(scratch.codes);
    for (std::int64_t i = 0; i < columns; ++i) {
      const GroupSide& side = scratch.sides[static_cast<std::size_t>(L::row_scales ? 0 : i / L::group)];
      weights[static_cast<std::size_t>(i)] = decode_code<F>(scratch.codes[static_cast<std::size_t>(i)], side);
    }
  }
}

}  // namespace bantam::inline v0
