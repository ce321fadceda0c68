// The smallest of some scores, of equal ones the first; of blocks, by the sums of scores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "bantam/core/parallel.hpp"
#include "bantam/prune/mask.hpp"
#include "bantam/quant/sparse_codes.hpp"

namespace bantam::inline v0 {

/// Marks the `count` smallest. Linear in their number; none of them may be NaN.
template <class T>
void mark_smallest(std::span<const T> scores, std::size_t count, std::span<std::uint8_t> marks) {
  if (count == 0) return;
  std::vector<T> copy(scores.begin(), scores.end());
  const auto last = copy.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(copy.begin(), last, copy.end());
  const T bound = *last;
  auto equals = static_cast<std::ptrdiff_t>(count) - std::ranges::count_if(scores, [&](T score) { return score < bound; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < bound || (scores[i] == bound && equals-- > 0)) marks[i] = 1;
  }
}

/// The same without memory of its own, for a few scores; `marks` are 0 before.
template <class T>
void mark_smallest_of_few(std::span<const T> scores, int count, std::span<std::uint8_t> marks) {
  for (int k = 0; k < count; ++k) {
    std::size_t best = scores.size();
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (marks[i] == 0 && (best == scores.size() || scores[i] < scores[best])) best = i;
    }
    marks[best] = 1;
  }
}

/// Columns among whose blocks those to go are chosen.
inline constexpr std::int64_t blocks_columns = detail::blocks_width;

/// Marks, in the columns begin .. end of one such run, the blocks of the smallest sums of score(row, column). `mask` is 0 there.
template <class Score>
void mark_blocks(Mask& mask, std::int64_t begin, std::int64_t end, Score&& score) {
  using namespace detail;
  const std::int64_t rows = mask.extent(0);
  parallel_for((rows + block_rows - 1) / block_rows, 1, [&](Range strips) {
    for (std::int64_t strip = strips.begin; strip < strips.end; ++strip) {
      const std::int64_t last = std::min(rows, (strip + 1) * block_rows);
      double worth[blocks_width / block_width] = {};
      for (std::int64_t row = strip * block_rows; row < last; ++row) {
        for (std::int64_t c = begin; c < end; ++c) worth[(c - begin) / block_width] += static_cast<double>(score(row, c));
      }
      const auto blocks = static_cast<std::size_t>((end - begin + block_width - 1) / block_width);
      const std::uint32_t kept = choose_blocks({worth, blocks});
      for (std::int64_t row = strip * block_rows; row < last; ++row) {
        for (std::int64_t c = begin; c < end; ++c) mask(row, c) = !holds_block(kept, static_cast<int>((c - begin) / block_width));
      }
    }
  });
}

}  // namespace bantam::inline v0
