// Rounding to nearest as other projects' formats prescribe it, group by group.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/half.hpp"

namespace bantam::reference {

/// One rounded group: codes, and the f16 patterns that stand beside them.
struct RoundedGroup {
  std::vector<int> codes;
  std::uint16_t scale_bits = 0;
  std::uint16_t min_bits = 0;
};

/// GGUF's q4_0. d = (the value of largest magnitude, with its sign) / -8, q = floor(x / d + 8.5) up to 15. Rounded in
/// single precision, multiplying by 1 / d, with d before it is cut to f16: that is what makes other tools' bytes.
inline RoundedGroup q4_0(std::span<const float> x) {
  RoundedGroup group;
  float signed_largest = 0.0f;
  float largest = 0.0f;
  for (const float v : x) {
    if (std::fabs(v) > largest) {
      largest = std::fabs(v);
      signed_largest = v;
    }
  }
  const float d = signed_largest / -8;
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  for (const float v : x) {
    const float shifted = v * inverse + 8.5f;
    group.codes.push_back(std::min(15, static_cast<int>(std::floor(shifted))));
  }
  group.scale_bits = encode_half(static_cast<double>(d), 5);
  return group;
}

/// GGUF's q4_1. m = min, d = (max - min) / 15, q = floor((x - m) / d + 0.5) up to 15.
inline RoundedGroup q4_1(std::span<const float> x) {
  RoundedGroup group;
  float low = x[0];
  float high = x[0];
  for (const float v : x) {
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  const float d = (high - low) / 15;
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  for (const float v : x) {
    const float offset = (v - low) * inverse;
    group.codes.push_back(std::min(15, static_cast<int>(std::floor(offset + 0.5f))));
  }
  group.scale_bits = encode_half(static_cast<double>(d), 5);
  group.min_bits = encode_half(static_cast<double>(low), 5);
  return group;
}

/// GGUF's q8_0. d = max|x| / 127, q = x / d rounded half away from zero.
inline RoundedGroup q8_0(std::span<const float> x) {
  RoundedGroup group;
  float largest = 0.0f;
  for (const float v : x) largest = std::max(largest, std::fabs(v));
  const float d = largest / 127;
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  for (const float v : x) {
    const float scaled = v * inverse;
    group.codes.push_back(static_cast<int>(scaled < 0 ? std::ceil(scaled - 0.5f) : std::floor(scaled + 0.5f)));
  }
  group.scale_bits = encode_half(static_cast<double>(d), 5);
  return group;
}

/// The asymmetric grid of GPTQ (arXiv:2210.17323, the authors' quant.py) for 4 bits: it spans the minimum, the maximum
/// and 0; scale = (max - min) / 15, zero = round(-min / scale), q = clamp(round(x / scale) + zero), all half to even.
/// Here the scale is the f16 that checkpoints store.
struct GptqGroup {
  std::vector<int> codes;
  double scale = 0;
  int zero = 0;
};
inline GptqGroup gptq_grid(std::span<const float> x) {
  GptqGroup group;
  float low = 0.0f;
  float high = 0.0f;
  for (const float v : x) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  group.scale = round_to_f16(static_cast<double>((high - low) / 15));
  if (group.scale == 0) return group;  // all zeros, or next to it: there is no grid
  group.zero = static_cast<int>(std::nearbyint(-low / static_cast<float>(group.scale)));
  for (const float v : x) {
    const int q = static_cast<int>(std::nearbyint(v / static_cast<float>(group.scale))) + group.zero;
    group.codes.push_back(std::clamp(q, 0, 15));
  }
  return group;
}

/// Plain absmax rounding to integers -largest_code .. largest_code.
inline std::vector<double> absmax(std::span<const float> x, int largest_code) {
  double largest = 0;
  for (const double v : x) largest = std::max(largest, std::fabs(v));
  std::vector<double> rounded;
  for (const double v : x) {
    const double step = largest / largest_code;
    rounded.push_back(step > 0 ? std::nearbyint(v / step) * step : 0.0);
  }
  return rounded;
}

}  // namespace bantam::reference
