// Which weights are there in planes that hold only some: what codecs and the kernels of every instruction set read alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bantam/simd/arch.hpp"

namespace bantam::inline v0::simd {

/// Of four columns two are kept; their number says which. For each number what each of the four bytes becomes: the first or
/// the second of the kept codes, or nothing where bit 7 is set, as byte shuffles read it. Numbers 6 and 7 are written by no
/// one and mean what 0 does; a fourth bit means nothing.
inline constexpr std::uint8_t nothing = 0x80;
alignas(64) inline constexpr std::uint32_t pair_controls[8] = {
    0x80800100, 0x80018000, 0x01808000, 0x80010080, 0x01800080, 0x01008080, 0x80800100, 0x80800100,
};
/// The number of columns a < b.
[[nodiscard]] constexpr unsigned pair_number(int a, int b) noexcept { return static_cast<unsigned>(a == 0 ? b - 1 : a + b); }
/// The control byte of column 0..3 under a number.
[[nodiscard]] BANTAM_INLINE constexpr unsigned pair_control(std::uint32_t number, int column) noexcept {
  return pair_controls[number & 7] >> column * 8 & 0xff;
}
/// The same the other way round, for who would rather pick activations: for each number which of 16 columns the two kept ones are, in the
/// low half of 32 bits where the four is even, in the high half where it is odd. Twice, for those that look up four bits.
struct PairColumns {
  alignas(64) std::uint32_t of_four[4][16] = {};
  constexpr PairColumns() {
    for (unsigned four = 0; four < 4; ++four) {
      for (std::uint32_t number = 0; number < 16; ++number) {
        for (int column = 0; column < 4; ++column) {
          const unsigned kept = pair_control(number, column);
          if (kept == nothing) continue;
          of_four[four][number] |= (four * 4 + static_cast<unsigned>(column)) << (kept + four % 2 * 2) * 8;
        }
      }
    }
  }
};
inline constexpr PairColumns pair_columns;
/// What a byte shuffle of 16 bytes adds to a control: where each channel's codes of an even four lie, and those of an odd.
alignas(16) inline constexpr std::int8_t pair_places[2][16] = {
    {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12},
    {2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14},
};

/// Of the 32 blocks of a strip by four columns in 128 columns 16 are kept: a bit each. Whoever reads a word with more bits or
/// fewer takes the first 16 blocks, so that nothing is read that is not there.
inline constexpr int kept_blocks = 16;
inline constexpr std::uint32_t first_blocks = 0x0000ffff;
[[nodiscard]] BANTAM_INLINE std::uint32_t load_kept(const void* p) noexcept {
  std::uint32_t kept;
  __builtin_memcpy(&kept, p, 4);
  return __builtin_popcount(kept) == kept_blocks ? kept : first_blocks;
}
/// The lowest of the blocks that are left, and takes it away. As wide as an address: it need not be widened then.
[[nodiscard]] BANTAM_INLINE std::ptrdiff_t next_block(std::uint32_t& left) noexcept {
  const auto block = static_cast<unsigned>(__builtin_ctz(left));
  left &= left - 1;
  return block;
}

}  // namespace bantam::inline v0::simd
