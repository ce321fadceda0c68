// Per-layer embeddings: what each layer adds of the token itself, behind its halves (Gemma 3n and 4).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/per_layer.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/ops.hpp"

namespace bantam::inline v0::nn {

struct PerLayerOptions {
  std::int64_t dim = 0;     ///< of the residual stream
  std::int64_t width = 0;   ///< of the embedding of one layer
  std::int64_t layers = 0;
  double norm_eps = 1e-6;
  ops::Gate gate = ops::Gate::gelu_tanh;
};

/// The embedding of one layer: (rms_norm(projected / sqrt(dim)) + sqrt(width) looked_up) / sqrt(2), where `projected` is what the projection
/// makes of the token's embedding. (width) each; `out` may be `projected`.
inline void combine_per_layer(const KernelTable& kernels, const PerLayerOptions& o, const std::vector<float>& norm, const float* projected,
                              const float* looked_up, float* out) noexcept {
  const float shrink = 1 / std::sqrt(static_cast<float>(o.dim)), grow = std::sqrt(static_cast<float>(o.width)), half = 1 / std::sqrt(2.0f);
  for (std::int64_t c = 0; c < o.width; ++c) out[c] = projected[c] * shrink;
  kernels.rms_norm(out, norm.data(), static_cast<float>(o.norm_eps), out, o.width);
  for (std::int64_t c = 0; c < o.width; ++c) out[c] = (out[c] + looked_up[c] * grow) * half;
}

/// The block with its buffers: embed() once a pass, then hide() and project() of each layer.
class PerLayerEmbedding {
 public:
  PerLayerEmbedding(const KernelTable& kernels, const PerLayerOptions& options, int workers)
      : kernels_(kernels), options_(options), codes_(static_cast<std::size_t>(workers)), rows_(static_cast<std::size_t>(workers)) {}

  /// Weights that hide() will be asked for; x is what the gate reads.
  void serve(const PerLayerWeights& w, Activations& x) {
    if (w.gate.empty()) return;
    x.serve(kernels_, w.gate);
    hidden_.serve(kernels_, w.projection);
  }
  /// Room for a pass; of all layers' embeddings where `embeds`.
  void resize(std::int64_t tokens, bool embeds) {
    hidden_.resize(tokens, options_.width);
    if (!embeds) return;
    embeddings_.resize(tokens, options_.layers * options_.width);
    for (auto& row : rows_) row.ensure(static_cast<std::size_t>(options_.layers * options_.width));
  }

  /// The embeddings of all layers of a pass's rows. projection: (layers * width, dim); norm: (width); x: (tokens, dim), the embedded tokens, ready
  /// for the projection. look_up(row, out, scratch) writes what the table has for the row's token: (layers * width).
  template <class LookUp>
  void embed(const Pass& pass, const WeightMatrix& projection, const std::vector<float>& norm, const Activations& x, LookUp&& look_up) noexcept {
    linear(pass, x, {{projection, nullptr, embeddings_.output()}});
    pass.for_rows(Work::lookups, [&](Range part, int worker) {
      const auto w = static_cast<std::size_t>(worker);
      float* looked_up = rows_[w].data();
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        look_up(t, std::span(looked_up, static_cast<std::size_t>(options_.layers * options_.width)), codes_[w]);
        for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
          float* own = embeddings_.row(t) + layer * options_.width;
          combine_per_layer(kernels_, options_, norm, own, looked_up + layer * options_.width, own);
        }
      }
    });
  }
  /// The embeddings of a layer, after embed().
  [[nodiscard]] FloatRows of_layer(std::int64_t layer) const noexcept {
    return {embeddings_.input().values + layer * options_.width, embeddings_.input().stride};
  }

  /// hidden = act(gate x) * e. x: (tokens, dim), ready for the gate; e: (tokens, width).
  void hide(const Pass& pass, const PerLayerWeights& w, const Activations& x, const FloatRows& e) noexcept {
    if (hidden_.tokens() != pass.tokens()) hidden_.resize(pass.tokens(), options_.width);
    linear(pass, x, {{w.gate, nullptr, hidden_.output()}});
    const auto gate = ops::gated_kernel(kernels_, options_.gate);
    pass.for_rows(Work::gates, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        gate(hidden_.row(t), e.values + t * e.stride, hidden_.row(t), options_.width);
        hidden_.quantize_row(kernels_, t);
        hidden_.gather_row(kernels_, {&w.projection}, t);
      }
    });
  }
  /// out = projection hidden. out: (tokens, dim).
  void project(const Pass& pass, const PerLayerWeights& w, OutputRows out) noexcept {
    linear(pass, hidden_, {{w.projection, nullptr, out}});
  }
  /// What the projection reads, after hide().
  [[nodiscard]] Activations& hidden() noexcept { return hidden_; }

 private:
  const KernelTable& kernels_;
  const PerLayerOptions options_;
  std::vector<RowCodes> codes_;               ///< one a worker
  std::vector<AlignedBuffer<float>> rows_;    ///< one a worker: (layers * width)
  RowBuffer embeddings_;                      ///< (tokens, layers * width)
  Activations hidden_;                        ///< (tokens, width)
};

}  // namespace bantam::inline v0::nn
