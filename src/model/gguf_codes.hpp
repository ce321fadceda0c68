// GGUF's block types: which bytes hold which code and which scale. Each names the format that holds the same numbers.
//
// read(block, codes, sides) reads one block of `columns` weights, `bytes` long; write() makes the same bytes of what was
// read. Numbers are little-endian.
#pragma once

#include <array>

#include "bantam/quant/formats.hpp"
#include "bantam/quant/strip16.hpp"

namespace bantam::inline v0::gguf {

using bantam::detail::load_as;

[[nodiscard]] inline unsigned byte_at(const std::byte* p, int i) noexcept { return static_cast<unsigned>(p[i]); }
[[nodiscard]] inline float half_at(const std::byte* p) noexcept { return float(load_as<f16>(p)); }

// Codes are read eight at a time, a byte each in a word.

inline void put_eight(std::int8_t* to, std::uint64_t codes) noexcept { std::memcpy(to, &codes, 8); }
inline void add_eight(std::int8_t* to, std::uint64_t bits) noexcept {
  std::uint64_t codes;
  std::memcpy(&codes, to, 8);
  put_eight(to, codes | bits);
}

/// Eight bytes that are each `byte`.
[[nodiscard]] constexpr std::uint64_t eight_of(unsigned byte) noexcept { return byte * 0x0101010101010101u; }

/// Eight fields of `Bits` bits, the lowest first, one a byte.
template <int Bits>
[[nodiscard]] constexpr std::uint64_t spread(std::uint64_t fields) noexcept {
  constexpr std::uint64_t field = (1u << Bits) - 1, two = (1u << 2 * Bits) - 1, four = (1u << 4 * Bits) - 1;
  fields = (fields | fields << (32 - 4 * Bits)) & four * 0x0000000100000001u;
  fields = (fields | fields << (16 - 2 * Bits)) & two * 0x0001000100010001u;
  return (fields | fields << (8 - Bits)) & field * 0x0101010101010101u;
}

/// spread<1>() of each byte: a load in place of nine operations.
inline constexpr auto spread_bits = [] {
  std::array<std::uint64_t, 256> all{};
  for (std::size_t byte = 0; byte < all.size(); ++byte) all[byte] = spread<1>(byte);
  return all;
}();

/// `half` bytes, a multiple of 8, hold weights i (low nibble) and i + half (high nibble).
inline void read_nibbles(const std::byte* from, int half, std::int8_t* to) noexcept {
  for (int i = 0; i < half; i += 8) {
    const auto eight = load_as<std::uint64_t>(from + i);
    put_eight(to + i, eight & eight_of(15));
    put_eight(to + i + half, eight >> 4 & eight_of(15));
  }
}

/// Bytes i of 32 hold a field of `Bits` bits of each of the weights i, i + 32, ..., the lowest first.
template <int Bits>
void read_fields(const std::byte* from, std::int8_t* to) noexcept {
  for (int i = 0; i < 32; i += 8) {
    const auto eight = load_as<std::uint64_t>(from + i);
    for (int j = 0; j < 8 / Bits; ++j) put_eight(to + 32 * j + i, eight >> Bits * j & eight_of((1u << Bits) - 1));
  }
}

/// The same of the bits from `shift` on of codes that hold those below.
template <int Bits>
void add_fields(const std::byte* from, int shift, std::int8_t* to) noexcept {
  for (int i = 0; i < 32; i += 8) {
    const auto eight = load_as<std::uint64_t>(from + i);
    for (int j = 0; j < 8 / Bits; ++j) add_eight(to + 32 * j + i, (eight >> Bits * j & eight_of((1u << Bits) - 1)) << shift);
  }
}

/// Adds bit 4 to 32 codes: bit i of a word is that of weight i.
inline void add_fifth_bits(const std::byte* from, std::int8_t* to) noexcept {
  for (int i = 0; i < 4; ++i) add_eight(to + 8 * i, spread_bits[byte_at(from, i)] << 4);
}

inline void put_byte(std::byte* p, int i, unsigned value) noexcept { p[i] = static_cast<std::byte>(value); }
inline void put_half(std::byte* p, float value) noexcept { bantam::detail::store_as(p, f16(value)); }
[[nodiscard]] inline unsigned code_at(const std::int8_t* codes, int i) noexcept { return static_cast<std::uint8_t>(codes[i]); }

inline void write_nibbles(const std::int8_t* codes, int half, std::byte* to) noexcept {
  for (int i = 0; i < half; ++i) put_byte(to, i, (code_at(codes, i) & 15u) | (code_at(codes, i + half) & 15u) << 4);
}

inline void write_fifth_bits(const std::int8_t* codes, std::byte* to) noexcept {
  std::uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= (code_at(codes, i) >> 4 & 1u) << i;
  bantam::detail::store_as(to, bits);
}

/// d, 32 signed bytes.
struct Q8_0 {
  using Format = Int8<32>;
  static constexpr int columns = 32, bytes = 34;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    sides->scale = half_at(p);
    std::memcpy(codes, p + 2, 32);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->scale);
    std::memcpy(p + 2, codes, 32);
  }
};

/// d, 32 nibbles; w = d (q - 8).
struct Q4_0 {
  using Format = Int<4, 32>;
  static constexpr int columns = 32, bytes = 18;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    sides->scale = half_at(p);
    read_nibbles(p + 2, 16, codes);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->scale);
    write_nibbles(codes, 16, p + 2);
  }
};

/// d, m, 32 nibbles; w = d q + m.
struct Q4_1 {
  using Format = IntMin<4>;
  static constexpr int columns = 32, bytes = 20;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    sides->scale = half_at(p);
    sides->min = half_at(p + 2);
    read_nibbles(p + 4, 16, codes);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->scale);
    put_half(p + 2, sides->min);
    write_nibbles(codes, 16, p + 4);
  }
};

/// d, the fifth bits, 32 nibbles; w = d (q - 16).
struct Q5_0 {
  using Format = Int<5, 32>;
  static constexpr int columns = 32, bytes = 22;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    sides->scale = half_at(p);
    read_nibbles(p + 6, 16, codes);
    add_fifth_bits(p + 2, codes);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->scale);
    write_fifth_bits(codes, p + 2);
    write_nibbles(codes, 16, p + 6);
  }
};

/// d, m, the fifth bits, 32 nibbles; w = d q + m.
struct Q5_1 {
  using Format = IntMin<5>;
  static constexpr int columns = 32, bytes = 24;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    sides->scale = half_at(p);
    sides->min = half_at(p + 2);
    read_nibbles(p + 8, 16, codes);
    add_fifth_bits(p + 4, codes);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->scale);
    put_half(p + 2, sides->min);
    write_fifth_bits(codes, p + 4);
    write_nibbles(codes, 16, p + 8);
  }
};

/// d, 32 nibbles that are indices.
struct Iq4Nl {
  using Format = bantam::Iq4Nl;
  static constexpr int columns = 32, bytes = 18;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept { Q4_0::read(p, codes, sides); }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    Q4_0::write(codes, sides, p);
  }
};

/// The exponent, 32 nibbles.
struct Mxfp4 {
  using Format = bantam::Mxfp4;
  static constexpr int columns = 32, bytes = 17;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    sides->scale = bantam::detail::power_of_two(load_as<std::uint8_t>(p));
    read_nibbles(p + 1, 16, codes);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    bantam::detail::store_as(p, bantam::detail::exponent_byte(sides->scale));
    write_nibbles(codes, 16, p + 1);
  }
};

/// Four E4M3 scales, whose signs do not count and whose NaN is 0; 16 nibbles under each.
struct Nvfp4 {
  using Format = bantam::Nvfp4;
  static constexpr int columns = 64, bytes = 36;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int g = 0; g < 4; ++g) {
      const auto scale = static_cast<std::uint8_t>(byte_at(p, g));
      sides[g] = {.scale = scale == 0x7f ? 0.0f : bantam::detail::magnitude_of_e4m3(scale), .unit = 1};
      read_nibbles(p + 4 + 8 * g, 8, codes + 16 * g);
    }
  }
};

/// Finishes a group of a block of 256.
template <class F>
void set_side(GroupSide& side, float unit, int number, float min_unit = 0, int min_number = 0) noexcept {
  side.unit = unit;
  side.min_unit = min_unit;
  side.number = static_cast<std::int16_t>(number);
  side.min_number = static_cast<std::int16_t>(min_number);
  apply_units<F>(side);
}

/// The 12 bytes of q4_K and q5_K: 8 scales and 8 minimums of 6 bits. The first four of each lie in the low 6 bits of
/// bytes 0-3 and 4-7; of the others bytes 8-11 hold the low 4 bits, the high 2 bits of bytes 0-7 the rest.
template <class F>
void read_scales_and_minimums(const std::byte* p, float unit, float min_unit, GroupSide* sides) noexcept {
  for (int g = 0; g < 8; ++g) {
    const unsigned scale = g < 4 ? byte_at(p, g) & 63u : (byte_at(p, g + 4) & 15u) | byte_at(p, g - 4) >> 6 << 4;
    const unsigned min = g < 4 ? byte_at(p, g + 4) & 63u : byte_at(p, g + 4) >> 4 | byte_at(p, g) >> 6 << 4;
    set_side<F>(sides[g], unit, static_cast<int>(scale), min_unit, static_cast<int>(min));
  }
}

/// d, d' and these 12 bytes.
inline void write_scales_and_minimums(const GroupSide* sides, std::byte* p) noexcept {
  put_half(p, sides->unit);
  put_half(p + 2, sides->min_unit);
  const auto scale = [&](int g) { return static_cast<unsigned>(sides[g].number); };
  const auto min = [&](int g) { return static_cast<unsigned>(sides[g].min_number); };
  for (int g = 0; g < 4; ++g) {
    put_byte(p + 4, g, scale(g) | scale(g + 4) >> 4 << 6);
    put_byte(p + 8, g, min(g) | min(g + 4) >> 4 << 6);
    put_byte(p + 12, g, (scale(g + 4) & 15u) | (min(g + 4) & 15u) << 4);
  }
}

/// d, d', 12 bytes of scales, 4 times 32 bytes of 64 nibbles.
struct Q4K {
  using Format = bantam::Q4K;
  static constexpr int columns = 256, bytes = 144;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    read_scales_and_minimums<Format>(p + 4, half_at(p), half_at(p + 2), sides);
    for (int i = 0; i < 4; ++i) read_nibbles(p + 16 + 32 * i, 32, codes + 64 * i);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    write_scales_and_minimums(sides, p);
    for (int i = 0; i < 4; ++i) write_nibbles(codes + 64 * i, 32, p + 16 + 32 * i);
  }
};

/// q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte i is that of weight i of group g.
struct Q5K {
  using Format = bantam::Q5K;
  static constexpr int columns = 256, bytes = 176;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    read_scales_and_minimums<Format>(p + 4, half_at(p), half_at(p + 2), sides);
    for (int i = 0; i < 4; ++i) read_nibbles(p + 48 + 32 * i, 32, codes + 64 * i);
    add_fields<1>(p + 16, 4, codes);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    write_scales_and_minimums(sides, p);
    for (int i = 0; i < 4; ++i) write_nibbles(codes + 64 * i, 32, p + 48 + 32 * i);
    for (int i = 0; i < 32; ++i) {
      unsigned bits = 0;
      for (int g = 0; g < 8; ++g) bits |= (code_at(codes, 32 * g + i) >> 4 & 1u) << g;
      put_byte(p + 16, i, bits);
    }
  }
};

/// 128 bytes of low nibbles, 64 of high pairs, 16 signed scales, d. Halves of 128 weights: nibbles i of 64 bytes are
/// weights i and i + 64; pair j of byte i is that of weight i + 32 j.
struct Q6K {
  using Format = bantam::Q6K;
  static constexpr int columns = 256, bytes = 210;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int half = 0; half < 2; ++half) {
      read_nibbles(p + 64 * half, 64, codes + 128 * half);
      add_fields<2>(p + 128 + 32 * half, 4, codes + 128 * half);
    }
    const float unit = half_at(p + 208);
    for (int g = 0; g < 16; ++g) set_side<Format>(sides[g], unit, load_as<std::int8_t>(p + 192 + g));
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    for (int half = 0; half < 2; ++half) {
      const std::int8_t* of_half = codes + 128 * half;
      write_nibbles(of_half, 64, p + 64 * half);
      for (int i = 0; i < 32; ++i) {
        unsigned pairs = 0;
        for (int j = 0; j < 4; ++j) pairs |= (code_at(of_half, i + 32 * j) >> 4 & 3u) << 2 * j;
        put_byte(p + 128 + 32 * half, i, pairs);
      }
    }
    for (int g = 0; g < 16; ++g) put_byte(p + 192, g, static_cast<std::uint8_t>(sides[g].number));
    put_half(p + 208, sides->unit);
  }
};

/// Halves of 128 weights in 32 bytes: pair j of byte i is weight i + 32 j.
inline void read_pairs(const std::byte* from, std::int8_t* to) noexcept {
  for (int half = 0; half < 2; ++half) read_fields<2>(from + 32 * half, to + 128 * half);
}

inline void write_pairs(const std::int8_t* codes, std::byte* to) noexcept {
  for (int i = 0; i < 64; ++i) {
    unsigned pairs = 0;
    for (int j = 0; j < 4; ++j) pairs |= (code_at(codes, i / 32 * 128 + i % 32 + 32 * j) & 3u) << 2 * j;
    put_byte(to, i, pairs);
  }
}

/// 32 bytes of third bits (bit g of byte i: weight 32 g + i), 64 of pairs, 12 of scales, d. The scales' low nibbles lie
/// in bytes 0-7, those of 8-15 in the high halves; bytes 8-11 hold the high pairs, pair j of byte i that of 4 j + i.
struct Q3K {
  using Format = bantam::Q3K;
  static constexpr int columns = 256, bytes = 110;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    read_pairs(p + 32, codes);
    add_fields<1>(p, 2, codes);
    std::int8_t numbers[16];
    read_nibbles(p + 96, 8, numbers);
    const auto high = load_as<std::uint32_t>(p + 104);
    const std::uint64_t pairs = std::uint64_t{high} | std::uint64_t{high >> 2} << 32;
    for (int i = 0; i < 2; ++i) add_eight(numbers + 8 * i, (pairs >> 4 * i & eight_of(3)) << 4);
    const float unit = half_at(p + 108);
    for (int g = 0; g < 16; ++g) set_side<Format>(sides[g], unit, numbers[g] - 32);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    write_pairs(codes, p + 32);
    for (int i = 0; i < 32; ++i) {
      unsigned bits = 0;
      for (int g = 0; g < 8; ++g) bits |= (code_at(codes, 32 * g + i) >> 2 & 1u) << g;
      put_byte(p, i, bits);
    }
    const auto number = [&](int g) { return static_cast<unsigned>(sides[g].number + 32); };
    for (int g = 0; g < 8; ++g) put_byte(p + 96, g, (number(g) & 15u) | (number(g + 8) & 15u) << 4);
    for (int i = 0; i < 4; ++i) {
      unsigned pairs = 0;
      for (int j = 0; j < 4; ++j) pairs |= number(4 * j + i) >> 4 << 2 * j;
      put_byte(p + 104, i, pairs);
    }
    put_half(p + 108, sides->unit);
  }
};

/// 16 bytes of scales (low) and minimums (high nibble), 64 of pairs, d, d'.
struct Q2K {
  using Format = bantam::Q2K;
  static constexpr int columns = 256, bytes = 84;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    read_pairs(p + 16, codes);
    const float unit = half_at(p + 80), min_unit = half_at(p + 82);
    for (int g = 0; g < 16; ++g) set_side<Format>(sides[g], unit, static_cast<int>(byte_at(p, g) & 15u), min_unit, static_cast<int>(byte_at(p, g) >> 4));
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    for (int g = 0; g < 16; ++g) {
      put_byte(p, g, static_cast<unsigned>(sides[g].number) | static_cast<unsigned>(sides[g].min_number) << 4);
    }
    write_pairs(codes, p + 16);
    put_half(p + 80, sides->unit);
    put_half(p + 82, sides->min_unit);
  }
};

/// d, 16 bits of high pairs, 4 bytes of low nibbles, 8 times 16 bytes of 32 indices.
struct Iq4Xs {
  using Format = bantam::Iq4Xs;
  static constexpr int columns = 256, bytes = 136;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    const auto high = load_as<std::uint16_t>(p + 2);
    const float unit = half_at(p);
    for (int g = 0; g < 8; ++g) {
      read_nibbles(p + 8 + 16 * g, 16, codes + 32 * g);
      const unsigned number = (byte_at(p + 4, g / 2) >> g % 2 * 4 & 15u) | (unsigned{high} >> 2 * g & 3u) << 4;
      set_side<Format>(sides[g], unit, static_cast<int>(number) - 32);
    }
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    const auto number = [&](int g) { return static_cast<unsigned>(sides[g].number + 32); };
    unsigned high = 0;
    for (int g = 0; g < 8; ++g) {
      high |= number(g) >> 4 << 2 * g;
      write_nibbles(codes + 32 * g, 16, p + 8 + 16 * g);
    }
    bantam::detail::store_as(p + 2, static_cast<std::uint16_t>(high));
    for (int i = 0; i < 4; ++i) put_byte(p + 4, i, (number(2 * i) & 15u) | (number(2 * i + 1) & 15u) << 4);
  }
};

}  // namespace bantam::inline v0::gguf
