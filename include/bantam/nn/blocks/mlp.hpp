// The MLP: down(act(gate x) * up x) (Shazeer, arXiv:2002.05202), or down(act(up x)) without a gate. BitNet has a norm before `down`.
#pragma once

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/mlp.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/ops.hpp"

namespace bantam::inline v0::nn {

/// A layer's activation as its kernel takes it.
[[nodiscard]] inline Xielu xielu_of(const MlpWeights& w) noexcept {
  BANTAM_ASSERT(!w.xielu_positive.empty() && !w.xielu_negative.empty() && !w.xielu_slope.empty() && !w.xielu_limit.empty());
  return {static_cast<float>(softplus<double>(w.xielu_positive[0])), static_cast<float>(w.xielu_slope[0] + softplus<double>(w.xielu_negative[0])), w.xielu_slope[0], w.xielu_limit[0]};
}

/// The block with its buffers.
class Mlp {
 public:
  /// `gate_scale`: of what `gate` makes, before the activation. `norm_eps`: of the norm before `down`, of models that have it.
  Mlp(const KernelTable& kernels, ops::Gate gate, float gate_scale = 1, double norm_eps = 0)
      : kernels_(kernels), gate_(gate), gate_scale_(gate_scale), norm_eps_(static_cast<float>(norm_eps)) {}

  /// Weights that run() will be asked for; x is what their first matrices read.
  void serve(const MlpWeights& w, Activations& x) {
    for (const WeightMatrix* matrix : {&w.gate, &w.up}) {
      if (!matrix->empty()) x.serve(kernels_, *matrix);
    }
    if (!w.down.empty()) hidden_.serve(kernels_, w.down);
  }
  /// Room for passes of so many tokens over MLPs of up to this width.
  void resize(std::int64_t tokens, std::int64_t ffn) {
    up_.resize(tokens, ffn);
    hidden_.resize(tokens, ffn);
  }
  [[nodiscard]] static Readers readers(const MlpWeights& w) noexcept {
    return w.gate.empty() ? Readers{&w.up} : Readers{&w.gate, &w.up};
  }
  /// What `down` reads, after hide().
  [[nodiscard]] Activations& hidden() noexcept { return hidden_; }
  [[nodiscard]] const Activations& hidden() const noexcept { return hidden_; }

  /// hidden = act(gate x) * up x. x: (tokens, dim), ready for its readers.
  void hide(const Pass& pass, const MlpWeights& w, const Activations& x) noexcept {
    const std::int64_t ffn = w.down.columns();
    const bool gated = !w.gate.empty();
    if (hidden_.columns() != ffn) hidden_.resize(pass.tokens(), ffn);
    if (gated) {
      linear(pass, x,
             {{w.gate, values_of(w.gate_bias), hidden_.output()}, {w.up, values_of(w.up_bias), up_.output(), readers(w).form_of(1)}});
    } else {
      linear(pass, x, {{w.up, values_of(w.up_bias), hidden_.output()}});
    }
    if (w.gate_cutoff) cut_gates(pass, w);
    const bool is_curve = gate_ == ops::Gate::xielu;
    const Xielu curve = is_curve ? xielu_of(w) : Xielu();
    pass.for_parts(Work::gates, ffn, [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
      float* hidden = hidden_.row(t) + begin;
      for (std::int64_t c = 0; gate_scale_ != 1 && c < end - begin; ++c) hidden[c] *= gate_scale_;
      const float* up = gated ? up_.row(t) + begin : nullptr;
      is_curve ? kernels_.xielu(hidden, curve, end - begin) : ops::limited_gate(kernels_, gate_, hidden, up, w.limit, hidden, end - begin);
      if (w.down_norm.empty()) hidden_.quantize_part(kernels_, t, begin, end);
    });
    if (!w.down_norm.empty()) normalize_hidden(pass, w);
    if (!hidden_.has_orders()) return;
    // A part of another order has columns from everywhere: they are all there only now.
    pass.for_parts(Work::rounding, ffn, [&](std::int64_t t, std::int64_t begin, std::int64_t end) { hidden_.gather_part(kernels_, {&w.down}, t, begin, end); });
  }
  /// out = down hidden. out: (tokens, dim).
  void project(const Pass& pass, const MlpWeights& w, OutputRows out) noexcept {
    linear(pass, hidden_, {{w.down, values_of(w.down_bias), out}});
  }

 private:
  /// hidden = max(0, hidden - (mean + cutoff deviation)), row by row.
  void cut_gates(const Pass& pass, const MlpWeights& w) noexcept {
    const std::int64_t ffn = w.down.columns();
    pass.for_rows(Work::gates, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) cut_below(hidden_.row(t), ffn, *w.gate_cutoff);
    });
  }
  void normalize_hidden(const Pass& pass, const MlpWeights& w) noexcept {
    const std::int64_t ffn = w.down.columns();
    pass.for_rows(Work::norms, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        kernels_.rms_norm(hidden_.row(t), w.down_norm.data(), norm_eps_, hidden_.row(t), ffn);
        hidden_.quantize_part(kernels_, t, 0, ffn);
      }
    });
  }

  const KernelTable& kernels_;
  const ops::Gate gate_;
  const float gate_scale_;
  const float norm_eps_;
  RowBuffer up_;        ///< (tokens, ffn)
  Activations hidden_;  ///< (tokens, ffn)
};

}  // namespace bantam::inline v0::nn
