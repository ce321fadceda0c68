// How codes and scales of few bits are packed into bytes of strip16.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bantam/quant/format.hpp"

namespace bantam::inline v0::detail {

template <class T>
[[nodiscard]] T load_as(const std::byte* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void store_as(std::byte* p, T value) noexcept {
  std::memcpy(p, &value, sizeof value);
}

template <class Scale>
inline constexpr int super_bits = 0;
template <int Bits>
inline constexpr int super_bits<scale::Super<Bits>> = Bits;

/// Codes of `Bits` bits: where bits `shift` .. of four columns' codes of one channel lie. Calls
/// f(byte offset, bit offset, mask of each byte, shift) for each line that holds some, widest first.
template <int Bits, class Visitor>
constexpr void for_lines_of(int lane, int column, Visitor&& f) {
  const std::int64_t unit = std::int64_t{column} / 32 * (Bits * 64) + lane * 4;
  const int four = column % 32 / 4;
  if constexpr ((Bits & 4) != 0) f(unit + four / 2 * 64, four % 2 * 4, 0x0f0f0f0fu, 0);
  if constexpr ((Bits & 2) != 0) f(unit + ((Bits & 4) + four / 4) * 64, four % 4 * 2, 0x03030303u, Bits & 4);
  if constexpr ((Bits & 1) != 0) f(unit + (Bits & 6) * 64, four, 0x01010101u, Bits & 6);
}

/// Four columns' codes of one channel, one a byte.
template <int Bits>
[[nodiscard]] std::uint32_t load_four(const std::byte* plane, int lane, int column) noexcept {
  std::uint32_t codes = 0;
  for_lines_of<Bits>(lane, column, [&](std::int64_t at, int bit, std::uint32_t mask, int shift) {
    codes |= (load_as<std::uint32_t>(plane + at) >> bit & mask) << shift;
  });
  return codes;
}
/// The codes of 32 columns of one channel, one a byte, into their unit.
template <int Bits>
void store_unit(std::byte* unit, int lane, const std::int8_t* codes) noexcept {
  std::uint32_t four[8];
  std::memcpy(four, codes, 32);
  std::byte* line = unit + lane * 4;
  const auto put = [&](int per_line, int bits, std::uint32_t mask, int shift) {
    for (int first = 0; first < 8; first += per_line, line += 64) {
      std::uint32_t word = 0;
      for (int i = 0; i < per_line; ++i) word |= (four[first + i] >> shift & mask) << i * bits;
      store_as(line, word);
    }
  };
  if constexpr ((Bits & 4) != 0) put(2, 4, 0x0f0f0f0fu, 0);
  if constexpr ((Bits & 2) != 0) put(4, 2, 0x03030303u, Bits & 4);
  if constexpr ((Bits & 1) != 0) put(8, 1, 0x01010101u, Bits & 6);
}

// Numbers of scale::Super: `count` rows of 16 channels. 8 bits: a byte each. 4 bits: two numbers a byte, the even one
// low. 6 bits: their low 4 bits like that, then their high 2 bits, four numbers a byte.

template <int Bits>
[[nodiscard]] constexpr int number_bytes(int count) noexcept {
  if (Bits == 8) return count * 16;
  return (count + 1) / 2 * 16 + (Bits == 6 ? (count + 3) / 4 * 16 : 0);
}

/// Number `i` of a channel; signed if of 8 bits.
template <int Bits>
[[nodiscard]] int load_number(const std::byte* numbers, int count, int i, int lane) noexcept {
  if constexpr (Bits == 8) {
    return load_as<std::int8_t>(numbers + i * 16 + lane);
  } else {
    int number = load_as<std::uint8_t>(numbers + i / 2 * 16 + lane) >> i % 2 * 4 & 15;
    if constexpr (Bits == 6) {
      number |= (load_as<std::uint8_t>(numbers + (count + 1) / 2 * 16 + i / 4 * 16 + lane) >> i % 4 * 2 & 3) << 4;
    }
    return number;
  }
}
template <int Bits>
void store_number(std::byte* numbers, int count, int i, int lane, int number) noexcept {
  if constexpr (Bits == 8) {
    store_as(numbers + i * 16 + lane, static_cast<std::int8_t>(number));
  } else {
    const auto put = [](std::byte* p, int bit, int mask, int bits) {
      store_as(p, static_cast<std::uint8_t>((load_as<std::uint8_t>(p) & ~(mask << bit)) | (bits & mask) << bit));
    };
    put(numbers + i / 2 * 16 + lane, i % 2 * 4, 15, number);
    if constexpr (Bits == 6) put(numbers + (count + 1) / 2 * 16 + i / 4 * 16 + lane, i % 4 * 2, 3, number >> 4);
  }
}

/// 2^(byte - 127).
[[nodiscard]] constexpr float power_of_two(std::uint8_t byte) noexcept {
  return std::bit_cast<float>(byte == 0 ? 0x00400000u : std::uint32_t{byte} << 23);
}
/// The inverse, for powers of two from 2^-127 on.
[[nodiscard]] constexpr std::uint8_t exponent_byte(float power) noexcept {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(power) >> 23);
}

}  // namespace bantam::inline v0::detail
