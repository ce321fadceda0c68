// Numbers kept as levels: a code of a few bits is a place in a table that is dense around zero, as numbers are.
#pragma once

#include <cstdint>

#include "bantam/simd/vec.hpp"

namespace bantam::inline v0::simd {

/// The levels of codes of Bits bits, times a group's scale. The highest bit of a code is the sign.
template <int Bits>
struct Levels;
/// Of least square error for normal numbers in groups of 32 whose scale is fitted to them (Lloyd, 1982), rounded to bytes.
template <>
struct Levels<4> {
  static constexpr int count = 8;
  static constexpr int sizes[count] = {6, 18, 31, 44, 58, 75, 96, 127};
};
template <>
struct Levels<3> {
  static constexpr int count = 4;
  static constexpr int sizes[count] = {13, 42, 77, 127};
};

/// What a code stands for, as floats and as bytes. Fewer than 16 repeat: only the bits of a code count.
struct LevelTable {
  alignas(64) float levels[16];
  alignas(16) std::int8_t bytes[16];
};
template <int Bits>
[[nodiscard]] constexpr LevelTable make_level_table() {
  LevelTable table{};
  for (int code = 0; code < 16; ++code) {
    const int size = Levels<Bits>::sizes[code % Levels<Bits>::count];
    const int level = (code & Levels<Bits>::count) != 0 ? -size : size;
    table.levels[code] = static_cast<float>(level);
    table.bytes[code] = static_cast<std::int8_t>(level);
  }
  return table;
}
template <int Bits>
inline constexpr LevelTable level_table = make_level_table<Bits>();

/// Sixteen levels at once. This one is for instruction sets that have nothing better to say.
template <class A, int Bits>
struct level_strip {
  /// Sixteen words of 16 bits.
  static BANTAM_INLINE IntStrip<A> load_words(const std::uint16_t* p) {
    return gather<A>([&](int n) { return std::int32_t{p[n]}; });
  }
  /// The levels of the codes from bit `Shift` of each word on.
  template <int Shift>
  static BANTAM_INLINE Strip<A> of_words(const IntStrip<A>& words) {
    alignas(64) std::int32_t word[16];
    for (int i = 0; i < IntStrip<A>::parts; ++i) vec<A>::store_int(word + i * vec<A>::lanes, words.part[i]);
    return look_up([&](int n) { return word[n] >> Shift; });
  }
  /// The levels of 16 codes that follow each other in 2 Bits bytes. Eight bytes are read.
  static BANTAM_INLINE Strip<A> of_row(const std::uint8_t* p) {
    std::uint64_t row = 0;
    __builtin_memcpy(&row, p, 8);
    return look_up([&](int n) { return static_cast<int>(row >> (Bits * n)); });
  }

 private:
  template <class F>
  static BANTAM_INLINE Strip<A> look_up(F&& code) {
    alignas(64) float levels[16];
    for (int n = 0; n < 16; ++n) levels[n] = level_table<Bits>.levels[code(n) & 15];
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::load(levels + i * vec<A>::lanes);
    return strip;
  }
};

/// Where of_row() finds the codes of 16 numbers in eight bytes, in lanes of 32 bits: the bytes (zero where the place is above 15), and
/// how far to the right the code then is.
struct RowPlaces {
  alignas(64) std::uint8_t bytes[64];
  alignas(64) std::uint32_t shifts[16];
};
template <int Bits>
[[nodiscard]] constexpr RowPlaces make_row_places() {
  RowPlaces places{};
  for (int n = 0; n < 16; ++n) {
    places.shifts[n] = static_cast<std::uint32_t>(Bits * n % 8);
    for (int byte = 0; byte < 4; ++byte) places.bytes[4 * n + byte] = static_cast<std::uint8_t>(byte < 2 ? Bits * n / 8 + byte : 255);
  }
  return places;
}
template <int Bits>
inline constexpr RowPlaces row_places = make_row_places<Bits>();

}  // namespace bantam::inline v0::simd
