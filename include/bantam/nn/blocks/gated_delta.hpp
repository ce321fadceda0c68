// Gated delta net (Yang et al., arXiv:2412.06464), as Qwen3-Next and Qwen3.5 have it: a state of fixed size in the place of keys and
// values. out = W_out (norm(o) * silu(z)), or sigmoid(z) (Qwen4), where o is the recurrence (nn/recurrence.hpp) over short convolutions of q, k and v.
#pragma once

#include <cmath>

#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/recurrent_pass.hpp"
#include "bantam/nn/blocks/weights/gated_delta.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/recurrence.hpp"

namespace bantam::inline v0::nn {

/// The block with its buffers.
class GatedDelta {
 public:
  /// `tiled`: value head i goes with key head i mod key_heads; else those of a key head are side by side. `sigmoid`: of z, in the place of silu.
  GatedDelta(const KernelTable& kernels, const RecurrentLayer& sizes, bool tiled, bool sigmoid, double norm_eps, int workers)
      : kernels_(kernels), sizes_(sizes), gate_(sigmoid ? kernels.sigmoid_mul : kernels.silu_mul), norm_eps_(static_cast<float>(norm_eps)),
        recurrences_(recurrences_of<Recurrence>(RecurrenceOptions{.sizes = sizes, .interleaved = tiled, .delta = true}, workers)),
        // x / |x| is an RMS norm over sqrt(n); queries over sqrt(key_dim) once more.
        unit_key_(static_cast<std::size_t>(sizes.key_dim), 1 / std::sqrt(static_cast<float>(sizes.key_dim))),
        unit_query_(static_cast<std::size_t>(sizes.key_dim), 1 / static_cast<float>(sizes.key_dim)) {}

  void serve(const GatedDeltaWeights& w, Activations& x) {
    for (const WeightMatrix* matrix : {&w.qkv, &w.z, &w.a, &w.b}) {
      if (!matrix->empty()) x.serve(kernels_, *matrix);
    }
    if (!w.out.empty()) gated_.serve(kernels_, w.out);
  }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    for (RowBuffer* rows : {&qkv_, &mixed_}) rows->resize(tokens, channels());
    for (RowBuffer* rows : {&decays_, &betas_}) rows->resize(tokens, sizes_.value_heads);
    for (RowBuffer* rows : {&z_, &outputs_}) rows->resize(tokens, values());
    gated_.resize(tokens, values());
    sequences_.find(sequences);
  }
  void find_angles(std::span<const PassRow>, Range) noexcept {}
  [[nodiscard]] static Readers readers(const GatedDeltaWeights& w) noexcept { return {&w.qkv, &w.z, &w.a, &w.b}; }
  /// What `out` reads.
  [[nodiscard]] Activations& inputs(int) noexcept { return gated_; }
  void run(const Pass& pass, const GatedDeltaWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) noexcept;

 private:
  [[nodiscard]] std::int64_t keys() const noexcept { return sizes_.key_heads * sizes_.key_dim; }
  [[nodiscard]] std::int64_t values() const noexcept { return sizes_.value_heads * sizes_.value_dim; }
  [[nodiscard]] std::int64_t channels() const noexcept { return 2 * keys() + values(); }
  void mix(const Pass& pass, const GatedDeltaWeights& w, std::int64_t place) noexcept;
  void recur(const Pass& pass, std::int64_t place) noexcept;

  /// Under the root of a vector's squares, as the published code has it.
  static constexpr float unit_eps = 1e-6f;

  const KernelTable& kernels_;
  const RecurrentLayer sizes_;
  void (*const gate_)(const float* gate, const float* up, float* out, std::int64_t n) noexcept;
  const float norm_eps_;
  RecurrentSequences sequences_;
  std::vector<Recurrence> recurrences_;  ///< one a worker
  const std::vector<float> unit_key_, unit_query_;  ///< (key_dim)
  RowBuffer qkv_, mixed_;      ///< (tokens, channels), before the convolution and after it
  RowBuffer z_, outputs_;      ///< (tokens, value_heads * value_dim)
  RowBuffer decays_, betas_;   ///< (tokens, value_heads)
  Activations gated_;          ///< (tokens, value_heads * value_dim)
};

inline void GatedDelta::run(const Pass& pass, const GatedDeltaWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) noexcept {
  if (until == 0) return;
  const Readers readers = this->readers(w);
  linear(pass, x,
         {{w.qkv, nullptr, qkv_.output()}, {w.z, nullptr, z_.output(), readers.form_of(1)}, {w.a, nullptr, decays_.output(), readers.form_of(2)},
          {w.b, nullptr, betas_.output(), readers.form_of(3)}});
  mix(pass, w, layer.place);
  recur(pass, layer.place);
  pass.for_units(Work::gates, sizes_.value_heads, [&](std::int64_t t, std::int64_t head, int) {
    const std::int64_t at = head * sizes_.value_dim;
    kernels_.rms_norm(outputs_.row(t) + at, w.norm.data(), norm_eps_, outputs_.row(t) + at, sizes_.value_dim);
    gate_(z_.row(t) + at, outputs_.row(t) + at, gated_.row(t) + at, sizes_.value_dim);
  });
  if (until != to_the_end) return;
  pass.for_parts(Work::rounding, values(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    gated_.quantize_part(kernels_, t, begin, end);
    gated_.gather_part(kernels_, {&w.out}, t, begin, end);
  });
  linear(pass, gated_, {{w.out, nullptr, out}});
}

/// Convolves, head by head, and makes keys and queries unit vectors; log decays and betas of each head. Units are (token, head).
inline void GatedDelta::mix(const Pass& pass, const GatedDeltaWeights& w, std::int64_t place) noexcept {
  const CausalConvolution convolution{.weights = w.convolution.data(), .channels = channels(), .taps = sizes_.taps};
  const std::int64_t d = sizes_.key_dim, of_keys = 2 * sizes_.key_heads;
  pass.for_units(Work::recurrence, of_keys + sizes_.value_heads, [&](std::int64_t t, std::int64_t unit, int) {
    const bool is_value = unit >= of_keys;
    const std::int64_t head = unit - of_keys, begin = is_value ? 2 * keys() + head * sizes_.value_dim : unit * d;
    float* mixed = mixed_.row(t);
    convolution.run(kernels_, sequences_[pass.rows[static_cast<std::size_t>(t)].sequence], place, qkv_, t, mixed, begin, begin + (is_value ? sizes_.value_dim : d));
    if (!is_value) {
      kernels_.rms_norm(mixed + begin, (unit < sizes_.key_heads ? unit_query_ : unit_key_).data(), unit_eps / static_cast<float>(d), mixed + begin, d);
      return;
    }
    const auto at = static_cast<std::size_t>(head);
    const double dt = static_cast<double>(decays_.row(t)[head]) + static_cast<double>(w.decay_bias[at]);
    decays_.row(t)[head] = static_cast<float>(static_cast<double>(w.decay[at]) * softplus(dt));
    betas_.row(t)[head] = static_cast<float>(sigmoid<double>(betas_.row(t)[head]));
  });
}

inline void GatedDelta::recur(const Pass& pass, std::int64_t place) noexcept {
  const OutputRows mixed = mixed_.output();
  const RecurrenceRows rows{.queries = {mixed.values, mixed.stride}, .keys = {mixed.values + keys(), mixed.stride}, .values = {mixed.values + 2 * keys(), mixed.stride},
                            .decays = decays_.input(), .betas = betas_.input(), .out = outputs_.output()};
  sequences_.recur(pass, recurrences_, sizes_.key_heads, place, rows);
}

}  // namespace bantam::inline v0::nn
