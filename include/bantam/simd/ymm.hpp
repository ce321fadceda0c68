// Registers of 32 bytes on x86-64, under names that both widths share, and what strips do with them.
#pragma once

#include <immintrin.h>

#include "bantam/simd/generic.hpp"
#include "bantam/simd/levels.hpp"

namespace bantam::inline v0::simd {

struct Ymm {
  using Reg = __m256i;

  static BANTAM_INLINE Reg load(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static BANTAM_INLINE Reg bytes(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  static BANTAM_INLINE Reg ones() { return _mm256_set1_epi16(1); }
  static BANTAM_INLINE Reg zero() { return _mm256_setzero_si256(); }
  /// Four signed bytes in every lane of 32 bits.
  static BANTAM_INLINE Reg broadcast(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }
  /// Sixteen bytes in every 16 bytes.
  static BANTAM_INLINE Reg table(const std::int8_t* p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static BANTAM_INLINE Reg both(Reg a, Reg b) { return _mm256_and_si256(a, b); }
  static BANTAM_INLINE Reg either(Reg a, Reg b) { return _mm256_or_si256(a, b); }
  static BANTAM_INLINE Reg flip(Reg a, Reg b) { return _mm256_xor_si256(a, b); }
  static BANTAM_INLINE Reg right(Reg a, int n) { return _mm256_srli_epi16(a, n); }
  static BANTAM_INLINE Reg left(Reg a, int n) { return _mm256_slli_epi16(a, n); }
  static BANTAM_INLINE Reg right_by(Reg a, int n) { return _mm256_srl_epi16(a, _mm_cvtsi32_si128(n)); }
  static BANTAM_INLINE Reg look_up(Reg table, Reg index) { return _mm256_shuffle_epi8(table, index); }
  /// Of eight numbers of 32 bits that which the low three bits of each lane say; lanes moved to the right.
  static BANTAM_INLINE Reg pick(const std::uint32_t* numbers, Reg index) {
    return _mm256_permutevar8x32_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(numbers)), index);
  }
  static BANTAM_INLINE Reg right32(Reg a, int n) { return _mm256_srli_epi32(a, n); }
  static BANTAM_INLINE Reg left32(Reg a, int n) { return _mm256_slli_epi32(a, n); }
  static BANTAM_INLINE Reg words(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
  /// The lower halves of products of 16-bit numbers.
  static BANTAM_INLINE Reg multiply_low(Reg a, Reg b) { return _mm256_mullo_epi16(a, b); }
  static BANTAM_INLINE Reg add8(Reg a, Reg b) { return _mm256_add_epi8(a, b); }
  static BANTAM_INLINE Reg sub8(Reg a, Reg b) { return _mm256_sub_epi8(a, b); }
  static BANTAM_INLINE Reg sub16(Reg a, Reg b) { return _mm256_sub_epi16(a, b); }
  static BANTAM_INLINE Reg sub32(Reg a, Reg b) { return _mm256_sub_epi32(a, b); }
  static BANTAM_INLINE Reg add16(Reg a, Reg b) { return _mm256_add_epi16(a, b); }
  static BANTAM_INLINE Reg add32(Reg a, Reg b) { return _mm256_add_epi32(a, b); }
  /// Products of unsigned and signed bytes, neighbors added in int16; of int16, neighbors added in int32.
  static BANTAM_INLINE Reg multiply_bytes(Reg u, Reg s) { return _mm256_maddubs_epi16(u, s); }
  static BANTAM_INLINE Reg multiply_words(Reg a, Reg b) { return _mm256_madd_epi16(a, b); }
  static BANTAM_INLINE Reg magnitude(Reg a) { return _mm256_abs_epi8(a); }
  /// b with the sign of w; anything where w is zero.
  static BANTAM_INLINE Reg with_sign(Reg b, Reg w) { return _mm256_sign_epi8(b, w); }
#if defined(__AVXVNNI__) || defined(BANTAM_VNNI_EMULATED)
  /// c += unsigned bytes of u times signed bytes of s, by fours. In assembly for the reason given in zmm.hpp.
  static BANTAM_INLINE void dp(Reg& c, Reg u, Reg s) {
#if defined(BANTAM_VNNI_EMULATED)
    // The instruction in terms of AVX2, so that tests can run this table where there is none.
    const Reg even = _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    const Reg odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    c = _mm256_add_epi32(c, _mm256_add_epi32(even, odd));
#elif defined(__clang__)
    c = _mm256_dpbusd_avx_epi32(c, u, s);
#else
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(c) : "x"(u), "x"(s));
#endif
  }
#endif
};

template <class A>
struct ymm_half {
  static BANTAM_INLINE Strip<A> load(const std::uint16_t* p) {
    Strip<A> strip;
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

template <class A>
struct ymm_bytes {
  static BANTAM_INLINE IntStrip<A> load_unsigned(const std::uint8_t* p) {
    IntStrip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      strip.part[i] = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i)));
    }
    return strip;
  }
  static BANTAM_INLINE Strip<A> load(const std::int8_t* p) {
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      strip.part[i] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i))));
    }
    return strip;
  }
  static BANTAM_INLINE Strip<A> load_bits(const std::uint8_t* p, int shift, int mask) {
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i)));
      strip.part[i] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srl_epi32(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(mask)));
    }
    return strip;
  }
};

template <class A, int Bits>
struct ymm_levels {
  static BANTAM_INLINE IntStrip<A> load_words(const std::uint16_t* p) {
    IntStrip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) strip.part[i] = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8 * i)));
    return strip;
  }
  template <int Shift>
  static BANTAM_INLINE Strip<A> of_words(const IntStrip<A>& words) {
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) strip.part[i] = look_up(_mm256_srli_epi32(words.part[i], Shift), _mm256_slli_epi32(words.part[i], 32 - Bits - Shift));
    return strip;
  }
  static BANTAM_INLINE Strip<A> of_row(const std::uint8_t* p) {
    std::int64_t row;
    __builtin_memcpy(&row, p, 8);
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < 2; ++i) {
      const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi64x(row), _mm256_load_si256(reinterpret_cast<const __m256i*>(row_places<Bits>.bytes + 32 * i)));
      const __m256i codes = _mm256_srlv_epi32(bytes, _mm256_load_si256(reinterpret_cast<const __m256i*>(row_places<Bits>.shifts + 8 * i)));
      strip.part[i] = look_up(codes, _mm256_slli_epi32(codes, 32 - Bits));
    }
    return strip;
  }

 private:
  /// Of the low bits of each lane, and the same codes at the upper end of the lanes: one table is of eight floats, so signs come by themselves.
  static BANTAM_INLINE __m256 look_up(__m256i codes, __m256i signs) {
    const __m256 level = _mm256_permutevar8x32_ps(_mm256_load_ps(level_table<Bits>.levels), codes);
    return Bits <= 3 ? level : _mm256_xor_ps(level, _mm256_and_ps(_mm256_castsi256_ps(signs), _mm256_set1_ps(-0.0F)));
  }
};

}  // namespace bantam::inline v0::simd
