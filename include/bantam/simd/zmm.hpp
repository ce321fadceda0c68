// Registers of 64 bytes on x86-64, under names that both widths share, and what strips do with them.
#pragma once

#include <immintrin.h>

#include "bantam/simd/generic.hpp"
#include "bantam/simd/levels.hpp"

namespace bantam::inline v0::simd {

struct Zmm {
  using Reg = __m512i;

  static BANTAM_INLINE Reg load(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  static BANTAM_INLINE void store(std::int8_t* p, Reg a) { _mm512_storeu_si512(p, a); }
  static BANTAM_INLINE Reg bytes(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
  static BANTAM_INLINE Reg ones() { return _mm512_set1_epi16(1); }
  static BANTAM_INLINE Reg zero() { return _mm512_setzero_si512(); }
  /// Four signed bytes in every lane of 32 bits.
  static BANTAM_INLINE Reg broadcast(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
  }
  /// Sixteen bytes in every 16 bytes.
  static BANTAM_INLINE Reg table(const std::int8_t* p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static BANTAM_INLINE Reg both(Reg a, Reg b) { return _mm512_and_si512(a, b); }
  static BANTAM_INLINE Reg either(Reg a, Reg b) { return _mm512_or_si512(a, b); }
  static BANTAM_INLINE Reg flip(Reg a, Reg b) { return _mm512_xor_si512(a, b); }
  static BANTAM_INLINE Reg right(Reg a, int n) { return _mm512_srli_epi16(a, static_cast<unsigned>(n)); }
  static BANTAM_INLINE Reg left(Reg a, int n) { return _mm512_slli_epi16(a, static_cast<unsigned>(n)); }
  static BANTAM_INLINE Reg right_by(Reg a, int n) { return _mm512_srl_epi16(a, _mm_cvtsi32_si128(n)); }
  static BANTAM_INLINE Reg look_up(Reg table, Reg index) { return _mm512_shuffle_epi8(table, index); }
  /// Of 16 numbers of 32 bits that which the low four bits of each lane say; lanes moved to the right.
  static BANTAM_INLINE Reg pick(const std::uint32_t* numbers, Reg index) { return _mm512_permutexvar_epi32(index, _mm512_load_si512(numbers)); }
  static BANTAM_INLINE Reg right32(Reg a, int n) { return _mm512_srli_epi32(a, static_cast<unsigned>(n)); }
  static BANTAM_INLINE Reg left32(Reg a, int n) { return _mm512_slli_epi32(a, static_cast<unsigned>(n)); }
  static BANTAM_INLINE Reg words(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
  /// The lower halves of products of 16-bit numbers.
  static BANTAM_INLINE Reg multiply_low(Reg a, Reg b) { return _mm512_mullo_epi16(a, b); }
  static BANTAM_INLINE Reg add8(Reg a, Reg b) { return _mm512_add_epi8(a, b); }
  static BANTAM_INLINE Reg sub8(Reg a, Reg b) { return _mm512_sub_epi8(a, b); }
  static BANTAM_INLINE Reg sub16(Reg a, Reg b) { return _mm512_sub_epi16(a, b); }
  static BANTAM_INLINE Reg sub32(Reg a, Reg b) { return _mm512_sub_epi32(a, b); }
  static BANTAM_INLINE Reg add16(Reg a, Reg b) { return _mm512_add_epi16(a, b); }
  static BANTAM_INLINE Reg add32(Reg a, Reg b) { return _mm512_add_epi32(a, b); }
  /// Products of unsigned and signed bytes, neighbors added in int16; of int16, neighbors added in int32.
  static BANTAM_INLINE Reg multiply_bytes(Reg u, Reg s) { return _mm512_maddubs_epi16(u, s); }
  static BANTAM_INLINE Reg multiply_words(Reg a, Reg b) { return _mm512_madd_epi16(a, b); }
  static BANTAM_INLINE Reg magnitude(Reg a) { return _mm512_abs_epi8(a); }
  /// b with the sign of w; anything where w is zero.
  static BANTAM_INLINE Reg with_sign(Reg b, Reg w) { return _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(w), zero(), b); }
#if defined(__AVX512VNNI__)
  /// c += unsigned bytes of u times signed bytes of s, by fours. In assembly because gcc 12.2 copies the accumulators
  /// of the intrinsic around and spills 55 to 149 registers in a full tile; clang needs no help.
  static BANTAM_INLINE void dp(Reg& c, Reg u, Reg s) {
#if defined(__clang__)
    c = _mm512_dpbusd_epi32(c, u, s);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(u), "v"(s));
#endif
  }
#endif
};

template <class A>
struct zmm_half {
  static BANTAM_INLINE Strip<A> load(const std::uint16_t* p) {
    Strip<A> strip;
    strip.part[0] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return strip;
  }
  static BANTAM_INLINE void store(std::uint16_t* p, const float* x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(_mm512_loadu_ps(x), 0));
  }
};

template <class A>
struct zmm_bytes {
  static BANTAM_INLINE IntStrip<A> load_unsigned(const std::uint8_t* p) {
    IntStrip<A> strip;
    strip.part[0] = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return strip;
  }
  static BANTAM_INLINE Strip<A> load(const std::int8_t* p) {
    Strip<A> strip;
    strip.part[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    return strip;
  }
  static BANTAM_INLINE Strip<A> load_bits(const std::uint8_t* p, int shift, int mask) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i wide = _mm512_srl_epi32(bytes, _mm_cvtsi32_si128(shift));
    Strip<A> strip;
    strip.part[0] = _mm512_cvtepi32_ps(_mm512_and_si512(wide, _mm512_set1_epi32(mask)));
    return strip;
  }
};

template <class A, int Bits>
struct zmm_levels {
  static BANTAM_INLINE IntStrip<A> load_words(const std::uint16_t* p) {
    IntStrip<A> strip;
    strip.part[0] = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return strip;
  }
  template <int Shift>
  static BANTAM_INLINE Strip<A> of_words(const IntStrip<A>& words) {
    return look_up(_mm512_srli_epi32(words.part[0], Shift));
  }
  static BANTAM_INLINE Strip<A> of_row(const std::uint8_t* p) {
    std::int64_t row;
    __builtin_memcpy(&row, p, 8);
    const __m512i bytes = _mm512_shuffle_epi8(_mm512_set1_epi64(row), _mm512_load_si512(row_places<Bits>.bytes));
    return look_up(_mm512_srlv_epi32(bytes, _mm512_load_si512(row_places<Bits>.shifts)));
  }

 private:
  /// Of the low four bits of each lane.
  static BANTAM_INLINE Strip<A> look_up(__m512i codes) {
    Strip<A> strip;
    strip.part[0] = _mm512_permutexvar_ps(codes, _mm512_load_ps(level_table<Bits>.levels));
    return strip;
  }
};

}  // namespace bantam::inline v0::simd
