// Formats that hold half of the weights: of every four two, or of every 32 blocks of 16 rows by 4 columns 16.
#pragma once

#include "bantam/quant/formats/int8.hpp"
#include "bantam/quant/formats/integers.hpp"

namespace bantam::inline v0 {

/// Codes and scales of Int<4, 64>; of every four columns of a row two are kept (2:4, arXiv:2104.08378).
struct Int4Pairs {
  static constexpr std::string_view name = "i4s.g64";
  static constexpr FormatId id{0x0070};
  static constexpr int group = 64;
  using Plane = plane::TwoOfFour<4>;
  using Scale = scale::F16;
  using Zero = zero::None;
  static constexpr auto encode = Int<4, 64>::encode;
};

/// Codes and scales of Int8 in groups of 64; of every four columns of a row two are kept.
struct Int8Pairs {
  static constexpr std::string_view name = "i8s.g64";
  static constexpr FormatId id{0x0071};
  static constexpr int group = 64;
  using Plane = plane::TwoOfFour<8>;
  using Scale = scale::F16;
  using Zero = zero::None;
  static constexpr auto encode = Int8<128>::encode;
};

/// Codes and scales of Int<4, 128>; of the blocks of 16 rows by 4 columns in each group half are kept, the same for 16 rows.
struct Int4Blocks {
  static constexpr std::string_view name = "i4b.g128";
  static constexpr FormatId id{0x0072};
  static constexpr int group = 128;
  using Plane = plane::HalfOfBlocks;
  using Scale = scale::F16;
  using Zero = zero::None;
  static constexpr auto encode = Int<4, 128>::encode;
};

}  // namespace bantam::inline v0
