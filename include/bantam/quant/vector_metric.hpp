// Metrics of a few columns, in which vectors of codes are nearest (LDLQ: QuIP#, arXiv:2402.04396; GPTVQ, arXiv:2402.15319), and rows rounded in
// the plainest of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "bantam/quant/vector_codes.hpp"

namespace bantam::inline v0 {

/// Of a factor F, (n, n), lower triangular.
[[nodiscard]] inline VectorMetric metric_of_factor(std::span<const double> factor, int n) noexcept {
  VectorMetric metric;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int k = std::max(i, j); k < n; ++k) sum += factor[static_cast<std::size_t>(k * n + i)] * factor[static_cast<std::size_t>(k * n + j)];
      metric.factor[static_cast<std::size_t>(i * n + j)] = static_cast<float>(factor[static_cast<std::size_t>(i * n + j)]);
      metric.moments[static_cast<std::size_t>(i * n + j)] = static_cast<float>(sum);
    }
  }
  return metric;
}

/// Errors apart from each other, the square of each times its weight.
[[nodiscard]] inline VectorMetric metric_of_weights(const float* weights, int n) noexcept {
  VectorMetric metric;
  for (int i = 0; i < n; ++i) {
    metric.moments[static_cast<std::size_t>(i * n + i)] = weights[i];
    metric.factor[static_cast<std::size_t>(i * n + i)] = std::sqrt(weights[i]);
  }
  return metric;
}

/// Of M, (n, n), positive definite: F comes of it last row first.
[[nodiscard]] inline VectorMetric metric_of_moments(std::span<const double> moments, int n) noexcept {
  std::array<double, VectorMetric::most_columns * VectorMetric::most_columns> factor{};
  const auto f = [&](int i, int j) -> double& { return factor[static_cast<std::size_t>(i * n + j)]; };
  for (int i = n - 1; i >= 0; --i) {
    for (int j = i; j >= 0; --j) {
      double rest = moments[static_cast<std::size_t>(i * n + j)];
      for (int k = i + 1; k < n; ++k) rest -= f(k, i) * f(k, j);
      f(i, j) = i == j ? std::sqrt(std::max(rest, 0x1p-100)) : rest / f(i, i);
    }
  }
  return metric_of_factor(factor, n);
}

/// What errors of some columns cost when those after them make up for it: F = U^-T, U their part, (n, n), of the upper triangular factor
/// of H^-1 = UT U. `u(i, j)` gives its elements.
template <class U>
[[nodiscard]] VectorMetric metric_of_inverse_factor(int n, U&& u) noexcept {
  std::array<double, VectorMetric::most_columns * VectorMetric::most_columns> factor{};
  const auto f = [&](int i, int j) -> double& { return factor[static_cast<std::size_t>(i * n + j)]; };
  for (int j = 0; j < n; ++j) {  // UT F = 1, column by column
    for (int i = j; i < n; ++i) {
      double rest = i == j ? 1 : 0;
      for (int k = j; k < i; ++k) rest -= static_cast<double>(u(k, i)) * f(k, j);
      f(i, j) = rest / static_cast<double>(u(i, i));
    }
  }
  return metric_of_factor(factor, n);
}

/// M^-1 x in the place of x, (n).
inline void solve(const VectorMetric& metric, float* x, int n) noexcept {
  const auto f = [&](int i, int j) { return metric.factor[static_cast<std::size_t>(i * n + j)]; };
  for (int i = n - 1; i >= 0; --i) {
    for (int k = i + 1; k < n; ++k) x[i] -= f(k, i) * x[k];
    x[i] /= f(i, i);
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) x[i] -= f(i, j) * x[j];
    x[i] /= f(i, i);
  }
}

/// Rounds a row of whole vectors whose scales are there, the square of each error times what its column counts. An empty `importance` is ones.
inline void round_vectors(const VectorCodes& vectors, std::span<const float> row, std::span<const float> importance, std::span<const GroupSide> sides, int group,
                          simd::NearestPoint nearest_point, std::int8_t* codes) noexcept {
  constexpr float ones[VectorMetric::most_columns] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (std::size_t c = 0; c < row.size(); c += static_cast<std::size_t>(vectors.columns)) {
    const VectorMetric metric = metric_of_weights(importance.empty() ? ones : &importance[c], vectors.columns);
    vectors.round(&row[c], metric, sides[c / static_cast<std::size_t>(group)], codes + c, nearest_point);
  }
}

}  // namespace bantam::inline v0
