// How families of quantizers pack codes into words of 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bantam/quant/codes.hpp"

namespace bantam::inline v0 {

/// Number `i` of `bits` bits in words read as one stream, lowest bits first: numbers may lie across two words. The words of
/// a stream are `stride` words apart.
[[nodiscard]] inline unsigned bits_at(const std::byte* words, std::int64_t stride, std::int64_t i, int bits) noexcept {
  const std::int64_t bit = i * bits;
  const std::byte* word = words + bit / 32 * stride * 4;
  std::uint64_t two = detail::load_as<std::uint32_t>(word);
  if (bit % 32 + bits > 32) two |= std::uint64_t{detail::load_as<std::uint32_t>(word + stride * 4)} << 32;
  return static_cast<unsigned>(two >> bit % 32) & ((1u << bits) - 1);
}

/// The inverse, into words whose bits there are 0.
inline void put_bits(std::uint32_t* words, std::int64_t stride, std::int64_t i, int bits, unsigned number) noexcept {
  const std::int64_t bit = i * bits;
  const std::uint64_t two = std::uint64_t{number} << bit % 32;
  std::uint32_t* word = words + bit / 32 * stride;
  *word |= static_cast<std::uint32_t>(two);
  if (bit % 32 + bits > 32) word[stride] |= static_cast<std::uint32_t>(two >> 32);
}

/// Row 8 c + j of word c in AWQ's gemm version is nibble awq_place[j].
inline constexpr int awq_place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace bantam::inline v0
