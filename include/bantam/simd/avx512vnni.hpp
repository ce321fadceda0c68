// The primitives on AVX-512 with VNNI.
#pragma once

#include "bantam/simd/x86_dot.hpp"
#include "bantam/simd/zmm.hpp"

namespace bantam::inline v0::simd {

/// 2 x 6 int32 and 2 x 6 float accumulators, 4 registers of codes and a broadcast fill the 32 registers.
template <>
struct dot<avx512vnni> : vnni_dot<avx512vnni, Zmm, 2, 6> {};
template <>
struct half_strip<avx512vnni> : zmm_half<avx512vnni> {};
template <>
struct byte_strip<avx512vnni> : zmm_bytes<avx512vnni> {};

}  // namespace bantam::inline v0::simd
