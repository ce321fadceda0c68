// Weights kept as floating-point numbers.
#pragma once

#include "bantam/quant/format.hpp"

namespace bantam::inline v0 {

struct F32Format {
  static constexpr std::string_view name = "f32";
  static constexpr FormatId id{0x0001};
  static constexpr int group = 0;
  using Plane = plane::F32;
  using Scale = scale::None;
  using Zero = zero::None;
};

struct F16Format {
  static constexpr std::string_view name = "f16";
  static constexpr FormatId id{0x0002};
  static constexpr int group = 0;
  using Plane = plane::F16;
  using Scale = scale::None;
  using Zero = zero::None;
};

struct BF16Format {
  static constexpr std::string_view name = "bf16";
  static constexpr FormatId id{0x0003};
  static constexpr int group = 0;
  using Plane = plane::BF16;
  using Scale = scale::None;
  using Zero = zero::None;
};

}  // namespace bantam::inline v0
