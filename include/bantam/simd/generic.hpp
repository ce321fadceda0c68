// The primitives in plain C++: they run anywhere and define what the others must compute.
#pragma once

#include <type_traits>

#include "bantam/simd/dot.hpp"

namespace bantam::inline v0::simd {

template <>
struct dot<generic> {
  /// Tile of at most one strip by four tokens.
  static constexpr int strips = 1;
  static constexpr int tokens = 4;
  static constexpr int byte_bias = 0;
  static constexpr int codebook_bias = 0;

  template <class Plane, int NR, int MR>
  static void accumulate(const std::uint8_t* planes, std::ptrdiff_t plane_stride, const std::int8_t* x,
                         std::ptrdiff_t x_stride, int k, const std::int8_t* lut, IntStrip<generic> (&c)[NR][MR]) {
    for (int r = 0; r < NR; ++r) {
      const std::uint8_t* plane = planes + r * plane_stride;
      for (int column = 0; column < k; ++column) {
        for (int n = 0; n < 16; ++n) {
          int code;
          if constexpr (std::is_same_v<Plane, Bytes>) {
            code = static_cast<std::int8_t>(plane[column / 4 * 64 + n * 4 + column % 4]);
          } else {
            code = (plane[column / 8 * 64 + n * 4 + column % 4] >> (column & 4)) & 15;
            if constexpr (std::is_same_v<Plane, Codebook>) code = lut[code];
          }
          for (int m = 0; m < MR; ++m) c[r][m].part[n] += code * x[m * x_stride + column];
        }
      }
    }
  }
};

template <>
struct half_strip<generic> {
  static Strip<generic> load(const std::uint16_t* p) {
    Strip<generic> strip;
    for (int i = 0; i < 16; ++i) strip.part[i] = decode(p[i]);
    return strip;
  }
  static void store(std::uint16_t* p, const float* x) {
    for (int i = 0; i < 16; ++i) p[i] = encode(x[i]);
  }
  static std::uint16_t encode(float x) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((size >> 13) & 0x3ffu));
    if (size >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (size < 0x38800000u) {
      // Adding 0.5 aligns the last bit with 2^-24, so the addition itself rounds to even.
      const float shifted = __builtin_bit_cast(float, size) + 0.5f;
      return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u));
    }
    return static_cast<std::uint16_t>(sign | ((size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13));
  }
  static float decode(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000u) << 16;
    const std::uint32_t exponent = (half >> 10) & 31u;
    const std::uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) {
      const float value = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    const std::uint32_t high = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23;
    return __builtin_bit_cast(float, sign | high | (fraction << 13));
  }
};

}  // namespace bantam::inline v0::simd
