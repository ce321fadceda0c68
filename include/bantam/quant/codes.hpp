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

/// Words of four channels that follow each other in a line.
using FourLanes [[gnu::vector_size(16)]] = std::uint32_t;

/// Four words of each of four rows, which lie `stride` bytes apart: word 0 of all to words[0], and so on.
inline void load_lanes(const std::byte* rows, std::int64_t stride, FourLanes* words) noexcept {
  const auto a = load_as<FourLanes>(rows), b = load_as<FourLanes>(rows + stride), c = load_as<FourLanes>(rows + 2 * stride), d = load_as<FourLanes>(rows + 3 * stride);
  const FourLanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const FourLanes ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  words[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  words[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  words[2] = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
  words[3] = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

/// The codes of 32 columns, one a byte, into the lines of their unit; Word: std::uint32_t for one channel, FourLanes for four.
template <int Bits, class Word>
void store_lines(std::byte* line, const Word (&four)[8]) noexcept {
  const auto put = [&](unsigned per_line, unsigned bits, std::uint32_t mask, unsigned shift) {
    for (unsigned first = 0; first < 8; first += per_line, line += 64) {
      Word word = four[first] >> shift & mask;
      for (unsigned i = 1; i < per_line; ++i) word |= (four[first + i] >> shift & mask) << i * bits;
      store_as(line, word);
    }
  };
  if constexpr ((Bits & 4) != 0) put(2, 4, 0x0f0f0f0fu, 0);
  if constexpr ((Bits & 2) != 0) put(4, 2, 0x03030303u, Bits & 4);
  if constexpr ((Bits & 1) != 0) put(8, 1, 0x01010101u, Bits & 6);
}

/// The codes of 32 columns of one channel, one a byte, into their unit.
template <int Bits>
void store_unit(std::byte* unit, int lane, const std::int8_t* codes) noexcept {
  std::uint32_t four[8];
  std::memcpy(four, codes, 32);
  store_lines<Bits>(unit + lane * 4, four);
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
/// All `count` numbers of a channel.
template <int Bits>
void store_numbers(std::byte* to, int count, int lane, const std::int8_t* numbers) noexcept {
  // `each` numbers a byte, the first lowest: bits `shift` and up of them.
  const auto put = [&](int each, int bits, int shift) {
    for (int first = 0; first < count; first += each, to += 16) {
      int byte = 0;
      for (int i = 0; i < each && first + i < count; ++i) byte |= (numbers[first + i] >> shift & ((1 << bits) - 1)) << i * bits;
      store_as(to + lane, static_cast<std::uint8_t>(byte));
    }
  };
  if constexpr (Bits == 8) put(1, 8, 0);
  if constexpr (Bits != 8) put(2, 4, 0);
  if constexpr (Bits == 6) put(4, 2, 4);
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
