// Metrics of a few columns whose inputs are alike, in double precision beside the library's.
#pragma once

#include <array>
#include <vector>

#include "bantam/quant/vector_metric.hpp"
#include "compress/layer_inputs.hpp"

namespace bantam::test {

inline constexpr std::size_t most_columns = VectorMetric::most_columns;
using Metric = std::array<std::array<double, most_columns>, most_columns>;

/// Inputs of neighbors are alike.
inline Metric some_metric(int columns, std::uint64_t seed) {
  const auto x = correlated_inputs(24, columns, seed);
  Metric m{};
  for (int i = 0; i < columns; ++i) {
    for (int j = 0; j < columns; ++j) {
      for (std::int64_t t = 0; t < 24; ++t) m[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] += static_cast<double>(x(t, i)) * static_cast<double>(x(t, j)) / 24;
    }
    m[static_cast<std::size_t>(i)][static_cast<std::size_t>(i)] += 0.05;
  }
  return m;
}

inline VectorMetric packed(const Metric& metric, int n) {
  std::vector<double> moments;
  for (int i = 0; i < n; ++i) moments.insert(moments.end(), metric[static_cast<std::size_t>(i)].begin(), metric[static_cast<std::size_t>(i)].begin() + n);
  return metric_of_moments(moments, n);
}

/// eT M e.
inline double cost(const Metric& metric, const double* error, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) sum += error[i] * metric[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] * error[j];
  }
  return sum;
}

}  // namespace bantam::test
