// Extents of tensors, outermost first, and the arithmetic on them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

template <int Rank>
using Shape = std::array<std::int64_t, static_cast<std::size_t>(Rank)>;

/// "(8, 1024)"
[[nodiscard]] inline std::string to_string(std::span<const std::int64_t> shape) { return "(" + with_commas(shape) + ")"; }

[[nodiscard]] constexpr std::int64_t element_count(std::span<const std::int64_t> shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// The same for extents from outside. Throws invalid_argument when one is negative or the product of those that are not
/// zero overflows, for strides are made of them.
[[nodiscard]] inline std::int64_t checked_element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(count, extent, &count))) {
      fail(Errc::invalid_argument, "shape ", to_string(shape), ": expected extents that are not negative and fit memory");
    }
  }
  return empty ? 0 : count;
}

template <std::size_t Rank>
[[nodiscard]] constexpr std::array<std::int64_t, Rank> row_major_strides(const std::array<std::int64_t, Rank>& shape) noexcept {
  std::array<std::int64_t, Rank> strides{};
  std::int64_t step = 1;
  for (std::size_t i = Rank; i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

/// All but the outermost extent.
template <std::size_t Rank>
[[nodiscard]] constexpr std::array<std::int64_t, Rank - 1> tail(const std::array<std::int64_t, Rank>& shape) noexcept {
  std::array<std::int64_t, Rank - 1> rest{};
  for (std::size_t i = 1; i < Rank; ++i) rest[i - 1] = shape[i];
  return rest;
}

}  // namespace bantam::inline v0
