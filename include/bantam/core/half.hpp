// The 16-bit floating-point types f16 (IEEE binary16) and bf16 (the upper half of binary32) as real types.
#pragma once

#include <bit>
#include <cstdint>

namespace bantam::inline v0 {

namespace detail {

/// Binary32 to binary16, ties to even; overflow becomes infinity, NaN stays NaN.
constexpr std::uint16_t f32_to_f16_bits(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and more
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal halves, in units of 2^-24
    // Adding 0.5 in units whose last bit is 2^-24 makes the addition itself round to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

constexpr float f16_bits_to_f32(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

/// Binary32 to bfloat16, ties to even; NaN stays NaN.
constexpr std::uint16_t f32_to_bf16_bits(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

/// IEEE 754 binary16. Converts explicitly, rounding to nearest, ties to even; arithmetic happens in float.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  constexpr explicit f16(float value) noexcept : bits(detail::f32_to_f16_bits(value)) {}
  [[nodiscard]] static constexpr f16 from_bits(std::uint16_t bits) noexcept {
    f16 half;
    half.bits = bits;
    return half;
  }
  constexpr explicit operator float() const noexcept { return detail::f16_bits_to_f32(bits); }
  friend constexpr bool operator==(f16 a, f16 b) noexcept { return float(a) == float(b); }
};

/// bfloat16: binary32 cut to 16 bits. Converts explicitly, rounding to nearest, ties to even.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  constexpr explicit bf16(float value) noexcept : bits(detail::f32_to_bf16_bits(value)) {}
  [[nodiscard]] static constexpr bf16 from_bits(std::uint16_t bits) noexcept {
    bf16 half;
    half.bits = bits;
    return half;
  }
  constexpr explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  friend constexpr bool operator==(bf16 a, bf16 b) noexcept { return float(a) == float(b); }
};

static_assert(sizeof(f16) == 2 && sizeof(bf16) == 2);

}  // namespace bantam::inline v0
