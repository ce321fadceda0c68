// Multi-head latent attention (DeepSeek V2, arXiv:2405.04434, 2.1), absorbed: the cache holds one latent vector c and one rotated
// key a token, which all heads read. With W_UK and W_UV the parts of a head's up-projection,
//   score = (W_UK^T q_nope) . c + rope(q_rope) . rope(k_rope),   out = W_UV sum softmax(score) c.
#pragma once

#include <optional>

#include "bantam/nn/attention.hpp"
#include "bantam/nn/blocks/attention.hpp"
#include "bantam/nn/blocks/indexer.hpp"
#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/weights/attention.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/rope.hpp"

namespace bantam::inline v0::nn {

struct LatentAttentionOptions {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;   ///< of queries before they are absorbed: nope and rope
  std::int64_t value_dim = 0;  ///< of a head's output; a multiple of panel_rows
  std::int64_t q_rank = 0;     ///< of the queries' low-rank projection; 0: none
  std::int64_t kv_rank = 0;    ///< of the latent vector; a multiple of panel_rows
  RopeOptions rope;            ///< of the last rope.dim numbers of a query
  float scale = 0;             ///< of the scores; 0 means 1 / sqrt(head_dim)
  double norm_eps = 1e-6;
  Temperature temperature = {};  ///< of queries
  bool gates_heads = false;      ///< heads' outputs are multiplied as OutputGate::of_heads has it (Ling 3)
  std::optional<IndexerOptions> indexer = {};  ///< of what queries see (DeepSeek V3.2)
};

/// The block with its buffers: run() is query(), which comes to what q_b reads, attend(), to what `o` reads, and project(), which
/// multiplies by it.
class LatentAttention {
 public:
  /// Throws invalid_argument as Rope does, and for ranks that are no multiples of panel_rows.
  LatentAttention(const KernelTable& kernels, const LatentAttentionOptions& options, std::int64_t context_tokens, int workers);

  /// Weights that query() will be asked for; x is what the first matrices read.
  void serve(const AttentionWeights& w, Activations& x);
  /// Room for a pass of these sequences, of so many tokens together.
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences);
  /// Room for what adapters add to heads' matrices in the pass that was planned, as Experts::resize_terms().
  void resize_terms(std::size_t terms, std::int64_t ranks) {
    terms_.reserve(terms);
    terms_.resize(nope_.tokens(), ranks, static_cast<int>(keys_.size()));
    heads_.resize(static_cast<std::size_t>(options_.heads));
    products_.reserve(heads_.size());
  }
  [[nodiscard]] static Readers readers(const AttentionWeights& w) noexcept { return {w.q.empty() ? &w.q_a : &w.q, &w.kv_a, &w.gate, &w.index_k, &w.index_weights}; }  // an empty one has no order
  /// What q_b reads, or `o`.
  [[nodiscard]] Activations& inputs(int group) noexcept { return group == 1 ? query_ : attended_; }
  /// As Indexer.
  void keep_choice(std::int64_t rows, KeptChoice& kept) const { indexer_->keep(rows, kept); }
  void take_choice(const KeptChoice& kept) { indexer_->take(kept); }
  void run(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, OutputRows out, int until) {
    if (until > 0) query(pass, w, x);
    if (until > 1) attend(pass, w, layer, x);
    if (until == to_the_end) project(pass, w, out);
  }

  /// The rotations of some rows' positions, for all layers.
  void find_angles(std::span<const PassRow> rows, Range part) noexcept {
    const std::int64_t half = rope_dim() / 2;
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float* angles = angles_.data() + t * 2 * half;
      rope_.angles(rows[static_cast<std::size_t>(t)].position, angles, angles + half);
    }
    if (indexer_) indexer_->find_angles(rows, part);
  }
  /// What reads x, (tokens, dim): the latent vectors, and the queries or what they are made of.
  void query(const Pass& pass, const AttentionWeights& w, const Activations& x) noexcept;
  /// attended = the outputs of all heads; latent vectors and rotated keys go to the caches of their sequences. x: as query() has it, for the indexer.
  void attend(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x);
  /// out = o attended. out: (tokens, dim).
  void project(const Pass& pass, const AttentionWeights& w, OutputRows out) noexcept;

 private:
  /// What reads the normed low-rank queries.
  [[nodiscard]] static Readers query_readers(const AttentionWeights& w) noexcept { return {&w.q_b, &w.index_q}; }
  [[nodiscard]] std::int64_t rope_dim() const noexcept { return options_.rope.dim; }
  [[nodiscard]] std::int64_t nope_dim() const noexcept { return options_.head_dim - rope_dim(); }
  /// Of a key in the cache, and of an absorbed query: the rotated part, then the latent one.
  [[nodiscard]] std::int64_t key_dim() const noexcept { return rope_dim() + options_.kv_rank; }
  void split(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer) noexcept;
  void store(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, std::int64_t t, int worker) noexcept;
  /// A head's part that positions turn, of some row, unless the layer has no rope. In place.
  void turn(float* part, std::int64_t t, const MixerLayer& layer) const noexcept {
    if (layer.rope == LayerRope::none) return;
    const std::int64_t half = rope_dim() / 2;
    const float* angles = angles_.data() + t * 2 * half;
    rope_.apply(kernels_, part, angles, angles + half);
  }
  void multiply_heads(const Pass& pass, const WeightMatrix& w, const Activations& x, std::int64_t rows, std::int64_t shift, std::int64_t step, OutputRows out) noexcept;
  void add_terms(const Pass& pass, const WeightMatrix& w, const Activations& x, std::int64_t rows, std::int64_t shift, std::int64_t step, OutputRows out) noexcept;

  const KernelTable& kernels_;
  const LatentAttentionOptions options_;
  Rope rope_;
  Attention attention_;
  std::optional<Indexer> indexer_;
  PassCaches caches_;
  Activations query_;            ///< (tokens, q_rank)
  RowBuffer gates_;              ///< (tokens, heads), where they have some
  RowBuffer q_;                  ///< (tokens, heads * head_dim)
  RowBuffer latent_;             ///< (tokens, kv_rank + rope)
  Activations nope_;             ///< (heads, tokens; nope): the part of each query that is not rotated
  RowBuffer absorbed_;           ///< (tokens, heads * (rope + kv_rank))
  RowBuffer means_;              ///< (tokens, heads * kv_rank): mean latent vectors
  Activations mean_;             ///< (heads, tokens; kv_rank): the same, sorted by heads
  Activations attended_;         ///< (tokens, heads * value_dim)
  AlignedBuffer<float> angles_;  ///< (tokens, 2, rope dim / 2): cosines, sines
  std::vector<AlignedBuffer<float>> keys_;  ///< one a worker: a padded key
  LowRankTerms terms_;                ///< of heads' matrices
  std::vector<WeightMatrix> heads_;   ///< these, one a head
  std::vector<Product> products_;     ///< of those that have some
};

inline LatentAttention::LatentAttention(const KernelTable& kernels, const LatentAttentionOptions& options, std::int64_t context_tokens, int workers)
    : kernels_(kernels), options_(options), rope_(options.rope, context_tokens),
      attention_({.heads = options.heads, .kv_heads = 1, .head_dim = options.rope.dim + options.kv_rank,
                  .scale = options.scale > 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(options.head_dim)), .value_dim = options.kv_rank, .sparse = options.indexer.has_value()},
                 workers),
      keys_(static_cast<std::size_t>(workers)) {
  for (const std::int64_t size : {options.kv_rank, options.value_dim}) {
    if (size <= 0 || size % panel_rows != 0) fail(Errc::invalid_argument, "latent attention: expected a multiple of ", panel_rows, ", found ", size);
  }
  for (auto& key : keys_) key.ensure(static_cast<std::size_t>(round_up<std::int64_t>(key_dim(), 16)));
  if (options.indexer) indexer_.emplace(kernels, *options.indexer, context_tokens, workers);
}

inline void LatentAttention::serve(const AttentionWeights& w, Activations& x) {
  const auto announce = [&](Activations& to, const WeightMatrix& matrix) {
    if (!matrix.empty()) to.serve(kernels_, matrix);
  };
  for (const WeightMatrix* matrix : {&w.q, &w.q_a, &w.kv_a, &w.gate, &w.index_k, &w.index_weights}) announce(x, *matrix);
  for (const WeightMatrix* matrix : {&w.q_b, &w.index_q}) announce(query_, *matrix);
  announce(nope_, w.k_b);
  announce(mean_, w.v_b);
  announce(attended_, w.o);
}

inline void LatentAttention::plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
  const LatentAttentionOptions& o = options_;
  if (o.q_rank > 0) query_.resize(tokens, o.q_rank);
  if (o.gates_heads) gates_.resize(tokens, o.heads);
  q_.resize(tokens, o.heads * o.head_dim);
  latent_.resize(tokens, o.kv_rank + rope_dim());
  nope_.resize(first_row_of(o.heads, tokens), nope_dim());
  absorbed_.resize(tokens, o.heads * key_dim());
  means_.resize(tokens, o.heads * o.kv_rank);
  mean_.resize(first_row_of(o.heads, tokens), o.kv_rank);
  attended_.resize(tokens, o.heads * o.value_dim);
  angles_.ensure(static_cast<std::size_t>(tokens * rope_dim()));
  attention_.plan(caches_.find(sequences));
  if (indexer_) indexer_->plan(tokens, sequences);
}

inline void LatentAttention::query(const Pass& pass, const AttentionWeights& w, const Activations& x) noexcept {
  const Readers readers = this->readers(w);
  const bool low_rank = w.q.empty();
  const Product of_query{low_rank ? w.q_a : w.q, values_of(w.q_bias), low_rank ? query_.output() : q_.output()}, of_latent{w.kv_a, nullptr, latent_.output(), readers.form_of(1)};
  if (options_.gates_heads) {
    linear(pass, x, {of_query, of_latent, {w.gate, nullptr, gates_.output(), readers.form_of(2)}});
  } else {
    linear(pass, x, {of_query, of_latent});
  }
  if (!low_rank) return;
  const auto eps = static_cast<float>(options_.norm_eps);
  pass.for_rows(Work::norms, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      kernels_.rms_norm(query_.row(t), w.q_a_norm.data(), eps, query_.row(t), options_.q_rank);
      query_.quantize_row(kernels_, t);
      query_.gather_row(kernels_, query_readers(w), t);
    }
  });
}

/// Puts the two parts of each query where they are read next, and latent vectors into the caches. Units are (token, head), and one more.
inline void LatentAttention::split(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer) noexcept {
  const std::int64_t heads = options_.heads;
  pass.for_units(Work::positions, heads + 1, [&](std::int64_t t, std::int64_t h, int worker) {
    if (h == heads) return store(pass, w, layer, t, worker);
    float* query = q_.row(t) + h * options_.head_dim;
    options_.temperature.warm(query, options_.head_dim, pass.rows[static_cast<std::size_t>(t)].position, layer.rope);
    float* rotated = absorbed_.row(t) + h * key_dim();
    std::copy_n(query + nope_dim(), rope_dim(), rotated);
    turn(rotated, t, layer);
    const std::int64_t row = first_row_of(h, pass.tokens()) + t;
    std::copy_n(query, nope_dim(), nope_.row(row));
    nope_.quantize_row(kernels_, row);
  });
}

inline void LatentAttention::store(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, std::int64_t t, int worker) noexcept {
  float *latent = latent_.row(t), *key = keys_[static_cast<std::size_t>(worker)].data();
  std::copy_n(latent + options_.kv_rank, rope_dim(), key);
  turn(key, t, layer);
  kernels_.rms_norm(latent, w.kv_a_norm.data(), static_cast<float>(options_.norm_eps), key + rope_dim(), options_.kv_rank);
  std::fill(key + key_dim(), key + round_up<std::int64_t>(key_dim(), 16), 0.0f);
  const PassRow& row = pass.rows[static_cast<std::size_t>(t)];
  caches_[row.sequence].store(kernels_, layer.place, false, 0, row.position, key);
}

/// Multiplies each head's rows of x by its `rows` rows of w. A head's outputs begin `shift` behind their
/// rows' number, and `step` more for each head before.
inline void LatentAttention::multiply_heads(const Pass& pass, const WeightMatrix& w, const Activations& x, std::int64_t rows, std::int64_t shift,
                                            std::int64_t step, OutputRows out) noexcept {
  linear_by_parts(pass.kernels, pass.team, w, options_.heads, x, pass.tokens(), {out.values + shift, out.stride}, step, pass.fetch);
  if (pass.adapters != nullptr) add_terms(pass, w, x, rows, shift, step, out);
}

/// What adapters add to these products.
inline void LatentAttention::add_terms(const Pass& pass, const WeightMatrix& w, const Activations& x, std::int64_t rows, std::int64_t shift,
                                       std::int64_t step, OutputRows out) noexcept {
  terms_.clear();
  products_.clear();
  for (const LowRankTerm& term : pass.adapters->terms()) {
    if (term.matrix != &w) continue;
    WeightMatrix& head = heads_[static_cast<std::size_t>(term.head)];
    LowRankTerm own = term;
    own.matrix = &head;
    own.inputs = first_row_of(term.head, pass.tokens());
    terms_.add(own);  // there is room
    const bool is_there = std::ranges::any_of(products_, [&](const Product& product) { return &product.w == &head; });
    if (is_there) continue;
    head = WeightMatrix(w.format(), rows, w.columns(), {});
    products_.push_back({head, nullptr, {out.values + shift + term.head * step + term.head * rows, out.stride}});
  }
  terms_.run(kernels_, pass.team, x, products_, pass.fetch);
}

inline void LatentAttention::attend(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x) {
  const LatentAttentionOptions& o = options_;
  if (w.q.empty()) linear(pass, query_, {{w.q_b, values_of(w.q_bias), q_.output()}});
  split(pass, w, layer);
  const ChosenTokens* chosen = nullptr;
  if (indexer_) {
    const Readers readers = this->readers(w);
    chosen = indexer_->run(pass, w, layer, x, readers.form_of(3), readers.form_of(4), query_, query_readers(w).form_of(1), caches_);
  }
  // Row r of head h is row h kv_rank + r of k_b, and comes to (h + 1) rope + h kv_rank + r of an absorbed query.
  multiply_heads(pass, w.k_b, nope_, o.kv_rank, rope_dim(), rope_dim(), absorbed_.output());
  attention_.run(kernels_, pass.team, layer.place, layer.window, absorbed_.input(), means_.output(), 0, nullptr, nullptr, nullptr, pass.more_keys, chosen);
  pass.for_units(Work::rounding, o.heads, [&](std::int64_t t, std::int64_t h, int) {
    const std::int64_t row = first_row_of(h, pass.tokens()) + t;
    std::copy_n(means_.row(t) + h * o.kv_rank, o.kv_rank, mean_.row(row));
    mean_.quantize_row(kernels_, row);
  });
  multiply_heads(pass, w.v_b, mean_, o.value_dim, 0, 0, attended_.output());
  if (!o.gates_heads) return;
  pass.for_units(Work::gates, o.heads, [&](std::int64_t t, std::int64_t h, int) {
    const float factor = sigmoid(gates_.row(t)[h]);
    for (std::int64_t i = h * o.value_dim; i < (h + 1) * o.value_dim; ++i) attended_.row(t)[i] *= factor;
  });
}

inline void LatentAttention::project(const Pass& pass, const AttentionWeights& w, OutputRows out) noexcept {
  pass.for_parts(Work::rounding, w.o.columns(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) { attended_.quantize_part(kernels_, t, begin, end); });
  if (attended_.has_orders()) {
    pass.for_parts(Work::rounding, w.o.columns(), [&](std::int64_t t, std::int64_t begin, std::int64_t end) { attended_.gather_part(kernels_, {&w.o}, t, begin, end); });
  }
  linear(pass, attended_, {{w.o, values_of(w.o_bias), out}});
}

}  // namespace bantam::inline v0::nn
