// The gated delta rule with a decay of each key channel, chunk by chunk (Kimi Delta Attention, arXiv:2510.26692).
//
// With S the state of a head at the chunk's beginning, (key_dim, value_dim), and G_i of each channel the sum of its log decays up to token
// i in it,
//   p_i = S^T (e^(G_i) * k_i) + sum over j < i of ((e^(G_i - G_j) * k_j) . k_i) u_j,   u_i = beta_i (v_i - p_i),
//   o_i = S^T (e^(G_i) * q_i) + sum over j <= i of ((e^(G_i - G_j) * k_j) . q_i) u_j,
// and the next chunk begins with e^(G_n) * S + sum over j of (e^(G_n - G_j) * k_j) u_j^T. No exponent is above 0: keys divided by their own
// decays, which would save the exponentials of pairs, overflow where a channel forgets fast.
#pragma once

#include <cmath>
#include <vector>

#include "bantam/kernels/table.hpp"
#include "bantam/nn/recurrent_state.hpp"

namespace bantam::inline v0::nn {

/// Rows of the tokens of a pass, each with its heads one behind the other: (tokens, heads * key_dim), but for betas, (tokens, heads).
struct ChannelRecurrenceRows {
  FloatRows queries, keys, values;
  FloatRows decays;  ///< log decays, at most 0
  FloatRows betas;
  OutputRows out;
};

/// What one worker needs to run a head of a sequence through. Of the sizes each key head has one value head.
class ChannelRecurrence {
 public:
  using Rows = ChannelRecurrenceRows;

  explicit ChannelRecurrence(const RecurrentLayer& sizes)
      : sizes_(sizes), padded_keys_(round_up<std::int64_t>(sizes.key_dim, 16)), padded_(round_up<std::int64_t>(sizes.value_dim, 16)) {
    for (AlignedBuffer<float>* rows : {&predicted_, &outputs_}) rows->ensure(static_cast<std::size_t>(chunk * padded_));
    for (AlignedBuffer<float>* rows : {&keys_, &queries_}) rows->ensure(static_cast<std::size_t>(chunk * padded_keys_));
    for (AlignedBuffer<float>* row : {&row_, &minus_}) row->ensure(static_cast<std::size_t>(padded_keys_));
    for (AlignedBuffer<float>* dots : {&key_dots_, &query_dots_}) dots->ensure(static_cast<std::size_t>(chunk));
    decayed_.ensure(static_cast<std::size_t>(sizes.key_dim * chunk));
    for (std::int64_t c = 0; c < padded_keys_; ++c) row_.data()[c] = minus_.data()[c] = 0;
  }

  /// Tokens `row` .. `row` + `tokens` of the rows, which are at `position` of their sequence: their outputs, and what its state keeps.
  void run(const KernelTable& kernels, const RecurrentState& state, std::int64_t layer, std::int64_t position, std::int64_t row, std::int64_t tokens,
           std::int64_t head, const ChannelRecurrenceRows& rows) noexcept;

 private:
  static constexpr std::int64_t chunk = RecurrentState::chunk_tokens;
  using Part = RecurrentState::Part;

  /// A head's part of a chunk.
  struct HeadPart {
    float *state, *keys, *updates, *decays;
  };
  [[nodiscard]] HeadPart of_head(const Part& part, std::int64_t head) const noexcept {
    const std::int64_t d = sizes_.key_dim;
    return {part.states + head * d * padded_, part.keys + head * d * chunk, part.updates + head * chunk * padded_, part.decays + head * d * chunk};
  }
  void run_chunk(const KernelTable& kernels, const HeadPart& part, std::int64_t at, std::int64_t row, std::int64_t tokens, std::int64_t head,
                 const ChannelRecurrenceRows& rows) noexcept;
  void read_state(const KernelTable& kernels, const HeadPart& part, std::int64_t at, std::int64_t row, std::int64_t tokens, std::int64_t head,
                  const ChannelRecurrenceRows& rows) noexcept;
  void end_chunk(const KernelTable& kernels, const HeadPart& part, float* next) noexcept;

  const RecurrentLayer sizes_;
  const std::int64_t padded_keys_, padded_;
  AlignedBuffer<float> keys_, queries_;         ///< (chunk, padded key_dim): decayed since the chunk's beginning
  AlignedBuffer<float> predicted_, outputs_;    ///< (chunk, padded value_dim)
  AlignedBuffer<float> decayed_;                ///< (key_dim, chunk): keys of the chunk, decayed since
  AlignedBuffer<float> key_dots_, query_dots_;  ///< (chunk)
  AlignedBuffer<float> row_, minus_;            ///< (padded key_dim): a key or a query; -G of a token
};

inline void ChannelRecurrence::run(const KernelTable& kernels, const RecurrentState& state, std::int64_t layer, std::int64_t position, std::int64_t row,
                                   std::int64_t tokens, std::int64_t head, const ChannelRecurrenceRows& rows) noexcept {
  const HeadPart last = of_head(state.last_part(layer), head);
  HeadPart part = of_head(state.first_part(layer, position), head);
  std::int64_t at = position % chunk;
  while (tokens > 0) {
    const std::int64_t count = std::min(tokens, chunk - at);
    run_chunk(kernels, part, at, row, count, head, rows);
    row += count;
    tokens -= count;
    at += count;
    if (at < chunk) return;
    end_chunk(kernels, part, last.state);
    part = last;
    at = 0;
  }
}

/// Keys and sums of decays go to the chunk's tail, each token a column there; and what the state gives these tokens.
inline void ChannelRecurrence::read_state(const KernelTable& kernels, const HeadPart& part, std::int64_t at, std::int64_t row, std::int64_t tokens,
                                          std::int64_t head, const ChannelRecurrenceRows& rows) noexcept {
  const std::int64_t d = sizes_.key_dim;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t i = at + t;
    const auto own = [&](const FloatRows& of) { return of.values + (row + t) * of.stride + head * d; };
    const float *key = own(rows.keys), *decays = own(rows.decays);
    for (std::int64_t c = 0; c < d; ++c) {
      part.keys[c * chunk + i] = key[c];
      part.decays[c * chunk + i] = (i > 0 ? part.decays[c * chunk + i - 1] : 0.0f) + decays[c];
      minus_.data()[c] = -part.decays[c * chunk + i];
    }
    for (const auto& [from, to] : {std::pair{key, keys_.data()}, {own(rows.queries), queries_.data()}}) {
      std::copy_n(from, d, row_.data());
      kernels.decay_row(row_.data(), minus_.data(), 0, to + t * padded_keys_, padded_keys_);
    }
  }
  RowSums read{.x_stride = padded_keys_, .m = part.state, .m_stride = padded_, .rows = tokens, .inner = d, .columns = padded_, .out_stride = padded_};
  read.x = keys_.data(), read.out = predicted_.data();
  kernels.sum_rows(read);
  read.x = queries_.data(), read.out = outputs_.data();
  kernels.sum_rows(read);
}

inline void ChannelRecurrence::run_chunk(const KernelTable& kernels, const HeadPart& part, std::int64_t at, std::int64_t row, std::int64_t tokens,
                                         std::int64_t head, const ChannelRecurrenceRows& rows) noexcept {
  const std::int64_t d = sizes_.key_dim, v = sizes_.value_dim;
  read_state(kernels, part, at, row, tokens, head, rows);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t i = at + t, columns = round_up<std::int64_t>(i + 1, 16);
    for (std::int64_t c = 0; c < d; ++c) {
      kernels.decay_row(part.keys + c * chunk, part.decays + c * chunk, part.decays[c * chunk + i], decayed_.data() + c * chunk, columns);
    }
    RowSums dots{.m = decayed_.data(), .m_stride = chunk, .rows = 1, .inner = d, .columns = columns};
    dots.x = rows.keys.values + (row + t) * rows.keys.stride + head * d, dots.out = key_dots_.data();
    kernels.sum_rows(dots);
    dots.x = rows.queries.values + (row + t) * rows.queries.stride + head * d, dots.out = query_dots_.data();
    kernels.sum_rows(dots);

    // Sums over the tokens of the chunk so far, from what the state gives on.
    RowSums sum{.m = part.updates, .m_stride = padded_, .rows = 1, .columns = padded_};
    float *predicted = predicted_.data() + t * padded_, *out = outputs_.data() + t * padded_, *update = part.updates + i * padded_;
    sum.x = key_dots_.data(), sum.inner = i, sum.base = sum.out = predicted;
    kernels.sum_rows(sum);
    const float beta = rows.betas.values[(row + t) * rows.betas.stride + head];
    const float* value = rows.values.values + (row + t) * rows.values.stride + head * v;
    for (std::int64_t c = 0; c < v; ++c) update[c] = beta * (value[c] - predicted[c]);
    std::fill(update + v, update + padded_, 0.0f);
    sum.x = query_dots_.data(), sum.inner = i + 1, sum.base = sum.out = out;
    kernels.sum_rows(sum);
    std::copy_n(out, v, rows.out.values + (row + t) * rows.out.stride + head * v);
  }
}

/// The state that the next chunk begins with.
inline void ChannelRecurrence::end_chunk(const KernelTable& kernels, const HeadPart& part, float* next) noexcept {
  for (std::int64_t c = 0; c < sizes_.key_dim; ++c) {
    const float end = part.decays[c * chunk + chunk - 1];
    float* weights = decayed_.data() + c * chunk;
    kernels.decay_row(part.keys + c * chunk, part.decays + c * chunk, end, weights, chunk);
    kernels.sum_rows({.x = weights, .m = part.updates, .m_stride = padded_, .rows = 1, .inner = chunk, .columns = padded_, .base = part.state + c * padded_,
                      .factor = std::exp(end), .out = next + c * padded_});
  }
}

}  // namespace bantam::inline v0::nn
