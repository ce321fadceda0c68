// The primitives in plain C++: they run anywhere and define what the others must compute.
#pragma once

#include <type_traits>

#include "bantam/simd/dot.hpp"
#include "bantam/simd/sparse.hpp"
#include "bantam/simd/trellis.hpp"

namespace bantam::inline v0::simd {

template <>
struct dot<generic> {
  /// Tile of at most one strip by four tokens.
  static constexpr int strips = 1;
  static constexpr int tokens = fewer_when_checked(4);
  static constexpr int float_tokens = tokens;
  static constexpr int byte_bias = 0;
  static constexpr int codebook_bias = 0;

  template <class Plane, int Columns, int NR, int MR>
  static void accumulate(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x, std::ptrdiff_t x_stride,
                         int first, const std::int8_t* lut, IntStrip<generic> (&c)[NR][MR]) {
    for (int r = 0; r < NR; ++r) {
      for (int i = 0; i < Columns; ++i) {
        for (int n = 0; n < 16; ++n) {
          int code = 0;
          if constexpr (is_trellis<Plane>) code = weight_at(Plane{}, unit + r * plane_stride, n, i, first != 0);
          else code = code_at(Plane{}, unit + r * plane_stride, n * 4 + i % 4, first + i / 4, lut);
          for (int m = 0; m < MR; ++m) c[r][m].part[n] += code * x[m * x_stride + i];
        }
      }
    }
  }

  template <int MR>
  static void accumulate_blocks(const std::uint8_t* unit, const std::int8_t* x, std::ptrdiff_t x_stride, std::uint32_t kept,
                                IntStrip<generic> (&c)[MR]) {
    for (int place = 0; place < kept_blocks; ++place) {
      const std::int8_t* of_block = x + next_block(kept) * 4;
      for (int i = 0; i < 64; ++i) {
        const int code = (unit[place / 2 * 64 + i] >> place % 2 * 4 & 15) - 8;
        for (int m = 0; m < MR; ++m) c[m].part[i / 4] += code * of_block[m * x_stride + i % 4];
      }
    }
  }

 private:
  template <int StepBits>
  static BANTAM_INLINE int weight_at(Trellis<StepBits>, const std::uint8_t* unit, int n, int column, bool follows) {
    return trellis_weight(trellis_state<StepBits>(unit, n, column, follows), column % 2);
  }
  template <int Bits>
  static BANTAM_INLINE int code_at(TwoOfFour<Bits>, const std::uint8_t* unit, int byte, int four, const std::int8_t*) {
    const int number = unit[byte / 4 * 4 + four / 2] >> four % 2 * 4;
    const unsigned control = pair_control(static_cast<std::uint32_t>(number), byte % 4);
    const int code = control == nothing ? 0 : unit[64 + four / (16 / Bits) * 64 + byte / 4 * 4 + four % 2 * 2 + static_cast<int>(control)];
    return Bits == 8 ? static_cast<std::int8_t>(code) : ((code >> four / 2 % 2 * 4 & 15) ^ 8) - 8;
  }
  static BANTAM_INLINE int code_at(Bytes, const std::uint8_t* unit, int byte, int four, const std::int8_t*) {
    return static_cast<std::int8_t>(unit[four * 64 + byte]);
  }
  static BANTAM_INLINE int code_at(Codebook, const std::uint8_t* unit, int byte, int four, const std::int8_t* lut) {
    return lut[code_at(Codes<4>{}, unit, byte, four, lut)];
  }
  template <int Bits>
  static BANTAM_INLINE int code_at(Codes<Bits>, const std::uint8_t* unit, int byte, int four, const std::int8_t*) {
    int code = 0;
    if constexpr ((Bits & 4) != 0) code = unit[four / 2 * 64 + byte] >> four % 2 * 4 & 15;
    if constexpr ((Bits & 2) != 0) code |= (unit[((Bits & 4) + four / 4) * 64 + byte] >> four % 4 * 2 & 3) << (Bits & 4);
    if constexpr ((Bits & 1) != 0) code |= (unit[(Bits & 6) * 64 + byte] >> four & 1) << (Bits & 6);
    return code;
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
