// The primitives on AVX2 with FMA and F16C.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "bantam/simd/generic.hpp"

namespace bantam::inline v0::simd {

template <>
struct dot<avx2> {
  /// A strip is two registers; 2 x 4 accumulators leave room for codes, masks and broadcasts in 16 registers.
  static constexpr int strips = 1;
  static constexpr int tokens = 4;
  static constexpr int byte_bias = 0;
  static constexpr int codebook_bias = 0;

  static BANTAM_INLINE __m256i load(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static BANTAM_INLINE __m256i broadcast(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }

  template <class Plane, int Columns, int NR, int MR>
  static BANTAM_INLINE void accumulate(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                       std::ptrdiff_t x_stride, [[maybe_unused]] int first, const std::int8_t* lut,
                                       IntStrip<avx2> (&c)[NR][MR]) {
    if constexpr (std::is_same_v<Plane, Bytes> || std::is_same_v<Plane, Codebook>) {
      static_assert(Columns == 32);
      signed_codes<Plane>(unit, plane_stride, x, x_stride, lut, c);
    } else {
      unsigned_codes<Columns>(Plane{}, unit, plane_stride, x, x_stride, first, c);
    }
  }

 private:
  /// Unsigned times signed is what the machine has: |w| times x with w's sign. 2 * 128 * 127 fits int16.
  template <class Plane, int NR, int MR>
  static BANTAM_INLINE void signed_codes(const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                         std::ptrdiff_t x_stride, const std::int8_t* lut, IntStrip<avx2> (&c)[NR][MR]) {
    const __m256i ones = _mm256_set1_epi16(1);
    [[maybe_unused]] __m256i table = ones;
    if constexpr (std::is_same_v<Plane, Codebook>) {
      table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lut)));
    }
    // Bytes carry 4 columns a line, nibbles 8 in two halves.
    constexpr int columns = std::is_same_v<Plane, Bytes> ? 4 : 8;
#pragma GCC unroll 1
    for (int column = 0; column < 32; column += columns) {
      BANTAM_UNROLL for (int half = 0; half < columns / 4; ++half) {
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          BANTAM_UNROLL for (int part = 0; part < 2; ++part) {
            __m256i w = load(unit + r * plane_stride + column / columns * 64 + part * 32);
            if constexpr (std::is_same_v<Plane, Codebook>) {
              w = _mm256_and_si256(half == 0 ? w : _mm256_srli_epi16(w, 4), _mm256_set1_epi8(15));
              w = _mm256_shuffle_epi8(table, w);
            }
            const __m256i magnitude = _mm256_abs_epi8(w);
            BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
              const __m256i b = _mm256_sign_epi8(broadcast(x + m * x_stride + column + half * 4), w);
              const __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, b), ones);
              c[r][m].part[part] = _mm256_add_epi32(c[r][m].part[part], sum);
            }
          }
        }
      }
    }
  }

  /// One part of the codes of four number `i` from `first` on; i is a constant once loops are unrolled.
  template <int Bits>
  static BANTAM_INLINE __m256i four(const std::uint8_t* part, int first, int i) {
    const auto move = [](__m256i q, int from, int to, int mask) __attribute__((always_inline)) {
      q = from >= to ? _mm256_srli_epi16(q, from - to) : _mm256_slli_epi16(q, to - from);
      return _mm256_and_si256(q, _mm256_set1_epi8(static_cast<char>(mask << to)));
    };
    __m256i code = _mm256_setzero_si256();
    if constexpr ((Bits & 4) != 0) code = move(load(part + (first / 2 + i / 2) * 64), i % 2 * 4, 0, 15);
    if constexpr ((Bits & 2) != 0) {
      const __m256i q = load(part + ((Bits & 4) + first / 4 + i / 4) * 64);
      code = _mm256_or_si256(code, move(q, i % 4 * 2, Bits & 4, 3));
    }
    if constexpr ((Bits & 1) != 0) {
      const __m256i q = _mm256_srl_epi16(load(part + (Bits & 6) * 64), _mm_cvtsi32_si128(first));
      code = _mm256_or_si256(code, move(q, i, Bits & 6, 1));
    }
    return code;
  }

  /// Products of codes and bytes are summed by pairs in int16 as long as they fit (eight nibbles: 8 * 2 * 15 * 127 =
  /// 30480), and widened then.
  template <int Columns, int Bits, int NR, int MR>
  static BANTAM_INLINE void unsigned_codes(Codes<Bits>, const std::uint8_t* unit, std::ptrdiff_t plane_stride, const std::int8_t* x,
                                           std::ptrdiff_t x_stride, int first, IntStrip<avx2> (&c)[NR][MR]) {
    constexpr int fit = 32767 / (2 * 127 * ((1 << Bits) - 1)) / 2;  // pairs of fours
    constexpr int pairs = Columns / 8;
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum[NR][MR][2];
    BANTAM_UNROLL for (int pair = 0; pair < pairs; ++pair) {
      __m256i codes[NR][2][2];
      BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
        BANTAM_UNROLL for (int part = 0; part < 2; ++part) {
          const std::uint8_t* p = unit + r * plane_stride + part * 32;
          codes[r][part][0] = four<Bits>(p, first, 2 * pair);
          codes[r][part][1] = four<Bits>(p, first, 2 * pair + 1);
        }
      }
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const __m256i b0 = broadcast(x + m * x_stride + pair * 8);
        const __m256i b1 = broadcast(x + m * x_stride + pair * 8 + 4);
        BANTAM_UNROLL for (int r = 0; r < NR; ++r) {
          BANTAM_UNROLL for (int part = 0; part < 2; ++part) {
            const __m256i both =
                _mm256_add_epi16(_mm256_maddubs_epi16(codes[r][part][0], b0), _mm256_maddubs_epi16(codes[r][part][1], b1));
            sum[r][m][part] = pair % fit == 0 ? both : _mm256_add_epi16(sum[r][m][part], both);
            if (pair % fit == fit - 1 || pair == pairs - 1) {
              c[r][m].part[part] = _mm256_add_epi32(c[r][m].part[part], _mm256_madd_epi16(sum[r][m][part], ones));
            }
          }
        }
      }
    }
  }
};

template <>
struct half_strip<avx2> {
  static BANTAM_INLINE Strip<avx2> load(const std::uint16_t* p) {
    Strip<avx2> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      strip.part[i] = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8 * i)));
    }
    return strip;
  }
  static BANTAM_INLINE void store(std::uint16_t* p, const float* x) {
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8 * i), _mm256_cvtps_ph(_mm256_loadu_ps(x + 8 * i), 0));
    }
  }
};

template <>
struct byte_strip<avx2> {
  static BANTAM_INLINE IntStrip<avx2> load_unsigned(const std::uint8_t* p) {
    IntStrip<avx2> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      strip.part[i] = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i)));
    }
    return strip;
  }
  static BANTAM_INLINE Strip<avx2> load(const std::int8_t* p) {
    Strip<avx2> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      strip.part[i] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i))));
    }
    return strip;
  }
  static BANTAM_INLINE Strip<avx2> load_nibbles(const std::uint8_t* p) {
    const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    Strip<avx2> strip;
    strip.part[0] = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15)));
    strip.part[1] = _mm256_cvtepi32_ps(_mm256_srli_epi32(bytes, 4));
    return strip;
  }
  static BANTAM_INLINE Strip<avx2> load_bits(const std::uint8_t* p, int shift, int mask) {
    Strip<avx2> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i)));
      strip.part[i] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(mask)));
    }
    return strip;
  }
};

}  // namespace bantam::inline v0::simd
