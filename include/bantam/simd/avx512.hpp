// The primitives on AVX-512 without VNNI.
#pragma once

#include "bantam/simd/x86_dot.hpp"
#include "bantam/simd/zmm.hpp"

namespace bantam::inline v0::simd {

/// Sums in int16, in int32 and in floats of 1 x 6, codes and broadcasts: 24 of 32 registers, and no more fit with two strips.
template <>
struct dot<avx512> : madd_dot<avx512, Zmm, 1, 6> {};
template <>
struct half_strip<avx512> : zmm_half<avx512> {};
template <>
struct byte_strip<avx512> : zmm_bytes<avx512> {};
template <int Bits>
struct level_strip<avx512, Bits> : zmm_levels<avx512, Bits> {};

}  // namespace bantam::inline v0::simd
