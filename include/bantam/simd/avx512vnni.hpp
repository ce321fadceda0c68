// The primitives on AVX-512 with VNNI.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "bantam/simd/generic.hpp"

namespace bantam::inline v0::simd {

template <>
struct dot<avx512vnni> {
  /// 2 x 6 int32 and 2 x 6 float accumulators, 4 registers of codes and a broadcast fill the 32 registers.
  static constexpr int strips = 2;
  static constexpr int tokens = 6;
  static constexpr int byte_bias = 128;
  static constexpr int codebook_bias = 128;

  /// c += unsigned bytes of u times signed bytes of s, by fours. In assembly because gcc 12.2 copies the accumulators
  /// of the intrinsic around and spills 55 to 149 registers in a full tile; clang needs no help.
  static BANTAM_INLINE void dp(__m512i& c, __m512i u, __m512i s) {
#if defined(__clang__)
    c = _mm512_dpbusd_epi32(c, u, s);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(u), "v"(s));
#endif
  }
  static BANTAM_INLINE __m512i broadcast(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
  }

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void accumulate(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                       std::ptrdiff_t x_stride, [[maybe_unused]] int first, const std::int8_t* lut,
                                       IntStrip<avx512vnni> (&c)[NR][MR]) {
    __m512i even[NR][MR];
    __m512i odd[NR][MR];  // a second chain for a single token: the latency of one product is four cycles
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        even[r][m] = c[r][m].part[0];
        odd[r][m] = _mm512_setzero_si512();
      }
    }
    [[maybe_unused]] __m512i table = even[0][0];
    if constexpr (std::is_same_v<Plane, Codebook>) {
      table = _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lut))), sign());
    }
    if constexpr (std::is_same_v<Plane, Bytes> || std::is_same_v<Plane, Codebook> || std::is_same_v<Plane, Codes<4>>) {
      static_assert(Columns == 32);
      // Pointers that move, no index: general registers that overflow are spilled into vector registers, which spill then.
      constexpr int line_bytes = std::is_same_v<Plane, Bytes> ? 128 : 64;
      const std::int8_t* const end = x + 32;
#pragma GCC unroll 1
      for (; x != end; x += 8, unit += line_bytes) {
        __m512i w0[NR];
        __m512i w1[NR];
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          const __m512i q = _mm512_loadu_si512(unit + r * plane_stride);
          if constexpr (std::is_same_v<Plane, Bytes>) {
            w0[r] = _mm512_xor_si512(q, sign());
            w1[r] = _mm512_xor_si512(_mm512_loadu_si512(unit + r * plane_stride + 64), sign());
          } else {
            w0[r] = _mm512_and_si512(q, _mm512_set1_epi8(15));
            w1[r] = _mm512_and_si512(_mm512_srli_epi16(q, 4), _mm512_set1_epi8(15));
            if constexpr (std::is_same_v<Plane, Codebook>) {
              w0[r] = _mm512_shuffle_epi8(table, w0[r]);
              w1[r] = _mm512_shuffle_epi8(table, w1[r]);
            }
          }
        }
        multiply(w0, w1, x, x_stride, even, odd);
      }
    } else {
      BANTAM_UNROLL for (int i = 0; i < Columns / 4; i += 2) {
        __m512i w0[NR];
        __m512i w1[NR];
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          w0[r] = four(Plane{}, unit + r * plane_stride, first, i);
          w1[r] = four(Plane{}, unit + r * plane_stride, first, i + 1);
        }
        multiply(w0, w1, x + i * 4, x_stride, even, odd);
      }
    }
    BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        c[r][m].part[0] = MR == 1 ? _mm512_add_epi32(even[r][m], odd[r][m]) : even[r][m];
      }
    }
  }

 private:
  static BANTAM_INLINE __m512i sign() { return _mm512_set1_epi8(static_cast<char>(0x80)); }

  /// Eight columns of every strip and token.
  template <int NR, int MR>
  static BANTAM_INLINE void multiply(const __m512i (&w0)[NR], const __m512i (&w1)[NR], const std::int8_t* x, std::ptrdiff_t x_stride,
                                     __m512i (&even)[NR][MR], __m512i (&odd)[NR][MR]) {
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      const __m512i b = broadcast(x + m * x_stride);
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) dp(even[r][m], w0[r], b);
    }
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      const __m512i b = broadcast(x + m * x_stride + 4);
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) dp(MR == 1 ? odd[r][m] : even[r][m], w1[r], b);
    }
  }

  /// The codes of four number `i` from `first` on; i is a constant once loops are unrolled.
  template <int Bits>
  static BANTAM_INLINE __m512i four(Codes<Bits>, const std::uint8_t* unit, int first, int i) {
    const auto move = [](__m512i q, int from, int to, int mask) __attribute__((always_inline)) {
      q = from >= to ? _mm512_srli_epi16(q, static_cast<unsigned>(from - to)) : _mm512_slli_epi16(q, static_cast<unsigned>(to - from));
      return _mm512_and_si512(q, _mm512_set1_epi8(static_cast<char>(mask << to)));
    };
    __m512i code = _mm512_setzero_si512();
    if constexpr ((Bits & 4) != 0) code = move(_mm512_loadu_si512(unit + (first / 2 + i / 2) * 64), i % 2 * 4, 0, 15);
    if constexpr ((Bits & 2) != 0) {
      const __m512i q = _mm512_loadu_si512(unit + ((Bits & 4) + first / 4 + i / 4) * 64);
      code = _mm512_or_si512(code, move(q, i % 4 * 2, Bits & 4, 3));
    }
    if constexpr ((Bits & 1) != 0) {
      const __m512i q = _mm512_srl_epi16(_mm512_loadu_si512(unit + (Bits & 6) * 64), _mm_cvtsi32_si128(first));
      code = _mm512_or_si512(code, move(q, i, Bits & 6, 1));
    }
    return code;
  }
};

template <>
struct half_strip<avx512vnni> {
  static BANTAM_INLINE Strip<avx512vnni> load(const std::uint16_t* p) {
    Strip<avx512vnni> strip;
    strip.part[0] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return strip;
  }
  static BANTAM_INLINE void store(std::uint16_t* p, const float* x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(_mm512_loadu_ps(x), 0));
  }
};

template <>
struct byte_strip<avx512vnni> {
  static BANTAM_INLINE IntStrip<avx512vnni> load_unsigned(const std::uint8_t* p) {
    IntStrip<avx512vnni> strip;
    strip.part[0] = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return strip;
  }
  static BANTAM_INLINE Strip<avx512vnni> load(const std::int8_t* p) {
    Strip<avx512vnni> strip;
    strip.part[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    return strip;
  }
  static BANTAM_INLINE Strip<avx512vnni> load_nibbles(const std::uint8_t* p) {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return bits(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), 0, 15);
  }
  static BANTAM_INLINE Strip<avx512vnni> load_bits(const std::uint8_t* p, int shift, int mask) {
    return bits(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), shift, mask);
  }

 private:
  static BANTAM_INLINE Strip<avx512vnni> bits(__m128i bytes, int shift, int mask) {
    const __m512i wide = _mm512_srl_epi32(_mm512_cvtepu8_epi32(bytes), _mm_cvtsi32_si128(shift));
    Strip<avx512vnni> strip;
    strip.part[0] = _mm512_cvtepi32_ps(_mm512_and_si512(wide, _mm512_set1_epi32(mask)));
    return strip;
  }
};

}  // namespace bantam::inline v0::simd
