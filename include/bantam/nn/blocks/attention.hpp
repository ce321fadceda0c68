// Self-attention, causal or not, with grouped heads (Vaswani et al., arXiv:1706.03762; Ainslie et al., arXiv:2305.13245) and rope.
#pragma once

#include <optional>

#include "bantam/nn/alibi.hpp"
#include "bantam/nn/attention.hpp"
#include "bantam/nn/blocks/attention_kinds.hpp"
#include "bantam/nn/blocks/indexer.hpp"
#include "bantam/nn/blocks/mixer.hpp"
#include "bantam/nn/blocks/pass_caches.hpp"
#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/attention.hpp"
#include "bantam/nn/gates.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/rope.hpp"

namespace bantam::inline v0::nn {

/// What holds for every layer that the block runs; heads are of the layer that has most of them.
struct SelfAttentionOptions {
  AttentionShape shape;
  RopeOptions rope;
  std::optional<RopeOptions> local_rope = {};  ///< of layers that ask for it
  Temperature temperature = {};
  HeadNorm head_norm = HeadNorm::each;
  bool head_layer_norms = false;  ///< norms of q and k are layer norms (MPT)
  double alibi = 0;        ///< alibi_slopes(): what their exponents come to; 0: no such term
  double alibi_scale = 1;  ///< of the slopes
  RelativeBiasOptions relative_bias = {};  ///< of scores, by distance, where each head has keys of its own
  float clip = 0;          ///< q, k and v are kept from -clip to clip before all else (MPT); 0: they stay
  bool norms_turned = false;  ///< q and k of layers that rope turns, behind it, head by head, by RMS norms without weights (Llama 4)
  bool norms_values = false;  ///< head by head, by RMS norms without weights (Gemma 4)
  float value_scale = 1;      ///< values are multiplied by it (MiMo-V2)
  OutputGate output_gate = OutputGate::none;
  double norm_eps = 1e-5;
  std::optional<IndexerOptions> indexer = {};  ///< of what queries see (Qwen4)
};

/// The block with its buffers: run() is attend(), which comes to what `o` reads, and project(), which multiplies by it.
class SelfAttention {
 public:
  /// `context_tokens`: the longest sequence to come. Throws invalid_argument as Rope does.
  SelfAttention(const KernelTable& kernels, const SelfAttentionOptions& options, std::int64_t context_tokens, int workers)
      : kernels_(kernels), options_(options), rope_(options.rope, context_tokens), attention_(options.shape, workers),
        bias_(options.relative_bias, options.shape.heads, options.shape.sight == Sight::round),
        heads_(static_cast<std::size_t>(workers)), values_(static_cast<std::size_t>(workers)) {
    if (options.local_rope) local_rope_.emplace(*options.local_rope, context_tokens);
    if (options.indexer) indexer_.emplace(kernels, *options.indexer, context_tokens, workers);
    for (auto* heads : {&heads_, &values_}) {
      for (auto& head : *heads) head.ensure(static_cast<std::size_t>(round_up<std::int64_t>(std::max(options.shape.head_dim, value_dim()), 16)));
    }
    if (options.alibi > 0) slopes_ = alibi_slopes(options.shape.heads, options.alibi);
    for (float& slope : slopes_) slope *= static_cast<float>(options.alibi_scale);
    if (options.norms_values || options.norms_turned) ones_.assign(static_cast<std::size_t>(options.shape.head_dim), 1.0f);
  }

  /// Weights that attend() will be asked for; x is what q, k and v read.
  void serve(const AttentionWeights& w, Activations& x) {
    for (const WeightMatrix* matrix : {&w.q, &w.k, &w.v, &w.gate, &w.index_k, &w.index_q_stream}) {
      if (!matrix->empty()) x.serve(kernels_, *matrix);
    }
    if (!w.o.empty()) attended_.serve(kernels_, w.o);
  }
  /// Room for a pass of these sequences, of so many tokens together.
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    const AttentionShape& s = options_.shape;
    q_.resize(tokens, s.heads * query_stride());
    if (splits_queries()) queries_.resize(tokens, s.heads * s.head_dim);
    if (options_.output_gate == OutputGate::own) gates_.resize(tokens, s.heads * value_dim());
    if (is_of_heads(options_.output_gate)) gates_.resize(tokens, s.heads);
    k_.resize(tokens, s.kv_heads * s.head_dim);
    v_.resize(tokens, s.kv_heads * value_dim());
    attended_.resize(tokens, s.heads * value_dim());
    angles_.ensure(static_cast<std::size_t>(tokens * rope_.dim()));
    if (local_rope_) local_angles_.ensure(static_cast<std::size_t>(tokens * local_rope_->dim()));
    attention_.plan(caches_.find(sequences));
    if (indexer_) indexer_->plan(tokens, sequences);
  }
  [[nodiscard]] static Readers readers(const AttentionWeights& w) noexcept { return {&w.q, &w.k, &w.v, &w.gate, &w.index_k, &w.index_q_stream}; }  // an empty one has no order
  /// What `o` reads is the only group behind the first.
  [[nodiscard]] Activations& inputs(int) noexcept { return attended_; }
  void run(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) {
    if (until > 0) attend(pass, w, layer, x);
    if (until == to_the_end) project(pass, w, out);
  }

  /// The rotations of some rows' positions, for all layers.
  void find_angles(std::span<const PassRow> rows, Range part) noexcept {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      const std::int64_t position = rows[static_cast<std::size_t>(t)].position;
      float* angles = angles_.data() + t * rope_.dim();
      rope_.angles(position, angles, angles + rope_.dim() / 2);
      if (!local_rope_) continue;
      float* local = local_angles_.data() + t * local_rope_->dim();
      local_rope_->angles(position, local, local + local_rope_->dim() / 2);
    }
    if (indexer_) indexer_->find_angles(rows, part);
  }
  /// attended = softmax(q kT) v; keys and values go to the caches of their sequences, unless the layer has no k: then those that are at its
  /// place in the caches are read. Without v the values are what k makes. x: (tokens, dim), ready for its readers.
  void attend(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x);
  /// out = o attended. out: (tokens, dim).
  void project(const Pass& pass, const AttentionWeights& w, OutputRows out) noexcept {
    pass.for_parts(Work::rounding, w.o.columns(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
      attended_.quantize_part(kernels_, t, begin, end);
      attended_.gather_part(kernels_, {&w.o}, t, begin, end);
    });
    linear(pass, attended_, {{w.o, values_of(w.o_bias), out}});
  }

 private:
  /// Query heads that share a key-value head.
  [[nodiscard]] std::int64_t group() const noexcept { return options_.shape.heads / options_.shape.kv_heads; }
  /// Numbers of a value, and of what a head puts out.
  [[nodiscard]] std::int64_t value_dim() const noexcept { return options_.shape.value_dim > 0 ? options_.shape.value_dim : options_.shape.head_dim; }
  /// Numbers from one head of q to the next.
  [[nodiscard]] std::int64_t query_stride() const noexcept { return options_.shape.head_dim * (splits_queries() ? 2 : 1); }
  [[nodiscard]] bool splits_queries() const noexcept { return options_.output_gate == OutputGate::beside_queries; }
  void gate(const Pass& pass, std::int64_t heads) noexcept;
  void normalize_all_heads(const Pass& pass, const AttentionWeights& w) noexcept;
  void normalize_attended(const Pass& pass, const AttentionWeights& w) noexcept;
  /// In place, by so many weights from `first` on.
  void normalize(float* x, const std::vector<float>& weight, const std::vector<float>& bias, std::int64_t size, std::int64_t first = 0) const noexcept;
  void clip(const Pass& pass, const AttentionWeights& w) noexcept;
  void rotate_and_store(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer) noexcept;
  void rotate(float* head, std::int64_t row, LayerRope rope) const noexcept;

  const KernelTable& kernels_;
  const SelfAttentionOptions options_;
  Rope rope_;
  std::optional<Rope> local_rope_;
  Attention attention_;
  std::optional<Indexer> indexer_;
  RelativeBias bias_;            ///< of the layer at work
  PassCaches caches_;
  RowBuffer queries_;            ///< (tokens, heads * head_dim), where q_ has gates besides
  RowBuffer q_, k_, v_;          ///< (tokens, heads * head_dim), (tokens, kv_heads * head_dim), (tokens, kv_heads * value_dim)
  RowBuffer gates_;              ///< (tokens, heads * value_dim) or (tokens, heads), of a matrix of their own
  Activations attended_;         ///< (tokens, heads * value_dim)
  AlignedBuffer<float> angles_, local_angles_;  ///< (tokens, 2, rope dim / 2): cosines, sines
  std::vector<AlignedBuffer<float>> heads_, values_;  ///< one a worker: a padded head
  std::vector<float> ones_;  ///< (head_dim), weights of norms without any
  std::vector<float> slopes_;  ///< (heads), where scores shrink with distance
};

inline void SelfAttention::attend(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x) {
  const std::int64_t heads = w.q.rows() / query_stride(), width = heads * value_dim();
  if (attended_.columns() != width) attended_.resize(pass.tokens(), width);
  const Readers readers = this->readers(w);
  if (w.k.empty()) {
    linear(pass, x, {{w.q, values_of(w.q_bias), q_.output()}});
  } else if (w.v.empty()) {
    linear(pass, x, {{w.q, values_of(w.q_bias), q_.output()}, {w.k, values_of(w.k_bias), k_.output(), readers.form_of(1)}});
  } else if (w.gate.empty()) {
    linear(pass, x,
           {{w.q, values_of(w.q_bias), q_.output()},
            {w.k, values_of(w.k_bias), k_.output(), readers.form_of(1)},
            {w.v, values_of(w.v_bias), v_.output(), readers.form_of(2)}});
  } else {
    linear(pass, x,
           {{w.q, values_of(w.q_bias), q_.output()},
            {w.k, values_of(w.k_bias), k_.output(), readers.form_of(1)},
            {w.v, values_of(w.v_bias), v_.output(), readers.form_of(2)},
            {w.gate, nullptr, gates_.output(), readers.form_of(3)}});
  }
  if (options_.clip > 0) clip(pass, w);
  if (options_.head_norm == HeadNorm::all && !w.q_norm.empty()) normalize_all_heads(pass, w);
  rotate_and_store(pass, w, layer);
  if (!bias_.empty()) bias_.set(w.relative_bias, heads);
  const ChosenTokens* chosen = nullptr;
  if (indexer_) {
    const int form = readers.form_of(5);
    chosen = indexer_->run(pass, w, layer, x, readers.form_of(4), form, x, form, caches_);
  }
  attention_.run(kernels_, pass.team, layer.place, layer.window, (splits_queries() ? queries_ : q_).input(), attended_.output(), heads / group(), values_of(w.sinks),
                 values_of(slopes_), bias_.empty() ? nullptr : &bias_, pass.more_keys, chosen);
  if (options_.output_gate != OutputGate::none) gate(pass, heads);
  if (!w.o_norm.empty()) normalize_attended(pass, w);
}

/// attended *= sigmoid(gate), number by number; or all numbers of a head by the sigmoid, or softplus, of its one gate.
inline void SelfAttention::gate(const Pass& pass, std::int64_t heads) noexcept {
  const std::int64_t d = value_dim();
  pass.for_units(Work::gates, heads, [&](std::int64_t t, std::int64_t h, int worker) {
    if (is_of_heads(options_.output_gate)) {
      const float own = gates_.row(t)[h], factor = options_.output_gate == OutputGate::of_heads ? sigmoid(own) : softplus(own);
      for (std::int64_t i = 0; i < d; ++i) attended_.row(t)[h * d + i] *= factor;
      return;
    }
    // Products of it may not be written over what they read.
    float* gates = heads_[static_cast<std::size_t>(worker)].data();
    kernels_.sigmoid_mul(splits_queries() ? q_.row(t) + (2 * h + 1) * d : gates_.row(t) + h * d, attended_.row(t) + h * d, gates, d);
    std::copy_n(gates, d, attended_.row(t) + h * d);
  });
}

inline void SelfAttention::clip(const Pass& pass, const AttentionWeights& w) noexcept {
  const auto clip_row = [&](RowBuffer& x, const WeightMatrix& matrix, std::int64_t t) {
    float* row = x.row(t);
    for (std::int64_t c = 0; c < matrix.rows(); ++c) row[c] = std::clamp(row[c], -options_.clip, options_.clip);
  };
  pass.for_rows(Work::positions, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      clip_row(q_, w.q, t);
      clip_row(k_, w.k, t);
      clip_row(v_, w.v, t);
    }
  });
}

inline void SelfAttention::normalize(float* x, const std::vector<float>& weight, const std::vector<float>& bias, std::int64_t size, std::int64_t first) const noexcept {
  const auto eps = static_cast<float>(options_.norm_eps);
  if (options_.head_layer_norms) {
    kernels_.layer_norm(x, weight.data() + first, bias.empty() ? nullptr : bias.data() + first, eps, x, size);
  } else {
    kernels_.rms_norm(x, weight.data() + first, eps, x, size);
  }
}

/// Norms of q and k over all of their heads.
inline void SelfAttention::normalize_all_heads(const Pass& pass, const AttentionWeights& w) noexcept {
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      normalize(q_.row(t), w.q_norm, w.q_norm_bias, w.q.rows());
      if (!w.k.empty()) normalize(k_.row(t), w.k_norm, w.k_norm_bias, w.k.rows());
    }
  });
}

inline void SelfAttention::normalize_attended(const Pass& pass, const AttentionWeights& w) noexcept {
  const auto eps = static_cast<float>(options_.norm_eps);
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) kernels_.rms_norm(attended_.row(t), w.o_norm.data(), eps, attended_.row(t), w.o.columns());
  });
}

inline void SelfAttention::rotate(float* head, std::int64_t row, LayerRope rope) const noexcept {
  if (rope == LayerRope::none) return;
  const bool local = rope == LayerRope::local;
  const Rope& by = local ? *local_rope_ : rope_;
  const float* angles = (local ? local_angles_ : angles_).data() + row * by.dim();
  by.apply(kernels_, head, angles, angles + by.dim() / 2);
}

/// Norms, where that is done head by head, and rotates the heads of q and k, and stores k and v. Units are (token, head).
inline void SelfAttention::rotate_and_store(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer) noexcept {
  const std::int64_t d = options_.shape.head_dim, of_values = value_dim();
  const std::int64_t heads = w.q.rows() / query_stride(), kv_heads = w.k.empty() ? 0 : w.k.rows() / d;
  const auto eps = static_cast<float>(options_.norm_eps);
  pass.for_units(Work::positions, heads + kv_heads, [&](std::int64_t t, std::int64_t h, int worker) {
    const bool is_q = h < heads;
    const std::int64_t kv = h - heads;
    float* head = is_q ? q_.row(t) + h * query_stride() : k_.row(t) + kv * d;
    float* value = values_[static_cast<std::size_t>(worker)].data();
    if (!is_q) {
      std::copy_n(w.v.empty() ? head : v_.row(t) + kv * of_values, of_values, value);
      if (options_.norms_values) kernels_.rms_norm(value, ones_.data(), eps, value, of_values);
      for (std::int64_t i = 0; options_.value_scale != 1 && i < of_values; ++i) value[i] *= options_.value_scale;
    }
    const std::vector<float>&norm = is_q ? w.q_norm : w.k_norm, &bias = is_q ? w.q_norm_bias : w.k_norm_bias;
    if (!norm.empty() && options_.head_norm == HeadNorm::each) normalize(head, norm, bias, d);
    if (!norm.empty() && options_.head_norm == HeadNorm::own) normalize(head, norm, bias, d, (is_q ? h : kv) * d);
    rotate(head, t, layer.rope);
    if (!norm.empty() && options_.head_norm == HeadNorm::each_rotated) normalize(head, norm, bias, d);
    if (options_.norms_turned && layer.rope != LayerRope::none) kernels_.rms_norm(head, ones_.data(), eps, head, d);
    if (is_q) options_.temperature.warm(head, d, pass.rows[static_cast<std::size_t>(t)].position, layer.rope);
    if (is_q && splits_queries()) std::copy_n(head, d, queries_.row(t) + h * d);
    if (is_q) return;
    float* padded = heads_[static_cast<std::size_t>(worker)].data();
    const PassRow& row = pass.rows[static_cast<std::size_t>(t)];
    std::copy_n(head, d, padded);
    KvCache& cache = caches_[row.sequence];
    cache.store(kernels_, layer.place, false, kv, row.position, padded);
    cache.store(kernels_, layer.place, true, kv, row.position, value);
  });
}

}  // namespace bantam::inline v0::nn
