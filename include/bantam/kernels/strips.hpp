// What the matrix kernels read from a block of strip16: scales, zero points and single columns as strips of 16 channels.
#pragma once

#include <type_traits>

#include "bantam/quant/strip16.hpp"
#include "bantam/simd/dot.hpp"

namespace bantam::inline v0::kernels {

using simd::IntStrip;
using simd::Strip;
using simd::vec;

template <class A>
BANTAM_INLINE Strip<A> splat_strip(float x) {
  Strip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::splat(x);
  return strip;
}
template <class A>
BANTAM_INLINE Strip<A> load_strip(const float* p) {
  Strip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::load(p + i * vec<A>::lanes);
  return strip;
}
template <class A>
BANTAM_INLINE void store_strip(float* p, const Strip<A>& strip) {
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) vec<A>::store(p + i * vec<A>::lanes, strip.part[i]);
}
template <class A>
BANTAM_INLINE Strip<A> fma_strip(const Strip<A>& a, const Strip<A>& b, const Strip<A>& c) {
  Strip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::fma(a.part[i], b.part[i], c.part[i]);
  return strip;
}
template <class A>
BANTAM_INLINE Strip<A> mul_strip(const Strip<A>& a, const Strip<A>& b) {
  Strip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = a.part[i] * b.part[i];
  return strip;
}
template <class A>
BANTAM_INLINE Strip<A> float_strip(const IntStrip<A>& a) {
  Strip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::to_float(a.part[i]);
  return strip;
}
template <class A>
BANTAM_INLINE IntStrip<A> splat_int_strip(std::int32_t x) {
  IntStrip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) strip.part[i] = vec<A>::splat_int(x);
  return strip;
}
template <class A>
BANTAM_INLINE IntStrip<A> load_int_strip(const std::byte* p) {
  IntStrip<A> strip;
  BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
    strip.part[i] = vec<A>::load_int(reinterpret_cast<const std::int32_t*>(p) + i * vec<A>::lanes);
  }
  return strip;
}

/// What integer products of a codebook format count in: one 127th of the largest level.
inline constexpr float codebook_unit = 1.0f / 127.0f;

/// The scales of group `g` of one strip, for a block of `k` columns.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_scales(const std::byte* panel, const std::byte* block, int k, int strip, int g) {
  using L = Strip16<F>;
  if constexpr (L::group_scales) {
    return simd::half_strip<A>::load(
        reinterpret_cast<const std::uint16_t*>(block + L::scales_at(k, strip) + g * strip_rows * 2));
  } else if constexpr (L::nested_scales) {
    float level[strip_rows];
    const auto* index = reinterpret_cast<const std::uint8_t*>(block + L::scales_at(k, strip) + g * strip_rows);
    for (int n = 0; n < strip_rows; ++n) level[n] = dynamic_map[index[n]];
    const auto* rows = reinterpret_cast<const float*>(panel) + strip * strip_rows;
    return fma_strip<A>(load_strip<A>(level), load_strip<A>(rows), load_strip<A>(rows + panel_rows));
  } else {
    return splat_strip<A>(1.0f);
  }
}

/// The zero points of group `g` of one strip as integers.
template <class A, QuantFormat F>
BANTAM_INLINE IntStrip<A> load_zeros(const std::byte* block, int k, int strip, int g) {
  std::int32_t zero[strip_rows];
  const auto* p = reinterpret_cast<const std::uint8_t*>(block + Strip16<F>::zeros_at(k, strip) + g * strip_rows);
  for (int n = 0; n < strip_rows; ++n) zero[n] = p[n];
  return load_int_strip<A>(reinterpret_cast<const std::byte*>(zero));
}

template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_minimums(const std::byte* block, int k, int strip, int g) {
  return simd::half_strip<A>::load(
      reinterpret_cast<const std::uint16_t*>(block + Strip16<F>::zeros_at(k, strip) + g * strip_rows * 2));
}

/// Column `column` of a plane as floats, before scaling: codes less their offset or zero point, levels, or the weights
/// themselves.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_column(const std::byte* plane, int column, [[maybe_unused]] const IntStrip<A>& zeros) {
  using V = vec<A>;
  using Plane = typename F::Plane;
  if constexpr (std::is_same_v<Plane, plane::F32>) {
    return load_strip<A>(reinterpret_cast<const float*>(plane + column * 64));
  } else if constexpr (std::is_same_v<Plane, plane::F16>) {
    return simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(plane + column * 32));
  } else {
    Strip<A> strip;
    const int columns_a_line = std::is_same_v<Plane, plane::BF16> ? 2 : std::is_same_v<Plane, plane::I8> ? 4 : 8;
    const IntStrip<A> line = load_int_strip<A>(plane + column / columns_a_line * 64);
    [[maybe_unused]] std::int32_t codes[strip_rows];
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
      const auto word = line.part[i];
      if constexpr (std::is_same_v<Plane, plane::BF16>) {
        strip.part[i] = V::as_float(V::shift_left(V::shift_right(word, column % 2 * 16), 16));
      } else if constexpr (std::is_same_v<Plane, plane::I8>) {
        strip.part[i] = V::to_float(V::shift_right_signed(V::shift_left(word, 24 - column % 4 * 8), 24));
      } else {
        const auto code = V::shift_right(word, column % 4 * 8 + (column & 4)) & V::splat_int(15);
        if constexpr (has_levels<F>) {
          V::store(reinterpret_cast<float*>(codes) + i * V::lanes, V::as_float(code));
        } else if constexpr (Strip16<F>::zero_points) {
          strip.part[i] = V::to_float(code - zeros.part[i]);
        } else {
          strip.part[i] = V::to_float(code - V::splat_int(code_offset<F>));
        }
      }
    }
    if constexpr (has_levels<F>) {
      float level[strip_rows];
      for (int n = 0; n < strip_rows; ++n) level[n] = F::levels[static_cast<std::size_t>(codes[n])];
      strip = load_strip<A>(level);
    }
    return strip;
  }
}

}  // namespace bantam::inline v0::kernels
