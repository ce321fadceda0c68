// What formats that hold some of the weights keep of a matrix, by sorting (docs/formats.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bantam/quant/format.hpp"
#include "reference/pruning.hpp"

namespace bantam::reference {

/// Marks, (rows, columns), of the weights that go: of every four of a row the two of the lowest scores; of the blocks of 16 rows by
/// 4 columns in every 128 columns those of the lowest sums, as far as there are more than 16. Of equals the first.
inline std::vector<std::vector<int>> removed(Kept kept, const Square& scores) {
  const std::size_t rows = scores.size(), columns = scores[0].size();
  std::vector<std::vector<int>> gone(rows, std::vector<int>(columns, 0));
  if (kept == Kept::two_of_four) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t first = 0; first < columns; first += 4) {
        const std::size_t count = std::min<std::size_t>(4, columns - first);
        const auto begin = scores[r].begin() + static_cast<std::ptrdiff_t>(first);
        const std::vector<int> few = smallest({begin, begin + static_cast<std::ptrdiff_t>(count)}, count < 2 ? 0 : count - 2);
        std::ranges::copy(few, gone[r].begin() + static_cast<std::ptrdiff_t>(first));
      }
    }
  } else if (kept == Kept::half_of_blocks) {
    for (std::size_t top = 0; top < rows; top += 16) {
      for (std::size_t first = 0; first < columns; first += 128) {
        const std::size_t bottom = std::min(top + 16, rows), last = std::min(first + 128, columns);
        std::vector<double> sums((last - first + 3) / 4, 0.0);
        for (std::size_t r = top; r < bottom; ++r) {
          for (std::size_t c = first; c < last; ++c) sums[(c - first) / 4] += scores[r][c];
        }
        const std::vector<int> blocks = smallest(sums, sums.size() < 16 ? 0 : sums.size() - 16);
        for (std::size_t r = top; r < bottom; ++r) {
          for (std::size_t c = first; c < last; ++c) gone[r][c] = blocks[(c - first) / 4];
        }
      }
    }
  }
  return gone;
}

}  // namespace bantam::reference
