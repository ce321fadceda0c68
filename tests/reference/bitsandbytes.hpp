// NF4 and FP4 of bitsandbytes, plain and double quantized, by exhaustive search of the nearest level.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace bantam::reference {

/// QLoRA (arXiv:2305.14314), appendix E.
inline constexpr std::array<double, 16> nf4_levels{
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0};

/// One sign, two exponent and one mantissa bit, in units of the largest, 12.
inline constexpr std::array<double, 16> fp4_levels{
    0.0, 0.0625 / 12, 8.0 / 12, 12.0 / 12, 4.0 / 12, 6.0 / 12, 2.0 / 12, 3.0 / 12,
    -0.0, -0.0625 / 12, -8.0 / 12, -12.0 / 12, -4.0 / 12, -6.0 / 12, -2.0 / 12, -3.0 / 12};

/// The level nearest to x in [-1, 1]; of two equally near ones the lower.
inline double nearest_level(double x, const std::array<double, 16>& levels) {
  double best = 2;
  for (const double level : levels) {
    const double a = std::fabs(level - x);
    const double b = std::fabs(best - x);
    if (a < b || (a == b && level < best)) best = level;
  }
  return best;
}

/// Blocks of 64 under their largest magnitude, which is kept in single precision.
inline std::vector<double> round_blocks(std::span<const float> x, const std::array<double, 16>& levels) {
  std::vector<double> out;
  for (std::size_t first = 0; first < x.size(); first += 64) {
    const auto block = x.subspan(first, std::min<std::size_t>(64, x.size() - first));
    double largest = 0;
    for (const double v : block) largest = std::max(largest, std::fabs(v));
    for (const double v : block) out.push_back(largest > 0 ? nearest_level(v / largest, levels) * largest : 0.0);
  }
  return out;
}

/// create_dynamic_map(signed, 7 exponent bits, 8 bits in all): for i = 0 .. 6 the means of neighbors in
/// linspace(0.1, 1, 2^i + 1), times 10^(i - 6), both signs; 0; 1. Sorted.
inline std::vector<double> dynamic_map() {
  std::vector<double> map{0.0, 1.0};
  for (int i = 0; i < 7; ++i) {
    const int steps = 1 << i;
    for (int k = 0; k < steps; ++k) {
      const double a = 0.1 + (1.0 - 0.1) * k / steps;
      const double b = 0.1 + (1.0 - 0.1) * (k + 1) / steps;
      for (const double sign : {-1.0, 1.0}) map.push_back(sign * (a + b) / 2 * std::pow(10.0, i - 6));
    }
  }
  std::sort(map.begin(), map.end());
  return map;
}

/// Scales quantized again: their mean is taken off, the rest divided by its largest magnitude and put on the map.
inline std::vector<double> double_quantize(const std::vector<double>& scales) {
  const std::vector<double> map = dynamic_map();
  double mean = 0;
  for (const double s : scales) mean += s / static_cast<double>(scales.size());
  double largest = 0;
  for (const double s : scales) largest = std::max(largest, std::fabs(s - mean));
  std::vector<double> out;
  for (const double s : scales) {
    const double x = largest > 0 ? (s - mean) / largest : 0.0;
    double best = map[0];
    for (const double level : map) {
      if (std::fabs(level - x) < std::fabs(best - x)) best = level;
    }
    out.push_back(best * largest + mean);
  }
  return out;
}

}  // namespace bantam::reference
