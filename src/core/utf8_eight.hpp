// Checks UTF-8 eight bytes at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bantam::inline v0::detail {

/// Eight bytes as a number, the first one lowest.
[[nodiscard]] inline std::uint64_t eight_bytes(const char* at) noexcept {
  static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
  std::uint64_t bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  return bytes;
}

inline constexpr std::uint64_t each_byte = 0x0101010101010101;

/// How many of eight bytes are whole characters, if all are characters or begin one: 8, or fewer where the last goes on beyond. Else 0, and
/// for what needs a closer look: four bytes, and three with bounds of their own (U+0800 to U+0FFF, U+D000 to U+DFFF).
/// No branch: which characters are ASCII is as good as random in the vocabularies of bytes.
[[nodiscard]] inline std::size_t whole_characters(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t high = each_byte * 0x80;
  // A shift by a bit or two brings a lower bit of each byte to the top; what comes from the byte below is masked.
  const std::uint64_t leads = bytes & bytes << 1 & high, continuations = bytes & ~(bytes << 1) & high;
  const std::uint64_t threes = leads & bytes << 2;
  // Adding carries into the top bit of each byte whose bits are not all 0.
  const auto some = [](std::uint64_t bits, std::uint64_t mask) { return bits + (each_byte * 0x80 - mask); };
  const std::uint64_t low = bytes & each_byte * 0x0f;
  const std::uint64_t odd = (threes & bytes << 3)                                                // four bytes, or none of UTF-8
                            | (leads & ~threes & ~some(bytes & each_byte * 0x1e, each_byte * 2))   // 0xc0, 0xc1
                            | (threes & ~some(low, each_byte))                                   // 0xe0
                            | (threes & ~some(low ^ each_byte * 0x0d, each_byte));               // 0xed
  if ((odd | (continuations ^ (leads << 8 | threes << 16))) != 0) return 0;
  return 8 - static_cast<std::size_t>(leads >> 63) - 2 * static_cast<std::size_t>(threes >> 55 & 1);
}

}  // namespace bantam::inline v0::detail
