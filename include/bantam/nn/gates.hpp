// Gates of single numbers, as routers and recurrences have them, and one of a row. Other rows of them have kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

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
  constexpr int lanes = 32;  // so many sums, which compilers add up side by side
  const auto mean_of = [&](auto&& f) {
    float sums[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (int lane = 0; lane < lanes; ++lane) sums[lane] += f(x[i + lane]);
    }
    float sum = 0;
    for (; i < n; ++i) sum += f(x[i]);
    for (const float lane : sums) sum += lane;
    return sum / static_cast<float>(n);
  };
  const float mean = mean_of([](float v) { return v; });
  const float deviation = std::sqrt(mean_of([&](float v) { return (v - mean) * (v - mean); })), least = mean + cutoff * deviation;
  for (std::int64_t i = 0; i < n; ++i) x[i] = std::max(0.0F, x[i] - least);
}

}  // namespace bantam::inline v0::nn
