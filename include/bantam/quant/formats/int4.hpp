// Four-bit integers: symmetric, with a zero point, or with a minimum.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/quant/format.hpp"

namespace bantam::inline v0 {

/// w = scale * (q - 8). The weight of largest magnitude becomes -8 exactly, whatever its sign. Group 32 equals GGUF's
/// q4_0 bit for bit: halves are rounded up, with the scale before it is cut to f16.
template <int Group>
struct Int4 {
  static constexpr std::string_view name = Group == 32 ? "i4.g32" : Group == 64 ? "i4.g64" : "i4.g128";
  static constexpr FormatId id{Group == 32 ? 0x0020 : Group == 64 ? 0x0021 : 0x0022};
  static constexpr int group = Group;
  using Plane = plane::I4;
  using Scale = scale::F16;
  using Zero = zero::None;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    float extreme = 0;
    for (const float w : weights) {
      if (std::fabs(w) > std::fabs(extreme)) extreme = w;
    }
    side.scale = extreme / -8.0f;
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) {
      *codes++ = static_cast<std::int8_t>(std::clamp(static_cast<int>(w * inverse + 8.5f), 0, 15));
    }
  }
};

/// w = scale * (q - zero), q in 0..15, zero in 0..16: holds every GPTQ (v1 zeros reach 16) and AWQ value exactly.
/// The grid is GPTQ's: it spans the group's minimum, its maximum and 0 (arXiv:2210.17323, quant.py of the authors).
template <int Group>
struct Int4Zero {
  static constexpr std::string_view name = Group == 32 ? "i4z.g32" : Group == 64 ? "i4z.g64" : "i4z.g128";
  static constexpr FormatId id{Group == 32 ? 0x0028 : Group == 64 ? 0x0029 : 0x002a};
  static constexpr int group = Group;
  using Plane = plane::I4;
  using Scale = scale::F16;
  using Zero = zero::Point;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    float low = 0;
    float high = 0;
    for (const float w : weights) {
      low = std::min(low, w);
      high = std::max(high, w);
    }
    // Codes are rounded on the scale that is stored, so the cut to f16 costs nothing.
    side.scale = float(f16((high - low) / 15.0f));
    if (side.scale == 0) side.scale = low == high ? 1.0f : 0x1p-24f;
    side.zero = std::clamp(static_cast<int>(std::nearbyint(-low / side.scale)), 0, 15);
    for (const float w : weights) {
      const int q = static_cast<int>(std::nearbyint(w / side.scale)) + side.zero;
      *codes++ = static_cast<std::int8_t>(std::clamp(q, 0, 15));
    }
  }
};

/// w = scale * q + min, q in 0..15: GGUF's q4_1, bit for bit.
struct Int4Min {
  static constexpr std::string_view name = "i4m.g32";
  static constexpr FormatId id{0x002c};
  static constexpr int group = 32;
  using Plane = plane::I4;
  using Scale = scale::F16;
  using Zero = zero::Min;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
    side.min = *low;
    side.scale = (*high - *low) / 15.0f;
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) {
      *codes++ = static_cast<std::int8_t>(std::clamp(static_cast<int>((w - side.min) * inverse + 0.5f), 0, 15));
    }
  }
};

}  // namespace bantam::inline v0
