// Causal attention over one page of keys and values by online softmax; and the codecs of what a page holds.
#pragma once

#include "bantam/kernels/rows.hpp"

namespace bantam::inline v0 {

/// How keys and values lie in a page: floats.
struct KvF32 {
  static constexpr const char* name = "f32";
  static constexpr std::int64_t bytes(std::int64_t head_dim) noexcept { return head_dim * 4; }
};
/// Halves.
struct KvF16 {
  static constexpr const char* name = "f16";
  static constexpr std::int64_t bytes(std::int64_t head_dim) noexcept { return head_dim * 2; }
};
/// Signed bytes, a scale max|x| / 127 every 32 values.
struct KvI8 {
  static constexpr const char* name = "q8";
  static constexpr std::int64_t bytes(std::int64_t head_dim) noexcept { return head_dim + round_up<std::int64_t>(head_dim, 32) / 32 * 4; }
};
/// Nibbles, a scale and a minimum every 32 values.
struct KvI4 {
  static constexpr const char* name = "q4";
  static constexpr std::int64_t bytes(std::int64_t head_dim) noexcept { return head_dim / 2 + round_up<std::int64_t>(head_dim, 32) / 32 * 8; }
};

}  // namespace bantam::inline v0

namespace bantam::inline v0::kernels {

/// Updates one query row with the tokens begin .. tokens of a page. q: (head_dim), out: (head_dim) unnormalized.
template <class A>
void attend_page(const AttentionPart& part, const float* q, AttentionState& state, float* out) noexcept {
  using V = vec<A>;
  const std::int64_t d = part.head_dim;
  alignas(64) float score[page_tokens];
  float maximum = state.maximum;
  for (int t = part.begin; t < part.tokens; ++t) {
    const float* key = part.keys + t * d;
    auto sum = V::splat(0.0f);
    for (std::int64_t i = 0; i < d; i += V::lanes) sum = V::fma(V::load(q + i), V::load(key + i), sum);
    score[t] = simd::reduce_add<A>(sum) * part.scale;
    // A NaN score must win, or the row would look empty.
    maximum = score[t] > maximum || score[t] != score[t] ? score[t] : maximum;
  }
  if (maximum != state.maximum) {
    alignas(64) float difference[V::lanes] = {};
    difference[0] = state.maximum - maximum;
    V::store(difference, kernels::exp<A>(V::load(difference)));
    const float shrink = state.sum == 0 ? 0.0f : difference[0];
    state.sum *= shrink;
    for (std::int64_t i = 0; i < d; i += V::lanes) V::store(out + i, V::load(out + i) * V::splat(shrink));
    state.maximum = maximum;
  }
  for (int t = part.begin; t < part.tokens; ++t) score[t] -= maximum;
  map_row<A>(score + part.begin, score + part.begin, part.tokens - part.begin,
             [](typename V::F x, std::int64_t) { return kernels::exp<A>(x); });
  for (int t = part.begin; t < part.tokens; ++t) state.sum += score[t];
  for (std::int64_t i = 0; i < d; i += V::lanes) {
    auto total = V::load(out + i);
    for (int t = part.begin; t < part.tokens; ++t) {
      total = V::fma(V::splat(score[t]), V::load(part.values + t * d + i), total);
    }
    V::store(out + i, total);
  }
}

/// out = out / sum.
template <class A>
void attend_finish(const AttentionState& state, float* out, std::int64_t head_dim) noexcept {
  using V = vec<A>;
  const float inverse = 1.0f / state.sum;
  for (std::int64_t i = 0; i < head_dim; i += V::lanes) V::store(out + i, V::load(out + i) * V::splat(inverse));
}

namespace detail {

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

}  // namespace detail

/// Writes one key or value of one head (head_dim floats, a multiple of 16) into a page.
template <class A, class Kv>
void store_kv(const float* x, std::byte* out, std::int64_t head_dim) noexcept {
  if constexpr (std::is_same_v<Kv, KvF32>) {
    __builtin_memcpy(out, x, static_cast<std::size_t>(head_dim) * 4);
  } else if constexpr (std::is_same_v<Kv, KvF16>) {
    for (std::int64_t i = 0; i < head_dim; i += 16) simd::half_strip<A>::store(reinterpret_cast<std::uint16_t*>(out) + i, x + i);
  } else {
    auto* side = reinterpret_cast<float*>(out + (std::is_same_v<Kv, KvI8> ? head_dim : head_dim / 2));
    for (std::int64_t first = 0; first < head_dim; first += 32) {
      const std::int64_t n = head_dim - first < 32 ? head_dim - first : 32;
      const detail::Extremes e = detail::extremes(x + first, n);
      if constexpr (std::is_same_v<Kv, KvI8>) {
        const float amax = e.high > -e.low ? e.high : -e.low;
        const float inverse = amax >= smallest_range ? 127.0f / amax : 0.0f;
        *side++ = amax / 127.0f;
        for (std::int64_t i = first; i < first + n; ++i) {
          out[i] = static_cast<std::byte>(static_cast<std::int8_t>(__builtin_nearbyintf(x[i] * inverse)));
        }
      } else {
        const float step = (e.high - e.low) / 15.0f;
        const float inverse = step >= smallest_range ? 1.0f / step : 0.0f;
        *side++ = step;
        *side++ = e.low;
        for (std::int64_t i = first; i < first + n; i += 2) {
          const int a = static_cast<int>((x[i] - e.low) * inverse + 0.5f) & 15;
          const int b = static_cast<int>((x[i + 1] - e.low) * inverse + 0.5f) & 15;
          out[i / 2] = static_cast<std::byte>(a | b << 4);
        }
      }
    }
  }
}

/// Reads one key or value of one head back as floats.
template <class A, class Kv>
void load_kv(const std::byte* in, float* out, std::int64_t head_dim) noexcept {
  using V = vec<A>;
  if constexpr (std::is_same_v<Kv, KvF32>) {
    __builtin_memcpy(out, in, static_cast<std::size_t>(head_dim) * 4);
  } else if constexpr (std::is_same_v<Kv, KvF16>) {
    for (std::int64_t i = 0; i < head_dim; i += 16) {
      const auto strip = simd::half_strip<A>::load(reinterpret_cast<const std::uint16_t*>(in) + i);
      for (int p = 0; p < simd::Strip<A>::parts; ++p) V::store(out + i + p * V::lanes, strip.part[p]);
    }
  } else {
    const auto* side = reinterpret_cast<const float*>(in + (std::is_same_v<Kv, KvI8> ? head_dim : head_dim / 2));
    for (std::int64_t first = 0; first < head_dim; first += 32) {
      const std::int64_t n = head_dim - first < 32 ? head_dim - first : 32;
      if constexpr (std::is_same_v<Kv, KvI8>) {
        const float scale = *side++;
        for (std::int64_t i = first; i < first + n; ++i) out[i] = scale * static_cast<float>(static_cast<std::int8_t>(in[i]));
      } else {
        const float step = *side++;
        const float low = *side++;
        for (std::int64_t i = first; i < first + n; i += 2) {
          const auto byte = static_cast<unsigned>(in[i / 2]);
          out[i] = __builtin_fmaf(step, static_cast<float>(byte & 15u), low);
          out[i + 1] = __builtin_fmaf(step, static_cast<float>(byte >> 4), low);
        }
      }
    }
  }
}

}  // namespace bantam::inline v0::kernels
