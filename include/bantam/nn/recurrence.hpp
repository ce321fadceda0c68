// Linear attention with decay, chunk by chunk: what gated delta nets and state spaces compute.
//
// With S the state of a head at the chunk's beginning, (key_dim, value_dim), and G_i the sum of log decays up to token i in it,
//   p_i = e^(G_i) S^T k_i + sum over j < i of e^(G_i - G_j) (k_j . k_i) u_j,    u_i = beta_i (v_i - p_i)   (delta rule; else u_i = v_i)
//   o_i = e^(G_i) S^T q_i + sum over j <= i of e^(G_i - G_j) (k_j . q_i) u_j,
// and the next chunk begins with e^(G_n) S + sum over j of e^(G_n - G_j) k_j u_j^T. Gated delta rule: arXiv:2412.06464, eq. 10, and its
// chunked form, the triangular solve, row after row. State spaces: arXiv:2405.21060, section 6.
#pragma once

#include <cmath>
#include <vector>

#include "bantam/kernels/table.hpp"
#include "bantam/nn/recurrent_state.hpp"

namespace bantam::inline v0::nn {

/// One layer's sizes, and which value heads go with a key head: neighbors, or every key_heads-th.
struct RecurrenceOptions {
  RecurrentLayer sizes;
  bool interleaved = false;
  bool delta = false;  ///< updates are what values have beside the state's prediction of them, times beta
};

/// Rows of the tokens of a pass, each with its heads one behind the other.
struct RecurrenceRows {
  FloatRows queries, keys;  ///< (tokens, key heads * key_dim)
  FloatRows values;         ///< (tokens, value heads * value_dim)
  FloatRows decays;         ///< (tokens, value heads): log decays, at most 0
  FloatRows betas;          ///< (tokens, value heads), of the delta rule
  OutputRows out;           ///< (tokens, value heads * value_dim)
};

/// What one worker needs to run a key head of a sequence through.
class Recurrence {
 public:
  using Rows = RecurrenceRows;

  explicit Recurrence(const RecurrenceOptions& options) : options_(options), padded_(round_up<std::int64_t>(options.sizes.value_dim, 16)) {
    for (AlignedBuffer<float>* rows : {&predicted_, &outputs_}) rows->ensure(static_cast<std::size_t>(chunk * padded_));
    for (AlignedBuffer<float>* dots : {&key_dots_, &query_dots_}) dots->ensure(static_cast<std::size_t>(chunk * chunk));
    factors_.ensure(static_cast<std::size_t>(chunk));
    weights_.ensure(static_cast<std::size_t>(options.sizes.key_dim * chunk));
  }

  /// Tokens `row` .. `row` + `tokens` of the rows, which are at `position` of their sequence: their outputs, and what its state keeps.
  void run(const KernelTable& kernels, const RecurrentState& state, std::int64_t layer, std::int64_t position, std::int64_t row, std::int64_t tokens,
           std::int64_t key_head, const RecurrenceRows& rows) noexcept;

 private:
  static constexpr std::int64_t chunk = RecurrentState::chunk_tokens;
  using Part = RecurrentState::Part;

  [[nodiscard]] std::int64_t value_head(std::int64_t key_head, std::int64_t i) const noexcept {
    const RecurrentLayer& s = options_.sizes;
    return options_.interleaved ? i * s.key_heads + key_head : key_head * (s.value_heads / s.key_heads) + i;
  }
  void take_keys(const KernelTable& kernels, const Part& part, std::int64_t at, std::int64_t row, std::int64_t tokens, std::int64_t key_head,
                 const RecurrenceRows& rows) noexcept;
  void run_head(const KernelTable& kernels, const Part& part, std::int64_t at, std::int64_t row, std::int64_t tokens, std::int64_t key_head,
                std::int64_t head, const RecurrenceRows& rows) noexcept;
  void end_chunk(const KernelTable& kernels, const Part& part, const Part& next, std::int64_t key_head, std::int64_t head) noexcept;

  const RecurrenceOptions options_;
  const std::int64_t padded_;
  AlignedBuffer<float> predicted_, outputs_;      ///< (chunk, padded value_dim)
  AlignedBuffer<float> key_dots_, query_dots_;    ///< (tokens, chunk): with the keys of the chunk
  AlignedBuffer<float> factors_;                  ///< (chunk)
  AlignedBuffer<float> weights_;                  ///< (key_dim, chunk)
};

inline void Recurrence::run(const KernelTable& kernels, const RecurrentState& state, std::int64_t layer, std::int64_t position, std::int64_t row,
                            std::int64_t tokens, std::int64_t key_head, const RecurrenceRows& rows) noexcept {
  const std::int64_t heads = options_.sizes.value_heads / options_.sizes.key_heads;
  const Part last = state.last_part(layer);
  Part part = state.first_part(layer, position);
  std::int64_t at = position % chunk;
  while (tokens > 0) {
    const std::int64_t count = std::min(tokens, chunk - at);
    take_keys(kernels, part, at, row, count, key_head, rows);
    for (std::int64_t i = 0; i < heads; ++i) run_head(kernels, part, at, row, count, key_head, value_head(key_head, i), rows);
    row += count;
    tokens -= count;
    at += count;
    if (at < chunk) return;
    for (std::int64_t i = 0; i < heads; ++i) end_chunk(kernels, part, last, key_head, value_head(key_head, i));
    part = last;
    at = 0;
  }
}

/// Keys go to the chunk's tail, each a column there; and the dot products of all of the tail's with these tokens' keys and queries.
inline void Recurrence::take_keys(const KernelTable& kernels, const Part& part, std::int64_t at, std::int64_t row, std::int64_t tokens,
                                  std::int64_t key_head, const RecurrenceRows& rows) noexcept {
  const std::int64_t d = options_.sizes.key_dim;
  float* keys = part.keys + key_head * d * chunk;
  const float* own = rows.keys.values + row * rows.keys.stride + key_head * d;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < d; ++i) keys[i * chunk + at + t] = own[t * rows.keys.stride + i];
  }
  RowSums dots{.m = keys, .m_stride = chunk, .rows = tokens, .inner = d, .columns = round_up<std::int64_t>(at + tokens, 16), .out_stride = chunk};
  dots.x = rows.queries.values + row * rows.queries.stride + key_head * d, dots.x_stride = rows.queries.stride, dots.out = query_dots_.data();
  kernels.sum_rows(dots);
  if (!options_.delta) return;
  dots.x = own, dots.x_stride = rows.keys.stride, dots.out = key_dots_.data();
  kernels.sum_rows(dots);
}

inline void Recurrence::run_head(const KernelTable& kernels, const Part& part, std::int64_t at, std::int64_t row, std::int64_t tokens,
                                 std::int64_t key_head, std::int64_t head, const RecurrenceRows& rows) noexcept {
  const std::int64_t d = options_.sizes.key_dim, v = options_.sizes.value_dim;
  float* decays = part.decays + head * chunk;
  float* updates = part.updates + head * chunk * padded_;
  RowSums read{.m = part.states + head * d * padded_, .m_stride = padded_, .rows = tokens, .inner = d, .columns = padded_, .out_stride = padded_};
  read.x = rows.queries.values + row * rows.queries.stride + key_head * d, read.x_stride = rows.queries.stride, read.out = outputs_.data();
  kernels.sum_rows(read);
  if (options_.delta) {
    read.x = rows.keys.values + row * rows.keys.stride + key_head * d, read.x_stride = rows.keys.stride, read.out = predicted_.data();
    kernels.sum_rows(read);
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t i = at + t;
    decays[i] = (i > 0 ? decays[i - 1] : 0.0f) + rows.decays.values[(row + t) * rows.decays.stride + head];
    const float decay = std::exp(decays[i]);
    const float* value = rows.values.values + (row + t) * rows.values.stride + head * v;
    float* update = updates + i * padded_;
    // Sums over the tokens of the chunk so far, from what the state gives on.
    RowSums sum{.x = factors_.data(), .m = updates, .m_stride = padded_, .rows = 1, .columns = padded_, .factor = decay};
    if (options_.delta) {
      float* predicted = predicted_.data() + t * padded_;
      kernels.decay_row(key_dots_.data() + t * chunk, decays, decays[i], factors_.data(), round_up<std::int64_t>(i + 1, 16));
      sum.inner = i, sum.base = sum.out = predicted;
      kernels.sum_rows(sum);
      const float beta = rows.betas.values[(row + t) * rows.betas.stride + head];
      for (std::int64_t c = 0; c < v; ++c) update[c] = beta * (value[c] - predicted[c]);
    } else {
      std::copy_n(value, v, update);
    }
    std::fill(update + v, update + padded_, 0.0f);
    float* out = outputs_.data() + t * padded_;
    kernels.decay_row(query_dots_.data() + t * chunk, decays, decays[i], factors_.data(), round_up<std::int64_t>(i + 1, 16));
    sum.inner = i + 1, sum.base = sum.out = out;
    kernels.sum_rows(sum);
    std::copy_n(out, v, rows.out.values + (row + t) * rows.out.stride + head * v);
  }
}

/// The state that the next chunk begins with.
inline void Recurrence::end_chunk(const KernelTable& kernels, const Part& part, const Part& next, std::int64_t key_head, std::int64_t head) noexcept {
  const std::int64_t d = options_.sizes.key_dim;
  const float *decays = part.decays + head * chunk, *keys = part.keys + key_head * d * chunk;
  const float end = decays[chunk - 1];
  for (std::int64_t i = 0; i < d; ++i) kernels.decay_row(keys + i * chunk, decays, end, weights_.data() + i * chunk, chunk);
  kernels.sum_rows({.x = weights_.data(), .x_stride = chunk, .m = part.updates + head * chunk * padded_, .m_stride = padded_, .rows = d,
                    .inner = chunk, .columns = padded_, .base = part.states + head * d * padded_, .base_stride = padded_, .factor = std::exp(end),
                    .out = next.states + head * d * padded_, .out_stride = padded_});
}

}  // namespace bantam::inline v0::nn
