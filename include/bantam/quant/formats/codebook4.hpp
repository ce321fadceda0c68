// Four-bit codebooks: NF4 and FP4 of bitsandbytes, iq4_nl of GGUF, MXFP4 of the OCP, NVFP4.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/quant/e4m3.hpp"
#include "bantam/quant/fit.hpp"

namespace bantam::inline v0 {

namespace detail {

/// Rounds w / max|w| to the nearest level. On a midpoint the level further down the sorted list wins, as in
/// bitsandbytes. `sorted` lists the codes by level, ascending.
inline void encode_levels(std::span<const float> weights, std::span<const float, 16> levels,
                          std::span<const std::uint8_t, 16> sorted, std::int8_t* codes, GroupSide& side) noexcept {
  float largest = 0;
  for (const float w : weights) largest = std::max(largest, std::fabs(w));
  side.scale = largest;
  const float inverse = 1.0f / std::max(largest, 1e-38f);
  for (const float w : weights) {
    const float x = std::clamp(w * inverse, -1.0f, 1.0f);
    int k = 0;
    while (k < 15 && x > (levels[sorted[k]] + levels[sorted[k + 1]]) / 2) ++k;
    *codes++ = static_cast<std::int8_t>(sorted[k]);
  }
}

}  // namespace detail

/// NormalFloat 4: the levels are quantiles of a normal distribution (QLoRA, arXiv:2305.14314, appendix E).
/// w = levels[q] * max|w| of the block.
struct Nf4 {
  static constexpr std::string_view name = "nf4.g64";
  static constexpr FormatId id{0x0030};
  static constexpr int group = 64;
  using Plane = plane::I4;
  using Scale = scale::F16;
  using Zero = zero::None;
  static constexpr std::array<float, 16> levels{
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    constexpr std::array<std::uint8_t, 16> sorted{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    detail::encode_levels(weights, levels, sorted, codes, side);
  }
};

/// NF4 whose scales are quantized again, to 8 bits under two f32 a row.
struct Nf4Nested : Nf4 {
  static constexpr std::string_view name = "nf4dq.g64";
  static constexpr FormatId id{0x0031};
  using Scale = scale::Nested;
};

/// NF4 whose scales stay f32: holds every matrix of bitsandbytes, its nested scales multiplied out.
struct Nf4Wide : Nf4 {
  static constexpr std::string_view name = "nf4w.g64";
  static constexpr FormatId id{0x0037};
  using Scale = scale::F32;
};

/// FP4 (one sign, two exponent, one mantissa bit) in bitsandbytes' order of codes, as fractions of the largest.
struct Fp4 {
  static constexpr std::string_view name = "fp4.g64";
  static constexpr FormatId id{0x0032};
  static constexpr int group = 64;
  using Plane = plane::I4;
  using Scale = scale::F16;
  using Zero = zero::None;
  static constexpr std::array<float, 16> levels{
      0.0f,        0.0625f / 12, 8.0f / 12,  12.0f / 12,  4.0f / 12,  6.0f / 12,  2.0f / 12,  3.0f / 12,
      -0.0f,       -0.0625f / 12, -8.0f / 12, -12.0f / 12, -4.0f / 12, -6.0f / 12, -2.0f / 12, -3.0f / 12,
  };

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    // Code 8, the negative zero, is skipped in favor of 0: both decode to zero.
    constexpr std::array<std::uint8_t, 16> sorted{11, 10, 13, 12, 15, 14, 9, 0, 0, 1, 6, 7, 4, 5, 2, 3};
    detail::encode_levels(weights, levels, sorted, codes, side);
  }
};

/// FP4 whose scales are quantized again, to 8 bits under two f32 a row.
struct Fp4Nested : Fp4 {
  static constexpr std::string_view name = "fp4dq.g64";
  static constexpr FormatId id{0x0033};
  using Scale = scale::Nested;
};

/// FP4 whose scales stay f32.
struct Fp4Wide : Fp4 {
  static constexpr std::string_view name = "fp4w.g64";
  static constexpr FormatId id{0x0038};
  using Scale = scale::F32;
};

/// GGUF's iq4_nl: 16 levels spaced like weights, whole numbers, under one f16 each 32. The fit is ours.
struct Iq4Nl {
  static constexpr std::string_view name = "iq4nl.g32";
  static constexpr FormatId id{0x0034};
  static constexpr int group = 32;
  using Plane = plane::I4;
  using Scale = scale::F16;
  using Zero = zero::None;
  static constexpr std::array<float, 16> levels{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr float level_unit = 1;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    side.scale = float(f16(fit_scale<Iq4Nl>(weights, {})));
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) *codes++ = static_cast<std::int8_t>(nearest_code<Iq4Nl>(w * inverse));
  }
};

/// MXFP4: E2M1 numbers under a power of two each 32 weights (OCP microscaling formats 1.0, 5.3.3 and 6.3: the largest
/// magnitude's exponent, less that of 4). Code bit 3 is the sign.
struct Mxfp4 {
  static constexpr std::string_view name = "mxfp4.g32";
  static constexpr FormatId id{0x0035};
  static constexpr int group = 32;
  using Plane = plane::I4;
  using Scale = scale::E8M0;
  using Zero = zero::None;
  static constexpr std::array<float, 16> levels{0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  static constexpr float level_unit = 0.5f;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    float largest = 0;
    for (const float w : weights) largest = std::max(largest, std::fabs(w));
    int exponent = -127;
    if (largest > 0) exponent = std::clamp(std::ilogb(largest) - 2, -127, 125);
    side.scale = std::ldexp(1.0f, exponent);
    for (const float w : weights) *codes++ = static_cast<std::int8_t>(nearest_code<Mxfp4>(std::ldexp(w, -exponent)));
  }
};

/// NVFP4: the numbers of MXFP4 under one E4M3 each 16 weights, those under an f32 (NVIDIA, Blackwell architecture technical brief; of a matrix there,
/// of a row here). The largest weight of a group becomes about 6.
struct Nvfp4 {
  static constexpr std::string_view name = "nvfp4.g16";
  static constexpr FormatId id{0x003e};
  static constexpr int group = 16;
  using Plane = plane::I4;
  using Scale = scale::E4M3;
  using Zero = zero::None;
  static constexpr std::array<float, 16> levels = Mxfp4::levels;
  static constexpr float level_unit = Mxfp4::level_unit;

  static void encode(std::span<const float> weights, std::int8_t* codes, GroupSide& side) noexcept {
    float largest = 0;
    for (const float w : weights) largest = std::max(largest, std::fabs(w));
    side.scale = detail::to_e4m3_bits(largest / 6);
    const float inverse = inverse_scale(side.scale);
    for (const float w : weights) *codes++ = static_cast<std::int8_t>(nearest_code<Nvfp4>(w * inverse));
  }
};

}  // namespace bantam::inline v0
