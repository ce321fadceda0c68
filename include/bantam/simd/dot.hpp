// Integer dot products of one group: the primitives that each instruction set writes for itself.
//
// dot<A>::accumulate<Plane, NR, MR>(planes, plane_stride, x, x_stride, k, lut, c) adds to c[strip][token], a strip of 16
// int32 each, the products of `k` columns (a multiple of 32): strip r's codes at planes + r * plane_stride with token
// m's signed bytes at x + m * x_stride. What a code counts as:
//   Nibbles   the nibble 0..15
//   Codebook  lut[nibble] + dot<A>::codebook_bias
//   Bytes     the signed byte + dot<A>::byte_bias
// The bias exists because VNNI multiplies unsigned by signed bytes; the caller starts c at -bias * (sum of x), which is
// exact. Activations are -127..127, so no instruction set saturates. Results are equal on all of them, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bantam/simd/vec.hpp"

namespace bantam::inline v0::simd {

struct Nibbles {};
struct Codebook {};
struct Bytes {};

template <class A>
struct dot;

/// load(p): sixteen f16 as floats; store(p, x): sixteen floats as f16, to nearest, ties to even.
template <class A>
struct half_strip;

}  // namespace bantam::inline v0::simd
