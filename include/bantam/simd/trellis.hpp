// The bitshift trellis of plane::Trellis: what codecs, encoders and the kernels of every instruction set know of it alike.
#pragma once

#include <cstdint>

#include "bantam/simd/arch.hpp"

namespace bantam::inline v0::simd {

/// The codes of a row are one stream of bits a block. A step adds StepBits of them and makes two weights, out of the state: the
/// last 16 bits of the stream, the newest lowest, zeros before the first (QTIP's bitshift trellis, arXiv:2406.11235, with codes
/// computed in a way of our own). So weights depend on each other where they are chosen, not where they are read.
///
/// Steps are taken by units of columns. In its first half a step makes columns 4 i and 4 i + 1 of the unit, in the second 4 i + 2
/// and 4 i + 3: both halves' states at the same place lie in the two halves of a 32-bit word then, which is one channel's of a
/// register, and one shift of such words finds both.
template <int StepBits>
struct TrellisUnit {
  static_assert(StepBits >= 2 && StepBits <= 8);
  static constexpr int columns = StepBits % 2 == 0 ? 32 : 64;
  static constexpr int steps = columns / 4;                ///< of a half
  static constexpr int lines = steps * StepBits / 16;      ///< of 64 bytes for 16 channels: as many pieces of 16 bits a half
  /// The step `i` of a half ends in piece piece_of(i), with shift_of(i) bits behind it.
  static constexpr int piece_of(int i) { return (StepBits * (i + 1) - 1) / 16; }
  static constexpr int shift_of(int i) { return 16 * (piece_of(i) + 1) - StepBits * (i + 1); }
};

/// A state's two products, whose upper bits say seven bits for each weight: four of them its level, three what is added to it.
/// Numbers and levels were searched for by the error on a normal distribution; 46 is its standard deviation.
inline constexpr std::uint32_t trellis_factor[2] = {36097, 4635};
alignas(16) inline constexpr std::int8_t trellis_level[16] = {-86, -53, -44, -33, -27, -18, -9, -3, 3, 8, 19, 25, 35, 42, 57, 86};
alignas(16) inline constexpr std::int8_t trellis_offset[16] = {12, -34, -4, 19, -18, 3, 34, -11};
inline constexpr float trellis_deviation = 46;

/// What a state's first or second weight is before its scale: -120 to 120.
[[nodiscard]] BANTAM_INLINE constexpr int trellis_weight(std::uint32_t state, int which) noexcept {
  const std::uint32_t bits = state * trellis_factor[which] >> (which == 0 ? 9 : 8) & 127;
  return trellis_level[bits & 15] + trellis_offset[bits >> 4];
}

/// The state of channel `n` that makes `column` of a unit, which `follows` another in its block, or begins one.
template <int StepBits>
[[nodiscard]] BANTAM_INLINE constexpr std::uint32_t trellis_state(const std::uint8_t* unit, int n, int column, bool follows) noexcept {
  using Unit = TrellisUnit<StepBits>;
  const auto piece = [&](int line, int half) -> std::uint32_t {
    const std::uint8_t* p = unit + line * 64 + n * 4 + half * 2;
    return static_cast<std::uint32_t>(p[0] | p[1] << 8);
  };
  const int i = column / 4, half = column % 4 / 2, line = Unit::piece_of(i);
  const bool first = line == 0 && half == 0;
  const std::uint32_t before = !first ? piece(line == 0 ? Unit::lines - 1 : line - 1, line == 0 ? 0 : half) : follows ? piece(-1, 1) : 0;
  return (before << 16 | piece(line, half)) >> Unit::shift_of(i) & 0xffff;
}

}  // namespace bantam::inline v0::simd
