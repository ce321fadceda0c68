// Groups whose scales are small numbers under one f16 of 256 columns: bantam's i4x and GGUF's k-quants and iq4_xs.
#pragma once

#include "bantam/quant/fit.hpp"
#include "bantam/quant/formats/codebook4.hpp"

namespace bantam::inline v0 {

namespace detail {

/// The parts that all of them share. Values equal those of GGUF's type bit for bit, where there is one; fits are ours.
template <class F, int Bits, int Group, int ScaleBits, class ZeroTag>
struct SuperFormat {
  static constexpr int group = Group;
  using Plane = plane::Codes<Bits>;
  using Scale = scale::Super<ScaleBits>;
  using Zero = ZeroTag;

  static void encode(std::span<const float> weights, std::int8_t* codes, std::span<GroupSide> sides) noexcept {
    encode_super<F>(weights, {}, codes, sides);
  }
};

}  // namespace detail

/// w = (d s) (q - 8), s in -32..31 each 32 weights: the resolution of i4.g32 at the size of i4.g64.
struct Int4Super : detail::SuperFormat<Int4Super, 4, 32, 6, zero::None> {
  static constexpr std::string_view name = "i4x.g32";
  static constexpr FormatId id{0x0024};
};

/// GGUF's iq4_xs: the levels of iq4_nl under scales of 6 bits.
struct Iq4Xs : detail::SuperFormat<Iq4Xs, 4, 32, 6, zero::None> {
  static constexpr std::string_view name = "iq4xs.g32";
  static constexpr FormatId id{0x0036};
  static constexpr std::array<float, 16> levels = Iq4Nl::levels;
  static constexpr float level_unit = Iq4Nl::level_unit;
};

/// What GGUF's iq1 and iq2 types spell by entries of their grids, one code a weight: eighths of 8, 25 and 43 (iq2), of 1,
/// 7 and 9 (iq1: -1, 0 and 1, all an eighth more or less), and their negatives. GGUF spends 1.6 to 2.6 bits on the same,
/// and looks eight weights up at once. Levels 0 and 2 are in no file: they fill gaps when something is rounded to them.
template <int Group>
struct Iq2 : detail::SuperFormat<Iq2<Group>, 4, Group, 6, zero::None> {
  static constexpr std::string_view name = Group == 16 ? "iq2.g16" : "iq2.g32";
  static constexpr FormatId id{Group == 16 ? 0x003a : 0x003b};
  static constexpr std::array<float, 16> levels{1,  3.125f,  5.375f,  0.125f,  0.875f,  1.125f,  0,     2,
                                                -1, -3.125f, -5.375f, -0.125f, -0.875f, -1.125f, -0.0f, -2};
  static constexpr float level_unit = 0.125f;
};

/// The same of iq3_xxs.
struct Iq3Xxs : detail::SuperFormat<Iq3Xxs, 4, 32, 6, zero::None> {
  static constexpr std::string_view name = "iq3xxs.g32";
  static constexpr FormatId id{0x003c};
  static constexpr std::array<float, 16> levels{1, 3, 5, 7, 9, 11, 13, 15.5f, -1, -3, -5, -7, -9, -11, -13, -15.5f};
  static constexpr float level_unit = 0.5f;
};

/// The same of iq3_s.
struct Iq3S : detail::SuperFormat<Iq3S, 4, 32, 6, zero::None> {
  static constexpr std::string_view name = "iq3s.g32";
  static constexpr FormatId id{0x003d};
  static constexpr std::array<float, 16> levels{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
  static constexpr float level_unit = 1;
};

/// GGUF's q2_K: w = (d s) q - d' m, s and m in 0..15 each 16 weights.
struct Q2K : detail::SuperFormat<Q2K, 2, 16, 4, zero::Min> {
  static constexpr std::string_view name = "q2k.g16";
  static constexpr FormatId id{0x0062};
};

/// GGUF's q3_K: w = (d s) (q - 4), s in -32..31 each 16 weights.
struct Q3K : detail::SuperFormat<Q3K, 3, 16, 6, zero::None> {
  static constexpr std::string_view name = "q3k.g16";
  static constexpr FormatId id{0x0063};
};

/// GGUF's q4_K: w = (d s) q - d' m, s and m in 0..63 each 32 weights.
struct Q4K : detail::SuperFormat<Q4K, 4, 32, 6, zero::Min> {
  static constexpr std::string_view name = "q4k.g32";
  static constexpr FormatId id{0x0064};
};

/// GGUF's q5_K: q4_K with codes of 5 bits.
struct Q5K : detail::SuperFormat<Q5K, 5, 32, 6, zero::Min> {
  static constexpr std::string_view name = "q5k.g32";
  static constexpr FormatId id{0x0065};
};

/// GGUF's q6_K: w = (d s) (q - 32), s in -128..127 each 16 weights.
struct Q6K : detail::SuperFormat<Q6K, 6, 16, 8, zero::None> {
  static constexpr std::string_view name = "q6k.g16";
  static constexpr FormatId id{0x0066};
};

}  // namespace bantam::inline v0
