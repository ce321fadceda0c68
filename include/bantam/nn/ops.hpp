// The primitives for use alone: checked at the door, results by value or into an `out` view.
#pragma once

#include "bantam/nn/alibi.hpp"
#include "bantam/nn/attention.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/rope.hpp"

namespace bantam::inline v0::ops {

namespace detail {

template <class T, int Rank>
void check_shape(std::string_view op, std::string_view what, const TensorView<T, Rank>& view, const Shape<Rank>& expected) {
  if (view.shape() != expected) {
    fail(Errc::invalid_argument, op, ": ", what, ": expected shape ", to_string(expected), ", found ", to_string(view.shape()));
  }
  if (!view.contiguous()) fail(Errc::invalid_argument, op, ": ", what, ": expected a contiguous view");
}

}  // namespace detail

/// How matmul treats the activations of a quantized matrix.
enum class Precision : std::uint8_t {
  exact,  ///< floats: weights are decoded in registers
  fast,   ///< activations are rounded to 8 bits first, a scale every 256 or 32: what inference does
};

/// out = x wT. x: (tokens, in), w: (out, in), out: (tokens, out). Throws invalid_argument on shapes that do not fit.
inline void matmul(TensorView<const float, 2> x, const WeightMatrix& w, TensorView<float, 2> out,
                   Precision precision = Precision::exact) {
  if (w.empty()) fail(Errc::invalid_argument, "matmul: expected weights, found an empty matrix");
  const std::int64_t tokens = x.extent(0);
  detail::check_shape<const float, 2>("matmul", "x", x, {tokens, w.columns()});
  detail::check_shape<float, 2>("matmul", "out", out, {tokens, w.rows()});
  const KernelTable& kernels = kernels_in_use();
  const FormatKernels& format = kernels_of(w.format(), kernels);
  const MatmulPart all{tokens, 0, div_up<std::int64_t>(w.rows(), panel_rows)};
  if (precision == Precision::exact || format.matmul_q8 == nullptr) {
    Tensor<float, 2> gathered;
    if (w.order() != nullptr) {
      gathered = Tensor<float, 2>({tokens, w.columns()});
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t c = 0; c < w.columns(); ++c) gathered(t, c) = x(t, (*w.order())[static_cast<std::size_t>(c)]);
      }
      x = gathered;
    }
    format.matmul_f32(w.view(), {x.data(), w.columns()}, {out.data(), w.rows()}, all);
    return;
  }
  nn::Activations rounded;
  rounded.serve(kernels, w);
  rounded.resize(tokens, w.columns());
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::copy_n(x.data() + t * w.columns(), w.columns(), rounded.row(t));
    rounded.quantize_row(kernels, t);
    rounded.gather_row(kernels, {&w}, t);
  }
  format.matmul_q8(w.view(), rounded.quantized(w), {out.data(), w.rows()}, all);
}
[[nodiscard]] inline Tensor<float, 2> matmul(TensorView<const float, 2> x, const WeightMatrix& w,
                                             Precision precision = Precision::exact) {
  Tensor<float, 2> out({x.extent(0), w.rows()});
  matmul(x, w, out.view(), precision);
  return out;
}

struct NormOptions {
  float eps = 1e-5f;
};

/// out = x / rms(x) * weight, row by row. x, out: (tokens, dim); weight: (dim). In place allowed. arXiv:1910.07467.
inline void rms_norm(TensorView<const float, 2> x, TensorView<const float, 1> weight, TensorView<float, 2> out,
                     const NormOptions& options = {}) {
  detail::check_shape<const float, 2>("rms_norm", "x", x, out.shape());
  detail::check_shape<float, 2>("rms_norm", "out", out, x.shape());
  detail::check_shape<const float, 1>("rms_norm", "weight", weight, {x.extent(1)});
  const KernelTable& kernels = kernels_in_use();
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    kernels.rms_norm(&x(t, 0), weight.data(), options.eps, &out(t, 0), x.extent(1));
  }
}

/// out = (x - mean) / deviation * weight + bias, row by row. x, out: (tokens, dim); weight, bias: (dim); a bias without
/// elements is none. In place allowed. arXiv:1607.06450.
inline void layer_norm(TensorView<const float, 2> x, TensorView<const float, 1> weight, TensorView<const float, 1> bias,
                       TensorView<float, 2> out, const NormOptions& options = {}) {
  detail::check_shape<const float, 2>("layer_norm", "x", x, out.shape());
  detail::check_shape<float, 2>("layer_norm", "out", out, x.shape());
  detail::check_shape<const float, 1>("layer_norm", "weight", weight, {x.extent(1)});
  if (bias.size() != 0) detail::check_shape<const float, 1>("layer_norm", "bias", bias, {x.extent(1)});
  const KernelTable& kernels = kernels_in_use();
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    kernels.layer_norm(&x(t, 0), weight.data(), bias.size() != 0 ? bias.data() : nullptr, options.eps, &out(t, 0), x.extent(1));
  }
}

/// Rotates every head of x by its token's position, in place. x: (tokens, heads, head_dim >= rope.dim());
/// positions: one a token.
inline void apply_rope(TensorView<float, 3> x, const nn::Rope& rope, std::span<const std::int64_t> positions) {
  detail::check_shape<float, 3>("rope", "x", x, x.shape());
  if (x.extent(2) < rope.dim()) fail(Errc::invalid_argument, "rope: expected heads of at least ", rope.dim(), ", found ", x.extent(2));
  if (static_cast<std::int64_t>(positions.size()) != x.extent(0)) {
    fail(Errc::invalid_argument, "rope: expected ", x.extent(0), " positions, found ", positions.size());
  }
  const KernelTable& kernels = kernels_in_use();
  std::vector<float> angles(static_cast<std::size_t>(rope.dim()));
  float* cosines = angles.data();
  float* sines = angles.data() + rope.dim() / 2;
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    rope.angles(positions[static_cast<std::size_t>(t)], cosines, sines);
    for (std::int64_t h = 0; h < x.extent(1); ++h) rope.apply(kernels, &x(t, h, 0), cosines, sines);
  }
}

/// What an MLP does between its projections. xielu has numbers of each layer, which nn::MlpWeights has.
enum class Gate : std::uint8_t { silu, gelu_tanh, gelu_erf, clamped_silu, relu, relu2, xielu };

/// The kernel of act(gate) * up, of an activation without numbers.
[[nodiscard]] inline auto gated_kernel(const KernelTable& kernels, Gate kind) noexcept {
  switch (kind) {
    case Gate::silu: return kernels.silu_mul;
    case Gate::gelu_tanh: return kernels.gelu_tanh_mul;
    case Gate::gelu_erf: return kernels.gelu_erf_mul;
    case Gate::relu: return kernels.relu_mul;
    case Gate::relu2: return kernels.relu2_mul;
    case Gate::clamped_silu:
    case Gate::xielu: break;
  }
  return kernels.clamped_silu_mul;
}

/// out = act(gate) * up, (n) each; with a limit min(act(gate), limit) * min(max(up, -limit), limit) (Step-3.5). In place allowed; an `up` of null,
/// without a limit alone, is none.
inline void limited_gate(const KernelTable& kernels, Gate kind, const float* gate, const float* up, float limit, float* out, std::int64_t n) noexcept {
  gated_kernel(kernels, kind)(gate, limit > 0 ? nullptr : up, out, n);
  for (std::int64_t c = 0; limit > 0 && c < n; ++c) out[c] = std::min(out[c], limit) * std::min(std::max(up[c], -limit), limit);
}

/// out = act(gate) * up, elementwise, Gate::clamped_silu clamping both and adding 1 to `up`; an `up` without elements is none. gate, up, out: (tokens, ffn). arXiv:2002.05202.
inline void gated_activation(TensorView<const float, 2> gate, TensorView<const float, 2> up, TensorView<float, 2> out, Gate kind) {
  detail::check_shape<const float, 2>("gated_activation", "gate", gate, out.shape());
  detail::check_shape<float, 2>("gated_activation", "out", out, gate.shape());
  if (up.size() != 0) detail::check_shape<const float, 2>("gated_activation", "up", up, gate.shape());
  if (kind == Gate::xielu) fail(Errc::invalid_argument, "gated_activation: expected an activation without numbers of its own, found xielu");
  gated_kernel(kernels_in_use(), kind)(gate.data(), up.size() != 0 ? up.data() : nullptr, out.data(), gate.size());
}

/// out = down(act(gate(x)) * up(x)). x, out: (tokens, dim); gate, up: (ffn, dim); down: (dim, ffn). An empty `up` makes
/// it an ungated MLP.
[[nodiscard]] inline Tensor<float, 2> mlp(TensorView<const float, 2> x, const WeightMatrix& gate, const WeightMatrix& up,
                                          const WeightMatrix& down, Gate kind, Precision precision = Precision::exact) {
  Tensor<float, 2> hidden = matmul(x, gate, precision);
  const Tensor<float, 2> factor = up.empty() ? Tensor<float, 2>() : matmul(x, up, precision);
  gated_activation(hidden, factor, hidden, kind);
  return matmul(hidden, down, precision);
}

/// Causal attention of a whole sequence, keys and values given as tensors. q, out: (tokens, heads, head_dim);
/// k, v: (tokens, kv_heads, head_dim); heads is a multiple of kv_heads. `slopes`: (heads), nn::alibi_slopes(), or none. Memory: O(tokens).
[[nodiscard]] inline Tensor<float, 3> attention(TensorView<const float, 3> q, TensorView<const float, 3> k,
                                                TensorView<const float, 3> v, std::int64_t window = 0,
                                                std::string_view kv_kind = "f32", std::span<const float> slopes = {}) {
  const std::int64_t tokens = q.extent(0), heads = q.extent(1), d = q.extent(2), kv_heads = k.extent(1);
  detail::check_shape<const float, 3>("attention", "q", q, q.shape());
  detail::check_shape<const float, 3>("attention", "k", k, {tokens, kv_heads, d});
  detail::check_shape<const float, 3>("attention", "v", v, {tokens, kv_heads, d});
  if (kv_heads <= 0 || heads % kv_heads != 0) {
    fail(Errc::invalid_argument, "attention: expected heads to be a multiple of kv heads, found ", heads, " and ", kv_heads);
  }
  if (window < 0) fail(Errc::invalid_argument, "attention: expected a window of 0 (none) or more, found ", window);
  if (!slopes.empty() && std::ssize(slopes) != heads) fail(Errc::invalid_argument, "attention: slopes: expected one for each of ", heads, " heads, found ", slopes.size());
  const KernelTable& kernels = kernels_in_use();
  nn::KvCache cache({1, kv_heads, d}, kv_kind);
  cache.extend(tokens);
  std::vector<float> row(static_cast<std::size_t>(cache.padded_head_dim()));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      for (const bool value : {false, true}) {
        std::copy_n(&(value ? v : k)(t, h, 0), d, row.data());
        cache.store(kernels, 0, value, h, t, row.data());
      }
    }
  }
  Tensor<float, 3> out(q.shape());
  nn::Attention attention({.heads = heads, .kv_heads = kv_heads, .head_dim = d}, 1);
  const nn::AttentionSequence sequence{&cache, 0, tokens, 0};
  attention.plan({&sequence, 1});
  Team alone(1);
  attention.run(kernels, alone, 0, window, {q.data(), heads * d}, {out.data(), heads * d}, 0, nullptr, slopes.empty() ? nullptr : slopes.data());
  return out;
}

}  // namespace bantam::inline v0::ops
