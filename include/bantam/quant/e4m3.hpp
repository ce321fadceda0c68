// E4M3 numbers (OCP 8-bit floating point 1.0): no infinities, 0x7f and 0xff are NaN. FP8 checkpoints and the scales of NVFP4 have them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace bantam::inline v0::detail {

/// A byte of E4M3 without its sign, exactly; 480 for NaN. Moved to where an f32 has its exponent and fraction it is 2^120 too small, subnormal numbers too.
[[nodiscard]] constexpr float magnitude_of_e4m3(std::uint8_t byte) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte & 0x7f) << 20) * 0x1p120f;
}

/// The nearest byte of a number of 0 or more, of two equally near the even one; the largest, which is NaN elsewhere, of what is beyond it.
[[nodiscard]] constexpr std::uint8_t e4m3_byte(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(std::clamp(x, 0.0f, 480.0f) * 0x1p-120f);
  return static_cast<std::uint8_t>((bits + 0x7ffff + (bits >> 20 & 1)) >> 20);
}

/// The nearest number of the 4 significant bits that E4M3 has.
[[nodiscard]] constexpr float to_e4m3_bits(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7ffff + (bits >> 20 & 1)) & 0xfff00000);
}

}  // namespace bantam::inline v0::detail
