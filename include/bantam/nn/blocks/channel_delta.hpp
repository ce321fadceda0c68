// Kimi Delta Attention (Kimi Linear, arXiv:2510.26692): a gated delta net whose decay is of each key channel, with decays and output gate of
// low rank. out = W_out (norm(o) * sigmoid(g_b g_a x)), where o is the recurrence (nn/channel_recurrence.hpp) over short convolutions of
// q, k and v. With a = exp(A_log) log decays are -a softplus(f_b f_a x + bias), or bound * sigmoid(a (f_a x + bias)), without low ranks (Ling 3).
#pragma once

#include <cmath>

#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/recurrent_pass.hpp"
#include "bantam/nn/blocks/weights/channel_delta.hpp"
#include "bantam/nn/channel_recurrence.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"

namespace bantam::inline v0::nn {

/// The block with its buffers. Of the sizes key and value heads are the same, and so are key_dim and value_dim.
class ChannelDelta {
 public:
  /// `decay_bound`: what log decays stay above; 0: nothing.
  ChannelDelta(const KernelTable& kernels, const RecurrentLayer& sizes, double norm_eps, int workers, double decay_bound = 0)
      : kernels_(kernels), sizes_(sizes), norm_eps_(static_cast<float>(norm_eps)), decay_bound_(static_cast<float>(decay_bound)), recurrences_(recurrences_of<ChannelRecurrence>(sizes, workers)),
        // x / |x| is an RMS norm over sqrt(n); queries over sqrt(key_dim) once more.
        unit_key_(static_cast<std::size_t>(sizes.key_dim), 1 / std::sqrt(static_cast<float>(sizes.key_dim))),
        unit_query_(static_cast<std::size_t>(sizes.key_dim), 1 / static_cast<float>(sizes.key_dim)) {}

  void serve(const ChannelDeltaWeights& w, Activations& x) {
    for (const WeightMatrix* matrix : {&w.q, &w.k, &w.v, &w.f_a, &w.g_a, &w.b}) {
      if (!matrix->empty()) x.serve(kernels_, *matrix);
    }
    if (!w.f_b.empty()) decay_inputs_.serve(kernels_, w.f_b);
    if (!w.g_b.empty()) gate_inputs_.serve(kernels_, w.g_b);
    if (!w.out.empty()) gated_.serve(kernels_, w.out);
  }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    for (RowBuffer* rows : {&qkv_, &mixed_}) rows->resize(tokens, 3 * keys());
    for (RowBuffer* rows : {&decays_, &gates_, &outputs_}) rows->resize(tokens, keys());
    for (Activations* rows : {&decay_inputs_, &gate_inputs_}) rows->resize(tokens, sizes_.key_dim);
    betas_.resize(tokens, sizes_.key_heads);
    gated_.resize(tokens, keys());
    sequences_.find(sequences);
  }
  void find_angles(std::span<const PassRow>, Range) noexcept {}
  [[nodiscard]] static Readers readers(const ChannelDeltaWeights& w) noexcept { return {&w.q, &w.k, &w.v, &w.f_a, &w.g_a, &w.b}; }
  /// What f_b, g_b or `out` reads.
  [[nodiscard]] Activations& inputs(int group) noexcept { return group == 1 ? decay_inputs_ : group == 2 ? gate_inputs_ : gated_; }
  void run(const Pass& pass, const ChannelDeltaWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) noexcept;

 private:
  [[nodiscard]] std::int64_t keys() const noexcept { return sizes_.key_heads * sizes_.key_dim; }
  /// Of decays and the output gate.
  [[nodiscard]] static bool has_low_rank(const ChannelDeltaWeights& w) noexcept { return !w.f_b.empty(); }
  /// Queries, keys or values of all tokens, in one of the two buffers.
  [[nodiscard]] OutputRows part(RowBuffer& rows, std::int64_t number) const noexcept {
    const OutputRows all = rows.output();
    return {all.values + number * keys(), all.stride};
  }
  void project(const Pass& pass, const ChannelDeltaWeights& w, const Activations& x) noexcept;
  void mix(const Pass& pass, const ChannelDeltaWeights& w, std::int64_t place) noexcept;
  void recur(const Pass& pass, std::int64_t place) noexcept;

  /// Under the root of a vector's squares, as the published code has it.
  static constexpr float unit_eps = 1e-6f;

  const KernelTable& kernels_;
  const RecurrentLayer sizes_;
  const float norm_eps_, decay_bound_;
  RecurrentSequences sequences_;
  std::vector<ChannelRecurrence> recurrences_;      ///< one a worker
  const std::vector<float> unit_key_, unit_query_;  ///< (key_dim)
  RowBuffer qkv_, mixed_;                   ///< (tokens, 3 heads * key_dim): q, k and v, before the convolutions and after them
  Activations decay_inputs_, gate_inputs_;  ///< (tokens, rank)
  RowBuffer decays_, gates_, outputs_;      ///< (tokens, heads * key_dim)
  RowBuffer betas_;                         ///< (tokens, heads)
  Activations gated_;                       ///< (tokens, heads * value_dim)
};

inline void ChannelDelta::run(const Pass& pass, const ChannelDeltaWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) noexcept {
  if (until == 0) return;
  project(pass, w, x);
  if (until <= 2) return;
  if (has_low_rank(w)) {
    linear(pass, decay_inputs_, {{w.f_b, nullptr, decays_.output()}});
    linear(pass, gate_inputs_, {{w.g_b, nullptr, gates_.output()}});
  }
  mix(pass, w, layer.place);
  recur(pass, layer.place);
  const std::int64_t d = sizes_.value_dim;
  pass.for_units(Work::gates, sizes_.value_heads, [&](std::int64_t t, std::int64_t head, int) {
    float* o = outputs_.row(t) + head * d;
    kernels_.rms_norm(o, w.norm.data(), norm_eps_, o, d);
    kernels_.sigmoid_mul(gates_.row(t) + head * d, o, gated_.row(t) + head * d, d);
  });
  if (until != to_the_end) return;
  pass.for_parts(Work::rounding, keys(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    gated_.quantize_part(kernels_, t, begin, end);
    gated_.gather_part(kernels_, {&w.out}, t, begin, end);
  });
  linear(pass, gated_, {{w.out, nullptr, out}});
}

/// What reads x, and makes what f_b and g_b read, where there are some.
inline void ChannelDelta::project(const Pass& pass, const ChannelDeltaWeights& w, const Activations& x) noexcept {
  const Readers readers = this->readers(w);
  const bool low_rank = has_low_rank(w);
  linear(pass, x,
         {{w.q, nullptr, part(qkv_, 0)}, {w.k, nullptr, part(qkv_, 1), readers.form_of(1)}, {w.v, nullptr, part(qkv_, 2), readers.form_of(2)},
          {w.f_a, nullptr, low_rank ? decay_inputs_.output() : decays_.output(), readers.form_of(3)},
          {w.g_a, nullptr, low_rank ? gate_inputs_.output() : gates_.output(), readers.form_of(4)},
          {w.b, nullptr, betas_.output(), readers.form_of(5)}});
  if (!low_rank) return;
  pass.for_rows(Work::rounding, [&](Range rows, int) {
    for (std::int64_t t = rows.begin; t < rows.end; ++t) {
      decay_inputs_.quantize_row(kernels_, t);
      decay_inputs_.gather_row(kernels_, {&w.f_b}, t);
      gate_inputs_.quantize_row(kernels_, t);
      gate_inputs_.gather_row(kernels_, {&w.g_b}, t);
    }
  });
}

/// Convolves, head by head, and makes keys and queries unit vectors; log decays of each channel, and betas. Units are (token, head of q, k
/// or v).
inline void ChannelDelta::mix(const Pass& pass, const ChannelDeltaWeights& w, std::int64_t place) noexcept {
  const std::int64_t d = sizes_.key_dim, heads = sizes_.key_heads;
  const std::vector<float>* weights[] = {&w.q_convolution, &w.k_convolution, &w.v_convolution};
  pass.for_units(Work::recurrence, 3 * heads, [&](std::int64_t t, std::int64_t unit, int) {
    const std::int64_t number = unit / heads, head = unit % heads, begin = head * d;
    const CausalConvolution convolution{.weights = weights[number]->data(), .channels = keys(), .taps = sizes_.taps, .first = number * keys(), .all_channels = sizes_.channels};
    float* mixed = mixed_.row(t) + number * keys();
    convolution.run(kernels_, sequences_[pass.rows[static_cast<std::size_t>(t)].sequence], place, qkv_, t, mixed, begin, begin + d);
    if (number < 2) {
      kernels_.rms_norm(mixed + begin, (number == 0 ? unit_query_ : unit_key_).data(), unit_eps / static_cast<float>(d), mixed + begin, d);
      return;
    }
    const float decay = w.decay[static_cast<std::size_t>(head)];
    float* decays = decays_.row(t) + begin;
    for (std::int64_t c = 0; c < d; ++c) {
      const float dt = decays[c] + w.decay_bias[static_cast<std::size_t>(begin + c)];
      decays[c] = decay_bound_ == 0 ? decay * softplus(dt) : decay_bound_ * sigmoid(-decay * dt);
    }
    float& beta = betas_.row(t)[head];
    beta = sigmoid(beta);
  });
}

inline void ChannelDelta::recur(const Pass& pass, std::int64_t place) noexcept {
  const auto mixed = [&](std::int64_t number) { return FloatRows{part(mixed_, number).values, mixed_.input().stride}; };
  sequences_.recur(pass, recurrences_, sizes_.key_heads, place,
                   {.queries = mixed(0), .keys = mixed(1), .values = mixed(2), .decays = decays_.input(), .betas = betas_.input(), .out = outputs_.output()});
}

}  // namespace bantam::inline v0::nn
