// Signed bytes under one scale a row or a group.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/quant/format.hpp"

namespace bantam::inline v0 {

/// w = scale * q, q in -127..127, scale = max|w| / 127. Group 32 equals GGUF's q8_0 bit for bit:
/// the code is rounded half away from zero with the scale before it is cut to f16.
/// Group 0 is one f32 scale a row (the weights of LLM.int8(), arXiv:2208.07339).
template <int Group>
struct Int8 {
  static constexpr std::string_view name = Group == 0 ? "i8.row" : Group == 128 ? "i8.g128" : "i8.g32";
  static constexpr FormatId id{Group == 0 ? 0x0010 : Group == 128 ? 0x0011 : 0x0012};
  static constexpr int group = Group;
  using Plane = plane::I8;
  using Scale = std::conditional_t<Group == 0, scale::Row, scale::F16>;
  using Zero = zero::None;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    float largest = 0;
    for (const float w : weights) largest = std::max(largest, std::fabs(w));
    side.scale = largest / 127.0f;
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) {
      *codes++ = static_cast<std::int8_t>(std::clamp(std::round(w * inverse), -127.0f, 127.0f));
    }
  }
};

}  // namespace bantam::inline v0
