// A decoder's attention to what an encoder made of another text (Vaswani et al., arXiv:1706.03762, 3.2.3).
#pragma once

#include <vector>

#include "bantam/nn/activations.hpp"
#include "bantam/nn/attention.hpp"
#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/weights/cross_attention.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/source_state.hpp"

namespace bantam::inline v0::nn {

/// The block with its buffers. remember() makes keys and values of the source once; run() attends to them.
class CrossAttention {
 public:
  /// `shape`: as many key-value heads as heads; Sight::round.
  CrossAttention(const KernelTable& kernels, const AttentionShape& shape, int workers)
      : kernels_(kernels), shape_(shape), attention_(shape, workers), heads_(static_cast<std::size_t>(workers)) {
    for (auto& head : heads_) head.ensure(static_cast<std::size_t>(round_up<std::int64_t>(shape.head_dim, 16)));
  }

  /// Weights that run() and remember() will be asked for; x is what q reads, `source` what k and v do.
  void serve(const CrossAttentionWeights& w, Activations& x, Activations& source) {
    if (!w.q.empty()) x.serve(kernels_, w.q);
    for (const WeightMatrix* matrix : {&w.k, &w.v}) {
      if (!matrix->empty()) source.serve(kernels_, *matrix);
    }
    if (!w.o.empty()) attended_.serve(kernels_, w.o);
  }
  /// Room for a pass of these sequences, of so many tokens together, whose sources are read.
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    parts_.clear();
    for (const PassSequence& s : sequences) {
      SourceState& source = *s.state->find<SourceState>();
      parts_.push_back({&source.cache(), s.row, s.tokens, s.position, source.source_tokens()});
    }
    q_.resize(tokens, width());
    attended_.resize(tokens, width());
    attention_.plan(parts_);
  }
  /// Room for remember() of so many tokens.
  void plan_source(std::int64_t tokens) {
    for (RowBuffer* x : {&k_, &v_}) x->resize(tokens, width());
  }
  [[nodiscard]] static Readers readers(const CrossAttentionWeights& w) noexcept { return {&w.q}; }
  [[nodiscard]] static Readers source_readers(const CrossAttentionWeights& w) noexcept { return {&w.k, &w.v}; }
  /// What `o` reads, after run().
  [[nodiscard]] Activations& attended() noexcept { return attended_; }

  /// Keys and values of a layer, at its place in `cache`, of all rows of a pass over the source. x: (tokens, dim), the encoder's states,
  /// ready for source_readers().
  void remember(const Pass& pass, const CrossAttentionWeights& w, std::int64_t place, const Activations& x, KvCache& cache) noexcept {
    linear(pass, x, {{w.k, values_of(w.k_bias), k_.output()}, {w.v, values_of(w.v_bias), v_.output(), source_readers(w).form_of(1)}});
    const std::int64_t d = shape_.head_dim;
    pass.for_units(Work::positions, 2 * shape_.heads, [&](std::int64_t t, std::int64_t unit, int worker) {
      const bool is_value = unit >= shape_.heads;
      const std::int64_t head = unit % shape_.heads;
      float* padded = heads_[static_cast<std::size_t>(worker)].data();
      std::copy_n((is_value ? v_ : k_).row(t) + head * d, d, padded);
      cache.store(kernels_, place, is_value, head, t, padded);
    });
  }
  /// out = o softmax(q kT) v, or as far as what `o` reads. x: (tokens, dim), ready for readers(). out: (tokens, dim).
  void run(const Pass& pass, const CrossAttentionWeights& w, std::int64_t place, const Activations& x, OutputRows out, int until) noexcept {
    linear(pass, x, {{w.q, values_of(w.q_bias), q_.output()}});
    attention_.run(kernels_, pass.team, place, 0, q_.input(), attended_.output());
    if (until != to_the_end) return;
    pass.for_parts(Work::rounding, w.o.columns(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
      attended_.quantize_part(kernels_, t, begin, end);
      attended_.gather_part(kernels_, {&w.o}, t, begin, end);
    });
    linear(pass, attended_, {{w.o, values_of(w.o_bias), out}});
  }

 private:
  [[nodiscard]] std::int64_t width() const noexcept { return shape_.heads * shape_.head_dim; }

  const KernelTable& kernels_;
  const AttentionShape shape_;
  Attention attention_;
  std::vector<AttentionSequence> parts_;
  RowBuffer q_, k_, v_;   ///< (tokens, heads * head_dim): of the decoder's; of the source's
  Activations attended_;  ///< (tokens, heads * head_dim)
  std::vector<AlignedBuffer<float>> heads_;  ///< one a worker: a padded head
};

}  // namespace bantam::inline v0::nn
