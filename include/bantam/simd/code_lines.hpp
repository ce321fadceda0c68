// Codes as signed bytes, in lines of four columns of 16 channels: byte 4 n + j = weight(n, 4 L + j) before its scale.
#pragma once

#include "bantam/simd/x86_dot.hpp"

namespace bantam::inline v0::simd {

/// pair_controls twice, for those that look up four bits.
struct PairControlsTwice {
  alignas(64) std::uint32_t controls[16] = {};
  constexpr PairControlsTwice() {
    for (unsigned i = 0; i < 16; ++i) controls[i] = pair_controls[i % 8];
  }
};
inline constexpr PairControlsTwice pair_controls_twice;

/// code_lines<R>(plane, unit, follows, levels, line): the lines of one unit of columns, for registers R of 64 bytes. Codes as they are, without an
/// offset or a zero point; levels of a codebook; weights of a trellis. `follows`: the unit is not the first one of its block.
template <class R, int Bits>
BANTAM_INLINE void code_lines(Codes<Bits> plane, const std::uint8_t* unit, bool, const std::int8_t*, typename R::Reg (&line)[8]) {
  BANTAM_UNROLL for (int i = 0; i < 8; ++i) line[i] = x86_codes<R>::four(plane, unit, 0, i);
}
template <class R>
BANTAM_INLINE void code_lines(Bytes, const std::uint8_t* unit, bool, const std::int8_t*, typename R::Reg (&line)[8]) {
  BANTAM_UNROLL for (int i = 0; i < 8; ++i) line[i] = R::load(unit + i * 64);
}
template <class R>
BANTAM_INLINE void code_lines(Codebook, const std::uint8_t* unit, bool, const std::int8_t* levels, typename R::Reg (&line)[8]) {
  const auto table = R::table(levels);
  BANTAM_UNROLL for (int i = 0; i < 8; ++i) line[i] = R::look_up(table, x86_codes<R>::four(Codes<4>{}, unit, 0, i));
}
template <class R, int Bits>
BANTAM_INLINE void code_lines(TwoOfFour<Bits> plane, const std::uint8_t* unit, bool, const std::int8_t*, typename R::Reg (&line)[8]) {
  const auto numbers = R::load(unit);
  BANTAM_UNROLL for (int i = 0; i < 8; ++i) {
    const auto control = R::add8(R::pick(pair_controls_twice.controls, R::right32(numbers, i * 4)), R::table(pair_places[i % 2]));
    line[i] = R::look_up(x86_codes<R>::kept_codes(plane, unit, i / 2), control);
  }
}
template <class R, int StepBits>
BANTAM_INLINE void code_lines(Trellis<StepBits> plane, const std::uint8_t* unit, bool follows, const std::int8_t*,
                              typename R::Reg (&line)[TrellisUnit<StepBits>::columns / 4]) {
  const auto levels = R::table(trellis_level), offsets = R::table(trellis_offset);
  BANTAM_UNROLL for (int i = 0; i < TrellisUnit<StepBits>::columns / 4; ++i) {
    line[i] = x86_codes<R>::weights(plane, unit, follows, i, levels, offsets);
  }
}

}  // namespace bantam::inline v0::simd
