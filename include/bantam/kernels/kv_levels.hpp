// How keys and values come to a few bits: rotated, so that all numbers of a head are alike, then rounded to levels under a scale.
#pragma once

#include "bantam/kernels/arguments.hpp"
#include "bantam/kernels/kv_kinds.hpp"
#include "bantam/simd/levels.hpp"

namespace bantam::inline v0::kernels {

/// x (count), in blocks of `block`, a power of two, each times the Hadamard matrix over the root of its size, which is its own
/// inverse. Some channels of keys are far larger than others and would set the scale of all in their group; rotated they are spread evenly, and a
/// query that is rotated as they are has the same scores (QuaRot, arXiv:2404.00456, 4.2).
template <class A>
void rotate_blocks(float* x, std::int64_t count, std::int64_t block) noexcept {
  if (block <= 1) return;
  for (std::int64_t half = 1; half < block; half *= 2) {
    for (std::int64_t first = 0; first < count; first += 2 * half) {
      float *a = x + first, *b = a + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float sum = a[i] + b[i], difference = a[i] - b[i];
        a[i] = sum;
        b[i] = difference;
      }
    }
  }
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(block));
  for (std::int64_t i = 0; i < count; ++i) x[i] *= scale;
}

namespace detail {

/// A number as its upper 16 bits (bfloat16), to nearest, ties to even.
BANTAM_INLINE std::uint16_t upper_half(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  return static_cast<std::uint16_t>(x == x ? (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16 : 0x7fc0u);
}
BANTAM_INLINE float from_upper_half(std::uint16_t x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x) << 16); }

/// The size of the level that is nearest to a size, both under a scale of 1, and its number.
template <int Bits>
struct NearestLevel {
  int number = 0;
  int size = simd::Levels<Bits>::sizes[0];

  BANTAM_INLINE explicit NearestLevel(float x) {
    using L = simd::Levels<Bits>;
    BANTAM_UNROLL for (int n = 1; n < L::count; ++n) {
      const bool above = x > static_cast<float>(L::sizes[n - 1] + L::sizes[n]) * 0.5f;
      number += above;
      size += above ? L::sizes[n] - L::sizes[n - 1] : 0;
    }
  }
};

/// The sum of 16 numbers in order.
BANTAM_INLINE float sum_of_lanes(const float (&lane)[16]) {
  float sum = 0;
  for (const float x : lane) sum += x;
  return sum;
}

/// The scale of least squares for the levels that are nearest under another, and what is lost under that.
struct FittedScale {
  float scale;
  float loss;
};
template <int Bits>
BANTAM_INLINE FittedScale fit_scale(const float (&sizes)[32], float scale) {
  const float by = 1.0f / scale;
  // In lanes, so that compilers make vectors of them. Zeros, which padding is, have no say.
  float products[16] = {}, powers[16] = {}, losses[16] = {};
  for (int first = 0; first < 32; first += 16) {
    for (int i = 0; i < 16; ++i) {
      const float size = sizes[first + i], level = size > 0 ? static_cast<float>(NearestLevel<Bits>(size * by).size) : 0.0f;
      const float lost = size - scale * level;
      products[i] += size * level;
      powers[i] += level * level;
      losses[i] += lost * lost;
    }
  }
  return {sum_of_lanes(products) / sum_of_lanes(powers), sum_of_lanes(losses)};
}

/// Rounds up to 32 numbers to codes. Returns their scale, as upper_half().
template <int Bits>
BANTAM_INLINE std::uint16_t round_to_levels(const float* x, std::int64_t n, std::uint8_t* codes) {
  using L = simd::Levels<Bits>;
  float sizes[32];
  float most = 0, poison = 0;
  for (int i = 0; i < 32; ++i) sizes[i] = i < n ? __builtin_fabsf(x[i]) : 0.0f;
  for (int i = 0; i < 32; ++i) most = sizes[i] > most ? sizes[i] : most;
  for (int i = 0; i < 32; ++i) poison += sizes[i] * 0.0f;
  for (int i = 0; i < 32; ++i) codes[i] = 0;
  if (poison != 0 || poison != poison) return upper_half(poison);
  if (most < smallest_range) return 0;
  // Sizes of 1 at most, whose products are in range.
  const float inverse = 1.0f / most;
  for (float& size : sizes) size *= inverse;
  // The largest at the last level, or a little beyond it: each fitted to the levels that are nearest, the better of the two once more. Of normal
  // numbers it loses 3 % (4 bits) and 1 % (3 bits) more than the best scale of all; the first alone loses 7 and 9 %.
  constexpr float last = 1.0f / static_cast<float>(L::sizes[L::count - 1]);
  const float within = fit_scale<Bits>(sizes, last).scale, beyond = fit_scale<Bits>(sizes, 0.85f * last).scale;
  const FittedScale a = fit_scale<Bits>(sizes, within), b = fit_scale<Bits>(sizes, beyond);
  const std::uint16_t kept = upper_half((b.loss < a.loss ? b : a).scale * most);
  const float by = most / from_upper_half(kept);
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<std::uint8_t>(NearestLevel<Bits>(sizes[i] * by).number);
  for (std::int64_t i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(codes[i] | (x[i] < 0 ? L::count : 0));
  return kept;
}

}  // namespace detail

}  // namespace bantam::inline v0::kernels
