// What recurrent blocks have in common: the states of a pass's sequences, and the short causal convolution before the recurrence.
#pragma once

#include <vector>

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/recurrence.hpp"

namespace bantam::inline v0::nn {

/// Tokens of one sequence in a pass, with the recurrent state that has room for them.
struct RecurrentSequence {
  RecurrentState* state = nullptr;
  std::int64_t row = 0;
  std::int64_t tokens = 0;
  std::int64_t position = 0;
};

/// Found once before a pass.
class RecurrentSequences {
 public:
  void find(std::span<const PassSequence> sequences) {
    all_.clear();
    for (const PassSequence& s : sequences) all_.push_back({s.state->find<RecurrentState>(), s.row, s.tokens, s.position});
  }
  [[nodiscard]] const RecurrentSequence& operator[](std::int64_t sequence) const noexcept { return all_[static_cast<std::size_t>(sequence)]; }
  /// Runs every key head of every sequence through, dealt out to the team.
  template <class Worker>
  void recur(const Pass& pass, std::vector<Worker>& workers, std::int64_t key_heads, std::int64_t layer, const typename Worker::Rows& rows) const noexcept {
    pass.team.deal(std::ssize(all_) * key_heads, 1, [&](Range part, int worker) {
      for (std::int64_t unit = part.begin; unit < part.end; ++unit) {
        const RecurrentSequence& s = (*this)[unit / key_heads];
        workers[static_cast<std::size_t>(worker)].run(pass.kernels, *s.state, layer, s.position, s.row, s.tokens, unit % key_heads, rows);
      }
    }, Work::recurrence);
  }

 private:
  std::vector<RecurrentSequence> all_;
};

/// One a worker.
template <class Worker, class Options>
[[nodiscard]] std::vector<Worker> recurrences_of(const Options& options, int workers) {
  std::vector<Worker> all;
  for (int worker = 0; worker < workers; ++worker) all.emplace_back(options);
  return all;
}

/// A depthwise convolution over `taps` tokens up to the one at hand, `dilation` apart: out[c] = bias[c] + sum of weights[m][c] x[m][c].
struct CausalConvolution {
  const float* weights = nullptr;  ///< (taps, channels)
  const float* bias = nullptr;     ///< (channels); null: none
  std::int64_t channels = 0;
  std::int64_t taps = 0;
  bool activates = true;  ///< by silu
  std::int64_t dilation = 1;  ///< the state has room for as many tokens as that makes it see
  std::int64_t first = 0, all_channels = 0;  ///< where they are among the inputs of several convolutions, which x and the state have; 0: of one

  /// Tokens before the one at hand that it sees.
  [[nodiscard]] std::int64_t reach() const noexcept { return (taps - 1) * dilation; }
  /// Channels begin .. end of one row of a pass; x: (tokens, all channels). The row goes to the sequence's state.
  void run(const KernelTable& kernels, const RecurrentSequence& s, std::int64_t layer, const RowBuffer& x, std::int64_t row, float* out, std::int64_t begin,
           std::int64_t end) const noexcept {
    const std::int64_t stride = round_up<std::int64_t>(std::max(channels, all_channels), 16), position = s.position + row - s.row;
    constexpr std::int64_t chunk = RecurrentState::chunk_tokens;
    const RecurrentState::Part begun = s.state->first_part(layer, s.position), last = s.state->last_part(layer);
    const std::int64_t first_token = s.position / chunk * chunk, last_token = s.state->boundary();
    // Of a token before the pass.
    const auto before = [&](std::int64_t token) -> const float* {
      return token >= first_token ? begun.inputs + (token - first_token) * stride : begun.history + (token - first_token + reach()) * stride;
    };
    Convolution one{.weights = weights, .bias = bias, .out = out, .channels = channels, .taps = static_cast<int>(taps), .activates = activates};
    for (std::int64_t m = 0; m < taps; ++m) {
      const std::int64_t token = position - (taps - 1 - m) * dilation;
      one.rows[m] = (token >= s.position ? x.row(row - (position - token)) : before(token)) + first;
    }
    kernels.convolve(one, begin, end);

    const auto put = [&](float* to, const float* from) { std::copy(from + first + begin, from + first + end, to + first + begin); };
    if (position < first_token + chunk) put(begun.inputs + (position - first_token) * stride, x.row(row));
    if (last_token == first_token) return;
    const std::int64_t history = last_token - reach();  // the first token there
    if (position >= last_token) put(last.inputs + (position - last_token) * stride, x.row(row));
    if (position >= history && position < last_token) put(last.history + (position - history) * stride, x.row(row));
    if (row != s.row) return;
    for (std::int64_t token = history; token < s.position; ++token) put(last.history + (token - history) * stride, before(token));
  }
};

}  // namespace bantam::inline v0::nn
