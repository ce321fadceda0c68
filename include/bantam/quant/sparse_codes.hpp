// Which weights the planes that hold only some of them keep, and how those are packed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "bantam/quant/codes.hpp"
#include "bantam/simd/sparse.hpp"

namespace bantam::inline v0::detail {

using simd::first_blocks;
using simd::kept_blocks;
using simd::load_kept;

inline constexpr int block_rows = 16;     ///< of the blocks of plane::HalfOfBlocks
inline constexpr int block_width = 4;     ///< columns
inline constexpr int blocks_width = 128;  ///< columns among whose blocks half are chosen

/// Where the two codes of a channel's four stand, counted from the unit's first line of codes.
template <int Bits>
[[nodiscard]] constexpr int pair_at(int lane, int four) noexcept {
  return four / (16 / Bits) * 64 + lane * 4 + four % 2 * 2;
}
/// Which nibble of them.
template <int Bits>
[[nodiscard]] constexpr int pair_shift(int four) noexcept {
  return Bits == 4 ? four / 2 % 2 * 4 : 0;
}

/// Four columns' codes of one channel, one a byte.
template <int Bits>
[[nodiscard]] std::uint32_t load_four(plane::TwoOfFour<Bits>, const std::byte* plane, int lane, int column) noexcept {
  const std::byte* unit = plane + std::int64_t{column} / 32 * (64 + Bits * 32);
  const int four = column % 32 / 4;
  const std::uint32_t number = load_as<std::uint32_t>(unit + lane * 4) >> four * 4;
  std::uint32_t codes = 0;
  for (int j = 0; j < 4; ++j) {
    const unsigned control = simd::pair_control(number, j);
    if (control == simd::nothing) continue;
    const auto byte = load_as<std::uint8_t>(unit + 64 + pair_at<Bits>(lane, four) + control);
    codes |= (std::uint32_t{byte} >> pair_shift<Bits>(four) & ((1u << Bits) - 1)) << j * 8;
  }
  return Bits == 4 ? codes ^ 0x08080808u : codes;
}

/// The codes of 32 columns of one channel into their unit: of each four the two furthest from 0, of equals the first. Those from
/// column `count` on are padding, which takes no place from others.
template <int Bits>
void store_unit(plane::TwoOfFour<Bits>, std::byte* unit, int lane, const std::int8_t* codes, std::int64_t count) noexcept {
  std::uint32_t numbers = 0, lines[Bits / 2] = {};
  for (int four = 0; four < 8; ++four) {
    int values[4];
    for (int j = 0; j < 4; ++j) values[j] = four * 4 + j < count ? codes[four * 4 + j] - (Bits == 4 ? 8 : 0) : 0;
    const auto larger = [&](int a, int b) { return std::abs(values[a]) > std::abs(values[b]); };
    int best = 0, second = -1;
    for (int j = 1; j < 4; ++j) best = larger(j, best) ? j : best;
    for (int j = 0; j < 4; ++j) second = j != best && (second < 0 || larger(j, second)) ? j : second;
    const auto [a, b] = std::minmax(best, second);
    numbers |= simd::pair_number(a, b) << four * 4;
    constexpr unsigned mask = (1u << Bits) - 1;
    const std::uint32_t pair = (static_cast<unsigned>(values[a]) & mask) | (static_cast<unsigned>(values[b]) & mask) << 8;
    lines[pair_at<Bits>(0, four) / 64] |= pair << (four % 2 * 16 + pair_shift<Bits>(four));
  }
  store_as(unit + lane * 4, numbers);
  for (int line = 0; line < Bits / 2; ++line) store_as(unit + 64 + line * 64 + lane * 4, lines[line]);
}

/// The half of a strip's blocks that are worth most, a bit each; `worth` has those that exist, 1 to 32. Of equals the last.
[[nodiscard]] inline std::uint32_t choose_blocks(std::span<const double> worth) noexcept {
  std::uint32_t kept = worth.size() <= kept_blocks ? first_blocks : ~0u >> (32 - worth.size());
  for (auto more = static_cast<int>(worth.size()) - kept_blocks; more > 0; --more) {
    int least = -1;
    for (int i = 0; i < static_cast<int>(worth.size()); ++i) {
      const bool less = least < 0 || worth[static_cast<std::size_t>(i)] < worth[static_cast<std::size_t>(least)];
      if ((kept >> i & 1) != 0 && less) least = i;
    }
    kept &= ~(1u << least);
  }
  return kept;
}
[[nodiscard]] constexpr bool holds_block(std::uint32_t kept, int block) noexcept { return (kept >> block & 1) != 0; }
/// How many kept blocks come before one.
[[nodiscard]] constexpr int place_of(std::uint32_t kept, int block) noexcept { return std::popcount(kept & ((1u << block) - 1)); }

/// Four columns' codes of one channel in 128 columns of which `kept` says what is there.
[[nodiscard]] inline std::uint32_t load_four_of_blocks(const std::byte* plane, std::uint32_t kept, int lane, int column) noexcept {
  const int block = column / block_width;
  return holds_block(kept, block) ? load_four<4>(plane, lane, place_of(kept, block) * block_width) : 0x08080808u;
}
/// The codes of 128 columns of one channel that `kept` says.
inline void store_blocks(std::byte* plane, std::uint32_t kept, int lane, const std::int8_t* codes) noexcept {
  std::int8_t dense[kept_blocks * block_width];
  for (std::uint32_t left = kept, place = 0; place < kept_blocks; ++place) {
    std::memcpy(dense + place * block_width, codes + simd::next_block(left) * block_width, block_width);
  }
  store_unit<4>(plane, lane, dense);
  store_unit<4>(plane + 4 * 64, lane, dense + 32);
}

/// Sets the two smallest weights of each four of a row to 0, of equals the first.
inline void keep_two_of_four(std::span<float> row) noexcept {
  for (std::size_t first = 0; first < row.size(); first += 4) {
    const std::size_t count = std::min<std::size_t>(4, row.size() - first);
    std::uint32_t left = 0xf;
    for (std::size_t more = count; more > 2; --more) {
      std::size_t least = 4;
      for (std::size_t j = 0; j < count; ++j) {
        if ((left >> j & 1) != 0 && (least == 4 || std::fabs(row[first + j]) < std::fabs(row[first + least]))) least = j;
      }
      left &= ~(1u << least);
      row[first + least] = 0;
    }
  }
}

/// Sets half of the blocks of 16 rows, (rows, columns), in the 128 columns from `first` on to 0, those of the smallest sums of
/// sizes; returns the others.
[[nodiscard]] inline std::uint32_t keep_half_of_blocks(std::span<float> rows, std::int64_t columns, std::int64_t first) noexcept {
  const std::int64_t count = std::min<std::int64_t>(blocks_width, columns - first);
  double worth[32] = {};
  const auto each = [&](auto&& f) {
    for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(columns)) {
      for (std::int64_t c = 0; c < count; ++c) f(c / block_width, rows[row + static_cast<std::size_t>(first + c)]);
    }
  };
  each([&](std::int64_t block, float w) { worth[block] += static_cast<double>(std::fabs(w)); });
  const auto blocks = static_cast<std::size_t>((count + block_width - 1) / block_width);
  const std::uint32_t kept = choose_blocks({worth, blocks});
  each([&](std::int64_t block, float& w) {
    if (!holds_block(kept, static_cast<int>(block))) w = 0;
  });
  return kept;
}

}  // namespace bantam::inline v0::detail
