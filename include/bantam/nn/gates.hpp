// Gates of single numbers, as routers and recurrences have them. Rows of them have kernels.
#pragma once

#include <algorithm>
#include <cmath>

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

}  // namespace bantam::inline v0::nn
