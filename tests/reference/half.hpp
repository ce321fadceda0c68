// f16 and bf16 by their definition: sign, exponent, fraction, and the nearest of all values.
#pragma once

#include <cmath>
#include <cstdint>

namespace bantam::reference {

/// The value of a 16-bit pattern with `exponent_bits` of exponent (5: binary16, 8: bfloat16). IEEE 754-2019, 3.4.
inline double decode_half(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

/// The pattern nearest to `x`, on a tie the one whose last bit is 0; from half a step beyond the largest on, infinity.
inline std::uint16_t encode_half(double x, int exponent_bits) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(x);
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  // Patterns without sign ascend with their values: bisect for the last one that is not above x.
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (decode_half(middle, exponent_bits) <= size ? low : high) = middle;
  }
  const double below = decode_half(low, exponent_bits);
  // What would follow the largest finite value, were there another exponent, decides about infinity.
  const double above = high == infinity ? 2 * below - decode_half(static_cast<std::uint16_t>(low - 1), exponent_bits)
                                        : decode_half(high, exponent_bits);
  const bool up = size - below > above - size || (size - below == above - size && (low & 1) != 0);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

inline float round_to_f16(double x) { return static_cast<float>(decode_half(encode_half(x, 5), 5)); }

}  // namespace bantam::reference
