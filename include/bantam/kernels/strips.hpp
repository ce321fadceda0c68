// What the matrix kernels read from a block of strip16: scales, zero points and single columns as strips of 16 channels.
#pragma once

#include <type_traits>

#include "bantam/kernels/arguments.hpp"
#include "bantam/quant/strip16_layout.hpp"
#include "bantam/simd/dot.hpp"
#include "bantam/simd/sparse.hpp"

namespace bantam::inline v0::kernels {

/// Tokens that stay in the second-level cache while panels pass by: 512 KiB of bytes at 4096 columns.
inline constexpr std::int64_t token_block = 120;

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

/// Number `i` of each channel under the units of a scale::Super format, as stored.
template <class A, int Bits>
BANTAM_INLINE Strip<A> load_numbers(const std::byte* numbers, int count, int i) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers);
  if constexpr (Bits == 8) {
    return simd::byte_strip<A>::load(reinterpret_cast<const std::int8_t*>(bytes + i * strip_rows));
  } else {
    const Strip<A> low = simd::byte_strip<A>::load_bits(bytes + i / 2 * strip_rows, i % 2 * 4, 15);
    if constexpr (Bits == 4) return low;
    bytes += (count + 1) / 2 * strip_rows;
    return fma_strip<A>(simd::byte_strip<A>::load_bits(bytes + i / 4 * strip_rows, i % 4 * 2, 3), splat_strip<A>(16.0f), low);
  }
}

/// The scales of group `g` of one strip, for a block of `k` columns.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_scales(const std::byte* panel, const std::byte* block, int k, int strip, int g) {
  using L = Strip16<F>;
  using V = vec<A>;
  [[maybe_unused]] const std::byte* scales = block + L::scales_at(k, strip);
  if constexpr (L::f32_scales) {
    return load_strip<A>(reinterpret_cast<const float*>(scales + g * strip_rows * 4));
  } else if constexpr (L::f16_scales) {
    return simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(scales + g * strip_rows * 2));
  } else if constexpr (L::super_scales) {
    const Strip<A> unit = simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(scales));
    Strip<A> number = load_numbers<A, L::number_bits>(scales + L::numbers_at, L::numbers(k), L::minimums ? 2 * g : g);
    if constexpr (L::number_offset != 0) {
      BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) number.part[i] = number.part[i] - V::splat(L::number_offset);
    }
    return mul_strip<A>(unit, number);
  } else if constexpr (L::exponents) {
    const IntStrip<A> e = simd::byte_strip<A>::load_unsigned(reinterpret_cast<const std::uint8_t*>(scales + g * strip_rows));
    Strip<A> power;
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
      // The byte is the exponent of a float; that of 0, 2^-127, is a subnormal one.
      power.part[i] = V::max(V::as_float(V::shift_left(e.part[i], 23)), V::splat(0x1p-127f));
    }
    return power;
  } else if constexpr (L::e4m3_scales) {
    const IntStrip<A> bytes = simd::byte_strip<A>::load_unsigned(reinterpret_cast<const std::uint8_t*>(scales + g * strip_rows));
    Strip<A> magnitude;
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
      magnitude.part[i] = V::as_float(V::shift_left(bytes.part[i], 20)) * V::splat(0x1p120f);
    }
    return mul_strip<A>(magnitude, load_strip<A>(reinterpret_cast<const float*>(panel) + strip * strip_rows));
  } else if constexpr (L::nested_scales) {
    float level[strip_rows];
    const auto* index = reinterpret_cast<const std::uint8_t*>(scales + g * strip_rows);
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
  return simd::byte_strip<A>::load_unsigned(
      reinterpret_cast<const std::uint8_t*>(block + Strip16<F>::zeros_at(k, strip) + g * strip_rows));
}

/// What is added to a group's weights besides code times scale.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_minimums(const std::byte* block, int k, int strip, int g) {
  using L = Strip16<F>;
  if constexpr (L::super_scales) {
    const std::byte* scales = block + L::scales_at(k, strip);
    Strip<A> unit = simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(scales) + strip_rows);
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) unit.part[i] = unit.part[i] * vec<A>::splat(-1.0f);
    return mul_strip<A>(unit, load_numbers<A, L::number_bits>(scales + L::numbers_at, L::numbers(k), 2 * g + 1));
  } else {
    return simd::half_strip<A>::load(
        reinterpret_cast<const std::uint16_t*>(block + L::zeros_at(k, strip) + g * strip_rows * 2));
  }
}

/// The codes of column `column` of a plane (quant/codes.hpp draws it).
template <class A, int Bits>
BANTAM_INLINE IntStrip<A> load_column_codes(const std::byte* plane, int column) {
  using V = vec<A>;
  const std::byte* unit = plane + column / 32 * (Bits * 64);
  const int four = column % 32 / 4;
  const int byte = column % 4 * 8;
  IntStrip<A> codes = splat_int_strip<A>(0);
  const auto add = [&](const std::byte* line, int bit, int mask, int shift) __attribute__((always_inline)) {
    const IntStrip<A> words = load_int_strip<A>(line);
    BANTAM_UNROLL for (int i = 0; i < IntStrip<A>::parts; ++i) {
      codes.part[i] = codes.part[i] | V::shift_left(V::shift_right(words.part[i], byte + bit) & V::splat_int(mask), shift);
    }
  };
  if constexpr ((Bits & 4) != 0) add(unit + four / 2 * 64, four % 2 * 4, 15, 0);
  if constexpr ((Bits & 2) != 0) add(unit + ((Bits & 4) + four / 4) * 64, four % 4 * 2, 3, Bits & 4);
  if constexpr ((Bits & 1) != 0) add(unit + (Bits & 6) * 64, four, 1, Bits & 6);
  return codes;
}

/// The blocks that a strip holds of group `g` (quant/sparse_codes.hpp).
template <class A, QuantFormat F>
BANTAM_INLINE std::uint32_t load_kept_blocks(const std::byte* block, int k, int strip, int g) {
  return simd::load_kept(block + Strip16<F>::kept_at(k, strip) + g * 4);
}

/// Column `column` of a plane that holds two of four, codes less their offset. For the exact path, which no one waits for.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_column_of_pairs(const std::byte* plane, int column) {
  constexpr int bits = Strip16<F>::bits == 4 ? 4 : 8;
  const auto* unit = reinterpret_cast<const std::uint8_t*>(plane + Strip16<F>::plane_bytes(column / 32 * 32));
  const int four = column % 32 / 4;
  float number[strip_rows];
  for (int n = 0; n < strip_rows; ++n) {
    const auto pair = static_cast<std::uint32_t>(unit[n * 4 + four / 2] >> four % 2 * 4);
    const unsigned control = simd::pair_control(pair, column % 4);
    const int code = control == simd::nothing ? 0 : unit[64 + four / (16 / bits) * 64 + n * 4 + four % 2 * 2 + static_cast<int>(control)];
    number[n] = static_cast<float>(bits == 8 ? static_cast<std::int8_t>(code) : ((code >> four / 2 % 2 * 4 & 15) ^ 8) - 8);
  }
  return load_strip<A>(number);
}

/// Column `column` of a plane whose weights are computed from a stream. For the exact path, which no one waits for.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_column_of_trellis(const std::byte* plane, int column) {
  constexpr int bits = step_bits<typename F::Plane>;
  constexpr int unit = F::Plane::column_unit;
  const auto* of_column = reinterpret_cast<const std::uint8_t*>(plane + Strip16<F>::plane_bytes(column / unit * unit));
  float number[strip_rows];
  for (int n = 0; n < strip_rows; ++n) {
    number[n] = static_cast<float>(simd::trellis_weight(simd::trellis_state<bits>(of_column, n, column % unit, column >= unit), column % 2));
  }
  return load_strip<A>(number);
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
  } else if constexpr (Strip16<F>::two_of_four) {
    return load_column_of_pairs<A, F>(plane, column);
  } else if constexpr (Strip16<F>::trellis) {
    return load_column_of_trellis<A, F>(plane, column);
  } else if constexpr (Strip16<F>::bits != 0) {
    const IntStrip<A> codes = load_column_codes<A, Strip16<F>::bits>(plane, column);
    if constexpr (has_levels<F>) {
      std::int32_t index[strip_rows];
      float level[strip_rows];
      BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
        V::store_int(index + i * V::lanes, codes.part[i]);
      }
      for (int n = 0; n < strip_rows; ++n) level[n] = F::levels[static_cast<std::size_t>(index[n])];
      return load_strip<A>(level);
    } else {
      Strip<A> strip;
      BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
        if constexpr (Strip16<F>::zero_points) {
          strip.part[i] = V::to_float(codes.part[i] - zeros.part[i]);
        } else {
          strip.part[i] = V::to_float(codes.part[i] - V::splat_int(code_offset<F>));
        }
      }
      return strip;
    }
  } else {
    constexpr bool bytes = std::is_same_v<Plane, plane::I8>;
    const IntStrip<A> line = load_int_strip<A>(plane + column / (bytes ? 4 : 2) * 64);
    Strip<A> strip;
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
      const auto word = line.part[i];
      if constexpr (bytes) {
        strip.part[i] = V::to_float(V::shift_right_signed(V::shift_left(word, 24 - column % 4 * 8), 24));
      } else {
        strip.part[i] = V::as_float(V::shift_left(V::shift_right(word, column % 2 * 16), 16));
      }
    }
    return strip;
  }
}

/// The same for column 0..127 of a group of which `kept` says what its plane holds.
template <class A, QuantFormat F>
BANTAM_INLINE Strip<A> load_column_of_blocks(const std::byte* plane, std::uint32_t kept, int column) {
  if ((kept >> column / 4 & 1) == 0) return splat_strip<A>(0.0f);
  const int place = __builtin_popcount(kept & ((1u << column / 4) - 1));
  return load_column<A, F>(plane, place * 4 + column % 4, splat_int_strip<A>(0));
}

/// Fetches from the block about 8 KiB ahead what lies where `column` (a multiple of Columns) of this one does, as much as so many columns
/// of the tile's strips hold. 2 KiB were too late for formats of few bits, and 4 KiB read 5 % less with one thread. A little at a
/// time: 128 columns' worth at once read a tenth less.
/// The two strips of a panel are two streams that jump from block to block, which hardware prefetchers follow late. Panels
/// follow each other in memory, so this runs on into the next one.
/// On Zen 4 a fetch into the first-level cache holds one of its 24 buffers for misses until memory answers, which is 14 GB/s a thread, and
/// into the second 21; on Emerald Rapids the first is faster (docs/numbers.md). So the caller chooses, by measurement.
template <class L, int NR, int Columns = 32>
BANTAM_INLINE void prefetch_ahead(const std::byte* block, int first_strip, int column, Fetch level) {
  constexpr std::int64_t lines = div_up<std::int64_t>(L::block_bytes(block_columns) / 64 * NR, 2 * block_columns / Columns);
  constexpr std::int64_t size = L::block_bytes(block_columns), blocks = (8192 + size / 2) / size;
  const std::byte* ahead = block + (blocks > 0 ? blocks : 1) * size + (first_strip * (block_columns / Columns) + column / Columns) * lines * 64;
  // As if it could change: the compiler must not make a tile for each level.
  __asm__("" : "+r"(level));
  if (level == Fetch::second_level) {
    BANTAM_UNROLL for (int i = 0; i < lines; ++i) __builtin_prefetch(ahead + i * 64, 0, 2);
  } else {
    BANTAM_UNROLL for (int i = 0; i < lines; ++i) __builtin_prefetch(ahead + i * 64);
  }
}

}  // namespace bantam::inline v0::kernels
