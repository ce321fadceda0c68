// Sparse attention: an indexer chooses the tokens that a query sees (DeepSeek V3.2, arXiv:2512.02556, 2.1). A few small heads q_j give each token s before
// query t, by a key k of its own,
//   I(t, s) = sum_j w_j ReLU(q_j . k_s),
// and attention sees those with the largest. Qwen4 chooses blocks of neighbors, by the mean of their keys, with all w_j = 1.
#pragma once

#include <bit>
#include <functional>

#include "bantam/nn/attention.hpp"
#include "bantam/nn/blocks/pass.hpp"
#include "bantam/nn/blocks/pass_caches.hpp"
#include "bantam/nn/blocks/weights/attention.hpp"
#include "bantam/nn/linear.hpp"
#include "bantam/nn/rope.hpp"

namespace bantam::inline v0::nn {

struct IndexerOptions {
  std::int64_t heads = 0;
  std::int64_t dim = 0;    ///< of each of their queries, and of a key
  std::int64_t used = 0;   ///< tokens that a query sees, at most, of whole blocks
  std::int64_t block = 1;  ///< neighboring tokens that are chosen together, a divisor of page_tokens; those behind the last whole block are always seen
  RopeOptions rope;        ///< of the first rope.dim numbers; of a block's key by the position of its first token
  double norm_eps = 1e-6;
};

/// The indexer of the layers of a pass, one after the other, with its buffers. Keys are in the caches: of the last token of a block the block's, of its others
/// what its mean is made of, so that a text may be cut anywhere.
class Indexer {
 public:
  /// Scores that are kept at a time, or those of a token.
  static constexpr std::int64_t most_scores = std::int64_t{1} << 21;

  Indexer(const KernelTable& kernels, const IndexerOptions& options, std::int64_t context_tokens, int workers)
      : kernels_(kernels), o_(options), padded_(round_up<std::int64_t>(options.dim, 16)), rope_(options.rope, context_tokens), workers_(static_cast<std::size_t>(workers)) {
    for (Worker& worker : workers_) {
      worker.key.ensure(static_cast<std::size_t>(padded_));
      worker.page.ensure(static_cast<std::size_t>(page_tokens * padded_));
      worker.angles.ensure(static_cast<std::size_t>(rope_.dim()));
    }
  }

  /// Room for a pass of these sequences, of so many tokens together.
  void plan(std::int64_t tokens, std::span<const PassSequence> sequences) {
    std::int64_t longest = 0;
    for (const PassSequence& s : sequences) longest = std::max(longest, s.position + s.tokens);
    last_ = nullptr;
    keys_.resize(tokens, o_.dim);
    angles_.ensure(static_cast<std::size_t>(tokens * rope_.dim()));
    if (!sees_part(longest - 1)) return;
    products_.resize(tokens, o_.heads * o_.dim);
    queries_.resize(tokens, o_.heads * padded_);
    weights_.resize(tokens, o_.heads);
    chosen_.stride = div_up<std::int64_t>(longest, page_tokens);
    pages_.resize(static_cast<std::size_t>(tokens * chosen_.stride));
    chosen_.pages = pages_.data();
    at_once_ = std::clamp<std::int64_t>(most_scores / (chosen_.stride * page_tokens), 1, tokens);
    scores_.ensure(static_cast<std::size_t>(at_once_ * chosen_.stride * page_tokens));
    for (Worker& worker : workers_) worker.ranked.resize(static_cast<std::size_t>(longest / o_.block));
  }
  /// The rotations of some rows' positions, for all layers.
  void find_angles(std::span<const PassRow> rows, Range part) noexcept {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float* const angles = angles_.data() + t * rope_.dim();
      rope_.angles(rows[static_cast<std::size_t>(t)].position, angles, angles + rope_.dim() / 2);
    }
  }
  /// What a layer's rows see; null: all that there are. Its keys go to the caches first; a layer without an indexer sees what the one before it chose (GLM-5.2,
  /// arXiv:2603.12201). x, with the forms of the keys' reader and the weights': what these read; q: what index_q reads. Until the next call. Throws as choose().
  [[nodiscard]] const ChosenTokens* run(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, int key_form, int form, const Activations& q,
                                        int q_form, PassCaches& caches) {
    if (w.index_k.empty()) return last_;
    store(pass, w, layer, x, key_form, caches);
    return last_ = choose(pass, w, layer, x, form, q, q_form, caches);
  }
  /// What the rows of the last pass saw goes to a layer that is run in another pass, and comes from there.
  void keep(std::int64_t rows, KeptChoice& kept) const {
    kept.stride = last_ != nullptr ? last_->stride : 0;
    kept.pages.assign(pages_.begin(), pages_.begin() + rows * kept.stride);
  }
  void take(const KeptChoice& kept) {
    last_ = kept.stride > 0 ? &chosen_ : nullptr;
    if (last_ == nullptr) return;
    pages_ = kept.pages;
    chosen_ = {pages_.data(), kept.stride};
  }

 private:
  /// Which tokens rows see, by the keys that store() has put away; null: all that there are. x: what index_weights reads, in its ordered form, and index_q_stream;
  /// q: what the matrix of queries does. Until the next call. Throws what the pass's more_keys throws, of whose stretches the first is there before and after.
  [[nodiscard]] const ChosenTokens* choose(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, int form, const Activations& q, int q_form,
                                           const PassCaches& caches);
  /// The keys of the pass's tokens go to the caches. x: what index_k reads, in its ordered form.
  void store(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, int form, PassCaches& caches) noexcept;
  /// Rows whose scores share a page that was made floats.
  static constexpr std::int64_t rows_a_page = 16;
  struct Worker {
    AlignedBuffer<float> key;     ///< (padded dim)
    AlignedBuffer<float> page;    ///< (padded dim, 64)
    AlignedBuffer<float> angles;  ///< cosines, sines
    std::vector<std::uint64_t> ranked;
  };

  /// Whether a token sees but a part of those before it.
  [[nodiscard]] bool sees_part(std::int64_t position) const noexcept { return (position + 1) / o_.block > o_.used / o_.block; }
  void finish_key(const AttentionWeights& w, float* key, const float* angles) const noexcept;
  void put(KvCache& cache, std::int64_t layer, std::int64_t position, const float* key, Worker& worker) const noexcept;
  void score(const Pass& pass, std::int64_t layer, Range rows, const PassCaches& caches, std::int64_t number, bool weighs) noexcept;
  void rank(std::int64_t row, std::int64_t position, const float* scores, Worker& worker) noexcept;

  const KernelTable& kernels_;
  const IndexerOptions o_;
  std::int64_t padded_;  ///< dim
  Rope rope_;
  RowBuffer keys_;      ///< (tokens, dim)
  RowBuffer products_;  ///< (tokens, heads * dim)
  RowBuffer queries_;   ///< (tokens, heads * padded dim)
  RowBuffer weights_;   ///< (tokens, heads)
  AlignedBuffer<float> angles_;  ///< (tokens, 2, rope dim / 2): cosines, sines
  std::int64_t at_once_ = 0;     ///< rows
  AlignedBuffer<float> scores_;  ///< (at once, pages * 64)
  std::vector<std::uint64_t> pages_;
  ChosenTokens chosen_;
  const ChosenTokens* last_ = nullptr;  ///< what the last indexer of the pass chose
  std::vector<Worker> workers_;
};

/// A key from the mean of its tokens: normed, then turned.
inline void Indexer::finish_key(const AttentionWeights& w, float* key, const float* angles) const noexcept {
  const auto eps = static_cast<float>(o_.norm_eps);
  if (w.index_k_norm_bias.empty()) kernels_.rms_norm(key, w.index_k_norm.data(), eps, key, o_.dim);
  else kernels_.layer_norm(key, w.index_k_norm.data(), w.index_k_norm_bias.data(), eps, key, o_.dim);
  rope_.apply(kernels_, key, angles, angles + rope_.dim() / 2);
}

inline void Indexer::put(KvCache& cache, std::int64_t layer, std::int64_t position, const float* key, Worker& worker) const noexcept {
  std::copy_n(key, o_.dim, worker.key.data());
  std::fill(worker.key.data() + o_.dim, worker.key.data() + padded_, 0.0f);
  cache.store_index(kernels_, layer, position, worker.key.data());
}

inline void Indexer::store(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, int form, PassCaches& caches) noexcept {
  linear(pass, x, {{w.index_k, nullptr, keys_.output(), form}});
  const auto for_keys = [&](auto&& f) {
    pass.for_rows(Work::positions, [&](Range part, int worker) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        const PassRow& row = pass.rows[static_cast<std::size_t>(t)];
        f(caches[row.sequence], row.position, t, workers_[static_cast<std::size_t>(worker)]);
      }
    });
  };
  for_keys([&](KvCache& cache, std::int64_t position, std::int64_t t, Worker& worker) {
    if (o_.block == 1) finish_key(w, keys_.row(t), angles_.data() + t * rope_.dim());
    put(cache, layer.place, position, keys_.row(t), worker);
  });
  if (o_.block == 1) return;
  // Of whole blocks. Others read the same pages meanwhile: what is written waits for them.
  const auto ends_block = [&](std::int64_t position) { return (position + 1) % o_.block == 0; };
  for_keys([&](KvCache& cache, std::int64_t position, std::int64_t t, Worker& worker) {
    if (!ends_block(position)) return;
    float *const key = keys_.row(t), *const angles = worker.angles.data();
    std::fill_n(key, o_.dim, 0.0f);
    const float* const keys = cache.expand_index(kernels_, layer.place, position / page_tokens, page_tokens, worker.page.data());  // no block crosses pages
    for (std::int64_t token = position + 1 - o_.block; token <= position; ++token) {
      for (std::int64_t i = 0; i < o_.dim; ++i) key[i] += keys[i * page_tokens + token % page_tokens];
    }
    for (std::int64_t i = 0; i < o_.dim; ++i) key[i] /= static_cast<float>(o_.block);
    rope_.angles(position + 1 - o_.block, angles, angles + rope_.dim() / 2);
    finish_key(w, key, angles);
  });
  for_keys([&](KvCache& cache, std::int64_t position, std::int64_t t, Worker& worker) {
    if (ends_block(position)) put(cache, layer.place, position, keys_.row(t), worker);
  });
}

inline const ChosenTokens* Indexer::choose(const Pass& pass, const AttentionWeights& w, const MixerLayer& layer, const Activations& x, int form, const Activations& q, int q_form,
                                           const PassCaches& caches) {
  if (std::ranges::none_of(pass.rows, [&](const PassRow& row) { return sees_part(row.position); })) return nullptr;
  linear(pass, q, {{w.index_q.empty() ? w.index_q_stream : w.index_q, nullptr, products_.output(), q_form}});
  // Not times 1 / sqrt(heads dim), as papers have it: the order stays.
  if (!w.index_weights.empty()) linear(pass, x, {{w.index_weights, nullptr, weights_.output(), form}});
  pass.for_units(Work::positions, o_.heads, [&](std::int64_t t, std::int64_t h, int) {
    const float* const angles = angles_.data() + t * rope_.dim();
    float* const query = queries_.row(t) + h * padded_;
    std::copy_n(products_.row(t) + h * o_.dim, o_.dim, query);
    std::fill(query + o_.dim, query + padded_, 0.0f);
    if (!w.index_q_norm.empty()) kernels_.rms_norm(query, w.index_q_norm.data(), static_cast<float>(o_.norm_eps), query, o_.dim);
    rope_.apply(kernels_, query, angles, angles + rope_.dim() / 2);
  });
  for (std::int64_t first = 0; first < pass.tokens(); first += at_once_) {
    const Range rows{first, std::min(first + at_once_, pass.tokens())};
    std::int64_t stretches = 0;
    do score(pass, layer.place, rows, caches, stretches++, !w.index_weights.empty());
    while (pass.more_keys != nullptr && (*pass.more_keys)(stretches));
    if (stretches > 1) (void)(*pass.more_keys)(0);
    pass.team.deal(rows.end - rows.begin, 1, [&](Range part, int worker) {
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        rank(first + i, pass.rows[static_cast<std::size_t>(first + i)].position, scores_.data() + i * chosen_.stride * page_tokens, workers_[static_cast<std::size_t>(worker)]);
      }
    }, Work::attention);
  }
  return &chosen_;
}

/// The scores of some rows, by all keys that they may see and that are in memory at this stretch. Units are (rows that share a page, page).
inline void Indexer::score(const Pass& pass, std::int64_t layer, Range rows, const PassCaches& caches, std::int64_t number, bool weighs) noexcept {
  const std::int64_t stride = chosen_.stride;
  pass.team.deal(div_up(rows.end - rows.begin, rows_a_page) * stride, 1, [&](Range part, int worker) {
    for (std::int64_t unit = part.begin; unit < part.end; ++unit) {
      const std::int64_t page = unit % stride, first = rows.begin + unit / stride * rows_a_page;
      const float* keys = nullptr;
      std::int64_t of_sequence = -1;
      for (std::int64_t t = first; t < std::min(first + rows_a_page, rows.end); ++t) {
        const PassRow& row = pass.rows[static_cast<std::size_t>(t)];
        const KvCache& cache = caches[row.sequence];
        const KvCache::Stretch& stretch = cache.stretch();
        if (row.position < page * page_tokens || !sees_part(row.position) || stretch.number != number || page < stretch.first || page >= stretch.end) continue;
        if (row.sequence != of_sequence) keys = cache.expand_index(kernels_, layer, page, page_tokens, workers_[static_cast<std::size_t>(worker)].page.data());
        of_sequence = row.sequence;
        kernels_.index_scores(keys, {queries_.row(t), weighs ? weights_.row(t) : nullptr, o_.heads, padded_}, scores_.data() + ((t - rows.begin) * stride + page) * page_tokens);
      }
    }
  }, Work::attention);
}

/// Marks what a row sees: of blocks with equal scores the first.
inline void Indexer::rank(std::int64_t row, std::int64_t position, const float* scores, Worker& worker) noexcept {
  std::uint64_t* const pages = pages_.data() + row * chosen_.stride;
  std::fill_n(pages, chosen_.stride, sees_part(position) ? 0 : ~std::uint64_t{0});
  if (!sees_part(position)) return;
  const std::int64_t whole = (position + 1) / o_.block, used = o_.used / o_.block;
  const auto ranked = std::span(worker.ranked).first(static_cast<std::size_t>(whole));
  for (std::int64_t i = 0; i < whole; ++i) {
    // Floats in the order of integers, and behind them places, backwards.
    const auto bits = std::bit_cast<std::uint32_t>(scores[(i + 1) * o_.block - 1]);
    const std::uint32_t key = bits >> 31 != 0 ? ~bits : bits | std::uint32_t{1} << 31;
    ranked[static_cast<std::size_t>(i)] = std::uint64_t{key} << 32 | static_cast<std::uint32_t>(~i);
  }
  std::ranges::nth_element(ranked, ranked.begin() + used, std::greater<>());
  const auto see = [&](std::int64_t token) { pages[token / page_tokens] |= std::uint64_t{1} << token % page_tokens; };
  for (const std::uint64_t key : ranked.first(static_cast<std::size_t>(used))) {
    const std::int64_t block = static_cast<std::uint32_t>(~static_cast<std::uint32_t>(key));
    for (std::int64_t token = block * o_.block; token < (block + 1) * o_.block; ++token) see(token);
  }
  for (std::int64_t token = whole * o_.block; token <= position; ++token) see(token);
}

}  // namespace bantam::inline v0::nn
