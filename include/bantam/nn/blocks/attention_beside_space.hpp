// Attention and a state space side by side (Falcon-H1, arXiv:2507.22448): both read the same, and what they make is added up.
#pragma once

#include "bantam/nn/blocks/attention.hpp"
#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/state_space.hpp"

namespace bantam::inline v0::nn {

/// out = attention_scale * attention(x) + space_scale * space(x).
struct AttentionBesideSpaceOptions {
  SelfAttentionOptions attention;
  StateSpaceOptions space;
  float attention_scale = 1, space_scale = 1;
};

/// The two blocks with their buffers. Groups of inputs behind the first are numbered in each block's table: 1 is the state space's, 2 attention's.
class AttentionBesideSpace final : public Mixer {
 public:
  AttentionBesideSpace(const KernelTable& kernels, const AttentionBesideSpaceOptions& options, std::int64_t dim, std::int64_t context_tokens, int workers)
      : dim_(dim), attention_scale_(options.attention_scale), space_scale_(options.space_scale), attention_(kernels, options.attention, context_tokens, workers),
        space_(kernels, options.space, workers) {}

  void serve(const LayerWeights& w, Activations& x) override {
    attention_.serve(w.attention, x);
    space_.serve(w.state_space, x);
  }
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) override {
    beside_.resize(tokens, dim_);
    attention_.plan(tokens, sequences);
    space_.plan(tokens, sequences);
  }
  void find_angles(std::span<const PassRow> rows, Range part) noexcept override { attention_.find_angles(rows, part); }
  [[nodiscard]] Readers readers(const LayerWeights& w) const noexcept override { return {&w.attention.q, &w.attention.k, &w.attention.v, &w.state_space.in}; }
  [[nodiscard]] Activations& inputs(int group) noexcept override { return group == of_space ? space_.inputs(group) : attention_.inputs(group); }
  void run(const Pass& pass, const LayerWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) override {
    if (until != of_space) attention_.run(pass, w.attention, layer, x, out, until);
    if (until == of_space || until == to_the_end) space_.run(pass, w.state_space, layer, x, beside_.output(), until, readers(w).form_of(3));
    if (until != to_the_end) return;
    pass.for_parts(Work::norms, dim_, [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
      float* sum = out.values + t * out.stride;
      const float* beside = beside_.row(t);
      for (std::int64_t c = begin; c < end; ++c) sum[c] = attention_scale_ * sum[c] + space_scale_ * beside[c];
    });
  }

 private:
  static constexpr int of_space = 1;

  const std::int64_t dim_;
  const float attention_scale_, space_scale_;
  SelfAttention attention_;
  StateSpace space_;
  RowBuffer beside_;  ///< (tokens, dim): what the state space makes
};

}  // namespace bantam::inline v0::nn
