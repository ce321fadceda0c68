// GGUF's types of 1 to 3 bits. Most look four or eight weights up at once, and formats that hold the same values need
// more bits. Codes of Iq2, Iq3Xxs and Iq3S are numbered so that bits 0 to 2 are a digit of a grid, bit 3 the sign.
// Most rows of codes are on no grid: write() is for those of the format that `written` names, whose rows all are.
#pragma once

#include <algorithm>
#include <bit>

#include "model/gguf_codes.hpp"
#include "quant/iq_grids.hpp"

namespace bantam::inline v0::gguf {

/// Entries of a grid as codes, one a byte: a load in place of spread(). Codes: as many bytes as an entry has digits.
template <class Codes, int Bits, std::size_t Count>
[[nodiscard]] constexpr std::array<Codes, Count> codes_of(const std::uint16_t (&entries)[Count]) noexcept {
  std::array<Codes, Count> codes{};
  for (std::size_t i = 0; i < Count; ++i) codes[i] = static_cast<Codes>(spread<Bits>(entries[i]));
  return codes;
}

inline constexpr auto iq2_xxs_codes = codes_of<std::uint64_t, 2>(grid::iq2_xxs);
inline constexpr auto iq2_xs_codes = codes_of<std::uint64_t, 2>(grid::iq2_xs);
inline constexpr auto iq2_s_codes = codes_of<std::uint64_t, 2>(grid::iq2_s);
inline constexpr auto iq3_xxs_codes = codes_of<std::uint32_t, 3>(grid::iq3_xxs);
inline constexpr auto iq3_s_codes = codes_of<std::uint32_t, 3>(grid::iq3_s);

/// Bit 3 of eight codes from seven signs: an even number of weights is negative.
inline constexpr auto seven_signs = [] {
  std::array<std::uint64_t, 128> all{};
  for (unsigned seven = 0; seven < all.size(); ++seven) all[seven] = spread<1>(seven | (static_cast<unsigned>(std::popcount(seven)) & 1u) << 7) << 3;
  return all;
}();

/// Of eight signs.
[[nodiscard]] inline std::uint64_t eight_signs(unsigned byte) noexcept { return spread_bits[byte] << 3; }

/// The index of an entry, which the grid has.
template <std::size_t Count>
[[nodiscard]] unsigned index_in(const std::uint16_t (&entries)[Count], unsigned entry) noexcept {
  const auto found = std::ranges::lower_bound(entries, entry);
  BANTAM_ASSERT(found != std::end(entries) && *found == entry);
  return static_cast<unsigned>(found - entries);
}

/// The digits of some codes, the first lowest.
template <int Bits>
[[nodiscard]] unsigned digits_of(const std::int8_t* codes, int count) noexcept {
  unsigned digits = 0;
  for (int i = 0; i < count; ++i) digits |= (code_at(codes, i) & ((1u << Bits) - 1)) << i * Bits;
  return digits;
}

/// Bit i is that of weight i of eight, set where it is negative.
[[nodiscard]] inline unsigned signs_of(const std::int8_t* codes) noexcept {
  unsigned signs = 0;
  for (int i = 0; i < 8; ++i) signs |= (code_at(codes, i) >> 3 & 1u) << i;
  return signs;
}

/// What set_odd_scale made the scale of.
[[nodiscard]] inline unsigned odd_scale(const GroupSide& side) noexcept { return static_cast<unsigned>(side.number) / 2; }

/// Adds bits at `shift` of byte `i`.
inline void add_bits(std::byte* p, int i, unsigned bits, int shift) noexcept { p[i] |= static_cast<std::byte>(bits << shift); }

/// The scale of a group from its number n of 3 or 4 bits: an odd multiple of d. (ggml writes d (n + 0.5) / 4 for iq2,
/// d (n + 0.5) / 2 for iq3_xxs; our levels are divided by 8 and 4 instead.)
template <class F>
void set_odd_scale(GroupSide& side, float d, unsigned n) noexcept {
  set_side<F>(side, d, static_cast<int>(2 * n + 1));
}

/// Nibble `i` of some bytes.
[[nodiscard]] inline unsigned nibble_at(const std::byte* p, int i) noexcept {
  return byte_at(p, i / 2) >> i % 2 * 4 & 15u;
}

/// d; for each 32 weights four bytes of indices, four times 7 signs and a scale of 4 bits.
struct Iq2Xxs {
  using Format = Iq2<32>;
  static constexpr std::string_view written = "iq2_xxs.g32";
  static constexpr int columns = 256, bytes = 66;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    const float unit = half_at(p);
    for (int g = 0; g < 8; ++g) {
      const std::byte* indices = p + 2 + 8 * g;
      const auto signs = load_as<std::uint32_t>(indices + 4);
      for (int i = 0; i < 4; ++i) {
        put_eight(codes + 32 * g + 8 * i, iq2_xxs_codes[byte_at(indices, i)] | seven_signs[signs >> 7 * i & 127u]);
      }
      set_odd_scale<Format>(sides[g], unit, signs >> 28);
    }
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    for (int g = 0; g < 8; ++g) {
      std::uint32_t signs = odd_scale(sides[g]) << 28;
      for (int i = 0; i < 4; ++i) {
        const std::int8_t* eight = codes + 32 * g + 8 * i;
        put_byte(p + 2 + 8 * g, i, index_in(grid::iq2_xxs, digits_of<2>(eight, 8)));
        signs |= (signs_of(eight) & 127u) << 7 * i;
      }
      bantam::detail::store_as(p + 6 + 8 * g, signs);
    }
  }
};

/// d, 32 times 9 bits of index and 7 signs, 16 scales of 4 bits.
struct Iq2Xs {
  using Format = Iq2<16>;
  static constexpr std::string_view written = "iq2_xs.g16";
  static constexpr int columns = 256, bytes = 74;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int i = 0; i < 32; ++i) {
      const unsigned word = load_as<std::uint16_t>(p + 2 + 2 * i);
      put_eight(codes + 8 * i, iq2_xs_codes[word & 511u] | seven_signs[word >> 9]);
    }
    const float unit = half_at(p);
    for (int g = 0; g < 16; ++g) set_odd_scale<Format>(sides[g], unit, nibble_at(p + 66, g));
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    for (int i = 0; i < 32; ++i) {
      const unsigned index = index_in(grid::iq2_xs, digits_of<2>(codes + 8 * i, 8));
      bantam::detail::store_as(p + 2 + 2 * i, static_cast<std::uint16_t>(index | signs_of(codes + 8 * i) << 9));
    }
    for (int i = 0; i < 8; ++i) put_byte(p + 66, i, odd_scale(sides[2 * i]) | odd_scale(sides[2 * i + 1]) << 4);
  }
};

/// d, 32 low bytes of indices, 32 bytes of signs, 32 high pairs of indices, 16 scales of 4 bits.
struct Iq2S {
  using Format = Iq2<16>;
  static constexpr std::string_view written = "iq2_s.g16";
  static constexpr int columns = 256, bytes = 82;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int i = 0; i < 32; ++i) {
      const unsigned index = byte_at(p + 2, i) | (byte_at(p + 66, i / 4) >> i % 4 * 2 & 3u) << 8;
      put_eight(codes + 8 * i, iq2_s_codes[index] | eight_signs(byte_at(p + 34, i)));
    }
    const float unit = half_at(p);
    for (int g = 0; g < 16; ++g) set_odd_scale<Format>(sides[g], unit, nibble_at(p + 74, g));
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    std::fill_n(p + 66, 8, std::byte{0});
    for (int i = 0; i < 32; ++i) {
      const unsigned index = index_in(grid::iq2_s, digits_of<2>(codes + 8 * i, 8));
      put_byte(p + 2, i, index & 255u);
      put_byte(p + 34, i, signs_of(codes + 8 * i));
      add_bits(p + 66, i / 4, index >> 8, i % 4 * 2);
    }
    for (int i = 0; i < 8; ++i) put_byte(p + 74, i, odd_scale(sides[2 * i]) | odd_scale(sides[2 * i + 1]) << 4);
  }
};

/// d, 64 bytes of indices, for each 32 weights four times 7 signs and a scale of 4 bits.
struct Iq3Xxs {
  using Format = bantam::Iq3Xxs;
  static constexpr std::string_view written = "iq3_xxs.g32";
  static constexpr int columns = 256, bytes = 98;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    const float unit = half_at(p);
    for (int g = 0; g < 8; ++g) {
      const std::byte* indices = p + 2 + 8 * g;
      const auto signs = load_as<std::uint32_t>(p + 66 + 4 * g);
      for (int i = 0; i < 4; ++i) {
        const std::uint64_t low = iq3_xxs_codes[byte_at(indices, 2 * i)], high = iq3_xxs_codes[byte_at(indices, 2 * i + 1)];
        put_eight(codes + 32 * g + 8 * i, low | high << 32 | seven_signs[signs >> 7 * i & 127u]);
      }
      set_odd_scale<Format>(sides[g], unit, signs >> 28);
    }
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    for (int g = 0; g < 8; ++g) {
      std::uint32_t signs = odd_scale(sides[g]) << 28;
      for (int i = 0; i < 8; ++i) put_byte(p + 2 + 8 * g, i, index_in(grid::iq3_xxs, digits_of<3>(codes + 32 * g + 4 * i, 4)));
      for (int i = 0; i < 4; ++i) signs |= (signs_of(codes + 32 * g + 8 * i) & 127u) << 7 * i;
      bantam::detail::store_as(p + 66 + 4 * g, signs);
    }
  }
};

/// d, 64 low bytes of indices, 64 high bits, 32 bytes of signs, 8 scales of 4 bits.
struct Iq3S {
  using Format = bantam::Iq3S;
  static constexpr std::string_view written = "iq3_s.g32";
  static constexpr int columns = 256, bytes = 110;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    const auto entry = [&](int i) { return std::uint64_t{iq3_s_codes[byte_at(p + 2, i) | (byte_at(p + 66, i / 8) >> i % 8 & 1u) << 8]}; };
    for (int i = 0; i < 32; ++i) put_eight(codes + 8 * i, entry(2 * i) | entry(2 * i + 1) << 32 | eight_signs(byte_at(p + 74, i)));
    const float unit = half_at(p);
    for (int g = 0; g < 8; ++g) set_odd_scale<Format>(sides[g], unit, nibble_at(p + 106, g));
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    std::fill_n(p + 66, 8, std::byte{0});
    for (int i = 0; i < 64; ++i) {
      const unsigned index = index_in(grid::iq3_s, digits_of<3>(codes + 4 * i, 4));
      put_byte(p + 2, i, index & 255u);
      add_bits(p + 66, i / 8, index >> 8, i % 8);
    }
    for (int i = 0; i < 32; ++i) put_byte(p + 74, i, signs_of(codes + 8 * i));
    for (int i = 0; i < 4; ++i) put_byte(p + 106, i, odd_scale(sides[2 * i]) | odd_scale(sides[2 * i + 1]) << 4);
  }
};

/// Eight weights of iq1 from eight digits: an eighth more, or less, than the -1, 0 and 1 of the grid.
[[nodiscard]] constexpr std::uint64_t ternary_eighths(std::uint64_t digits, bool less) noexcept {
  // Of the bits that tell codes from that of digit 0, a digit of 1 changes some, one of 2 others.
  const auto& of = grid::ternary_codes[less];
  const auto zero = static_cast<unsigned>(of[0]), one = zero ^ static_cast<unsigned>(of[1]), two = zero ^ static_cast<unsigned>(of[2]);
  return eight_of(zero) ^ (digits & eight_of(1)) * one ^ (digits >> 1 & eight_of(1)) * two;
}

/// Of each entry of the grid: an eighth more, and what differs where it is less.
struct TernaryEighths {
  std::uint64_t more, differs;
  [[nodiscard]] std::uint64_t codes(bool less) const noexcept { return more ^ (differs & (less ? ~std::uint64_t{0} : 0)); }
};

inline constexpr auto iq1_s_eighths = [] {
  std::array<TernaryEighths, std::size(grid::iq1_s)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t digits = spread<2>(grid::iq1_s[i]), more = ternary_eighths(digits, false);
    all[i] = {more, more ^ ternary_eighths(digits, true)};
  }
  return all;
}();

[[nodiscard]] inline bool is_less(const std::int8_t* codes) noexcept { return std::ranges::find(grid::ternary_codes[1], *codes) != std::end(grid::ternary_codes[1]); }

[[nodiscard]] inline unsigned ternary_digits(const std::int8_t* codes) noexcept {
  const auto& of = grid::ternary_codes[is_less(codes)];
  unsigned digits = 0;
  for (int i = 0; i < 8; ++i) digits |= static_cast<unsigned>(std::ranges::find(of, codes[i]) - of) << 2 * i;
  return digits;
}

/// d, 32 low bytes of indices; for each 32 weights four times 3 high bits, a scale of 3 bits, and whether it is less.
struct Iq1S {
  using Format = Iq2<32>;
  static constexpr std::string_view written = "iq1_s.g32";
  static constexpr int columns = 256, bytes = 50;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    const float unit = half_at(p);
    for (int g = 0; g < 8; ++g) {
      const unsigned word = load_as<std::uint16_t>(p + 34 + 2 * g);
      for (int i = 4 * g; i < 4 * g + 4; ++i) {
        const unsigned index = byte_at(p + 2, i) | (word >> i % 4 * 3 & 7u) << 8;
        put_eight(codes + 8 * i, iq1_s_eighths[index].codes(word >> 15 != 0));
      }
      set_odd_scale<Format>(sides[g], unit, word >> 12 & 7u);
    }
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    put_half(p, sides->unit);
    for (int g = 0; g < 8; ++g) {
      unsigned word = odd_scale(sides[g]) << 12 | static_cast<unsigned>(is_less(codes + 32 * g)) << 15;
      for (int i = 0; i < 4; ++i) {
        const unsigned index = index_in(grid::iq1_s, ternary_digits(codes + 32 * g + 8 * i));
        put_byte(p + 2, 4 * g + i, index & 255u);
        word |= index >> 8 << 3 * i;
      }
      bantam::detail::store_as(p + 34 + 2 * g, static_cast<std::uint16_t>(word));
    }
  }
};

/// 32 low bytes of indices; 32 times 3 high bits, and whether it is less; four times four scales of 3 bits and 4 of d.
struct Iq1M {
  using Format = Iq2<16>;
  static constexpr std::string_view written = "iq1_m.g16";
  static constexpr int columns = 256, bytes = 56;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int i = 0; i < 32; ++i) {
      const unsigned high = nibble_at(p + 32, i);
      put_eight(codes + 8 * i, iq1_s_eighths[byte_at(p, i) | (high & 7u) << 8].codes(high >> 3 != 0));
    }
    const auto word = [&](int i) { return unsigned{load_as<std::uint16_t>(p + 48 + 2 * i)}; };
    unsigned d = 0;
    for (int i = 0; i < 4; ++i) d |= word(i) >> 12 << 4 * i;
    const auto unit = float(f16::from_bits(static_cast<std::uint16_t>(d)));
    for (int g = 0; g < 16; ++g) set_odd_scale<Format>(sides[g], unit, word(g / 4) >> g % 4 * 3 & 7u);
  }
  static void write(const std::int8_t* codes, const GroupSide* sides, std::byte* p) noexcept {
    std::fill_n(p + 32, 24, std::byte{0});
    for (int i = 0; i < 32; ++i) {
      const unsigned index = index_in(grid::iq1_s, ternary_digits(codes + 8 * i));
      put_byte(p, i, index & 255u);
      add_bits(p + 32, i / 2, index >> 8 | static_cast<unsigned>(is_less(codes + 8 * i)) << 3, i % 2 * 4);
    }
    const unsigned d = f16(sides->unit).bits;
    for (int i = 0; i < 4; ++i) {
      unsigned word = (d >> 4 * i & 15u) << 12;
      for (int g = 0; g < 4; ++g) word |= odd_scale(sides[4 * i + g]) << 3 * g;
      bantam::detail::store_as(p + 48 + 2 * i, static_cast<std::uint16_t>(word));
    }
  }
};

/// w = d (q - 1), in some groups that share d.
inline void set_ternary_sides(float d, int groups, GroupSide* sides) noexcept {
  for (int g = 0; g < groups; ++g) {
    sides[g].scale = d;
    sides[g].zero = 1;
  }
}

/// `each` ternary digits of `count` bytes, `step` (4 or 8) at a time: digits n of all are weights in a row.
inline void read_digits(const std::byte* from, std::size_t step, int count, int each, std::int8_t* to) noexcept {
  constexpr std::uint64_t even = 0x00ff00ff00ff00ffu;
  for (int i = 0; i < count; i += static_cast<int>(step)) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, from + i, step);
    std::uint64_t low = eight & even, high = eight >> 8 & even;  // in 16 bits each, which a byte times 3 fits in
    for (int n = 0; n < each; ++n) {
      low *= 3;
      high *= 3;
      const std::uint64_t digits = (low >> 8 & even) | (high & ~even);
      std::memcpy(to + n * count + i, &digits, step);
      low &= even;
      high &= even;
    }
  }
}

/// 48 bytes of five ternary digits, 4 of four, d. A byte is the fraction 0.d0 d1 d2 d3 d4 in base 3, times 256 and
/// rounded up; digits n of 32 bytes are 32 weights in a row, then those of 16, then those of 4.
struct Tq1_0 {
  using Format = IntZero<2, 128>;
  static constexpr int columns = 256, bytes = 54;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    set_ternary_sides(half_at(p + 52), 2, sides);
    read_digits(p, 8, 32, 5, codes);
    read_digits(p + 32, 8, 16, 5, codes + 160);
    read_digits(p + 48, 4, 4, 4, codes + 240);
  }
};

/// 64 bytes of pairs, d.
struct Tq2_0 {
  using Format = IntZero<2, 128>;
  static constexpr int columns = 256, bytes = 66;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    read_pairs(p, codes);
    set_ternary_sides(half_at(p + 64), 2, sides);
  }
};

/// d, 64 pairs in order.
struct Q2_0 {
  using Format = IntZero<2, 64>;
  static constexpr int columns = 64, bytes = 18;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int i = 0; i < 8; ++i) put_eight(codes + 8 * i, spread<2>(load_as<std::uint16_t>(p + 2 + 2 * i)));
    set_ternary_sides(half_at(p), 1, sides);
  }
};

/// d, 128 bits in order: d for a bit that is set, else -d.
struct Q1_0 {
  using Format = IntZero<2, 128>;
  static constexpr int columns = 128, bytes = 18;
  static void read(const std::byte* p, std::int8_t* codes, GroupSide* sides) noexcept {
    for (int i = 0; i < 16; ++i) put_eight(codes + 8 * i, spread_bits[byte_at(p + 2, i)] << 1);
    set_ternary_sides(half_at(p), 1, sides);
  }
};

}  // namespace bantam::inline v0::gguf
