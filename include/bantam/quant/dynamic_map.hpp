// The 8-bit dynamic data type that double quantization stores scales in.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace bantam::inline v0 {

/// The 256 values of the signed dynamic map, ascending: seven decades, the number of steps doubling with each, so that
/// small and large scales keep the same relative precision (Dettmers, arXiv:1511.04561; the construction of
/// bitsandbytes: means of neighbors of linspace(0.1, 1, 2^i + 1) times 10^(i - 6), both signs, 0 and 1).
[[nodiscard]] constexpr std::array<float, 256> make_dynamic_map() noexcept {
  std::array<float, 256> positive{};
  int count = 0;
  double decade = 1e-6;
  for (int i = 0; i < 7; ++i, decade *= 10) {
    const int steps = 1 << i;
    for (int k = 0; k < steps; ++k) {
      const double low = 0.1 + 0.9 * k / steps;
      const double high = 0.1 + 0.9 * (k + 1) / steps;
      positive[static_cast<std::size_t>(count++)] = static_cast<float>((low + high) / 2 * decade);
    }
  }
  // 127 positive values, as many negative ones, zero and one.
  std::array<float, 256> map{};
  for (int i = 0; i < 127; ++i) {
    map[static_cast<std::size_t>(126 - i)] = -positive[static_cast<std::size_t>(i)];
    map[static_cast<std::size_t>(128 + i)] = positive[static_cast<std::size_t>(i)];
  }
  map[127] = 0.0f;
  map[255] = 1.0f;
  return map;
}

inline constexpr std::array<float, 256> dynamic_map = make_dynamic_map();

/// The index of the nearest value; ties go down.
[[nodiscard]] constexpr std::uint8_t dynamic_map_index(float x) noexcept {
  int low = 0;
  int high = 255;
  while (low < high) {
    const int middle = (low + high) / 2;
    const float midpoint = (dynamic_map[static_cast<std::size_t>(middle)] + dynamic_map[static_cast<std::size_t>(middle + 1)]) / 2;
    if (x > midpoint) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return static_cast<std::uint8_t>(low);
}

}  // namespace bantam::inline v0
