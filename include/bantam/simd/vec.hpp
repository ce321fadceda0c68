// Float and int32 vectors of an instruction set, over xsimd; `generic` is plain float and int32 (lanes = 1).
#pragma once

#include <cstdint>

#include "bantam/simd/arch.hpp"

#if (defined(__AVX2__) || defined(__ARM_NEON)) && !defined(BANTAM_HEADER_ONLY)
#include <xsimd/xsimd.hpp>
#endif

namespace bantam::inline v0::simd {

/// Everything kernels do with floats goes through vec<A>: F and I are its registers, the functions its operations.
/// + - * on F and I are operators of the registers themselves; divide is not (see below). Primary template: over xsimd.
template <class A>
struct vec;

template <>
struct vec<generic> {
  using F = float;
  using I = std::int32_t;
  static constexpr int lanes = 1;

  static BANTAM_INLINE F load(const float* p) { return *p; }
  static BANTAM_INLINE void store(float* p, F v) { *p = v; }
  static BANTAM_INLINE F splat(float x) { return x; }
  static BANTAM_INLINE I splat_int(std::int32_t x) { return x; }
  static BANTAM_INLINE I load_int(const std::int32_t* p) { return *p; }
  static BANTAM_INLINE void store_int(std::int32_t* p, I v) { *p = v; }
  static BANTAM_INLINE F fma(F a, F b, F c) { return __builtin_fmaf(a, b, c); }
  static BANTAM_INLINE F divide(F a, F b) { return a / b; }
  static BANTAM_INLINE F max(F a, F b) { return a > b ? a : b; }
  static BANTAM_INLINE I max(I a, I b) { return a > b ? a : b; }
  static BANTAM_INLINE F min(F a, F b) { return a < b ? a : b; }
  static BANTAM_INLINE F abs(F a) { return __builtin_fabsf(a); }
  /// x where a < b, else y.
  static BANTAM_INLINE F pick_less(F a, F b, F x, F y) { return a < b ? x : y; }
  static BANTAM_INLINE F to_float(I a) { return static_cast<float>(a); }
  static BANTAM_INLINE I to_int(F a) { return static_cast<std::int32_t>(__builtin_nearbyintf(a)); }
  static BANTAM_INLINE F as_float(I a) { return __builtin_bit_cast(float, a); }
  static BANTAM_INLINE I as_int(F a) { return __builtin_bit_cast(std::int32_t, a); }
  static BANTAM_INLINE I shift_left(I a, int n) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) << n); }
  static BANTAM_INLINE I shift_right(I a, int n) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) >> n); }
  static BANTAM_INLINE I shift_right_signed(I a, int n) { return a >> n; }
};
#if !defined(BANTAM_HEADER_ONLY)  // which has the generic table, and no xsimd
// The largest lane, which xsimd 8.1 has not.
#if defined(__AVX2__)
BANTAM_INLINE float largest(__m128 a) {
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
BANTAM_INLINE std::int32_t largest(__m128i a) {
  a = _mm_max_epi32(a, _mm_unpackhi_epi64(a, a));
  return _mm_cvtsi128_si32(_mm_max_epi32(a, _mm_shuffle_epi32(a, 1)));
}
BANTAM_INLINE float largest(__m256 a) { return largest(_mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1))); }
BANTAM_INLINE std::int32_t largest(__m256i a) { return largest(_mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1))); }
#if defined(__AVX512F__)
BANTAM_INLINE float largest(__m512 a) { return largest(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1))); }
BANTAM_INLINE std::int32_t largest(__m512i a) {
  return largest(_mm256_max_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1)));
}
#endif
#elif defined(__ARM_NEON)
BANTAM_INLINE float largest(float32x4_t a) { return vmaxvq_f32(a); }
BANTAM_INLINE std::int32_t largest(int32x4_t a) { return vmaxvq_s32(a); }
#endif

// a b + c, rounded once: xsimd 8.1 fuses on AVX2 only; elsewhere its fma is a product and a sum. And a / b, rounded
// correctly: on NEON xsimd's is a refined estimate.
#if defined(__AVX512F__)
BANTAM_INLINE __m512 fused(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
BANTAM_INLINE __m512 quotient(__m512 a, __m512 b) { return _mm512_div_ps(a, b); }
#elif defined(__AVX2__)
BANTAM_INLINE __m256 fused(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
BANTAM_INLINE __m256 quotient(__m256 a, __m256 b) { return _mm256_div_ps(a, b); }
#elif defined(__ARM_NEON)
BANTAM_INLINE float32x4_t fused(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
BANTAM_INLINE float32x4_t quotient(float32x4_t a, float32x4_t b) { return vdivq_f32(a, b); }
#endif

#if defined(__AVX2__) || defined(__ARM_NEON)
template <class A, class X>
struct xsimd_vec {
  using F = xsimd::batch<float, X>;
  using I = xsimd::batch<std::int32_t, X>;
  using U = xsimd::batch<std::uint32_t, X>;
  static constexpr int lanes = static_cast<int>(F::size);

  static BANTAM_INLINE F load(const float* p) { return F::load_unaligned(p); }
  static BANTAM_INLINE void store(float* p, F v) { v.store_unaligned(p); }
  static BANTAM_INLINE F splat(float x) { return F(x); }
  static BANTAM_INLINE I splat_int(std::int32_t x) { return I(x); }
  static BANTAM_INLINE I load_int(const std::int32_t* p) { return I::load_unaligned(p); }
  static BANTAM_INLINE void store_int(std::int32_t* p, I v) { v.store_unaligned(p); }
  static BANTAM_INLINE F fma(F a, F b, F c) { return fused(a, b, c); }
  static BANTAM_INLINE F divide(F a, F b) { return quotient(a, b); }
  static BANTAM_INLINE F max(F a, F b) { return xsimd::max(a, b); }
  static BANTAM_INLINE I max(I a, I b) { return xsimd::max(a, b); }
  static BANTAM_INLINE F min(F a, F b) { return xsimd::min(a, b); }
  static BANTAM_INLINE F abs(F a) { return xsimd::abs(a); }
  static BANTAM_INLINE F pick_less(F a, F b, F x, F y) { return xsimd::select(a < b, x, y); }
  static BANTAM_INLINE F to_float(I a) { return xsimd::to_float(a); }
  /// Rounds to nearest, ties to even.
  static BANTAM_INLINE I to_int(F a) { return xsimd::nearbyint_as_int(a); }
  static BANTAM_INLINE F as_float(I a) { return xsimd::bitwise_cast<F>(a); }
  static BANTAM_INLINE I as_int(F a) { return xsimd::bitwise_cast<I>(a); }
  static BANTAM_INLINE I shift_left(I a, int n) { return a << n; }
  static BANTAM_INLINE I shift_right(I a, int n) { return xsimd::bitwise_cast<I>(xsimd::bitwise_cast<U>(a) >> n); }
  static BANTAM_INLINE I shift_right_signed(I a, int n) { return a >> n; }
};
#endif

#if defined(__AVX512VNNI__)
template <>
struct vec<avx512vnni> : xsimd_vec<avx512vnni, xsimd::avx512bw> {};
#elif defined(__AVX512F__)
template <>
struct vec<avx512> : xsimd_vec<avx512, xsimd::avx512bw> {};
#elif defined(__AVXVNNI__) || (defined(BANTAM_VNNI_EMULATED) && defined(__AVX2__))  // the rest of the library sees the name, too
template <>
struct vec<avx2vnni> : xsimd_vec<avx2vnni, xsimd::fma3<xsimd::avx2>> {};
#elif defined(__AVX2__)
template <>
struct vec<avx2> : xsimd_vec<avx2, xsimd::fma3<xsimd::avx2>> {};
#elif defined(__ARM_FEATURE_DOTPROD)
template <>
struct vec<dotprod> : xsimd_vec<dotprod, xsimd::neon64> {};
#elif defined(__ARM_NEON)
template <>
struct vec<neon> : xsimd_vec<neon, xsimd::neon64> {};
#endif
#endif
/// The sum of the lanes, added in lane order.
template <class A>
BANTAM_INLINE float reduce_add(typename vec<A>::F v) {
  float lane[vec<A>::lanes];
  vec<A>::store(lane, v);
  float sum = lane[0];
  for (int i = 1; i < vec<A>::lanes; ++i) sum += lane[i];
  return sum;
}

/// The largest lane.
template <class A>
BANTAM_INLINE float reduce_max(typename vec<A>::F v) {
  if constexpr (vec<A>::lanes == 1) {
    return v;
  } else {
    return largest(v.data);
  }
}
template <class A>
BANTAM_INLINE std::int32_t reduce_max(typename vec<A>::I v) {
  if constexpr (vec<A>::lanes == 1) {
    return v;
  } else {
    return largest(v.data);
  }
}

/// The sum of 16 signed bytes.
template <class A>
BANTAM_INLINE std::int32_t sum_of_16(const std::int8_t* p) {
#if defined(__AVX2__) && !defined(BANTAM_HEADER_ONLY)
  const __m128i raised = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), _mm_set1_epi8(-128));
  const __m128i halves = _mm_sad_epu8(raised, _mm_setzero_si128());
  return _mm_cvtsi128_si32(halves) + _mm_extract_epi16(halves, 4) - 16 * 128;
#elif defined(__ARM_NEON) && !defined(BANTAM_HEADER_ONLY)
  return vaddlvq_s8(vld1q_s8(p));
#else
  std::int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += p[i];
  return sum;
#endif
}

/// Sixteen output channels: the lanes of one strip, in as many registers as the instruction set needs.
template <class A>
struct Strip {
  using V = vec<A>;
  static constexpr int parts = 16 / V::lanes;
  typename V::F part[parts];
};

template <class A>
struct IntStrip {
  using V = vec<A>;
  static constexpr int parts = 16 / V::lanes;
  typename V::I part[parts];
};

/// Sixteen numbers one by one: for instruction sets that have nothing better to say.
template <class A, class F>
BANTAM_INLINE IntStrip<A> gather(F&& number) {
  alignas(64) std::int32_t numbers[16];
  for (int n = 0; n < 16; ++n) numbers[n] = number(n);
  IntStrip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < IntStrip<A>::parts; ++i) strip.part[i] = vec<A>::load_int(numbers + i * vec<A>::lanes);
  return strip;
}

}  // namespace bantam::inline v0::simd
