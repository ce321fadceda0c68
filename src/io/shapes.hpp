// Sizes of shapes that come from files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace bantam::inline v0::detail {

struct ElementCount {
  std::int64_t whole = 1;  ///< every dimension of 0 counted as 1
  bool empty = false;

  [[nodiscard]] std::int64_t value() const noexcept { return empty ? 0 : whole; }
};

/// How many elements a shape of non-negative dimensions has; nothing when they are 2^63 or more. A zero does not hide
/// the overflow of its neighbors: strides are products of them all the same.
[[nodiscard]] inline std::optional<ElementCount> count_elements(std::span<const std::int64_t> shape) noexcept {
  ElementCount count;
  for (const std::int64_t dimension : shape) {
    count.empty = count.empty || dimension == 0;
    if (__builtin_mul_overflow(count.whole, std::max<std::int64_t>(dimension, 1), &count.whole)) return std::nullopt;
  }
  return count;
}

}  // namespace bantam::inline v0::detail
