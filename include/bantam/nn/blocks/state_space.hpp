// A selective state space, Mamba-2's (Dao and Gu, arXiv:2405.21060). With dt = softplus(dt + bias) and A of each head,
//   S <- e^(dt A) S + B (dt x)^T,   y = S^T C + D x,   out = W_out norm(y * silu(z)).
#pragma once

#include <algorithm>
#include <array>

#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/recurrent_pass.hpp"
#include "bantam/nn/blocks/weights/state_space.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/recurrence.hpp"

namespace bantam::inline v0::nn {

/// Of the sizes key heads are groups and key_dim the state's: B and C have key_heads * key_dim numbers each.
struct StateSpaceOptions {
  RecurrentLayer sizes;
  double norm_eps = 1e-5;
  std::array<double, 5> scales = {1, 1, 1, 1, 1};  ///< of what W_in makes: z; x, B and C; dt (Falcon-H1)
};

/// The block with its buffers.
class StateSpace {
 public:
  StateSpace(const KernelTable& kernels, const StateSpaceOptions& options, int workers)
      : kernels_(kernels), sizes_(options.sizes), norm_eps_(static_cast<float>(options.norm_eps)), recurrences_(recurrences_of<Recurrence>(RecurrenceOptions{.sizes = options.sizes}, workers)) {
    if (std::ranges::all_of(options.scales, [](double scale) { return scale == 1; })) return;
    const std::int64_t of_keys = sizes_.key_heads * sizes_.key_dim, counts[] = {inner(), inner(), of_keys, of_keys, sizes_.value_heads};
    for (std::size_t part = 0; part < options.scales.size(); ++part) scales_.insert(scales_.end(), static_cast<std::size_t>(counts[part]), static_cast<float>(options.scales[part]));
  }

  void serve(const StateSpaceWeights& w, Activations& x) {
    if (!w.in.empty()) x.serve(kernels_, w.in);
    if (!w.out.empty()) gated_.serve(kernels_, w.out);
  }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    in_.resize(tokens, inner() + sizes_.channels + sizes_.value_heads);
    for (RowBuffer* rows : {&inputs_, &mixed_}) rows->resize(tokens, sizes_.channels);
    for (RowBuffer* rows : {&values_, &outputs_}) rows->resize(tokens, inner());
    decays_.resize(tokens, sizes_.value_heads);
    gated_.resize(tokens, inner());
    sequences_.find(sequences);
  }
  void find_angles(std::span<const PassRow>, Range) noexcept {}
  [[nodiscard]] static Readers readers(const StateSpaceWeights& w) noexcept { return {&w.in}; }
  /// What `out` reads.
  [[nodiscard]] Activations& inputs(int) noexcept { return gated_; }
  /// `form`: the ordered form that W_in reads, where others read x beside it.
  void run(const Pass& pass, const StateSpaceWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until, int form = 0) noexcept;

 private:
  [[nodiscard]] std::int64_t inner() const noexcept { return sizes_.value_heads * sizes_.value_dim; }
  void mix(const Pass& pass, const StateSpaceWeights& w, std::int64_t place) noexcept;
  void gate(const Pass& pass, const StateSpaceWeights& w) noexcept;

  const KernelTable& kernels_;
  const RecurrentLayer sizes_;
  const float norm_eps_;
  RecurrentSequences sequences_;
  std::vector<Recurrence> recurrences_;  ///< one a worker
  std::vector<float> scales_;   ///< (inner + channels + heads); empty: all are 1
  RowBuffer in_;                ///< (tokens, inner + channels + heads)
  RowBuffer inputs_, mixed_;    ///< (tokens, channels), before the convolution and after it: x, B, C
  RowBuffer values_, outputs_;  ///< (tokens, inner): dt x, and y
  RowBuffer decays_;            ///< (tokens, heads)
  Activations gated_;           ///< (tokens, inner)
};

inline void StateSpace::run(const Pass& pass, const StateSpaceWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until, int form) noexcept {
  if (until == 0) return;
  linear(pass, x, {{w.in, nullptr, in_.output(), form}});
  mix(pass, w, layer.place);
  const OutputRows mixed = mixed_.output();
  const std::int64_t of_keys = sizes_.key_heads * sizes_.key_dim;
  sequences_.recur(pass, recurrences_, sizes_.key_heads, layer.place,
                   {.queries = {mixed.values + inner() + of_keys, mixed.stride}, .keys = {mixed.values + inner(), mixed.stride}, .values = values_.input(),
                    .decays = decays_.input(), .betas = {}, .out = outputs_.output()});
  gate(pass, w);
  if (until != to_the_end) return;
  pass.for_parts(Work::rounding, inner(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    gated_.quantize_part(kernels_, t, begin, end);
    gated_.gather_part(kernels_, {&w.out}, t, begin, end);
  });
  linear(pass, gated_, {{w.out, nullptr, out}});
}

/// The convolution, then dt, log decays and dt x of each head: two phases, for heads read what the first makes.
inline void StateSpace::mix(const Pass& pass, const StateSpaceWeights& w, std::int64_t place) noexcept {
  const std::int64_t channels = sizes_.channels, d = sizes_.value_dim;
  pass.for_rows(Work::gates, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float* in = in_.row(t);
      for (std::size_t c = 0; c < scales_.size(); ++c) in[c] *= scales_[c];
      std::copy_n(in + inner(), channels, inputs_.row(t));
    }
  });
  const CausalConvolution convolution{.weights = w.convolution.data(), .bias = values_of(w.convolution_bias), .channels = channels, .taps = sizes_.taps};
  pass.for_parts(Work::recurrence, channels, [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    convolution.run(kernels_, sequences_[pass.rows[static_cast<std::size_t>(t)].sequence], place, inputs_, t, mixed_.row(t), begin, end);
  });
  pass.for_units(Work::recurrence, sizes_.value_heads, [&](std::int64_t t, std::int64_t head, int) {
    const auto at = static_cast<std::size_t>(head);
    const double step = static_cast<double>(in_.row(t)[inner() + channels + head]) + static_cast<double>(w.decay_bias[at]);
    const double dt = softplus(step);
    decays_.row(t)[head] = static_cast<float>(dt * static_cast<double>(w.decay[at]));
    const float* x = mixed_.row(t) + head * d;
    for (std::int64_t i = 0; i < d; ++i) values_.row(t)[head * d + i] = static_cast<float>(dt) * x[i];
  });
}

/// gated = norm((y + D x) * silu(z)), each group of heads by itself. Units are (token, group).
inline void StateSpace::gate(const Pass& pass, const StateSpaceWeights& w) noexcept {
  const std::int64_t d = sizes_.value_dim, heads = sizes_.value_heads / sizes_.key_heads;
  pass.for_units(Work::gates, sizes_.key_heads, [&](std::int64_t t, std::int64_t group, int) {
    const std::int64_t begin = group * heads * d;
    float *y = outputs_.row(t), *gated = gated_.row(t) + begin;
    for (std::int64_t head = group * heads; head < (group + 1) * heads; ++head) {
      const float skip = w.skip[static_cast<std::size_t>(head)];
      for (std::int64_t i = head * d; i < (head + 1) * d; ++i) y[i] += skip * mixed_.row(t)[i];
    }
    kernels_.silu_mul(in_.row(t) + begin, y + begin, gated, heads * d);
    if (!w.norm.empty()) kernels_.rms_norm(gated, w.norm.data() + begin, norm_eps_, gated, heads * d);
  });
}

}  // namespace bantam::inline v0::nn
