// Masks and SparseGPT in double precision, as the papers define them (arXiv:2306.11695, arXiv:2301.00774): every choice by
// sorting, every column's error carried over at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "reference/gptq.hpp"

namespace bantam::reference {

/// Marks of the `count` smallest; of equals those that come first.
inline std::vector<int> smallest(const std::vector<double>& scores, std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  std::vector<int> marks(scores.size(), 0);
  for (std::size_t i = 0; i < count; ++i) marks[order[i]] = 1;
  return marks;
}

/// The `zeros` smallest of each `of`.
inline std::vector<int> smallest_of_each(const std::vector<double>& scores, int zeros, int of) {
  std::vector<int> marks;
  for (std::size_t first = 0; first < scores.size(); first += static_cast<std::size_t>(of)) {
    const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<int> few = smallest(std::vector<double>(begin, begin + of), static_cast<std::size_t>(zeros));
    marks.insert(marks.end(), few.begin(), few.end());
  }
  return marks;
}

struct SparseGptResult {
  Square weights;
  std::vector<std::vector<int>> removed;
};

/// `share` of every 128 columns, or `zeros` of each `of`. `group`: 0 for survivors as they are, else columns of an asymmetric
/// 4-bit grid, fitted when the first of them is reached, to what is not known to be removed.
/// `blocks`: instead, of the blocks of 16 rows by 4 columns in every 128 columns those beyond the 16 of the largest sums.
inline SparseGptResult sparsegpt(Square w, const Square& u, double share, int zeros, int of, std::size_t group, bool blocks = false) {
  const std::size_t rows = w.size(), columns = w[0].size();
  std::vector<std::vector<int>> removed(rows, std::vector<int>(columns, 0));
  std::vector<GptqGroup> grids(rows);
  const auto cost = [&](std::size_t r, std::size_t c) { return w[r][c] * w[r][c] / (u[c][c] * u[c][c]); };
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t top = 0; blocks && c % 128 == 0 && top < rows; top += 16) {
      std::vector<double> sums((std::min<std::size_t>(128, columns - c) + 3) / 4, 0.0);
      const std::size_t bottom = std::min(top + 16, rows), last = std::min(c + 128, columns);
      for (std::size_t r = top; r < bottom; ++r) {
        for (std::size_t i = c; i < last; ++i) sums[(i - c) / 4] += cost(r, i);
      }
      const std::vector<int> marks = smallest(sums, sums.size() < 16 ? 0 : sums.size() - 16);
      for (std::size_t r = top; r < bottom; ++r) {
        for (std::size_t i = c; i < last; ++i) removed[r][i] = marks[(i - c) / 4];
      }
    }
    if (of == 0 && !blocks && c % 128 == 0) {
      const std::size_t size = std::min<std::size_t>(128, columns - c);
      std::vector<double> costs;
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < size; ++i) costs.push_back(cost(r, c + i));
      }
      const std::vector<int> marks = smallest(costs, static_cast<std::size_t>(share * static_cast<double>(costs.size())));
      for (std::size_t i = 0; i < marks.size(); ++i) removed[i / size][c + i % size] = marks[i];
    }
    for (std::size_t r = 0; r < rows; ++r) {
      if (group > 0 && c % group == 0) {
        std::vector<float> part;
        for (std::size_t i = c; i < c + group; ++i) part.push_back(removed[r][i] ? 0.0f : static_cast<float>(w[r][i]));
        grids[r] = gptq_grid(part);
      }
      if (of > 0 && c % static_cast<std::size_t>(of) == 0) {
        std::vector<double> costs;
        for (std::size_t i = c; i < c + static_cast<std::size_t>(of); ++i) costs.push_back(cost(r, i));
        const std::vector<int> marks = smallest(costs, static_cast<std::size_t>(zeros));
        std::ranges::copy(marks, removed[r].begin() + static_cast<std::ptrdiff_t>(c));
      }
      double value = removed[r][c] ? 0 : w[r][c];
      if (group > 0 && !removed[r][c]) {
        value = grids[r].scale * (std::clamp(std::nearbyint(value / grids[r].scale) + grids[r].zero, 0.0, 15.0) - grids[r].zero);
      }
      const double error = (w[r][c] - value) / u[c][c];
      w[r][c] = value;
      for (std::size_t j = c + 1; j < columns; ++j) w[r][j] -= error * u[c][j];
    }
  }
  return {std::move(w), std::move(removed)};
}

}  // namespace bantam::reference
