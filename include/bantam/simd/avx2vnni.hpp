// The primitives on AVX2 with its own VNNI.
#pragma once

#include "bantam/simd/x86_dot.hpp"
#include "bantam/simd/ymm.hpp"

namespace bantam::inline v0::simd {

/// A strip is two registers; 2 x 4 accumulators leave room for codes, masks and broadcasts in 16 registers.
template <>
struct dot<avx2vnni> : vnni_dot<avx2vnni, Ymm, 1, 4> {};
template <>
struct half_strip<avx2vnni> : ymm_half<avx2vnni> {};
template <>
struct byte_strip<avx2vnni> : ymm_bytes<avx2vnni> {};
template <int Bits>
struct level_strip<avx2vnni, Bits> : ymm_levels<avx2vnni, Bits> {};

}  // namespace bantam::inline v0::simd
