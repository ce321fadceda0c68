// Sums over a row, in so many partial sums that compilers add them up side by side.
#pragma once

#include <cstdint>

namespace bantam::inline v0::nn {

/// f(0) + ... + f(n - 1), in 32 partial sums: the same order on every machine.
template <class F>
[[nodiscard]] float sum_of(std::int64_t n, F&& f) noexcept {
  constexpr std::int64_t lanes = 32;
  float sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  }
  float sum = 0;
  for (; i < n; ++i) sum += f(i);
  for (const float lane : sums) sum += lane;
  return sum;
}

/// x . y, of n numbers each.
[[nodiscard]] inline float inner_product(const float* x, const float* y, std::int64_t n) noexcept {
  return sum_of(n, [&](std::int64_t i) { return x[i] * y[i]; });
}

}  // namespace bantam::inline v0::nn
