// strip16: the one physical layout of weight matrices, in files and in memory alike (docs/formats.md).
//
// A strip is 16 output channels interleaved, a panel two strips (32 channels), a block 256 columns. Storage order:
//   panel -> [header] -> block -> [scales s0, s1][zeros s0, s1][padding to 64][plane s0][plane s1]
// so that a thread reads one sequential stream, a register holds 16 channels, and no sum ever crosses lanes.
// Rows are padded to 32 and columns to the format's unit, with weights that decode to anything: activations are zero there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cmath>
#include <vector>

#include "bantam/core/memory.hpp"
#include "bantam/quant/dynamic_map.hpp"
#include "bantam/quant/format.hpp"

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
  static constexpr bool group_scales = std::same_as<typename F::Scale, scale::F16>;
  static constexpr bool zero_points = std::same_as<typename F::Zero, zero::Point>;
  static constexpr bool minimums = std::same_as<typename F::Zero, zero::Min>;

  /// Columns under one scale inside a block.
  static constexpr int group = F::group == 0 ? block_columns : F::group;
  static constexpr int column_unit = F::group == 0 ? Plane::column_unit : std::max(Plane::column_unit, F::group);

  /// Columns of activations under one scale: those of a group where it is 32, so that products agree with llama.cpp's,
  /// which rounds both sides by 32; else 256, which costs no work a group.
  static constexpr int activation_block = group == 32 ? 32 : block_columns;

  /// Columns of quantized codes in one line of 64 bytes.
  static constexpr int line_columns = std::same_as<Plane, plane::I4> ? 8 : 4;

  /// f32 scale of each row, or the nested scales then the offsets of each row.
  static constexpr std::int64_t header = row_scales ? panel_rows * 4 : nested_scales ? panel_rows * 8 : 0;

  [[nodiscard]] static constexpr std::int64_t padded_columns(std::int64_t columns) noexcept {
    return round_up<std::int64_t>(columns, column_unit);
  }
  [[nodiscard]] static constexpr std::int64_t panels(std::int64_t rows) noexcept {
    return div_up<std::int64_t>(rows, panel_rows);
  }
  /// Groups that begin in `k` columns of one block.
  [[nodiscard]] static constexpr int groups(int k) noexcept { return (k + group - 1) / group; }

  static constexpr int scale_bytes = group_scales ? 2 : nested_scales ? 1 : 0;
  static constexpr int zero_bytes = zero_points ? 1 : minimums ? 2 : 0;

  // Offsets inside a block of `k` columns.
  [[nodiscard]] static constexpr std::int64_t scales_at(int k, int strip) noexcept {
    return std::int64_t{strip} * groups(k) * strip_rows * scale_bytes;
  }
  [[nodiscard]] static constexpr std::int64_t zeros_at(int k, int strip) noexcept {
    return scales_at(k, 2) + std::int64_t{strip} * groups(k) * strip_rows * zero_bytes;
  }
  [[nodiscard]] static constexpr std::int64_t plane_bytes(int k) noexcept {
    return std::int64_t{k} * strip_rows * Plane::bits / 8;
  }
  [[nodiscard]] static constexpr std::int64_t plane_at(int k, int strip) noexcept {
    return round_up<std::int64_t>(zeros_at(k, 2), 64) + strip * plane_bytes(k);
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

  /// Where code (or float) of `row` (0..15 of its strip) and `column` (of the block) lies in its plane, in bytes.
  [[nodiscard]] static constexpr std::int64_t code_at(int row, int column) noexcept {
    if constexpr (std::same_as<Plane, plane::F32>) {
      return column * 64 + row * 4;
    } else if constexpr (std::same_as<Plane, plane::F16>) {
      return column * 32 + row * 2;
    } else if constexpr (std::same_as<Plane, plane::BF16>) {
      return column / 2 * 64 + row * 4 + column % 2 * 2;
    } else if constexpr (std::same_as<Plane, plane::I8>) {
      return column / 4 * 64 + row * 4 + column % 4;
    } else {
      return column / 8 * 64 + row * 4 + column % 4;  // nibble: bit 2 of the column says which
    }
  }
};

/// The codes and shared numbers of one row: what encoders make and importers of other formats fill.
struct RowCodes {
  std::vector<std::int8_t> codes;  ///< padded columns
  std::vector<GroupSide> sides;    ///< one a group; one in all for row scales
};

namespace detail {

template <class T>
[[nodiscard]] T load_as(const std::byte* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void store_as(std::byte* p, T value) noexcept {
  std::memcpy(p, &value, sizeof value);
}

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

/// Writes row `row` (0..31) of a panel from codes. For quantized formats. Scales are cut to what the format stores.
template <QuantFormat F>
void store_codes(std::byte* panel, int row, std::int64_t columns, const RowCodes& codes) {
  using L = Strip16<F>;
  const int strip = row / strip_rows;
  const int lane = row % strip_rows;
  float nested_scale = 0;
  float nested_offset = 0;
  if constexpr (L::row_scales) {
    detail::store_as(panel + row * 4, codes.sides[0].scale);
  }
  if constexpr (L::nested_scales) {
    double sum = 0;
    for (const GroupSide& side : codes.sides) sum += side.scale;
    nested_offset = static_cast<float>(sum / static_cast<double>(codes.sides.size()));
    for (const GroupSide& side : codes.sides) nested_scale = std::max(nested_scale, std::fabs(side.scale - nested_offset));
    detail::store_as(panel + row * 4, nested_scale);
    detail::store_as(panel + (panel_rows + row) * 4, nested_offset);
  }
  detail::for_each_block<F>(panel, columns, [&](std::byte* block, std::int64_t first, int k) {
    for (int g = 0; g < L::groups(k); ++g) {
      const GroupSide& side = codes.sides[static_cast<std::size_t>(L::row_scales ? 0 : first / L::group + g)];
      if constexpr (L::group_scales) {
        detail::store_as(block + L::scales_at(k, strip) + (g * strip_rows + lane) * 2, f16(side.scale));
      }
      if constexpr (L::nested_scales) {
        const float x = nested_scale > 0 ? (side.scale - nested_offset) / nested_scale : 0.0f;
        detail::store_as(block + L::scales_at(k, strip) + g * strip_rows + lane, dynamic_map_index(x));
      }
      if constexpr (L::zero_points) {
        detail::store_as(block + L::zeros_at(k, strip) + g * strip_rows + lane, static_cast<std::uint8_t>(side.zero));
      }
      if constexpr (L::minimums) {
        detail::store_as(block + L::zeros_at(k, strip) + (g * strip_rows + lane) * 2, f16(side.min));
      }
    }
    // A row's four bytes of a line at a time.
    std::byte* plane = block + L::plane_at(k, strip);
    const std::int8_t* code = codes.codes.data() + first;
    for (int column = 0; column < k; column += L::line_columns) {
      std::uint32_t word = 0;
      std::memcpy(&word, code + column, 4);
      if constexpr (std::same_as<typename F::Plane, plane::I4>) {
        std::uint32_t high = 0;
        std::memcpy(&high, code + column + 4, 4);
        word = (word & 0x0f0f0f0fu) | (high & 0x0f0f0f0fu) << 4;
      }
      detail::store_as(plane + L::code_at(lane, column), word);
    }
  });
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
    for (int g = 0; g < L::groups(k) && !L::row_scales; ++g) {
      GroupSide& side = codes.sides[static_cast<std::size_t>(first / L::group + g)];
      if constexpr (L::group_scales) {
        side.scale = float(detail::load_as<f16>(block + L::scales_at(k, strip) + (g * strip_rows + lane) * 2));
      }
      if constexpr (L::nested_scales) {
        const auto index = detail::load_as<std::uint8_t>(block + L::scales_at(k, strip) + g * strip_rows + lane);
        // One rounding for the product and the sum, as the kernels do it.
        side.scale = std::fma(dynamic_map[index], detail::load_as<float>(panel + row * 4),
                              detail::load_as<float>(panel + (panel_rows + row) * 4));
      }
      if constexpr (L::zero_points) {
        side.zero = detail::load_as<std::uint8_t>(block + L::zeros_at(k, strip) + g * strip_rows + lane);
      }
      if constexpr (L::minimums) {
        side.min = float(detail::load_as<f16>(block + L::zeros_at(k, strip) + (g * strip_rows + lane) * 2));
      }
    }
    const std::byte* plane = block + L::plane_at(k, strip);
    std::int8_t* code = codes.codes.data() + first;
    for (int column = 0; column < k; column += L::line_columns) {
      const auto word = detail::load_as<std::uint32_t>(plane + L::code_at(lane, column));
      if constexpr (std::same_as<typename F::Plane, plane::I4>) {
        const std::uint32_t low = word & 0x0f0f0f0fu;
        const std::uint32_t high = word >> 4 & 0x0f0f0f0fu;
        std::memcpy(code + column, &low, 4);
        std::memcpy(code + column + 4, &high, 4);
      } else {
        std::memcpy(code + column, &word, 4);
      }
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
    for (std::int64_t first = 0; first < columns; first += L::group) {
      const auto n = static_cast<std::size_t>(std::min<std::int64_t>(L::group, columns - first));
      F::encode(weights.subspan(static_cast<std::size_t>(first), n), codes.codes.data() + first,
                codes.sides[static_cast<std::size_t>(first / L::group)]);
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
    for (std::int64_t i = 0; i < columns; ++i) {
      const GroupSide& side = scratch.sides[static_cast<std::size_t>(L::row_scales ? 0 : i / L::group)];
      weights[static_cast<std::size_t>(i)] = decode_code<F>(scratch.codes[static_cast<std::size_t>(i)], side);
    }
  }
}

}  // namespace bantam::inline v0
