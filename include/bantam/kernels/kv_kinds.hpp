// The ways to keep keys and values: the one list of them. kernels/kv_page.hpp says how each lies in a page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bantam::inline v0 {

/// Floats, or halves. `saved_as`, of at most 8 letters, is what files call a layout of pages: one that is new gets a new name.
template <int Bits>
struct KvFloats {
  static constexpr const char* name = Bits == 32 ? "f32" : "f16";
  static constexpr const char* saved_as = name;
  static constexpr int bits = Bits;
  static constexpr int scale_bytes = 0;
  static constexpr bool has_levels = false;
};
using KvF32 = KvFloats<32>;
using KvF16 = KvFloats<16>;
/// Signed bytes, a scale max|x| / 127 every 32 dimensions.
struct KvI8 {
  static constexpr const char* name = "q8";
  static constexpr const char* saved_as = "q8";
  static constexpr int bits = 8;
  static constexpr int scale_bytes = 4;
  static constexpr bool has_levels = false;
};
/// Levels (simd/levels.hpp) of numbers that were rotated with others of their head (kernels/kv_levels.hpp), and a scale every 32 dimensions.
template <int Bits>
struct KvLevels {
  static constexpr int bits = Bits;
  static constexpr int scale_bytes = 2;
  static constexpr bool has_levels = true;
  static constexpr int codes_in_word = 16 / Bits;
  static constexpr bool one_is_left = codes_in_word * Bits < 16;  ///< of the codes of 16 dimensions in Bits words
};
struct KvQ4 : KvLevels<4> {
  static constexpr const char* name = "q4";
  static constexpr const char* saved_as = "q4.rot";
};
struct KvQ3 : KvLevels<3> {
  static constexpr const char* name = "q3";
  static constexpr const char* saved_as = "q3.rot";
};

/// Numbers that are rotated, at most: heads that are larger, which no model has, are in blocks of so many.
inline constexpr std::int64_t largest_rotation = 1024;

template <class... Kv>
struct KvList {
  static constexpr std::size_t size = sizeof...(Kv);
};
/// In the order of KernelTable::kv.
using KvKinds = KvList<KvF32, KvF16, KvI8, KvQ4, KvQ3>;

}  // namespace bantam::inline v0
