// Tensors of random numbers, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "bantam/core/half.hpp"
#include "bantam/core/random.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0::random {

struct NormalOptions {
  double mean = 0;
  double deviation = 1;
};

struct UniformOptions {
  double low = 0;
  double high = 1;
};

namespace detail {

template <class T, std::size_t Rank, class Draw>
[[nodiscard]] Tensor<T, static_cast<int>(Rank)> fill(const std::int64_t (&shape)[Rank], Draw&& draw) {
  Shape<static_cast<int>(Rank)> extents{};
  std::copy(shape, shape + Rank, extents.begin());
  Tensor<T, static_cast<int>(Rank)> tensor(extents);
  for (T& x : tensor.span()) {
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      x = T(static_cast<float>(draw()));
    } else {
      x = static_cast<T>(draw());
    }
  }
  return tensor;
}

}  // namespace detail

/// Normal numbers of a seed, in row-major order: normal<float>({8, 1024}, 1). The same seed gives the same elements on
/// every machine. Throws as Tensor does.
template <class T, std::size_t Rank>
[[nodiscard]] Tensor<T, static_cast<int>(Rank)> normal(const std::int64_t (&shape)[Rank], std::uint64_t seed,
                                                       const NormalOptions& options = {}) {
  Random random(seed);
  return detail::fill<T>(shape, [&] { return std::fma(random.normal(), options.deviation, options.mean); });
}

/// Uniform numbers from low to high; high itself only where rounding to T makes it.
template <class T, std::size_t Rank>
[[nodiscard]] Tensor<T, static_cast<int>(Rank)> uniform(const std::int64_t (&shape)[Rank], std::uint64_t seed,
                                                        const UniformOptions& options = {}) {
  Random random(seed);
  return detail::fill<T>(shape, [&] { return std::fma(random.uniform(), options.high - options.low, options.low); });
}

}  // namespace bantam::inline v0::random
