// Rows of checkpoints into panels, some at a time.
#pragma once

#include <algorithm>
#include <array>

#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// Fills rows `place`, `place` + 1, ... of a panel with codes: read(row, first, count, block) reads columns `first` to `first + count` of row 0,
/// 1, ... Block by block, not row by row: a row's codes are four bytes of each line, and lines stay in the cache meanwhile.
template <class Read>
void fill_rows(const FormatInfo& format, std::byte* panel, int place, int rows, std::int64_t columns, Read&& read) {
  constexpr int together = 4;  // that are stored in one go, from a multiple of it on
  std::array<BlockCodes, together> blocks;
  for (std::int64_t first = 0; first < columns; first += block_columns) {
    const std::int64_t count = std::min<std::int64_t>(block_columns, columns - first);
    if (count < block_columns) blocks = {};  // what it is padded with
    for (int row = 0, next = 0; row < rows; row = next) {
      next = std::min(rows, row + together - (place + row) % together);
      for (int i = row; i < next; ++i) read(i, first, count, blocks[static_cast<std::size_t>(i - row)]);
      format.store_rows(panel, place + row, columns, first, std::span(blocks).first(static_cast<std::size_t>(next - row)));
    }
  }
}

namespace detail {

/// A word of each of four rows from `lane` on, which holds one column or two from `column` on.
template <QuantFormat F>
void store_words(std::byte* plane, int lane, int column, FourLanes words) noexcept {
  using L = Strip16<F>;
  if constexpr (std::same_as<typename L::Plane, plane::F16>) {
    // Each of the two has a line of its own.
    using EightHalves [[gnu::vector_size(16)]] = std::uint16_t;
    const auto halves = std::bit_cast<EightHalves>(words);
    const auto lines = std::bit_cast<std::array<std::uint64_t, 2>>(EightHalves(__builtin_shufflevector(halves, halves, 0, 2, 4, 6, 1, 3, 5, 7)));
    for (int i = 0; i < 2; ++i) store_as(plane + L::code_at(lane, column + i), lines[static_cast<std::size_t>(i)]);
  } else {
    store_as(plane + L::code_at(lane, column), words);
  }
}

}  // namespace detail

/// Fills rows of a panel of F with rows of the same floats, which lie `row_bytes` apart: they are copied, bit for bit.
template <QuantFormat F>
void fill_float_rows(std::byte* panel, int place, int rows, std::int64_t columns, const std::byte* bytes, std::int64_t row_bytes) noexcept {
  using L = Strip16<F>;
  constexpr int size = L::Plane::bits / 8, step = 16 / size;
  detail::for_each_block<F>(panel, columns, [&](std::byte* block, std::int64_t first, int k) {
    const int count = static_cast<int>(std::min<std::int64_t>(k, columns - first));
    for (int row = 0, next = 0; row < rows; row = next) {
      const int lane = (place + row) % strip_rows;
      const bool four = lane % 4 == 0 && row + 4 <= rows;
      next = row + (four ? 4 : 1);
      std::byte* plane = block + L::plane_at(k, (place + row) / strip_rows);
      const std::byte* from = bytes + row * row_bytes + first * size;
      int column = 0;
      for (; four && column + step <= count; column += step) {
        detail::FourLanes words[4];
        detail::load_lanes(from + column * size, row_bytes, words);
        for (int i = 0; i < 4; ++i) detail::store_words<F>(plane, lane, column + i * (4 / size), words[i]);
      }
      for (; column < count; ++column) {
        for (int i = row; i < next; ++i) std::memcpy(plane + L::code_at(lane + i - row, column), from + (i - row) * row_bytes + column * size, size);
      }
    }
  });
}

}  // namespace bantam::inline v0
