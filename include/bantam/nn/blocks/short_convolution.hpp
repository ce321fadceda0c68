// A gated short convolution (LFM2, arXiv:2511.23404): out = W_out (C * convolution(B * x)), with (B, C, x) = W_in of the input.
#pragma once

#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/recurrent_pass.hpp"
#include "bantam/nn/blocks/weights/short_convolution.hpp"
#include "bantam/nn/linear.hpp"

namespace bantam::inline v0::nn {

/// The block with its buffers. Of the sizes it has channels, as many as dim, and taps.
class ShortConvolution {
 public:
  ShortConvolution(const KernelTable& kernels, const RecurrentLayer& sizes) : kernels_(kernels), sizes_(sizes) {}

  void serve(const ShortConvolutionWeights& w, Activations& x) {
    if (!w.in.empty()) x.serve(kernels_, w.in);
    if (!w.out.empty()) gated_.serve(kernels_, w.out);
  }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    in_.resize(tokens, 3 * dim());
    inputs_.resize(tokens, dim());
    gated_.resize(tokens, dim());
    sequences_.find(sequences);
  }
  void find_angles(std::span<const PassRow>, Range) noexcept {}
  [[nodiscard]] static Readers readers(const ShortConvolutionWeights& w) noexcept { return {&w.in}; }
  /// What `out` reads.
  [[nodiscard]] Activations& inputs(int) noexcept { return gated_; }
  void run(const Pass& pass, const ShortConvolutionWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) noexcept;

 private:
  [[nodiscard]] std::int64_t dim() const noexcept { return sizes_.channels; }

  const KernelTable& kernels_;
  const RecurrentLayer sizes_;
  RecurrentSequences sequences_;
  RowBuffer in_;       ///< (tokens, 3 dim)
  RowBuffer inputs_;   ///< (tokens, dim): B * x
  Activations gated_;  ///< (tokens, dim)
};

inline void ShortConvolution::run(const Pass& pass, const ShortConvolutionWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) noexcept {
  if (until == 0) return;
  linear(pass, x, {{w.in, nullptr, in_.output()}});
  pass.for_parts(Work::gates, dim(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    const float* in = in_.row(t);
    for (std::int64_t c = begin; c < end; ++c) inputs_.row(t)[c] = in[c] * in[2 * dim() + c];
  });
  const CausalConvolution convolution{.weights = w.convolution.data(), .channels = dim(), .taps = sizes_.taps, .activates = false};
  pass.for_parts(Work::recurrence, dim(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    float* gated = gated_.row(t);
    convolution.run(kernels_, sequences_[pass.rows[static_cast<std::size_t>(t)].sequence], layer.place, inputs_, t, gated, begin, end);
    for (std::int64_t c = begin; c < end; ++c) gated[c] *= in_.row(t)[dim() + c];
    gated_.quantize_part(kernels_, t, begin, end);
  });
  if (until != to_the_end) return;
  if (gated_.has_orders()) {
    pass.for_parts(Work::rounding, dim(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) { gated_.gather_part(kernels_, {&w.out}, t, begin, end); });
  }
  linear(pass, gated_, {{w.out, nullptr, out}});
}

}  // namespace bantam::inline v0::nn
