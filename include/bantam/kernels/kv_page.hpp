// How the keys and values of one head lie in a page of 64 tokens, and their codecs.
//
// Keys lie dimension by dimension, (head_dim, 64), values token by token, (64, head_dim): then the scores of 16 tokens
// and the sums of 16 dimensions are lanes of a register, and nothing is ever added across lanes. head_dim is a multiple
// of 16. Scales and minimums of groups of 32 dimensions follow the numbers, as (groups, sides, 64) for keys and
// (64, groups, sides) for values.
#pragma once

#include "bantam/kernels/rows.hpp"
#include "bantam/kernels/strips.hpp"

namespace bantam::inline v0 {

/// Floats.
struct KvF32 {
  static constexpr const char* name = "f32";
  static constexpr int bits = 32;
  static constexpr int sides = 0;
};
/// Halves.
struct KvF16 {
  static constexpr const char* name = "f16";
  static constexpr int bits = 16;
  static constexpr int sides = 0;
};
/// Signed bytes, a scale max|x| / 127 every 32 dimensions.
struct KvI8 {
  static constexpr const char* name = "q8";
  static constexpr int bits = 8;
  static constexpr int sides = 1;
};
/// Nibbles, a scale and a minimum every 32 dimensions. A byte of keys holds dimensions 2n and 2n + 1 of one token, so
/// that tokens may be stored by different threads; eight bytes of values hold dimensions n and n + 8 of sixteen.
struct KvI4 {
  static constexpr const char* name = "q4";
  static constexpr int bits = 4;
  static constexpr int sides = 2;
};

}  // namespace bantam::inline v0

namespace bantam::inline v0::kernels {

/// Bytes of the keys, or of the values, of one head in a page.
template <class Kv>
BANTAM_INLINE constexpr std::int64_t kv_page_bytes(std::int64_t head_dim) noexcept {
  return page_tokens * (head_dim * Kv::bits / 8 + (head_dim + 31) / 32 * Kv::sides * 4);
}

namespace detail {

template <class Kv>
BANTAM_INLINE auto* kv_sides(auto* page, std::int64_t head_dim) {
  using Float = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(page)>>, const float, float>;
  return reinterpret_cast<Float*>(page + page_tokens * head_dim * Kv::bits / 8);
}

/// Scale and minimum of 16 numbers; of one each for kinds without them.
template <class A>
struct KvSide {
  Strip<A> scale;
  Strip<A> low;
};

template <class A, class Kv>
BANTAM_INLINE KvSide<A> key_side(const std::byte* page, std::int64_t head_dim, std::int64_t group, int token) {
  KvSide<A> side;
  const float* at = kv_sides<Kv>(page, head_dim) + group * Kv::sides * page_tokens + token;
  if constexpr (Kv::sides > 0) side.scale = load_strip<A>(at);
  if constexpr (Kv::sides > 1) side.low = load_strip<A>(at + page_tokens);
  return side;
}
template <class A, class Kv>
BANTAM_INLINE KvSide<A> value_side(const std::byte* page, std::int64_t head_dim, std::int64_t group, int token) {
  KvSide<A> side;
  const float* at = kv_sides<Kv>(page, head_dim) + (token * ((head_dim + 31) / 32) + group) * Kv::sides;
  if constexpr (Kv::sides > 0) side.scale = splat_strip<A>(at[0]);
  if constexpr (Kv::sides > 1) side.low = splat_strip<A>(at[1]);
  return side;
}
template <class A, class Kv>
BANTAM_INLINE Strip<A> scaled(const Strip<A>& codes, const KvSide<A>& side) {
  if constexpr (Kv::sides == 2) {
    return fma_strip<A>(codes, side.scale, side.low);
  } else if constexpr (Kv::sides == 1) {
    return mul_strip<A>(codes, side.scale);
  } else {
    return codes;
  }
}

/// Dimension `i` of tokens `token` .. token + 15, a multiple of 16.
template <class A, class Kv>
BANTAM_INLINE Strip<A> key_strip(const std::byte* page, std::int64_t i, int token, const KvSide<A>& side) {
  const std::int64_t at = i * page_tokens + token;
  if constexpr (std::is_same_v<Kv, KvF32>) {
    return load_strip<A>(reinterpret_cast<const float*>(page) + at);
  } else if constexpr (std::is_same_v<Kv, KvF16>) {
    return simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(page) + at);
  } else if constexpr (std::is_same_v<Kv, KvI8>) {
    return scaled<A, Kv>(simd::byte_strip<A>::load(reinterpret_cast<const std::int8_t*>(page) + at), side);
  } else {
    const auto* codes = reinterpret_cast<const std::uint8_t*>(page) + i / 2 * page_tokens + token;
    return scaled<A, Kv>(simd::byte_strip<A>::load_bits(codes, static_cast<int>(i % 2) * 4, 15), side);
  }
}
/// Dimensions i .. i + 15, a multiple of 16, of one token.
template <class A, class Kv>
BANTAM_INLINE Strip<A> value_strip(const std::byte* page, std::int64_t head_dim, std::int64_t i, int token,
                                   const KvSide<A>& side) {
  const std::int64_t at = token * head_dim + i;
  if constexpr (std::is_same_v<Kv, KvF32>) {
    return load_strip<A>(reinterpret_cast<const float*>(page) + at);
  } else if constexpr (std::is_same_v<Kv, KvF16>) {
    return simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(page) + at);
  } else if constexpr (std::is_same_v<Kv, KvI8>) {
    return scaled<A, Kv>(simd::byte_strip<A>::load(reinterpret_cast<const std::int8_t*>(page) + at), side);
  } else {
    return scaled<A, Kv>(simd::byte_strip<A>::load_nibbles(reinterpret_cast<const std::uint8_t*>(page) + at / 2), side);
  }
}

/// The extremes of up to 32 values; NaN poisons both.
struct Extremes {
  float low;
  float high;
};
BANTAM_INLINE Extremes extremes(const float* x, std::int64_t n) {
  Extremes e{x[0], x[0]};
  float poison = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    e.low = x[i] < e.low ? x[i] : e.low;
    e.high = x[i] > e.high ? x[i] : e.high;
    poison += x[i] * 0.0f;
  }
  return {e.low + poison, e.high + poison};
}

/// Rounds a group of up to 32 numbers. Returns scale and minimum.
template <class Kv>
BANTAM_INLINE Extremes round_group(const float* x, std::int64_t n, std::uint8_t* codes) {
  const Extremes e = extremes(x, n);
  if constexpr (std::is_same_v<Kv, KvI8>) {
    const float amax = e.high > -e.low ? e.high : -e.low;
    const float inverse = amax >= smallest_range ? 127.0f / amax : 0.0f;
    for (std::int64_t i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(__builtin_nearbyintf(x[i] * inverse)));
    return {amax / 127.0f, 0};
  } else {
    const float step = (e.high - e.low) / 15.0f;
    const float inverse = step >= smallest_range ? 1.0f / step : 0.0f;
    for (std::int64_t i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(static_cast<int>((x[i] - e.low) * inverse + 0.5f) & 15);
    return {step, e.low};
  }
}

}  // namespace detail

/// Writes the key (or the value) of one token, head_dim floats, into a page.
template <class A, class Kv>
void store_kv(const float* x, std::byte* page, bool value, int token, std::int64_t head_dim) noexcept {
  if constexpr (Kv::sides == 0) {
    using Number = std::conditional_t<Kv::bits == 32, float, std::uint16_t>;
    auto* out = reinterpret_cast<Number*>(page);
    for (std::int64_t i = 0; i < head_dim; i += 16) {
      Number numbers[16];
      if constexpr (Kv::bits == 32) {
        __builtin_memcpy(numbers, x + i, sizeof numbers);
      } else {
        simd::half_strip<A>::store(numbers, x + i);
      }
      if (value) {
        __builtin_memcpy(out + token * head_dim + i, numbers, sizeof numbers);
      } else {
        for (int k = 0; k < 16; ++k) out[(i + k) * page_tokens + token] = numbers[k];
      }
    }
  } else {
    auto* out = reinterpret_cast<std::uint8_t*>(page);
    float* sides = detail::kv_sides<Kv>(page, head_dim);
    const std::int64_t groups = (head_dim + 31) / 32;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * 32;
      const std::int64_t n = head_dim - first < 32 ? head_dim - first : 32;
      std::uint8_t codes[32];
      const detail::Extremes side = detail::round_group<Kv>(x + first, n, codes);
      const float side_of[2] = {side.low, side.high};
      for (int s = 0; s < Kv::sides; ++s) {
        sides[value ? (token * groups + g) * Kv::sides + s : (g * Kv::sides + s) * page_tokens + token] = side_of[s];
      }
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t d = first + i;
        if constexpr (Kv::bits == 8) {
          out[value ? token * head_dim + d : d * page_tokens + token] = codes[i];
        } else if (value) {
          if (i % 16 < 8) out[(token * head_dim + d / 16 * 16) / 2 + d % 8] = static_cast<std::uint8_t>(codes[i] | codes[i + 8] << 4);
        } else {
          if (i % 2 == 0) out[d / 2 * page_tokens + token] = static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4);
        }
      }
    }
  }
}

/// A page as floats in the layout of KvF32: tokens 0 .. `tokens`, and what follows up to a multiple of 16 (garbage).
template <class A, class Kv>
void expand_kv(const std::byte* page, bool value, int tokens, std::int64_t head_dim, float* out) noexcept {
  for (std::int64_t g = 0; g * 32 < head_dim; ++g) {
    const std::int64_t end = g * 32 + 32 < head_dim ? g * 32 + 32 : head_dim;
    if (value) {
      for (int t = 0; t < tokens; ++t) {
        const auto side = detail::value_side<A, Kv>(page, head_dim, g, t);
        for (std::int64_t i = g * 32; i < end; i += 16) {
          store_strip<A>(out + t * head_dim + i, detail::value_strip<A, Kv>(page, head_dim, i, t, side));
        }
      }
    } else {
      for (int t = 0; t < tokens; t += 16) {
        const auto side = detail::key_side<A, Kv>(page, head_dim, g, t);
        for (std::int64_t i = g * 32; i < end; ++i) {
          store_strip<A>(out + i * page_tokens + t, detail::key_strip<A, Kv>(page, i, t, side));
        }
      }
    }
  }
}

}  // namespace bantam::inline v0::kernels
