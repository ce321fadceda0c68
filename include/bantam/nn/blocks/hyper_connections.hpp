// Hyper-connections: several residual streams, of which every block reads a gated mean, and each of which gets what it makes by a weight of its own
// (arXiv:2409.19606, with gates of low rank as Qwen4 has them).
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/hyper_connections.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"

namespace bantam::inline v0::nn {

struct HyperConnectionOptions {
  static constexpr std::int64_t most_streams = 16;
  std::int64_t dim = 0;  ///< of each stream
  std::int64_t streams = 2;
  std::int64_t rank = 0;
  double norm_eps = 1e-6;
};

/// out = rms_norm of each stream of a row by itself. x, weight, out: (streams dim); in place allowed.
inline void norm_streams(const KernelTable& kernels, const HyperConnectionOptions& o, const float* x, const std::vector<float>& weight, float* out) noexcept {
  for (std::int64_t at = 0; at < o.streams * o.dim; at += o.dim) kernels.rms_norm(x + at, weight.data() + at, static_cast<float>(o.norm_eps), out + at, o.dim);
}

/// The streams of a pass: spread() once, read() and write() of each block, and read() once more before the head.
class HyperConnections {
 public:
  HyperConnections(const KernelTable& kernels, const HyperConnectionOptions& options) : kernels_(kernels), o_(options) {
    BANTAM_ASSERT(o_.streams <= HyperConnectionOptions::most_streams);
  }

  /// Matrices that read() will be asked for. Before resize().
  void serve(const WeightMatrix& down, const WeightMatrix& up) {
    if (down.empty()) return;
    normed_.serve(kernels_, down);
    hidden_.serve(kernels_, up);
  }
  void resize(std::int64_t tokens) {
    streams_.resize(tokens, width());
    gates_.resize(tokens, width());
    normed_.resize(tokens, width());
    hidden_.resize(tokens, o_.rank);
    weights_.resize(tokens, o_.streams);
  }
  [[nodiscard]] std::int64_t width() const noexcept { return o_.streams * o_.dim; }
  /// All streams of a row, one behind the other: (streams dim).
  [[nodiscard]] float* row(std::int64_t t) noexcept { return streams_.row(t); }

  /// The first streams of a row are all alike. x: (dim).
  void spread(std::int64_t t, const float* x) noexcept {
    for (std::int64_t i = 0; i < o_.streams; ++i) std::copy_n(x, o_.dim, row(t) + i * o_.dim);
  }
  /// What a block reads: mean_i(x_i sigmoid(up silu(down x / n))_i) of the normed streams x. begin(row) readies a row's streams, finish(row) takes what
  /// is in `out`, (tokens, dim). inject: see HyperConnectionWeights; null: write() does not follow.
  template <class Begin, class Finish>
  void read(const Pass& pass, const std::vector<float>& norm, const WeightMatrix& down, const WeightMatrix& up, const float* inject, OutputRows out, Begin&& begin, Finish&& finish) noexcept {
    const float share = 1 / static_cast<float>(o_.streams);
    pass.for_rows(Work::norms, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        begin(t);
        float* x = normed_.row(t);
        norm_streams(kernels_, o_, row(t), norm, x);
        normed_.quantize_row(kernels_, t);
        for (std::int64_t i = 0; inject != nullptr && i < o_.streams; ++i) weights_.row(t)[i] = 2 * sigmoid(inner_product(inject + i * width(), x, width()) * share);
      }
    });
    linear(pass, normed_, {{down, nullptr, hidden_.output()}});
    pass.for_rows(Work::gates, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        float* x = hidden_.row(t);
        for (std::int64_t c = 0; c < o_.rank; ++c) x[c] *= share;
        kernels_.silu_mul(x, nullptr, x, o_.rank);
        hidden_.quantize_row(kernels_, t);
      }
    });
    linear(pass, hidden_, {{up, nullptr, gates_.output()}});
    pass.for_rows(Work::gates, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        float *gated = gates_.row(t), *mean = out.values + t * out.stride;
        kernels_.sigmoid_mul(gated, normed_.row(t), gated, width());
        std::copy_n(gated, o_.dim, mean);
        for (std::int64_t i = 1; i < o_.streams; ++i) kernels_.add(mean, gated + i * o_.dim, o_.dim);
        for (std::int64_t c = 0; c < o_.dim; ++c) mean[c] *= share;
        finish(t);
      }
    });
  }
  /// Each stream of a row gets what the block that read them last has made of it, by its weight. x: (dim).
  void write(std::int64_t t, const float* x) noexcept {
    const float* weights = weights_.row(t);
    const std::int64_t whole = o_.dim / 16 * 16;  // sum_rows() writes whole vectors
    kernels_.sum_rows({.x = weights, .x_stride = 1, .m = x, .m_stride = o_.dim, .rows = o_.streams, .inner = 1, .columns = whole,
                       .base = row(t), .base_stride = o_.dim, .out = row(t), .out_stride = o_.dim});
    for (std::int64_t i = 0; i < o_.streams; ++i) {
      for (std::int64_t c = whole; c < o_.dim; ++c) row(t)[i * o_.dim + c] = std::fma(weights[i], x[c], row(t)[i * o_.dim + c]);
    }
  }

 private:
  const KernelTable& kernels_;
  const HyperConnectionOptions o_;
  RowBuffer streams_;   ///< (tokens, streams dim)
  RowBuffer gates_;     ///< (tokens, streams dim)
  RowBuffer weights_;   ///< (tokens, streams): of what the block under way makes
  Activations normed_;  ///< (tokens, streams dim)
  Activations hidden_;  ///< (tokens, rank)
};

}  // namespace bantam::inline v0::nn
