// Causal attention of several query rows over one page of keys and values, by online softmax.
//
// Every score is one sum over the dimensions in order, every output one sum over the tokens in order, and pages follow
// each other: results depend neither on how many rows go together nor on the instruction set, bit for bit.
#pragma once

#include "bantam/kernels/kv_page.hpp"

namespace bantam::inline v0::kernels {

namespace detail {

/// Registers of 16 numbers that go side by side, so that the sums in flight hide the latency of an addition.
template <class A>
inline constexpr int attention_width = Strip<A>::parts == 1 ? 4 : 1;

/// Some bytes of the next page.
BANTAM_INLINE void fetch_ahead(const std::byte* next, std::int64_t first, std::int64_t bytes) {
  for (std::int64_t at = first; at < first + bytes; at += 64) __builtin_prefetch(next + at);
}

/// s[m][token ..] = scale * q[m] . keys, W strips of tokens for MR rows.
template <class A, class Kv, int MR, int W, bool Fetch>
BANTAM_INLINE void score_strips(const AttentionPage& page, const float* q, int token, float (&s)[MR][page_tokens]) {
  Strip<A> sum[MR][W];
  BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
    BANTAM_UNROLL for (int w = 0; w < W; ++w) sum[m][w] = splat_strip<A>(0.0f);
  }
  const std::int64_t d = page.head_dim;
  for (std::int64_t first = 0; first < d; first += 32) {
    const std::int64_t end = first + 32 < d ? first + 32 : d;
    if constexpr (Fetch && Kv::scale_bytes > 0) fetch_ahead(page.next_keys, kv_number_bytes<Kv>(d) + first / 32 * page_tokens * Kv::scale_bytes, page_tokens * Kv::scale_bytes);
    Strip<A> of_group[W];
    BANTAM_UNROLL for (int w = 0; w < W; ++w) of_group[w] = key_scale<A, Kv>(page.keys, d, first / 32, token + w * 16);
    use_keys<A, Kv, W>(page.keys, first, end, token, of_group, [&](std::int64_t i, const Strip<A>(&key)[W]) __attribute__((always_inline)) {
      if constexpr (Fetch) fetch_ahead(page.next_keys, i * page_tokens * Kv::bits / 8, page_tokens * Kv::bits / 8);
      BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
        const Strip<A> b = splat_strip<A>(q[m * d + i]);
        BANTAM_UNROLL for (int w = 0; w < W; ++w) sum[m][w] = fma_strip<A>(key[w], b, sum[m][w]);
      }
    });
  }
  const Strip<A> scale = splat_strip<A>(page.scale);
  BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
    BANTAM_UNROLL for (int w = 0; w < W; ++w) store_strip<A>(&s[m][token + w * 16], mul_strip<A>(sum[m][w], scale));
  }
}

/// out[m][i ..] += p[m] . values over tokens begin .. end, W strips of dimensions for MR rows.
template <class A, class Kv, int MR, int W, bool Fetch>
BANTAM_INLINE void add_values(const AttentionPage& page, const float (&p)[MR][page_tokens], int begin, int end,
                              std::int64_t i, float* out, std::int64_t d) {
  Strip<A> sum[MR][W];
  BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
    BANTAM_UNROLL for (int w = 0; w < W; ++w) sum[m][w] = load_strip<A>(out + m * d + i + w * 16);
  }
#pragma GCC unroll 1
  for (int t = begin; t < end; ++t) {
    if constexpr (Fetch) fetch_ahead(page.next_values, t * d * Kv::bits / 8, d * Kv::bits / 8);
    if constexpr (Fetch && Kv::scale_bytes > 0) {
      const std::int64_t scales = (d + 31) / 32 * Kv::scale_bytes;
      if (t % 16 == 0) fetch_ahead(page.next_values, kv_number_bytes<Kv>(d) + t * scales, 16 * scales);
    }
    Strip<A> value[W];
    BANTAM_UNROLL for (int w = 0; w < W; ++w) {
      value[w] = value_strip<A, Kv>(page.values, d, i + w * 16, t, value_scale<A, Kv>(page.values, d, (i + w * 16) / 32, t));
    }
    BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
      const Strip<A> b = splat_strip<A>(p[m][t]);
      BANTAM_UNROLL for (int w = 0; w < W; ++w) sum[m][w] = fma_strip<A>(value[w], b, sum[m][w]);
    }
  }
  BANTAM_UNROLL for (int m = 0; m < MR; ++m) {
    BANTAM_UNROLL for (int w = 0; w < W; ++w) store_strip<A>(out + m * d + i + w * 16, sum[m][w]);
  }
}

/// e^x, as the lanes of a register get it.
template <class A>
float exp_of(float x) {
  using V = vec<A>;
  alignas(64) float lanes[V::lanes];
  V::store(lanes, kernels::exp<A>(V::splat(x)));
  return lanes[0];
}

/// Leaves of a row's scores those that are chosen. Out of line as the cap is.
template <class A>
__attribute__((noinline)) void drop_scores(float (&s)[page_tokens], std::uint64_t chosen, int first, int last) {
  for (int t = first; t < last; ++t) {
    if ((chosen >> t & 1) == 0) s[t] = -__builtin_inff();
  }
}

/// Turns the scores begin .. end of one row into weights, and zeros around them in first .. last; brings the row's state
/// up to the new maximum. NaN goes through the exponential into the sums.
template <class A>
void soften(float* s, int begin, int end, int first, int last, AttentionState& state, float* out, std::int64_t d) {
  using V = vec<A>;
  constexpr float lowest = -__builtin_inff();
  for (int t = first; t < begin; ++t) s[t] = lowest;
  for (int t = end; t < last; ++t) s[t] = lowest;
  auto most = V::splat(state.maximum);
  for (int t = first; t < last; t += V::lanes) most = V::max(most, V::load(s + t));
  const float maximum = simd::reduce_max<A>(most);
  if (maximum != state.maximum) {
    const auto shrink = V::splat(state.maximum == lowest ? 0.0f : exp_of<A>(state.maximum - maximum));
    for (int i = 0; i < 16; i += V::lanes) V::store(state.sums + i, V::load(state.sums + i) * shrink);
    for (std::int64_t i = 0; i < d; i += V::lanes) V::store(out + i, V::load(out + i) * shrink);
    state.maximum = maximum;
  }
  const auto shift = V::splat(maximum);
  for (int t = first; t < last; t += V::lanes) V::store(s + t, kernels::exp<A>(V::load(s + t) - shift));
  for (int t = first; t < begin; ++t) s[t] = 0;
  for (int t = end; t < last; ++t) s[t] = 0;
  for (int t = first; t < last; t += 16) {
    for (int i = 0; i < 16; i += V::lanes) V::store(state.sums + i, V::load(state.sums + i) + V::load(s + t + i));
  }
}

/// Caps the scores first .. last of each row. Out of line: few models have a cap, and the loops around need their registers.
template <class A, int MR>
__attribute__((noinline)) void cap_scores(float (&s)[MR][page_tokens], float cap, int first, int last) {
  for (int m = 0; m < MR; ++m) softcap<A>(s[m] + first, cap, last - first);
}

/// Takes slope * distance from the scores first .. last of each row. Out of line as the cap is.
template <class A, int MR>
__attribute__((noinline)) void add_slopes(float (&s)[MR][page_tokens], const AttentionPage& page, const AttentionRows& rows, int row, int first, int last) {
  for (int m = 0; m < MR; ++m) {
    const float slope = rows.slopes[(row + m) % rows.group];
    const auto ahead = static_cast<int>(page.start - rows.position - (row + m) / rows.group);
    for (int t = first; t < last; ++t) s[m][t] += slope * static_cast<float>(ahead + t);
  }
}

/// Adds what distances are worth to the scores first .. last of each row. Out of line as the cap is.
template <class A, int MR>
__attribute__((noinline)) void add_biases(float (&s)[MR][page_tokens], const AttentionPage& page, const AttentionRows& rows, int row, int first, int last) {
  using V = vec<A>;
  const std::int64_t reach = rows.bias_reach;
  for (int m = 0; m < MR; ++m) {
    const std::int64_t ahead = page.start - rows.bias_position - (row + m);  // of the page's first key
    const std::int64_t at = ahead < -reach - page_tokens ? 0 : ahead > reach ? 2 * reach + page_tokens : ahead + reach + page_tokens;
    for (int t = first; t < last; t += V::lanes) V::store(s[m] + t, V::load(s[m] + t) + V::load(rows.biases + at + t));
  }
}

/// MR rows from `row` on.
template <class A, class Kv, int MR>
void attend_rows(const AttentionPage& page, const AttentionRows& rows, int row) {
  constexpr int W = attention_width<A>;
  int begin[MR];
  int end[MR];
  std::uint64_t chosen[MR] = {};
  int first = page_tokens;
  int last = 0;
  for (int m = 0; m < MR; ++m) {
    const std::int64_t position = rows.position + (row + m) / rows.group;
    const std::int64_t oldest = rows.window == 0 || position < rows.window ? 0 : rows.chunked ? position - position % rows.window : position - rows.window + 1;
    const std::int64_t from = oldest - page.start;
    const std::int64_t to = position - page.start + 1;
    begin[m] = from < 0 ? 0 : from < page_tokens ? static_cast<int>(from) : page_tokens;
    end[m] = to < 0 ? 0 : to < page_tokens ? static_cast<int>(to) : page_tokens;
    if (rows.chosen != nullptr) [[unlikely]] {
      chosen[m] = rows.chosen[(row + m) / rows.group * rows.chosen_stride];
      const int lowest = chosen[m] == 0 ? page_tokens : __builtin_ctzll(chosen[m]), highest = chosen[m] == 0 ? 0 : page_tokens - __builtin_clzll(chosen[m]);
      begin[m] = begin[m] > lowest ? begin[m] : lowest;
      end[m] = end[m] < highest ? end[m] : highest;
    }
    if (begin[m] >= end[m]) continue;
    first = begin[m] < first ? begin[m] : first;
    last = end[m] > last ? end[m] : last;
  }
  if (first >= last) return;
  const int left = first / 16 * 16;
  const int right = (last + 15) / 16 * 16;
  const std::int64_t d = page.head_dim, value_dim = page.value_dim > 0 ? page.value_dim : d;
  alignas(64) float s[MR][page_tokens];
  const float* q = rows.q + row * d;
  // The first strips of a page fetch all of the next one: as many as go side by side, where there are so many.
  int token = left;
  if (page.next_keys != nullptr && left == 0) {
    if (W > 1 && W * 16 <= right) {
      score_strips<A, Kv, MR, W, true>(page, q, token, s);
      token += W * 16;
    } else {
      score_strips<A, Kv, MR, 1, true>(page, q, token, s);
      token += 16;
    }
  }
  for (; token + W * 16 <= right; token += W * 16) score_strips<A, Kv, MR, W, false>(page, q, token, s);
  for (; W > 1 && token < right; token += 16) score_strips<A, Kv, MR, 1, false>(page, q, token, s);
  if (page.softcap > 0) [[unlikely]] cap_scores<A, MR>(s, page.softcap, left, right);
  if (rows.slopes != nullptr) [[unlikely]] add_slopes<A, MR>(s, page, rows, row, left, right);
  if (rows.biases != nullptr) [[unlikely]] add_biases<A, MR>(s, page, rows, row, left, right);
  float* out = rows.out + row * value_dim;
  for (int m = 0; m < MR; ++m) {
    if (begin[m] < end[m]) {
      if (rows.chosen != nullptr) [[unlikely]] drop_scores<A>(s[m], chosen[m], left, right);
      soften<A>(s[m], begin[m], end[m], left, right, rows.states[row + m], out + m * value_dim, value_dim);
    } else {
      for (int t = left; t < right; ++t) s[m][t] = 0;
    }
  }
  std::int64_t i = 0;
  if (page.next_values != nullptr && W > 1 && W * 16 <= value_dim) {
    add_values<A, Kv, MR, W, true>(page, s, first, last, i, out, value_dim);
    i += W * 16;
  } else if (page.next_values != nullptr) {
    add_values<A, Kv, MR, 1, true>(page, s, first, last, i, out, value_dim);
    i += 16;
  }
  for (; i + W * 16 <= value_dim; i += W * 16) add_values<A, Kv, MR, W, false>(page, s, first, last, i, out, value_dim);
  for (; W > 1 && i < value_dim; i += 16) add_values<A, Kv, MR, 1, false>(page, s, first, last, i, out, value_dim);
}

}  // namespace detail

/// Brings rows up to date with the tokens of a page that each of them may see.
template <class A, class Kv>
void attend(const AttentionPage& page, const AttentionRows& rows) noexcept {
  int row = 0;
  for (; row + 4 <= rows.count; row += 4) detail::attend_rows<A, Kv, 4>(page, rows, row);
  for (; row + 2 <= rows.count; row += 2) detail::attend_rows<A, Kv, 2>(page, rows, row);
  for (; row < rows.count; ++row) detail::attend_rows<A, Kv, 1>(page, rows, row);
}

/// scores[t] = sum over heads of weights[h] ReLU(q[h] . key t), for the tokens of a page of keys in floats, heads in order (DeepSeek V3.2, arXiv:2512.02556, eq. 1).
/// scores: (64).
template <class A>
void index_scores(const float* keys, const IndexQuery& query, float* scores) noexcept {
  using V = vec<A>;
  constexpr int W = detail::attention_width<A>;
  const AttentionPage page{.keys = reinterpret_cast<const std::byte*>(keys), .head_dim = query.dim};
  alignas(64) float s[4][page_tokens];
  alignas(64) float of_head[1][page_tokens];
  for (int t = 0; t < page_tokens; ++t) scores[t] = 0;
  const auto add = [&](const float* x, std::int64_t head) {
    const auto weight = V::splat(query.weights == nullptr ? 1.0f : query.weights[head]), zero = V::splat(0.0f);
    for (int t = 0; t < page_tokens; t += V::lanes) V::store(scores + t, V::fma(V::max(V::load(x + t), zero), weight, V::load(scores + t)));
  };
  std::int64_t head = 0;
  for (; head + 4 <= query.heads; head += 4) {
    for (int token = 0; token < page_tokens; token += W * 16) detail::score_strips<A, KvF32, 4, W, false>(page, query.q + head * query.dim, token, s);
    for (int m = 0; m < 4; ++m) add(s[m], head + m);
  }
  for (; head < query.heads; ++head) {
    for (int token = 0; token < page_tokens; token += W * 16) detail::score_strips<A, KvF32, 1, W, false>(page, query.q + head * query.dim, token, of_head);
    add(of_head[0], head);
  }
}

/// Adds what a row found in the pages of `next` to what it found before.
template <class A>
void attend_merge(AttentionState& state, float* out, const AttentionState& next, const float* next_out,
                  std::int64_t head_dim) noexcept {
  using V = vec<A>;
  constexpr float lowest = -__builtin_inff();
  if (next.maximum == lowest) return;  // it saw nothing there
  const float maximum = state.maximum > next.maximum ? state.maximum : next.maximum;
  const auto a = V::splat(state.maximum == lowest ? 0.0f : detail::exp_of<A>(state.maximum - maximum));
  const auto b = V::splat(detail::exp_of<A>(next.maximum - maximum));
  for (int i = 0; i < 16; i += V::lanes) {
    V::store(state.sums + i, V::load(state.sums + i) * a + V::load(next.sums + i) * b);
  }
  for (std::int64_t i = 0; i < head_dim; i += V::lanes) V::store(out + i, V::load(out + i) * a + V::load(next_out + i) * b);
  state.maximum = maximum;
}

/// out = out / sum of the weights.
template <class A>
void attend_finish(const AttentionState& state, float* out, std::int64_t head_dim) noexcept {
  using V = vec<A>;
  float sum = state.sums[0];
  for (int i = 1; i < 16; ++i) sum += state.sums[i];
  const float inverse = 1.0f / sum;
  for (std::int64_t i = 0; i < head_dim; i += V::lanes) V::store(out + i, V::load(out + i) * V::splat(inverse));
}

}  // namespace bantam::inline v0::kernels
