// The primitives on AVX2 with FMA and F16C.
#pragma once

#include "bantam/simd/x86_dot.hpp"
#include "bantam/simd/ymm.hpp"

namespace bantam::inline v0::simd {

/// A strip is two registers; 2 x 4 accumulators leave room for codes, masks and broadcasts in 16 registers.
template <>
struct dot<avx2> : madd_dot<avx2, Ymm, 1, 4> {};
template <>
struct half_strip<avx2> : ymm_half<avx2> {};
template <>
struct byte_strip<avx2> : ymm_bytes<avx2> {};
template <int Bits>
struct level_strip<avx2, Bits> : ymm_levels<avx2, Bits> {};

}  // namespace bantam::inline v0::simd
