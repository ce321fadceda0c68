// The primitives on 64-bit ARM, with and without the int8 dot product.
#pragma once

#include <arm_neon.h>

#include <type_traits>

#include "bantam/simd/generic.hpp"
#include "bantam/simd/levels.hpp"
#include "bantam/simd/sparse.hpp"
#include "bantam/simd/trellis.hpp"

namespace bantam::inline v0::simd {

/// Shared by both ARM tables; `A` decides how four products become one sum.
template <class A>
struct neon_dot {
  /// A strip is four registers: 1 x 4 takes 16 of 32 for sums.
  static constexpr int strips = 1;
  static constexpr int tokens = 4;
  static constexpr int float_tokens = tokens;
  static constexpr int byte_bias = 0;
  static constexpr int codebook_bias = 0;

  static BANTAM_INLINE int8x16_t broadcast(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  static BANTAM_INLINE int32x4_t dp(int32x4_t c, int8x16_t w, int8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(c, w, b);
#else
    // 128 * 127 * 2 fits int16 pairs only after the first widening: each product alone does.
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(b)));
    const int32x4_t high = vpaddlq_s16(vmull_s8(vget_high_s8(w), vget_high_s8(b)));
    return vaddq_s32(c, vpaddq_s32(low, high));
#endif
  }

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void accumulate(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                       std::ptrdiff_t x_stride, int first, const std::int8_t* lut, IntStrip<A> (&c)[NR][MR]) {
    [[maybe_unused]] int8x16_t table = vdupq_n_s8(0);
    if constexpr (std::is_same_v<Plane, Codebook>) table = vld1q_s8(lut);
    BANTAM_UNROLL for (int i = 0; i < Columns / 4; ++i) {
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        BANTAM_UNROLL for (int part = 0; part < 4; ++part) {
          const std::uint8_t* p = unit + r * plane_stride + part * 16;
          int8x16_t w;
          if constexpr (std::is_same_v<Plane, Bytes>) {
            w = vreinterpretq_s8_u8(vld1q_u8(p + i * 64));
          } else if constexpr (is_trellis<Plane>) {
            w = weights(Plane{}, p, first != 0, i);
          } else if constexpr (std::is_same_v<Plane, Codebook>) {
            w = vqtbl1q_s8(table, four(Codes<4>{}, p, first, i));
          } else {
            w = vreinterpretq_s8_u8(four(Plane{}, p, first, i));
          }
          BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
            c[r][m].part[part] = dp(c[r][m].part[part], w, broadcast(x + m * x_stride + i * 4));
          }
        }
      }
    }
  }

  template <int MR>
  static BANTAM_INLINE void accumulate_blocks(const std::uint8_t* unit, const std::int8_t* x, std::ptrdiff_t x_stride, std::uint32_t kept,
                                              IntStrip<A> (&c)[MR]) {
    for (int place = 0; place < kept_blocks; ++place) {
      const std::int8_t* of_block = x + next_block(kept) * 4;
      BANTAM_UNROLL for (int part = 0; part < 4; ++part) {
        const uint8x16_t q = vld1q_u8(unit + place / 2 * 64 + part * 16);
        const uint8x16_t code = place % 2 == 0 ? vandq_u8(q, vdupq_n_u8(15)) : vshrq_n_u8(q, 4);
        const int8x16_t w = vsubq_s8(vreinterpretq_s8_u8(code), vdupq_n_s8(8));
        BANTAM_UNROLL for (int m = 0; m < MR; ++m) c[m].part[part] = dp(c[m].part[part], w, broadcast(of_block + m * x_stride));
      }
    }
  }

 private:
  /// Four columns' weights of one part, of the states in step `i` of both halves of a unit.
  template <int StepBits>
  static BANTAM_INLINE int8x16_t weights(Trellis<StepBits>, const std::uint8_t* part, bool follows, int i) {
    using Unit = TrellisUnit<StepBits>;
    const auto load = [](const std::uint8_t* p) __attribute__((always_inline)) { return vreinterpretq_u32_u8(vld1q_u8(p)); };
    const int line = Unit::piece_of(i), shift = Unit::shift_of(i);
    uint32x4_t before = vdupq_n_u32(0);
    if (line != 0) {
      before = load(part + (line - 1) * 64);
    } else {
      before = vshlq_n_u32(load(part + (Unit::lines - 1) * 64), 16);
      if (follows) before = vorrq_u32(before, vshrq_n_u32(load(part - 64), 16));
    }
    const uint16x8_t now = vreinterpretq_u16_u32(load(part + line * 64));
    // Shifts by 16 leave nothing.
    const uint16x8_t state = vorrq_u16(vshlq_u16(now, vdupq_n_s16(static_cast<std::int16_t>(-shift))),
                                       vshlq_u16(vreinterpretq_u16_u32(before), vdupq_n_s16(static_cast<std::int16_t>(16 - shift))));
    const uint16x8_t first = vshrq_n_u16(vmulq_n_u16(state, static_cast<std::uint16_t>(trellis_factor[0])), 9);
    const uint16x8_t second = vandq_u16(vmulq_n_u16(state, static_cast<std::uint16_t>(trellis_factor[1])), vdupq_n_u16(0x7f00));
    const uint16x8_t bits = vorrq_u16(first, second);
    const uint8x16_t level = vandq_u8(vreinterpretq_u8_u16(bits), vdupq_n_u8(15));
    const uint8x16_t offset = vandq_u8(vreinterpretq_u8_u16(vshrq_n_u16(bits, 4)), vdupq_n_u8(7));
    return vaddq_s8(vqtbl1q_s8(vld1q_s8(trellis_level), level), vqtbl1q_s8(vld1q_s8(trellis_offset), offset));
  }
  /// Where two of four are kept: their numbers become the bytes of pair_controls, which pick the codes.
  template <int Bits>
  static BANTAM_INLINE uint8x16_t four(TwoOfFour<Bits>, const std::uint8_t* part, int, int i) {
    const auto shifted = [](uint8x16_t q, int n) __attribute__((always_inline)) {
      return vandq_u32(vshlq_u32(vreinterpretq_u32_u8(q), vdupq_n_s32(-n)), vdupq_n_u32(7));
    };
    const uint32x4_t number = shifted(vld1q_u8(part), i * 4);
    const uint8x16_t index = vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), number, 0x04040404));
    const auto* controls = reinterpret_cast<const std::uint8_t*>(pair_controls);
    const uint8x16_t place = vreinterpretq_u8_s8(vld1q_s8(pair_places[i % 2]));
    const uint8x16_t control = vorrq_u8(vqtbl2q_u8(uint8x16x2_t{{vld1q_u8(controls), vld1q_u8(controls + 16)}}, index), place);
    uint8x16_t code = vld1q_u8(part + 64 + i / (16 / Bits) * 64);
    if constexpr (Bits == 8) return vqtbl1q_u8(code, control);
    if (i / 2 % 2 == 0) code = vshlq_n_u8(code, 4);
    return vqtbl1q_u8(vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(code), 4)), control);
  }
  /// One part of the codes of four number `i` from `first` on.
  template <int Bits>
  static BANTAM_INLINE uint8x16_t four(Codes<Bits>, const std::uint8_t* part, int first, int i) {
    const auto move = [](uint8x16_t q, int from, int to, int mask) __attribute__((always_inline)) {
      q = vshlq_u8(q, vdupq_n_s8(static_cast<std::int8_t>(to - from)));
      return vandq_u8(q, vdupq_n_u8(static_cast<std::uint8_t>(mask << to)));
    };
    uint8x16_t code = vdupq_n_u8(0);
    if constexpr ((Bits & 4) != 0) code = move(vld1q_u8(part + (first / 2 + i / 2) * 64), i % 2 * 4, 0, 15);
    if constexpr ((Bits & 2) != 0) {
      code = vorrq_u8(code, move(vld1q_u8(part + ((Bits & 4) + first / 4 + i / 4) * 64), i % 4 * 2, Bits & 4, 3));
    }
    if constexpr ((Bits & 1) != 0) code = vorrq_u8(code, move(vld1q_u8(part + (Bits & 6) * 64), first + i, Bits & 6, 1));
    return code;
  }
};

template <class A>
struct neon_half {
  static BANTAM_INLINE Strip<A> load(const std::uint16_t* p) {
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) {
      strip.part[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    }
    return strip;
  }
  static BANTAM_INLINE void store(std::uint16_t* p, const float* x) {
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) {
      vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + 4 * i))));
    }
  }
};

template <class A, int Bits>
struct neon_levels {
  static BANTAM_INLINE IntStrip<A> load_words(const std::uint16_t* p) {
    IntStrip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) strip.part[i] = vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p + 4 * i)));
    return strip;
  }
  template <int Shift>
  static BANTAM_INLINE Strip<A> of_words(const IntStrip<A>& words) {
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) strip.part[i] = look_up(vshlq_n_u32(vreinterpretq_u32_s32(words.part[i]), 24 - Shift));
    return strip;
  }
  static BANTAM_INLINE Strip<A> of_row(const std::uint8_t* p) {
    std::uint64_t row;
    __builtin_memcpy(&row, p, 8);
    const uint8x16_t rows = vreinterpretq_u8_u64(vdupq_n_u64(row));
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 4; ++i) {
      const uint32x4_t bytes = vreinterpretq_u32_u8(vqtbl1q_u8(rows, vld1q_u8(row_places<Bits>.bytes + 16 * i)));
      const int32x4_t left = vsubq_s32(vdupq_n_s32(24), vreinterpretq_s32_u32(vld1q_u32(row_places<Bits>.shifts + 4 * i)));
      strip.part[i] = look_up(vshlq_u32(bytes, left));
    }
    return strip;
  }

 private:
  /// Of codes in the low bits of the highest byte of each lane. There the level goes as well, and a conversion takes it down.
  static BANTAM_INLINE float32x4_t look_up(uint32x4_t codes) {
    const uint32x4_t nowhere = vdupq_n_u32(0x00ffffff);
    const uint32x4_t index = vbslq_u32(vdupq_n_u32(0x0f000000), codes, nowhere);
    return vcvtq_n_f32_s32(vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(level_table<Bits>.bytes), vreinterpretq_u8_u32(index))), 24);
  }
};

#if defined(__ARM_FEATURE_DOTPROD)
template <>
struct dot<dotprod> : neon_dot<dotprod> {};
template <>
struct half_strip<dotprod> : neon_half<dotprod> {};
template <int Bits>
struct level_strip<dotprod, Bits> : neon_levels<dotprod, Bits> {};
#else
template <>
struct dot<neon> : neon_dot<neon> {};
template <>
struct half_strip<neon> : neon_half<neon> {};
template <int Bits>
struct level_strip<neon, Bits> : neon_levels<neon, Bits> {};
#endif

}  // namespace bantam::inline v0::simd
