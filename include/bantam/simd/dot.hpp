// Integer dot products of one group: the primitives that each instruction set writes for itself.
//
// dot<A>::accumulate<Plane, Columns, NR, MR>(unit, plane_stride, x, x_stride, first, lut, c) adds to c[strip][token], a
// strip of 16 int32 each, the products of Columns columns (32, or 16 but for Bytes) out of a unit of 32: strip r's codes at
// unit + r * plane_stride, from the four of columns number `first` on (0 or 4; 0 if all), with token m's signed bytes at
// x + m * x_stride. What a code counts as:
//   Codes<Bits>  itself, 0..2^Bits - 1
//   Codebook     lut[nibble] + dot<A>::codebook_bias
//   Bytes        the signed byte + dot<A>::byte_bias
//   TwoOfFour    the code, -8..7 or a signed byte; 0 where nothing is kept
//   Trellis      the weight of the state (simd/trellis.hpp) + dot<A>::codebook_bias; Columns are those of its unit, and `first` is
//                the column of the block at which the unit begins: 0 for the first one, with no stream before it
// The bias exists because VNNI multiplies unsigned by signed bytes; the caller starts c at -bias * (sum of x), which is
// exact. Activations are -127..127, so no instruction set saturates. Results are equal on all of them, bit for bit.
//
// dot<A>::accumulate_blocks(unit, x, x_stride, kept, c) adds to c[token] the products of one strip and 128 columns, of which it
// holds the blocks `kept` (plane::HalfOfBlocks, quant/format.hpp). A code counts as itself less 8.
//
// An instruction set that multiplies such blocks faster with tokens as lanes (kernels/interleaved.hpp) has also:
//   interleaved_registers                                  how many registers of 16 tokens a tile has
//   expand_blocks(unit, codes, start)                      the 16 kept blocks' codes less 8 as bytes, (16, 16 channels, 4), and for each channel
//                                                          -128 times their sum
//   multiply_interleaved(x, x_stride, kept, codes, start, c)  c[channel][n] = start[channel] + the products of the channel's codes, of each block at
//                                                          codes + 4 channel, and 16 tokens' raised bytes, of block number b at x + 64 b + n x_stride
//   transpose(rows, stride, columns, column_stride)        16 rows of 16 floats into columns
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "bantam/simd/vec.hpp"

namespace bantam::inline v0::simd {

/// Tokens of the largest tile. Sanitizers check that tiles read and write what they may, not that there are many of them,
/// and each costs seconds to compile: two sizes are enough there.
[[nodiscard]] constexpr int fewer_when_checked(int tokens) {
#if defined(BANTAM_CHECKED)
  return tokens < 2 ? tokens : 2;
#else
  return tokens;
#endif
}

template <int Bits>
struct Codes {};
struct Codebook {};
struct Bytes {};
template <int Bits>
struct TwoOfFour {};
template <int StepBits>
struct Trellis {};
template <class Plane>
inline constexpr bool is_trellis = false;
template <int StepBits>
inline constexpr bool is_trellis<Trellis<StepBits>> = true;
template <class Plane>
inline constexpr bool holds_two_of_four = std::is_same_v<Plane, TwoOfFour<4>> || std::is_same_v<Plane, TwoOfFour<8>>;

template <class A>
struct dot;

/// load(p): sixteen f16 as floats; store(p, x): sixteen floats as f16, to nearest, ties to even.
template <class A>
struct half_strip;

/// Sixteen small integers as floats, or as integers. This one is for instruction sets that have nothing better to say.
template <class A>
struct byte_strip {
  /// Unsigned bytes.
  static BANTAM_INLINE IntStrip<A> load_unsigned(const std::uint8_t* p) {
    return gather<A>([&](int n) { return std::int32_t{p[n]}; });
  }
  /// Signed bytes.
  static BANTAM_INLINE Strip<A> load(const std::int8_t* p) {
    return floats(gather<A>([&](int n) { return std::int32_t{p[n]}; }));
  }
  /// The bits of `mask` of each of 16 bytes, from bit `shift` on.
  static BANTAM_INLINE Strip<A> load_bits(const std::uint8_t* p, int shift, int mask) {
    return floats(gather<A>([&](int n) { return (p[n] >> shift) & mask; }));
  }

 private:
  static BANTAM_INLINE Strip<A> floats(const IntStrip<A>& numbers) {
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::to_float(numbers.part[i]);
    return strip;
  }
};

}  // namespace bantam::inline v0::simd
