// An order in which neighbors are far apart.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace bantam::inline v0 {

/// The numbers below `count`, each once, neighbors far apart: multiples, modulo count, of the least number from 5/8 of it on that has no divisor in
/// common with it. What repeats every few numbers, as the matrices of layers do, comes in turn, too. count: at least 1.
[[nodiscard]] inline std::vector<std::int64_t> far_apart(std::int64_t count) {
  std::int64_t stride = count * 5 / 8;
  while (std::gcd(stride, count) != 1) ++stride;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = i * stride % count;
  return numbers;
}

}  // namespace bantam::inline v0
