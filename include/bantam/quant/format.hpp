// What a weight format is: a type that states how codes, scales and zero points lie, and how a group is rounded.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "bantam/core/half.hpp"
#include "bantam/simd/trellis.hpp"

namespace bantam::inline v0 {

/// A format's number on disk. Never renumbered, never reused.
enum class FormatId : std::uint16_t {};

/// How the codes of a strip lie in memory (docs/formats.md draws them). Widths in columns.
namespace plane {

/// One f32 a weight; a line is 16 channels of one column.
struct F32 {
  static constexpr int bits = 32;
  static constexpr int column_unit = 4;
};
/// One f16 a weight; a half-line is 16 channels of one column.
struct F16 {
  static constexpr int bits = 16;
  static constexpr int column_unit = 4;
};
/// Pairs of columns in one 32-bit lane a channel, as bf16 dot products read them.
struct BF16 {
  static constexpr int bits = 16;
  static constexpr int column_unit = 4;
};
/// Signed bytes; a line is 16 channels of 4 columns: byte 4 n + j = code(n, 4 L + j).
struct I8 {
  static constexpr int bits = 8;
  static constexpr int column_unit = 32;
};
/// Unsigned codes of 2 to 6 bits. 32 columns of 16 channels are Bits lines of 64 bytes: the lowest bits first, in the widest
/// lines that fit, 4 bits a code, then 2, then 1.
///   4 bits: byte 4 n + j of line L holds columns 8 L + j (low) and 8 L + 4 + j (high)
///   2 bits: bits 2 i of byte 4 n + j of line L hold column 16 L + 4 i + j
///   1 bit:  bit i of byte 4 n + j holds column 4 i + j
template <int Bits>
struct Codes {
  static_assert(Bits >= 2 && Bits <= 6);
  static constexpr int bits = Bits;
  static constexpr int column_unit = 32;
};
using I4 = Codes<4>;
/// Of every four columns of a row two, the others being 0: codes of 4 bits, or signed bytes. 32 columns of 16 channels are a
/// line that says which, nibble i of dword n for columns 4 i .. 4 i + 3 of channel n, then Bits / 2 lines of what is kept:
///   8 bits: bytes 4 n + 2 j and 4 n + 2 j + 1 of line L are the two of columns 8 L + 4 j ..
///   4 bits: low nibbles of those bytes for columns 16 L + 4 j .., high ones for columns 16 L + 8 + 4 j ..; codes xor 8, so that
///           0 is the code of nothing
template <int Bits>
struct TwoOfFour {
  static_assert(Bits == 4 || Bits == 8);
  static constexpr int bits = 1 + Bits / 2;
  static constexpr int column_unit = 32;
};
/// Of the 32 blocks of 16 channels by 4 columns in every 128 columns 16, in their order: codes of 4 bits as Codes<4> has
/// them of 64 columns. Which they are says a bit of each block beside the scales.
struct HalfOfBlocks {
  static constexpr int bits = 2;
  static constexpr int column_unit = 128;
};

/// A stream of bits a row and block of 256 columns, StepBits for every two weights, which are computed from the last 16 of it
/// (simd/trellis.hpp). A unit is `lines` of 64 bytes; 16-bit pieces of the stream, the first bit highest: piece i of the unit's
/// first half of steps in bytes 4 n and 4 n + 1 of line i, of its second half in bytes 4 n + 2 and 4 n + 3.
template <int StepBits>
struct Trellis {
  static constexpr int step_bits = StepBits;
  static constexpr int bits = (StepBits + 1) / 2;  ///< of a code, which a step has two of: its lower bits, then its upper ones
  static constexpr int column_unit = simd::TrellisUnit<StepBits>::columns;
};

}  // namespace plane

/// Which weights a format holds; the others are 0.
enum class Kept : std::uint8_t {
  all,
  two_of_four,     ///< columns of a row
  half_of_blocks,  ///< of 16 rows by 4 columns in every 128 columns
};
template <class Plane>
inline constexpr Kept kept_by = Kept::all;
template <int Bits>
inline constexpr Kept kept_by<plane::TwoOfFour<Bits>> = Kept::two_of_four;
template <>
inline constexpr Kept kept_by<plane::HalfOfBlocks> = Kept::half_of_blocks;

/// Where the scale of a weight comes from.
namespace scale {

struct None {};    ///< float formats
struct Row {};     ///< one f32 a row, at the head of the panel
struct F16 {};     ///< one f16 a group
struct F32 {};     ///< one f32 a group, for scales of other projects that f16 does not hold
struct Nested {};  ///< one byte a group, an index into the dynamic map of bitsandbytes, under two f32 a row (QLoRA's double quantization)
struct E4M3 {};    ///< one number of 8 bits a group (quant/e4m3.hpp), not negative, times an f32 of the row (NVFP4)
struct E8M0 {};    ///< one power of two a group, its biased exponent in a byte (OCP microscaling formats 1.0, 5.4.1)
/// One f16 a row and block of 256 columns, times a number of Bits bits a group; with zero::Min another f16 and number
/// make the minimum, subtracted (GGUF's k-quants). Numbers count from 0 with a minimum, else from -2^(Bits - 1).
template <int Bits>
struct Super {
  static constexpr int bits = Bits;
};

}  // namespace scale

/// What is subtracted or added besides code times scale.
namespace zero {

struct None {};
struct Point {};  ///< w = scale (q - z), z in 0..2^bits, one byte a group
struct Min {};    ///< w = scale q + min, min one f16 a group, or a number under an f16 (scale::Super)

}  // namespace zero

/// The numbers that a group of weights shares.
struct GroupSide {
  float scale = 0;  ///< what a code is multiplied by
  float min = 0;    ///< zero::Min only
  int zero = 0;     ///< zero::Point only
  // scale::Super only: scale = unit * number, min = -(min_unit * min_number). With scale::E4M3 the unit is the row's, or 0: to be chosen.
  float unit = 0;
  float min_unit = 0;
  std::int16_t number = 0;
  std::int16_t min_number = 0;
};

/// A format is a stateless type with
///   name, id                     unique text and number
///   group                        weights per scale; 0: the whole row
///   Plane, Scale, Zero           tags from above
///   encode(weights, codes, side) rounds one group to nearest (absent for float planes); with scale::Super or plane::Trellis
///                                encode(weights, codes, sides) rounds the groups of one block
///   levels                       the value of each code, for codebook formats of 4 bits (codes are indices then)
///   level_unit                   what integer products count levels in, 1/127 unless stated
/// Unsigned codes of some bits mean code - 2^(bits - 1) times scale unless the format has levels, a zero point or a
/// minimum.
template <class F>
concept QuantFormat = requires {
  { F::name } -> std::convertible_to<std::string_view>;
  { F::id } -> std::convertible_to<FormatId>;
  { F::group } -> std::convertible_to<int>;
  typename F::Plane;
  typename F::Scale;
  typename F::Zero;
};

template <class F>
inline constexpr bool is_float_format = std::same_as<typename F::Scale, scale::None>;

template <class F>
inline constexpr bool has_levels = requires { F::levels; };

/// What integer products of a codebook format count in; levels are whole multiples of it, or rounded to them.
template <class F>
inline constexpr float level_unit = 1.0f / 127.0f;
template <class F>
  requires requires { F::level_unit; }
inline constexpr float level_unit<F> = F::level_unit;

/// The bits of unsigned codes; 0 for floats and signed bytes.
template <class Plane>
inline constexpr int code_bits = 0;
template <int Bits>
inline constexpr int code_bits<plane::Codes<Bits>> = Bits;
template <>
inline constexpr int code_bits<plane::TwoOfFour<4>> = 4;
template <>
inline constexpr int code_bits<plane::HalfOfBlocks> = 4;
template <int StepBits>
inline constexpr int code_bits<plane::Trellis<StepBits>> = plane::Trellis<StepBits>::bits;

/// The bits of a step of plane::Trellis; 0 for all others.
template <class Plane>
inline constexpr int step_bits = 0;
template <int StepBits>
inline constexpr int step_bits<plane::Trellis<StepBits>> = StepBits;

/// What q means before scaling: unsigned codes without levels, zero point or minimum count from their middle.
template <class F>
inline constexpr int code_offset = code_bits<typename F::Plane> != 0 && step_bits<typename F::Plane> == 0 && !has_levels<F> && std::same_as<typename F::Zero, zero::None>
                                       ? 1 << (code_bits<typename F::Plane> - 1)
                                       : 0;

/// The value of one code. This defines what every kernel must compute. Of plane::Trellis `code` is what simd::trellis_weight says of
/// the code and those before it.
template <QuantFormat F>
[[nodiscard]] constexpr float decode_code(int code, const GroupSide& side) noexcept {
  if constexpr (has_levels<F>) {
    return F::levels[static_cast<std::size_t>(code)] * side.scale;
  } else if constexpr (std::same_as<typename F::Zero, zero::Point>) {
    return side.scale * static_cast<float>(code - side.zero);
  } else if constexpr (std::same_as<typename F::Zero, zero::Min>) {
    return side.scale * static_cast<float>(code) + side.min;
  } else {
    return side.scale * static_cast<float>(code - code_offset<F>);
  }
}

/// Sets scale and minimum of a scale::Super group from its numbers, each exact in f32.
template <QuantFormat F>
constexpr void apply_units(GroupSide& side) noexcept {
  side.scale = side.unit * static_cast<float>(side.number);
  if constexpr (std::same_as<typename F::Zero, zero::Min>) side.min = -(side.min_unit * static_cast<float>(side.min_number));
}

/// The integer nearest to x, of two equally near the even one; from 2^22 on some float that is as large. What std::nearbyint is,
/// which is a call on processors without SSE 4.1, which portable code is built for.
[[nodiscard]] constexpr float nearest_even(float x) noexcept {
  constexpr float magic = 0x1.8p23f;  // floats from 2^23 to 2^24 are the integers
  return (x + magic) - magic;
}

/// 1 / scale for rounding; 0, so that every code becomes that of zero, where the reciprocal would overflow. The scale
/// is far below the smallest f16 then.
[[nodiscard]] constexpr float inverse_scale(float scale) noexcept {
  return scale >= 0x1p-126f || scale <= -0x1p-126f ? 1.0f / scale : 0.0f;
}

}  // namespace bantam::inline v0
