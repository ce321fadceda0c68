// How the keys and values of one head lie in a page of 64 tokens, and their codecs.
//
// Keys lie dimension by dimension, (head_dim, 64), values token by token, (64, head_dim): then the scores of 16 tokens
// and the sums of 16 dimensions are lanes of a register, and nothing is ever added across lanes. head_dim is a multiple
// of 16. Scales of groups of 32 dimensions follow the numbers, as (groups, 64) for keys and (64, groups) for values.
//
// Of kinds with levels sixteen dimensions of a token's key are Bits words of 16 bits, each with 16 / Bits codes from its lowest bits on; the highest
// bits of three words are the sixteenth code of 3 bits. No byte belongs to two tokens: threads store them at once. Sixteen dimensions of a value are
// codes one behind the other. Scales are bfloat16: of any size, and their error is nothing beside that of the levels.
#pragma once

#include "bantam/kernels/kv_kinds.hpp"
#include "bantam/kernels/kv_levels.hpp"
#include "bantam/kernels/rows.hpp"
#include "bantam/kernels/strips.hpp"

namespace bantam::inline v0::kernels {

/// Bytes of the numbers of the keys, or of the values, of one head in a page, and with their scales.
template <class Kv>
BANTAM_INLINE constexpr std::int64_t kv_number_bytes(std::int64_t head_dim) noexcept {
  return page_tokens * head_dim * Kv::bits / 8;
}
template <class Kv>
BANTAM_INLINE constexpr std::int64_t kv_page_bytes(std::int64_t head_dim) noexcept {
  return kv_number_bytes<Kv>(head_dim) + page_tokens * ((head_dim + 31) / 32) * Kv::scale_bytes;
}

namespace detail {

/// Where the scale of a group of a token's key, or value, stands behind the numbers.
template <class Kv>
BANTAM_INLINE auto* kv_scale(auto* page, std::int64_t head_dim, bool value, std::int64_t group, int token) {
  const std::int64_t groups = (head_dim + 31) / 32;
  return page + kv_number_bytes<Kv>(head_dim) + (value ? token * groups + group : group * page_tokens + token) * Kv::scale_bytes;
}

/// Scales of 16 numbers; 1 for kinds without them.
template <class A, class Kv>
BANTAM_INLINE Strip<A> key_scale(const std::byte* page, std::int64_t head_dim, std::int64_t group, int token) {
  const std::byte* at = kv_scale<Kv>(page, head_dim, false, group, token);
  if constexpr (Kv::has_levels) {
    const IntStrip<A> words = simd::level_strip<A, Kv::bits>::load_words(reinterpret_cast<const std::uint16_t*>(at));
    Strip<A> scale;
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) scale.part[i] = vec<A>::as_float(vec<A>::shift_left(words.part[i], 16));
    return scale;
  } else if constexpr (Kv::scale_bytes > 0) {
    return load_strip<A>(reinterpret_cast<const float*>(at));
  } else {
    return splat_strip<A>(1.0f);
  }
}
template <class A, class Kv>
BANTAM_INLINE Strip<A> value_scale(const std::byte* page, std::int64_t head_dim, std::int64_t group, int token) {
  const std::byte* at = kv_scale<Kv>(page, head_dim, true, group, token);
  if constexpr (Kv::has_levels) {
    return splat_strip<A>(from_upper_half(*reinterpret_cast<const std::uint16_t*>(at)));
  } else if constexpr (Kv::scale_bytes > 0) {
    return splat_strip<A>(*reinterpret_cast<const float*>(at));
  } else {
    return splat_strip<A>(1.0f);
  }
}

/// Dimension `i` of tokens `token` .. token + 15, a multiple of 16, of kinds whose dimensions lie apart.
template <class A, class Kv>
BANTAM_INLINE Strip<A> key_strip(const std::byte* page, std::int64_t i, int token, const Strip<A>& scale) {
  const std::int64_t at = i * page_tokens + token;
  if constexpr (std::is_same_v<Kv, KvF32>) {
    return load_strip<A>(reinterpret_cast<const float*>(page) + at);
  } else if constexpr (std::is_same_v<Kv, KvF16>) {
    return simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(page) + at);
  } else {
    return mul_strip<A>(simd::byte_strip<A>::load(reinterpret_cast<const std::int8_t*>(page) + at), scale);
  }
}
/// use(i, keys) for the codes of a word from number `Code` on, the first of which is dimension i.
template <class A, class Kv, int Code, int W, class Use>
BANTAM_INLINE void use_codes(const IntStrip<A> (&words)[W], std::int64_t i, const Strip<A> (&scale)[W], const Use& use) {
  Strip<A> key[W];
  BANTAM_UNROLL for (int w = 0; w < W; ++w) {
    key[w] = mul_strip<A>(simd::level_strip<A, Kv::bits>::template of_words<Code * Kv::bits>(words[w]), scale[w]);
  }
  use(i, key);
  if constexpr (Code + 1 < Kv::codes_in_word) use_codes<A, Kv, Code + 1>(words, i + 1, scale, use);
}
/// The codes that the highest bits of words make.
template <class A, class Kv>
BANTAM_INLINE IntStrip<A> left_code(const std::uint16_t* words) {
  IntStrip<A> code = splat_int_strip<A>(0);
  BANTAM_UNROLL for (int n = 0; n < Kv::bits; ++n) {
    const IntStrip<A> word = simd::level_strip<A, Kv::bits>::load_words(words + n * page_tokens);
    BANTAM_UNROLL for (int i = 0; i < Strip<A>::parts; ++i) {
      code.part[i] = code.part[i] + vec<A>::shift_left(vec<A>::shift_right(word.part[i], 15), n);
    }
  }
  return code;
}
/// use(i, keys) for dimensions first .. end in order, a group or what there is of it: dimension i of the W strips of tokens from `token` on.
template <class A, class Kv, int W, class Use>
BANTAM_INLINE void use_keys(const std::byte* page, std::int64_t first, std::int64_t end, int token, const Strip<A> (&scale)[W], const Use& use) {
  if constexpr (Kv::has_levels) {
    using Levels = simd::level_strip<A, Kv::bits>;
    for (; first < end; first += 16) {
      const auto* at = reinterpret_cast<const std::uint16_t*>(page) + first / 16 * Kv::bits * page_tokens + token;
      IntStrip<A> words[W];
#pragma GCC unroll 1
      for (int n = 0; n < Kv::bits; ++n, at += page_tokens) {
        BANTAM_UNROLL for (int w = 0; w < W; ++w) words[w] = Levels::load_words(at + w * 16);
        use_codes<A, Kv, 0>(words, first + n * Kv::codes_in_word, scale, use);
      }
      if constexpr (Kv::one_is_left) {
        Strip<A> key[W];
        BANTAM_UNROLL for (int w = 0; w < W; ++w) key[w] = mul_strip<A>(Levels::template of_words<0>(left_code<A, Kv>(at - Kv::bits * page_tokens + w * 16)), scale[w]);
        use(first + 15, key);
      }
    }
  } else {
    Strip<A> key[W];
#pragma GCC unroll 1
    for (std::int64_t i = first; i < end; ++i) {
      BANTAM_UNROLL for (int w = 0; w < W; ++w) key[w] = key_strip<A, Kv>(page, i, token + w * 16, scale[w]);
      use(i, key);
    }
  }
}
/// Dimensions i .. i + 15, a multiple of 16, of one token.
template <class A, class Kv>
BANTAM_INLINE Strip<A> value_strip(const std::byte* page, std::int64_t head_dim, std::int64_t i, int token, const Strip<A>& scale) {
  const std::int64_t at = token * head_dim + i;
  if constexpr (std::is_same_v<Kv, KvF32>) {
    return load_strip<A>(reinterpret_cast<const float*>(page) + at);
  } else if constexpr (std::is_same_v<Kv, KvF16>) {
    return simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(page) + at);
  } else if constexpr (Kv::has_levels) {
    // Eight bytes are read, in the last strip of a page some of the scales.
    return mul_strip<A>(simd::level_strip<A, Kv::bits>::of_row(reinterpret_cast<const std::uint8_t*>(page) + at * Kv::bits / 8), scale);
  } else {
    return mul_strip<A>(simd::byte_strip<A>::load(reinterpret_cast<const std::int8_t*>(page) + at), scale);
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

/// Rounds up to 32 numbers to signed bytes. Returns their scale.
BANTAM_INLINE float round_to_bytes(const float* x, std::int64_t n, std::uint8_t* codes) {
  const Extremes e = extremes(x, n);
  const float amax = e.high > -e.low ? e.high : -e.low;
  const float inverse = amax >= smallest_range ? 127.0f / amax : 0.0f;
  for (std::int64_t i = 0; i < n; ++i) codes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(__builtin_nearbyintf(x[i] * inverse)));
  return amax / 127.0f;
}

/// Puts the codes of 16 dimensions, of which `i` is the first, of a token's key, or value, where they belong.
template <class Kv>
BANTAM_INLINE void put_codes(const std::uint8_t* codes, std::byte* page, bool value, int token, std::int64_t head_dim, std::int64_t i) {
  if (value) {
    std::uint64_t row = 0;
    for (int k = 0; k < 16; ++k) row |= static_cast<std::uint64_t>(codes[k]) << (k * Kv::bits);
    __builtin_memcpy(page + (token * head_dim + i) * Kv::bits / 8, &row, 2 * Kv::bits);
    return;
  }
  auto* words = reinterpret_cast<std::uint16_t*>(page) + i / 16 * Kv::bits * page_tokens + token;
  for (int n = 0; n < Kv::bits; ++n) {
    unsigned word = 0;
    for (int k = 0; k < Kv::codes_in_word; ++k) word |= static_cast<unsigned>(codes[n * Kv::codes_in_word + k]) << (k * Kv::bits);
    if constexpr (Kv::one_is_left) word |= static_cast<unsigned>(codes[15] >> n & 1) << 15;
    words[n * page_tokens] = static_cast<std::uint16_t>(word);
  }
}

/// Numbers first .. first + n of a head, n a multiple of 16, in groups of 32.
template <class Kv>
BANTAM_INLINE void store_groups(const float* x, std::byte* page, bool value, int token, std::int64_t head_dim, std::int64_t first, std::int64_t n) {
  std::uint8_t codes[32];
  for (const std::int64_t last = first + n; first < last; first += 32, x += 32) {
    const std::int64_t size = last - first < 32 ? last - first : 32;
    std::byte* const scale = kv_scale<Kv>(page, head_dim, value, first / 32, token);
    if constexpr (Kv::has_levels) {
      const std::uint16_t kept = round_to_levels<Kv::bits>(x, size, codes);
      __builtin_memcpy(scale, &kept, sizeof kept);
      for (std::int64_t i = 0; i < size; i += 16) put_codes<Kv>(codes + i, page, value, token, head_dim, first + i);
    } else {
      const float kept = round_to_bytes(x, size, codes);
      __builtin_memcpy(scale, &kept, sizeof kept);
      auto* out = reinterpret_cast<std::uint8_t*>(page);
      for (std::int64_t i = 0; i < size; ++i) out[value ? token * head_dim + first + i : (first + i) * page_tokens + token] = codes[i];
    }
  }
}

}  // namespace detail

/// Writes the key (or the value) of one token, head_dim floats, into a page. Kinds with levels rotate blocks of `block` numbers before: a power
/// of two that divides head_dim; 1: none.
template <class A, class Kv>
void store_kv(const float* x, std::byte* page, bool value, int token, std::int64_t head_dim, std::int64_t block) noexcept {
  if constexpr (Kv::has_levels) {
    alignas(64) float rotated[largest_rotation];
    const std::int64_t step = block > 32 ? block : 32;
    for (std::int64_t first = 0; first < head_dim; first += step) {
      const std::int64_t n = head_dim - first < step ? head_dim - first : step;
      __builtin_memcpy(rotated, x + first, static_cast<std::size_t>(n) * sizeof(float));
      rotate_blocks<A>(rotated, n, block);
      detail::store_groups<Kv>(rotated, page, value, token, head_dim, first, n);
    }
  } else if constexpr (Kv::scale_bytes > 0) {
    detail::store_groups<Kv>(x, page, value, token, head_dim, 0, head_dim);
  } else {
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
  }
}

/// A page as floats in the layout of KvF32: tokens 0 .. `tokens`, and what follows up to a multiple of 16 (garbage). What was rotated stays so.
template <class A, class Kv>
void expand_kv(const std::byte* page, bool value, int tokens, std::int64_t head_dim, float* out) noexcept {
  for (std::int64_t g = 0; g * 32 < head_dim; ++g) {
    const std::int64_t end = g * 32 + 32 < head_dim ? g * 32 + 32 : head_dim;
    if (value) {
      for (int t = 0; t < tokens; ++t) {
        const Strip<A> scale = detail::value_scale<A, Kv>(page, head_dim, g, t);
        for (std::int64_t i = g * 32; i < end; i += 16) store_strip<A>(out + t * head_dim + i, detail::value_strip<A, Kv>(page, head_dim, i, t, scale));
      }
    } else {
      for (int t = 0; t < tokens; t += 16) {
        const Strip<A> scale[1] = {detail::key_scale<A, Kv>(page, head_dim, g, t)};
        detail::use_keys<A, Kv, 1>(page, g * 32, end, t, scale, [&](std::int64_t i, const Strip<A>(&key)[1]) __attribute__((always_inline)) {
          store_strip<A>(out + i * page_tokens + t, key[0]);
        });
      }
    }
  }
}

}  // namespace bantam::inline v0::kernels
