// Unsigned integers of 2 to 5 bits under one scale a group: symmetric, with a zero point, or with a minimum.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/quant/format.hpp"

namespace bantam::inline v0 {

namespace detail {

/// "i4z.g32": prefix, bits, kind, group.
template <int Bits, char Kind, int Group>
struct IntegerName {
  char text[10] = {};
  std::size_t length = 0;
  constexpr IntegerName() {
    text[length++] = 'i';
    text[length++] = static_cast<char>('0' + Bits);
    if (Kind != ' ') text[length++] = Kind;
    text[length++] = '.';
    text[length++] = 'g';
    for (int unit = 100; unit > 0; unit /= 10) {
      if (Group >= unit) text[length++] = static_cast<char>('0' + Group / unit % 10);
    }
  }
};
template <int Bits, char Kind, int Group>
inline constexpr IntegerName<Bits, Kind, Group> integer_name;

/// Numbers on disk: eight a number of bits and kind, by group.
[[nodiscard]] constexpr FormatId integer_id(int first, int group) {
  return FormatId{static_cast<std::uint16_t>(first + (group == 32 ? 0 : group == 64 ? 1 : 2))};
}

}  // namespace detail

/// w = scale * (q - 2^(Bits - 1)). The weight of largest magnitude becomes the lowest code exactly, whatever its sign.
/// Group 32 equals GGUF's q4_0 and q5_0 bit for bit: halves are rounded up, with the scale before it is cut to f16.
template <int Bits, int Group>
struct Int {
  static constexpr std::string_view name{detail::integer_name<Bits, ' ', Group>.text, detail::integer_name<Bits, ' ', Group>.length};
  static constexpr FormatId id = detail::integer_id(Bits == 4 ? 0x20 : Bits == 3 ? 0x40 : 0x58, Group);
  static constexpr int group = Group;
  using Plane = plane::Codes<Bits>;
  using Scale = scale::F16;
  using Zero = zero::None;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    constexpr int middle = 1 << (Bits - 1);
    float extreme = 0;
    for (const float w : weights) {
      if (std::fabs(w) > std::fabs(extreme)) extreme = w;
    }
    side.scale = extreme / -static_cast<float>(middle);
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) {
      *codes++ = static_cast<std::int8_t>(std::clamp(static_cast<int>(w * inverse + (middle + 0.5f)), 0, 2 * middle - 1));
    }
  }
};

/// w = scale * (q - zero), zero in 0..2^Bits: holds every GPTQ (v1 zeros reach 2^Bits) and AWQ value exactly.
/// The grid is GPTQ's: it spans the group's minimum, its maximum and 0 (arXiv:2210.17323, quant.py of the authors).
template <int Bits, int Group>
struct IntZero {
  static constexpr std::string_view name{detail::integer_name<Bits, 'z', Group>.text, detail::integer_name<Bits, 'z', Group>.length};
  static constexpr FormatId id = detail::integer_id(Bits == 4 ? 0x28 : Bits == 3 ? 0x48 : 0x50, Group);
  static constexpr int group = Group;
  using Plane = plane::Codes<Bits>;
  using Scale = scale::F16;
  using Zero = zero::Point;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    constexpr int largest = (1 << Bits) - 1;
    float low = 0;
    float high = 0;
    for (const float w : weights) {
      low = std::min(low, w);
      high = std::max(high, w);
    }
    // Codes are rounded on the scale that is stored, so the cut to f16 costs nothing.
    side.scale = float(f16((high - low) / static_cast<float>(largest)));
    if (side.scale == 0) side.scale = low == high ? 1.0f : 0x1p-24f;
    side.zero = std::clamp(static_cast<int>(nearest_even(-low / side.scale)), 0, largest);
    for (const float w : weights) {
      const int q = static_cast<int>(nearest_even(w / side.scale)) + side.zero;
      *codes++ = static_cast<std::int8_t>(std::clamp(q, 0, largest));
    }
  }
};

/// w = scale * q + min, groups of 32: GGUF's q4_1 and q5_1, bit for bit.
template <int Bits>
struct IntMin {
  static constexpr std::string_view name{detail::integer_name<Bits, 'm', 32>.text, detail::integer_name<Bits, 'm', 32>.length};
  static constexpr FormatId id{Bits == 4 ? 0x2c : 0x5c};
  static constexpr int group = 32;
  using Plane = plane::Codes<Bits>;
  using Scale = scale::F16;
  using Zero = zero::Min;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    constexpr int largest = (1 << Bits) - 1;
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    side.min = *low;
    side.scale = (*high - *low) / static_cast<float>(largest);
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) {
      *codes++ = static_cast<std::int8_t>(std::clamp(static_cast<int>((w - side.min) * inverse + 0.5f), 0, largest));
    }
  }
};

}  // namespace bantam::inline v0
