// Codes into panels of strip16: a block of one row, or of some rows at once.
#pragma once

#include <span>

#include "bantam/quant/strip16_layout.hpp"

namespace bantam::inline v0 {

/// The codes and shared numbers of one block of a row.
struct BlockCodes {
  std::int8_t codes[block_columns];
  GroupSide sides[block_columns / 16];  ///< one a group
};

namespace detail {

/// Where a block of a row lies in its panel.
template <class L>
struct BlockPlace {
  int k;  ///< columns of the block
  int strip, lane;
  std::byte* block;

  BlockPlace(std::byte* panel, int row, std::int64_t columns, std::int64_t first) noexcept
      : k(static_cast<int>(std::min<std::int64_t>(block_columns, L::padded_columns(columns) - first))), strip(row / strip_rows),
        lane(row % strip_rows), block(panel + L::header + first / block_columns * L::block_bytes(block_columns)) {}

  [[nodiscard]] std::byte* scales() const noexcept { return block + L::scales_at(k, strip); }
  [[nodiscard]] std::byte* zeros() const noexcept { return block + L::zeros_at(k, strip); }
  [[nodiscard]] std::byte* plane() const noexcept { return block + L::plane_at(k, strip); }
};

/// Writes the scales, minimums and zero points of a block of row `row`. Scales are cut to what the format stores.
template <QuantFormat F>
void store_sides(std::byte* panel, int row, const BlockPlace<Strip16<F>>& place, const GroupSide* sides) noexcept {
  using L = Strip16<F>;
  if constexpr (L::row_scales) return;
  const int groups = L::groups(place.k), lane = place.lane;
  std::byte* scales = place.scales();
  if constexpr (L::super_scales) {
    store_as(scales + lane * 2, f16(sides->unit));
    if constexpr (L::minimums) store_as(scales + (strip_rows + lane) * 2, f16(sides->min_unit));
    std::int8_t numbers[2 * block_columns / 16] = {};
    for (int g = 0; g < groups; ++g) {
      if constexpr (L::minimums) {
        numbers[2 * g] = static_cast<std::int8_t>(sides[g].number);
        numbers[2 * g + 1] = static_cast<std::int8_t>(sides[g].min_number);
      } else {
        numbers[g] = static_cast<std::int8_t>(sides[g].number + L::number_offset);
      }
    }
    store_numbers<L::number_bits>(scales + L::numbers_at, L::numbers(place.k), lane, numbers);
    return;
  }
  if constexpr (L::e4m3_scales) {
    // Of numbers that come with their unit each block has it; else store_codes has written it.
    if (sides->unit > 0) store_as(panel + row * 4, sides->unit);
    const auto unit = load_as<float>(panel + row * 4);
    for (int g = 0; g < groups; ++g) store_as(scales + g * strip_rows + lane, e4m3_byte(unit > 0 ? sides[g].scale / unit : 0.0f));
  }
  if constexpr (L::nested_scales) {
    const auto scale = load_as<float>(panel + row * 4);
    const auto offset = load_as<float>(panel + (panel_rows + row) * 4);
    for (int g = 0; g < groups; ++g) store_as(scales + g * strip_rows + lane, dynamic_map_index(scale > 0 ? (sides[g].scale - offset) / scale : 0.0f));
  }
  for (int g = 0; g < groups; ++g) {
    if constexpr (L::f16_scales) store_as(scales + (g * strip_rows + lane) * 2, f16(sides[g].scale));
    if constexpr (L::f32_scales) store_as(scales + (g * strip_rows + lane) * 4, sides[g].scale);
    if constexpr (L::exponents) store_as(scales + g * strip_rows + lane, exponent_byte(sides[g].scale));
  }
  // Not in the loop above: GCC 12 takes a loop that writes both for a null access and drops it.
  std::byte* zeros = place.zeros();
  for (int g = 0; g < groups; ++g) {
    if constexpr (L::minimums) store_as(zeros + (g * strip_rows + lane) * 2, f16(sides[g].min));
    if constexpr (L::zero_points) store_as(zeros + g * strip_rows + lane, static_cast<std::uint8_t>(sides[g].zero));
  }
}

/// Writes the codes of a block of a row.
template <QuantFormat F>
void store_plane(const BlockPlace<Strip16<F>>& place, std::int64_t columns, std::int64_t first, const std::int8_t* codes) noexcept {
  using L = Strip16<F>;
  const int k = place.k, lane = place.lane;
  std::byte* plane = place.plane();
  if constexpr (L::two_of_four) {
    for (int column = 0; column < k; column += 32) {
      store_unit(typename F::Plane{}, plane + L::plane_bytes(column), lane, codes + column, columns - first - column);
    }
  } else if constexpr (L::trellis) {
    store_stream<step_bits<typename F::Plane>>(plane, lane, codes, k);
  } else if constexpr (L::bits == 0) {
    for (int column = 0; column < k; column += 4) std::memcpy(plane + L::code_at(lane, column), codes + column, 4);
  } else if constexpr (L::half_of_blocks) {
    for (int g = 0; g < L::groups(k); ++g) {
      const std::uint32_t kept = load_kept(place.block + L::kept_at(k, place.strip) + g * 4);
      store_blocks(plane + L::plane_bytes(g * L::group), kept, lane, codes + g * L::group);
    }
  } else {
    for (int column = 0; column < k; column += 32) store_unit<L::bits>(plane + L::plane_bytes(column), lane, codes + column);
  }
}

/// Whether four rows of it are written faster together than one by one.
template <class L>
inline constexpr bool stores_four = !L::two_of_four && !L::trellis && !L::half_of_blocks;

/// Writes the codes of a block of four rows; `place` is that of the first, a multiple of four.
template <QuantFormat F>
void store_four_planes(const BlockPlace<Strip16<F>>& place, const BlockCodes* rows) noexcept {
  using L = Strip16<F>;
  const int k = place.k, lane = place.lane;
  std::byte* plane = place.plane();
  static_assert(L::column_unit % 32 == 0);
  const auto* codes = reinterpret_cast<const std::byte*>(rows->codes);
  for (int column = 0; column < k; column += 32) {
    FourLanes four[8];
    load_lanes(codes + column, sizeof *rows, four);
    load_lanes(codes + column + 16, sizeof *rows, four + 4);
    if constexpr (L::bits == 0) {
      for (int i = 0; i < 8; ++i) store_as(plane + L::code_at(lane, column + 4 * i), four[i]);
    } else {
      store_lines<L::bits>(plane + L::plane_bytes(column) + lane * 4, four);
    }
  }
}

}  // namespace detail

/// Writes one block of row `row` (0..31) of a panel: the columns from `first`, a multiple of 256, on. `codes` and `sides`
/// are those of the block, or its rest. What belongs to the row (`sides[0]` of a row scale, the unit of E4M3 scales, the two numbers of
/// nested ones) stands in the header, which store_codes writes.
template <QuantFormat F>
void store_block(std::byte* panel, int row, std::int64_t columns, std::int64_t first, const std::int8_t* codes, const GroupSide* sides) noexcept {
  const detail::BlockPlace<Strip16<F>> place(panel, row, columns, first);
  detail::store_sides<F>(panel, row, place, sides);
  detail::store_plane<F>(place, columns, first, codes);
}

/// The same of rows `row`, `row` + 1, ...: four at a time where the first is a multiple of four.
template <QuantFormat F>
void store_rows(std::byte* panel, int row, std::int64_t columns, std::int64_t first, std::span<const BlockCodes> rows) noexcept {
  using L = Strip16<F>;
  for (std::size_t i = 0; i < rows.size();) {
    const int at = row + static_cast<int>(i);
    if constexpr (detail::stores_four<L>) {
      if (at % 4 == 0 && i + 4 <= rows.size()) {
        for (int j = 0; j < 4; ++j) detail::store_sides<F>(panel, at + j, {panel, at + j, columns, first}, rows[i + static_cast<std::size_t>(j)].sides);
        detail::store_four_planes<F>({panel, at, columns, first}, &rows[i]);
        i += 4;
        continue;
      }
    }
    store_block<F>(panel, at, columns, first, rows[i].codes, rows[i].sides);
    ++i;
  }
}

}  // namespace bantam::inline v0
