// Alternating updates: several residual streams, of which a layer runs over one and corrects the others by what it made of that (AltUp,
// arXiv:2301.13310, as Gemma 3n has it).
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/altup.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/row_sums.hpp"

namespace bantam::inline v0::nn {

struct AltUpOptions {
  static constexpr std::int64_t most_streams = 16;
  std::int64_t dim = 0;  ///< of each stream, a multiple of panel_rows
  std::int64_t streams = 2;
  std::int64_t active = 0;  ///< the one that layers run over
  double norm_eps = 1e-6;
};

/// Makes y as long as x: y |x| / max(|y|, sqrt(n 1e-5)). (n) each.
inline void make_as_long(const float* x, float* y, std::int64_t n) noexcept {
  const auto mean_square = [&](const float* v) { return inner_product(v, v, n) / static_cast<float>(n); };
  const float factor = std::sqrt(mean_square(x)) / std::sqrt(std::max(mean_square(y), 1e-5F));
  for (std::int64_t c = 0; c < n; ++c) y[c] *= factor;
}

/// The streams of a pass: spread() once, predict() and correct() of each layer, merge() once.
class AltUp {
 public:
  AltUp(const KernelTable& kernels, const AltUpOptions& options) : kernels_(kernels), o_(options) {
    BANTAM_ASSERT(o_.streams <= AltUpOptions::most_streams && o_.dim % panel_rows == 0);
  }

  /// The matrices of spread() and merge(). Before resize().
  void serve(const WeightMatrix& projection, const WeightMatrix& unembedding) {
    for (const WeightMatrix* w : {&projection, &unembedding}) {
      if (!w->empty()) inputs_.serve(kernels_, *w);
    }
  }
  void resize(std::int64_t tokens) {
    streams_.resize(tokens, o_.streams * o_.dim);
    inputs_.resize(first_row_of(o_.streams - 1, tokens), o_.dim);
    made_.resize(tokens, (o_.streams - 1) * o_.dim);
  }
  /// All streams of a row, one behind the other: (streams, dim).
  [[nodiscard]] float* row(std::int64_t t) noexcept { return streams_.row(t); }
  [[nodiscard]] float* stream(std::int64_t t, std::int64_t i) noexcept { return streams_.row(t) + i * o_.dim; }
  [[nodiscard]] float* active(std::int64_t t) noexcept { return stream(t, o_.active); }

  /// The first streams: x, and behind it what `projection` makes of it, as long as it. x: (tokens, dim); projection: ((streams - 1) dim, dim).
  void spread(const Pass& pass, const WeightMatrix& projection, const float* x) noexcept {
    inputs_.resize(pass.tokens(), o_.dim);  // there is room
    pass.for_rows(Work::rounding, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        std::copy_n(x + t * o_.dim, o_.dim, stream(t, 0));
        take(x + t * o_.dim, t);
      }
    });
    linear(pass, inputs_, {{projection, nullptr, {streams_.output().values + o_.dim, streams_.output().stride}}});
    pass.for_rows(Work::norms, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        for (std::int64_t i = 1; i < o_.streams; ++i) make_as_long(stream(t, 0), stream(t, i), o_.dim);
      }
    });
  }
  /// One stream of all: the mean of the first and of what `unembedding` makes of each other, as long as the first. out: (tokens, dim);
  /// unembedding: ((streams - 1) dim, dim), a matrix for each.
  void merge(const Pass& pass, const WeightMatrix& unembedding, float* out) noexcept {
    const std::int64_t others = o_.streams - 1;
    inputs_.resize(first_row_of(others, pass.tokens()), o_.dim);
    pass.for_units(Work::rounding, others, [&](std::int64_t t, std::int64_t i, int) { take(stream(t, i + 1), first_row_of(i, pass.tokens()) + t); });
    linear_by_parts(kernels_, pass.team, unembedding, others, inputs_, pass.tokens(), made_.output(), 0, pass.fetch);
    pass.for_rows(Work::norms, [&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        float* mean = out + t * o_.dim;
        std::copy_n(stream(t, 0), o_.dim, mean);
        for (std::int64_t i = 0; i < others; ++i) {
          make_as_long(stream(t, 0), made_.row(t) + i * o_.dim, o_.dim);
          kernels_.add(mean, made_.row(t) + i * o_.dim, o_.dim);
        }
        for (std::int64_t c = 0; c < o_.dim; ++c) mean[c] /= static_cast<float>(o_.streams);
      }
    });
  }
  /// Streams of a row before a layer, in place: stream i gets of each stream j what prediction m(active) says. out = the active one, (dim).
  void predict(const AltUpWeights& w, std::int64_t t, float* out) noexcept {
    float coefficients[AltUpOptions::most_streams * AltUpOptions::most_streams];
    find_coefficients(w, active(t), w.prediction, o_.streams * o_.streams, out, coefficients);
    alignas(64) float part[AltUpOptions::most_streams * at_once];
    for (std::int64_t c = 0; c < o_.dim; c += at_once) {
      const std::int64_t columns = std::min(at_once, o_.dim - c);
      kernels_.sum_rows({.x = coefficients, .x_stride = o_.streams, .m = row(t) + c, .m_stride = o_.dim, .rows = o_.streams, .inner = o_.streams, .columns = columns,
                         .base = row(t) + c, .base_stride = o_.dim, .out = part, .out_stride = at_once});
      for (std::int64_t i = 0; i < o_.streams; ++i) std::copy_n(part + i * at_once, columns, stream(t, i) + c);
    }
    std::copy_n(active(t), o_.dim, out);
  }
  /// And behind it, of what it made of the active one, x (dim): stream i gets 1 + correction m(x) of the innovation, which is x less what was
  /// predicted. scratch: (dim).
  void correct(const AltUpWeights& w, std::int64_t t, const float* x, float* scratch) noexcept {
    float coefficients[AltUpOptions::most_streams];
    find_coefficients(w, x, w.correction, o_.streams, scratch, coefficients);
    for (std::int64_t i = 0; i < o_.streams; ++i) coefficients[i] += 1;
    for (std::int64_t c = 0; c < o_.dim; ++c) scratch[c] = x[c] - active(t)[c];
    kernels_.sum_rows({.x = coefficients, .x_stride = 1, .m = scratch, .m_stride = o_.dim, .rows = o_.streams, .inner = 1, .columns = o_.dim,
                       .base = row(t), .base_stride = o_.dim, .out = row(t), .out_stride = o_.dim});
  }

 private:
  static constexpr std::int64_t at_once = 64;  ///< columns

  /// A row of inputs_, rounded for its reader.
  void take(const float* x, std::int64_t at) noexcept {
    std::copy_n(x, o_.dim, inputs_.row(at));
    inputs_.quantize_row(kernels_, at);
  }
  /// out = w m(x), m(x) = tanh(router rms_norm(x) / dim). w: (count, streams); scratch: (dim).
  void find_coefficients(const AltUpWeights& weights, const float* x, const std::vector<float>& w, std::int64_t count, float* scratch, float* out) const noexcept {
    kernels_.rms_norm(x, weights.router_norm.data(), static_cast<float>(o_.norm_eps), scratch, o_.dim);
    float modalities[AltUpOptions::most_streams];
    for (std::int64_t i = 0; i < o_.streams; ++i) modalities[i] = std::tanh(inner_product(weights.router.data() + i * o_.dim, scratch, o_.dim) / static_cast<float>(o_.dim));
    for (std::int64_t r = 0; r < count; ++r) {
      out[r] = 0;
      for (std::int64_t i = 0; i < o_.streams; ++i) out[r] += w[static_cast<std::size_t>(r * o_.streams + i)] * modalities[i];
    }
  }

  const KernelTable& kernels_;
  const AltUpOptions o_;
  RowBuffer streams_;   ///< (tokens, streams dim)
  Activations inputs_;  ///< (tokens, dim) of spread(), (streams - 1, tokens; dim) of merge()
  RowBuffer made_;      ///< (tokens, (streams - 1) dim), by merge()
};

}  // namespace bantam::inline v0::nn
