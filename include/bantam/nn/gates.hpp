// Gates of single numbers, as routers and recurrences have them, and one of a row. Other rows of them have kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bantam/nn/row_sums.hpp"

namespace bantam::inline v0::nn {

/// 1 / (1 + e^-x).
template <class T>
[[nodiscard]] T sigmoid(T x) noexcept {
  return 1 / (1 + std::exp(-x));
}

/// log(1 + e^x), also where e^x is more than T holds.
template <class T>
[[nodiscard]] T softplus(T x) noexcept {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::fabs(x)));
}

/// x = max(0, x - (mean + cutoff deviation)) of n numbers, the deviation over all n. In place.
inline void cut_below(float* x, std::int64_t n, float cutoff) noexcept {
  const auto count = static_cast<float>(n);
  const float mean = sum_of(n, [&](std::int64_t i) { return x[i]; }) / count;
  const float variance = sum_of(n, [&](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
  const float least = mean + cutoff * std::sqrt(variance);
  for (std::int64_t i = 0; i < n; ++i) x[i] = std::max(0.0F, x[i] - least);
}

}  // namespace bantam::inline v0::nn
