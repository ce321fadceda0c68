// GPTQ in double precision: a plain transcription of the paper's algorithm 1 (arXiv:2210.17323), column by column.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/rounding.hpp"

namespace bantam::reference {

using Square = std::vector<std::vector<double>>;

/// A^-1 of a positive definite matrix, by Gauss and Jordan.
inline Square inverse(Square a) {
  const std::size_t n = a.size();
  Square b(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) b[i][i] = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double pivot = a[i][i];
    for (std::size_t j = 0; j < n; ++j) {
      a[i][j] /= pivot;
      b[i][j] /= pivot;
    }
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i];
      for (std::size_t j = 0; j < n; ++j) {
        a[r][j] -= factor * a[i][j];
        b[r][j] -= factor * b[i][j];
      }
    }
  }
  return b;
}

/// U upper triangular with UT U = A.
inline Square upper_cholesky(const Square& a) {
  const std::size_t n = a.size();
  Square u(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < i; ++k) sum -= u[k][i] * u[k][j];
      u[i][j] = i == j ? std::sqrt(sum) : sum / u[i][i];
    }
  }
  return u;
}

struct GptqRow {
  std::vector<int> codes;
  double loss = 0;
};

/// One row of weights on GPTQ's asymmetric 4-bit grid, groups of `group` columns fitted when the first of them is reached,
/// or before any is rounded. `u` is for columns in `order`.
inline GptqRow gptq_row(std::vector<double> w, const Square& u, const std::vector<std::size_t>& order, std::size_t group, bool ahead) {
  const std::size_t n = w.size();
  GptqRow row;
  row.codes.resize(n);
  std::vector<GptqGroup> grids(n / group);
  const auto fit = [&](std::size_t g) {
    std::vector<float> part;
    for (std::size_t i = 0; i < group; ++i) part.push_back(static_cast<float>(w[g * group + i]));
    grids[g] = gptq_grid(part);
  };
  for (std::size_t g = 0; ahead && g < grids.size(); ++g) fit(g);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t c = order[i];
    if (grids[c / group].codes.empty()) fit(c / group);
    const GptqGroup& grid = grids[c / group];
    const double q = std::clamp(std::nearbyint(w[c] / grid.scale) + grid.zero, 0.0, 15.0);
    row.codes[c] = static_cast<int>(q);
    const double error = (w[c] - grid.scale * (q - grid.zero)) / u[i][i];
    row.loss += error * error / 2;
    for (std::size_t j = i + 1; j < n; ++j) w[order[j]] -= error * u[i][j];
  }
  return row;
}

}  // namespace bantam::reference
