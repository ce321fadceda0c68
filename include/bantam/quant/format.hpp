// What a weight format is: a type that states how codes, scales and zero points lie, and how a group is rounded.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "bantam/core/half.hpp"

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
/// Nibbles; a line is 16 channels of 8 columns: byte 4 n + j = code(n, 8 L + j) | code(n, 8 L + 4 + j) << 4.
struct I4 {
  static constexpr int bits = 4;
  static constexpr int column_unit = 32;
};

}  // namespace plane

/// Where the scale of a weight comes from.
namespace scale {

struct None {};    ///< float formats
struct Row {};     ///< one f32 a row, at the head of the panel
struct F16 {};     ///< one f16 a group
struct Nested {};  ///< one byte a group, an index into the dynamic map of bitsandbytes, under two f32 a row (QLoRA's double quantization)

}  // namespace scale

/// What is subtracted or added besides code times scale.
namespace zero {

struct None {};
struct Point {};  ///< w = scale (q - z), z in 0..16, one byte a group
struct Min {};    ///< w = scale q + min, min one f16 a group

}  // namespace zero

/// The numbers that a group of weights shares.
struct GroupSide {
  float scale = 0;  ///< what a code is multiplied by
  float min = 0;    ///< zero::Min only
  int zero = 0;     ///< zero::Point only
};

/// A format is a stateless type with
///   name, id                     unique text and number
///   group                        weights per scale; 0: the whole row
///   Plane, Scale, Zero           tags from above
///   encode(weights, codes, side) rounds one group to nearest (absent for float planes)
///   levels                       the value of each code, for codebook formats (codes are indices then)
/// Codes of plane::I4 are 0..15, meaning code - 8 times scale unless the format has levels or a zero point.
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

/// What q means before scaling: I4 without levels counts from -8.
template <class F>
inline constexpr int code_offset =
    std::same_as<typename F::Plane, plane::I4> && !has_levels<F> && std::same_as<typename F::Zero, zero::None> ? 8 : 0;

/// The value of one code. This defines what every kernel must compute.
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

/// 1 / scale for rounding; 0, so that every code becomes that of zero, where the reciprocal would overflow. The scale
/// is far below the smallest f16 then.
[[nodiscard]] constexpr float inverse_scale(float scale) noexcept {
  return scale >= 0x1p-126f || scale <= -0x1p-126f ? 1.0f / scale : 0.0f;
}

/// The weights of one group; `codes` has the same length. Weights are finite.
using GroupEncoder = void (*)(std::span<const float> weights, std::int8_t* codes, GroupSide& side);

}  // namespace bantam::inline v0
