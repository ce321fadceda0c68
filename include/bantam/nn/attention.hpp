// Self-attention with grouped heads, causal or not, and an optional sliding window, shared out to a team.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "bantam/core/team.hpp"
#include "bantam/nn/blocks/attention_kinds.hpp"
#include "bantam/nn/chosen_tokens.hpp"
#include "bantam/nn/kv_cache.hpp"
#include "bantam/nn/relative_bias.hpp"

namespace bantam::inline v0::nn {

struct AttentionShape {
  std::int64_t heads = 0;     ///< query heads; a multiple of kv_heads
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  ///< of queries and keys, unpadded
  float scale = 0;            ///< of the scores; 0 means 1 / sqrt(head_dim)
  std::int64_t value_dim = 0;  ///< of values and outputs; 0: as head_dim. Of latent layers: the last so many numbers of a key
  float softcap = 0;           ///< scores become softcap tanh(score / softcap); 0: stay
  Sight sight = Sight::back;
  bool chunked = false;        ///< windows are chunks: a row sees from the last multiple of its window on (Llama 4)
  bool sparse = false;         ///< run() may be told which tokens are seen
  /// Sums of spans that wait to be merged, at most, or as many as the team has work for. All spans of a long text would take gigabytes: 256 rows of 512 numbers
  /// each in latent attention.
  std::int64_t most_sums = std::int64_t{1} << 22;
};

/// The tokens of one sequence in a pass: all that there are, where they see all.
struct AttentionSequence {
  const KvCache* cache = nullptr;  ///< holds their keys and values by the time run() is called
  std::int64_t row = 0;            ///< of the first of them, among the rows of the pass
  std::int64_t tokens = 0;
  std::int64_t position = 0;       ///< of the first of them
  std::int64_t source_tokens = 0;  ///< in the cache, of another text than the tokens', which they see all of; 0: they see their own
};

/// softmax(q kT scale + mask) v for the rows of a pass. Online softmax: no tokens x tokens matrix exists.
///
/// What a row sees is cut into spans of 512 tokens, each softened by itself and then merged with those before: the same
/// sums whoever computes them, so results depend neither on the number of workers nor on what else is in the pass.
/// Usually one worker takes all spans of some tokens and a head; where there are too few of those for the team (one long
/// sequence, few key-value heads), spans go to different workers, as many at a time as sums of a bounded size hold, and are merged after a barrier. Where not
/// all of a layer's pages are in memory at a time, those spans come first that are, and what came of them waits for the others.
class Attention {
 public:
  static constexpr std::int64_t span_tokens = KvCache::stretch_pages * page_tokens;

  Attention(const AttentionShape& shape, int workers);

  /// Bytes of what it holds, whatever the tokens of a pass, for texts of so many tokens at most.
  [[nodiscard]] static std::int64_t bytes(const AttentionShape& shape, std::int64_t context, int workers) noexcept;

  /// Shares out the sequences of the next pass, for any layer. Call outside parallel regions. Throws out_of_memory.
  void plan(std::span<const AttentionSequence> sequences);

  /// One layer. q: rows of (heads, head_dim), out: of (heads, value_dim). `window` as Sight says, 0: none. `kv_heads`: of this layer,
  /// if it has fewer than the shape says, and fewer heads in proportion; 0: as many. `sinks`: a score of each query head that takes part in
  /// the softmax and has no value (arXiv:2309.17453, as gpt-oss learns it); null: none. `slopes`, where tokens see those before them: of each
  /// query head, what its scores get for each token that a key is behind the query, times -1 (ALiBi: nn/alibi.hpp); null: nothing. `biases`, where
  /// each head has keys of its own: what scores get by distance; null: nothing. `chosen`, where tokens see those before them: which; null: all. `more`, where caches hold what comes in stretches: brings the next ones;
  /// null: none does. The team is no larger than the number of workers. Throws what `more` throws, and out_of_memory where that is not null.
  void run(const KernelTable& kernels, Team& team, std::int64_t layer, std::int64_t window, const FloatRows& q, const OutputRows& out, std::int64_t kv_heads = 0,
           const float* sinks = nullptr, const float* slopes = nullptr, const RelativeBias* biases = nullptr, const MoreKeys* more = nullptr, const ChosenTokens* chosen = nullptr);

 private:
  /// Tokens whose queries share one pass over the pages, at most, and rows.
  static constexpr std::int64_t most_tokens = 16, most_rows = 256;
  /// Query heads of a token below which sharing them out costs more passes over the pages than it gains.
  static constexpr std::int64_t fewest_heads = 8;
  /// From this many rows on a page is made floats once, before they share it.
  static constexpr std::int64_t expanding_rows = 12;
  /// Tokens of a span up to which those that a row sees are brought together, where so many query heads read them.
  static constexpr int most_gathered = span_tokens / 4, gathering_heads = 32;
  /// Units a worker below which spans are dealt out too, for an even end; and pieces of spans a worker, at least.
  static constexpr std::int64_t fair_units = 4;
  [[nodiscard]] static std::int64_t tokens_of_unit(std::int64_t group) noexcept { return std::clamp<std::int64_t>(most_rows / group, 1, most_tokens); }

  /// Some tokens of a sequence, and query heads that read one key-value head: `tokens` times `heads` rows.
  struct Unit {
    AttentionSequence sequence;
    std::int64_t head = 0;        ///< the key-value head
    std::int64_t first_query = 0;  ///< of the query heads that read it
    std::int64_t heads = 0;
    std::int64_t length = 0;      ///< tokens of its sequence, up to the last of the pass, or of the source
    std::int64_t first_state = 0;  ///< where states of its rows are kept from one stretch to the next
    [[nodiscard]] std::int64_t end() const noexcept { return sequence.position + sequence.tokens; }
  };
  /// Tokens from begin to end.
  struct Seen {
    std::int64_t begin = 0, end = 0;
  };
  /// Sums of the rows of a unit, over one span or several.
  struct Slot {
    float* sums = nullptr;  ///< (rows, padded value_dim)
    AttentionState* states = nullptr;
  };
  class Slots {
   public:
    void resize(std::int64_t count, std::int64_t rows, std::int64_t padded) {
      rows_ = rows;
      padded_ = padded;
      sums_.ensure(static_cast<std::size_t>(count * rows * padded));
      states_.resize(static_cast<std::size_t>(count * rows));
    }
    [[nodiscard]] Slot operator[](std::int64_t i) noexcept { return {sums_.data() + i * rows_ * padded_, states_.data() + i * rows_}; }

   private:
    std::int64_t rows_ = 0;
    std::int64_t padded_ = 0;
    AlignedBuffer<float> sums_;
    std::vector<AttentionState> states_;
  };
  struct Scratch {
    AlignedBuffer<float> keys, values, queries;
    Slots slots;  ///< all spans so far, and the next
    GatheredPages gathered;
    std::vector<std::uint64_t> few, many;  ///< what tokens of a unit see of the pages of a span: of those that see few, and the others
  };
  /// One layer of a pass.
  struct Layer {
    const KernelTable& kernels;
    std::int64_t index;
    std::int64_t window;
    std::int64_t kv_heads;
    const FloatRows& q;
    const OutputRows& out;
    const float* sinks;
    const float* slopes;
    const RelativeBias* biases;
    const ChosenTokens* chosen;
  };
  [[nodiscard]] std::int64_t query_head(const Unit& unit, std::int64_t row) const noexcept {
    return unit.head * group_ + unit.first_query + row % unit.heads;
  }
  /// Where a row of a unit stands in q or out, whose rows are `stride` and heads `dim` apart.
  [[nodiscard]] std::int64_t offset(std::int64_t stride, std::int64_t dim, const Unit& unit, std::int64_t row) const noexcept {
    return (unit.sequence.row + row / unit.heads) * stride + query_head(unit, row) * dim;
  }

  [[nodiscard]] static std::int64_t rows_of(const Unit& unit) noexcept { return unit.sequence.tokens * unit.heads; }
  /// What the rows of some tokens see of a sequence, together.
  [[nodiscard]] Seen seen_by(std::int64_t first, std::int64_t last, std::int64_t length, std::int64_t window) const noexcept {
    const bool back = shape_.sight == Sight::back;
    const std::int64_t behind = back ? window - 1 : window / 2;
    const std::int64_t oldest = shape_.chunked && window > 0 ? first - first % window : window > 0 ? std::max<std::int64_t>(0, first - behind) : 0;
    return {oldest, back ? last + 1 : window > 0 ? std::min(length, last + behind + 1) : length};
  }
  [[nodiscard]] Seen seen_by(const Unit& unit, std::int64_t window) const noexcept { return seen_by(unit.sequence.position, unit.end() - 1, unit.length, window); }
  /// The first span that rows of a unit see, and the last.
  [[nodiscard]] std::int64_t first_span(const Unit& unit, std::int64_t window) const noexcept { return seen_by(unit, window).begin / span_tokens; }
  [[nodiscard]] std::int64_t last_span(const Unit& unit, std::int64_t window) const noexcept { return (seen_by(unit, window).end - 1) / span_tokens; }
  /// The spans of a unit that are in memory at stretch `number`: from the first to before the last.
  [[nodiscard]] Range spans_in(const Unit& unit, std::int64_t window, std::int64_t number) const noexcept;
  void run_units(const Layer& layer, Team& team, std::int64_t stretch) noexcept;
  void run_spans(const Layer& layer, Team& team, std::int64_t stretch) noexcept;
  void keep(const Layer& layer, const Unit& unit, Slot slot) noexcept;
  void take_up(const Layer& layer, const Unit& unit, Slot slot) const noexcept;
  void load_queries(const Layer& layer, const Unit& unit, Scratch& scratch) const noexcept;
  void attend(const Layer& layer, const Unit& unit, std::int64_t span, Scratch& scratch, Slot slot) const noexcept;
  void attend(const Layer& layer, const Unit& unit, std::int64_t page, std::int64_t end, const AttentionRows& rows, Scratch& scratch) const noexcept;
  void attend_chosen(const Layer& layer, const Unit& unit, Range pages, std::int64_t end, AttentionRows rows, Scratch& scratch) const noexcept;
  void attend_gathered(const Layer& layer, const Unit& unit, std::int64_t token, const AttentionRows& rows, Scratch& scratch) const noexcept;
  [[nodiscard]] const float* values_of_keys(const float* keys, int tokens, float* values) const noexcept;
  void merge(const Layer& layer, const Unit& unit, Slot slot, Slot next) const noexcept;
  void finish(const Layer& layer, const Unit& unit, Slot slot) const noexcept;

  AttentionShape shape_;
  std::int64_t group_;   ///< query heads a key-value head
  std::int64_t block_;   ///< tokens of a unit
  std::int64_t padded_;  ///< head_dim
  std::int64_t value_padded_;
  std::vector<Unit> units_;
  std::int64_t spans_at_once_ = 0;  ///< of each unit, that are dealt out; 0: units go to workers whole
  Slots span_slots_;                ///< of each unit: all spans so far, and these
  std::vector<AttentionState> states_;  ///< of units' rows, where spans come in stretches
  std::vector<Scratch> scratch_;  ///< one a worker
};

/// Keys, values, queries and sums of each worker, and sums of spans that wait for each other.
inline std::int64_t Attention::bytes(const AttentionShape& shape, std::int64_t context, int workers) noexcept {
  const std::int64_t group = shape.heads / shape.kv_heads, tokens = tokens_of_unit(group), rows = tokens * group;
  const std::int64_t key = round_up<std::int64_t>(shape.head_dim, 16), value = round_up<std::int64_t>(shape.value_dim > 0 ? shape.value_dim : shape.head_dim, 16);
  const std::int64_t page = page_tokens * (key + value), units = fair_units * workers;
  std::int64_t floats = workers * (page + rows * (key + 2 * value) + (shape.sparse ? tokens * page : 0));
  if (workers > 1 && context > span_tokens) {
    const std::int64_t of_units = units * rows * value;
    floats += std::min(div_up(context, span_tokens) * of_units, std::max(shape.most_sums, 2 * of_units)) + of_units;
  }
  return floats * static_cast<std::int64_t>(sizeof(float));
}

inline Attention::Attention(const AttentionShape& shape, int workers)
    : shape_(shape), group_(shape.heads / shape.kv_heads), block_(tokens_of_unit(group_)),
      padded_(round_up<std::int64_t>(shape.head_dim, 16)), scratch_(static_cast<std::size_t>(workers)) {
  if (shape_.scale == 0) shape_.scale = 1.0f / __builtin_sqrtf(static_cast<float>(shape.head_dim));
  if (shape_.value_dim == 0) shape_.value_dim = shape.head_dim;
  value_padded_ = round_up<std::int64_t>(shape_.value_dim, 16);
  for (Scratch& scratch : scratch_) {
    scratch.keys.ensure(static_cast<std::size_t>(page_tokens * padded_));
    scratch.values.ensure(static_cast<std::size_t>(page_tokens * value_padded_));
    scratch.queries.ensure(static_cast<std::size_t>(block_ * group_ * padded_));
    scratch.slots.resize(2, block_ * group_, value_padded_);
    if (!shape.sparse) continue;
    scratch.gathered.resize(block_, padded_, value_padded_);
    for (auto* words : {&scratch.few, &scratch.many}) words->resize(static_cast<std::size_t>(block_ * KvCache::stretch_pages));
  }
}

inline void Attention::plan(std::span<const AttentionSequence> sequences) {
  units_.clear();
  spans_at_once_ = 0;
  const auto workers = static_cast<std::int64_t>(scratch_.size());
  std::int64_t parts = 0;
  for (const AttentionSequence& s : sequences) parts += div_up(s.tokens, block_) * shape_.kv_heads;
  // Many query heads that read one, as in latent attention, are shared out where there is little else.
  std::int64_t heads = group_;
  while (parts * div_up(group_, heads) < workers && heads >= 2 * fewest_heads) heads = div_up<std::int64_t>(heads, 2);
  for (const AttentionSequence& s : sequences) {
    for (std::int64_t first = 0; first < s.tokens; first += block_) {
      const AttentionSequence part{s.cache, s.row + first, std::min(block_, s.tokens - first), s.position + first};
      for (std::int64_t head = 0; head < shape_.kv_heads; ++head) {
        for (std::int64_t query = 0; query < group_; query += heads) units_.push_back({part, head, query, std::min(heads, group_ - query), s.source_tokens > 0 ? s.source_tokens : s.position + s.tokens});
      }
    }
  }
  // The longest first: nobody starts one of them when the others are done.
  const auto seen = [&](const Unit& unit) { return seen_by(unit, 0).end; };
  std::stable_sort(units_.begin(), units_.end(), [&](const Unit& a, const Unit& b) { return seen(a) > seen(b); });
  const std::int64_t count = std::ssize(units_);
  if (workers == 1 || count == 0 || count >= fair_units * workers) return;
  // As a text grows there are more of them: no room for rows that there are not.
  std::int64_t spans = 0, rows = 0;
  for (const Unit& unit : units_) {
    spans = std::max(spans, last_span(unit, 0) + 1);
    rows = std::max(rows, rows_of(unit));
  }
  if (spans == 1) return;
  spans_at_once_ = std::min(spans, std::max(shape_.most_sums / (count * rows * value_padded_), div_up(fair_units * workers, count)));
  span_slots_.resize(count * (1 + spans_at_once_), rows, value_padded_);
}

inline void Attention::run(const KernelTable& kernels, Team& team, std::int64_t layer_index, std::int64_t window, const FloatRows& q, const OutputRows& out,
                           std::int64_t kv_heads, const float* sinks, const float* slopes, const RelativeBias* biases, const MoreKeys* more, const ChosenTokens* chosen) {
  const Layer layer{kernels, layer_index, window, kv_heads > 0 ? kv_heads : shape_.kv_heads, q, out, sinks, slopes, biases, chosen};
  BANTAM_ASSERT(biases == nullptr || group_ == 1);
  BANTAM_ASSERT(team.size() <= static_cast<int>(scratch_.size()));
  if (more != nullptr && spans_at_once_ == 0) {
    std::int64_t rows = 0;
    for (Unit& unit : units_) unit.first_state = std::exchange(rows, rows + rows_of(unit));
    states_.resize(static_cast<std::size_t>(rows));
  }
  for (std::int64_t stretch = 0; stretch == 0 || (more != nullptr && (*more)(stretch)); ++stretch) {
    if (spans_at_once_ == 0) run_units(layer, team, stretch);
    else run_spans(layer, team, stretch);
  }
}

inline Range Attention::spans_in(const Unit& unit, std::int64_t window, std::int64_t number) const noexcept {
  const KvCache::Stretch& stretch = unit.sequence.cache->stretch();
  if (stretch.number != number) return {};
  // All but the first stretch begin with a span.
  const std::int64_t first = number == 0 ? first_span(unit, window) : std::max(first_span(unit, window), stretch.first / KvCache::stretch_pages);
  const std::int64_t last = last_span(unit, window) + 1;
  return {first, stretch.end == KvCache::Stretch::no_end ? last : std::min(last, stretch.end / KvCache::stretch_pages)};
}

inline void Attention::run_units(const Layer& layer, Team& team, std::int64_t stretch) noexcept {
  team.deal(static_cast<std::int64_t>(units_.size()), 1, [&](Range range, int worker) {
    Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const Unit& unit = units_[static_cast<std::size_t>(i)];
      const Range spans = spans_in(unit, layer.window, stretch);
      if (unit.head >= layer.kv_heads || spans.begin >= spans.end) continue;
      const Slot all = scratch.slots[0];
      load_queries(layer, unit, scratch);
      const bool is_first = spans.begin == first_span(unit, layer.window);
      if (is_first) attend(layer, unit, spans.begin, scratch, all);
      else take_up(layer, unit, all);
      for (std::int64_t span = spans.begin + is_first; span < spans.end; ++span) {
        attend(layer, unit, span, scratch, scratch.slots[1]);
        merge(layer, unit, all, scratch.slots[1]);
      }
      if (spans.end > last_span(unit, layer.window)) finish(layer, unit, all);
      else keep(layer, unit, all);
    }
  }, Work::attention);
}

inline void Attention::run_spans(const Layer& layer, Team& team, std::int64_t stretch) noexcept {
  const std::int64_t count = std::ssize(units_), slots = 1 + spans_at_once_;
  std::int64_t longest = 0;
  for (const Unit& unit : units_) {
    const Range spans = spans_in(unit, layer.window, stretch);
    longest = std::max(longest, spans.end - spans.begin);
  }
  for (std::int64_t done = 0; done < longest; done += spans_at_once_) {
    team.deal(count * spans_at_once_, 1, [&](Range range, int worker) {
      Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t number = i / spans_at_once_, k = i % spans_at_once_;
        const Unit& unit = units_[static_cast<std::size_t>(number)];
        const Range spans = spans_in(unit, layer.window, stretch);
        const std::int64_t span = spans.begin + done + k;
        if (unit.head >= layer.kv_heads || span >= spans.end) continue;
        load_queries(layer, unit, scratch);
        attend(layer, unit, span, scratch, span_slots_[number * slots + (span == first_span(unit, layer.window) ? 0 : 1 + k)]);
      }
    }, Work::attention);
    team.deal(count, 1, [&](Range range, int) {
      for (std::int64_t number = range.begin; number < range.end; ++number) {
        const Unit& unit = units_[static_cast<std::size_t>(number)];
        const Range spans = spans_in(unit, layer.window, stretch);
        const std::int64_t begin = spans.begin + done, end = std::min(begin + spans_at_once_, spans.end);
        if (unit.head >= layer.kv_heads || begin >= end) continue;
        const Slot all = span_slots_[number * slots];
        for (std::int64_t span = begin; span < end; ++span) {
          if (span != first_span(unit, layer.window)) merge(layer, unit, all, span_slots_[number * slots + 1 + span - begin]);
        }
        if (end > last_span(unit, layer.window)) finish(layer, unit, all);
      }
    }, Work::attention);
  }
}

/// Leaves the sums of a unit's rows until the next stretch comes, where the result will be.
inline void Attention::keep(const Layer& layer, const Unit& unit, Slot slot) noexcept {
  const std::int64_t d = shape_.value_dim, count = rows_of(unit);
  std::copy_n(slot.states, count, states_.begin() + unit.first_state);
  for (std::int64_t row = 0; row < count; ++row) std::copy_n(slot.sums + row * value_padded_, d, layer.out.values + offset(layer.out.stride, d, unit, row));
}

/// And takes them from there.
inline void Attention::take_up(const Layer& layer, const Unit& unit, Slot slot) const noexcept {
  const std::int64_t d = shape_.value_dim, count = rows_of(unit);
  std::copy_n(states_.begin() + unit.first_state, count, slot.states);
  for (std::int64_t row = 0; row < count; ++row) {
    float* const sums = slot.sums + row * value_padded_;
    std::copy_n(layer.out.values + offset(layer.out.stride, d, unit, row), d, sums);
    std::fill(sums + d, sums + value_padded_, 0.0f);
  }
}

/// Brings the queries of a unit together, (rows, padded head_dim).
inline void Attention::load_queries(const Layer& layer, const Unit& unit, Scratch& scratch) const noexcept {
  const std::int64_t d = shape_.head_dim;
  for (std::int64_t row = 0; row < rows_of(unit); ++row) {
    float* to = scratch.queries.data() + row * padded_;
    std::copy_n(layer.q.values + offset(layer.q.stride, d, unit, row), d, to);
    std::fill(to + d, to + padded_, 0.0f);
    layer.kernels.rotate_blocks(to, padded_, unit.sequence.cache->rotation_block(layer.index, false));
  }
}

/// slot = the sums of a unit's rows over one span.
inline void Attention::attend(const Layer& layer, const Unit& unit, std::int64_t span, Scratch& scratch, Slot slot) const noexcept {
  const std::int64_t count = rows_of(unit), first = unit.sequence.position;
  std::fill_n(slot.sums, count * value_padded_, 0.0f);
  std::fill_n(slot.states, count, AttentionState{});
  AttentionRows rows{scratch.queries.data(), slot.sums, slot.states, static_cast<int>(count), static_cast<int>(unit.heads), first, layer.window,
                     layer.slopes == nullptr ? nullptr : layer.slopes + query_head(unit, 0), shape_.chunked};
  if (layer.biases != nullptr) rows.biases = layer.biases->of_head(unit.head), rows.bias_reach = layer.biases->reach(), rows.bias_position = first;
  const Seen all = seen_by(unit, layer.window);
  const bool round = shape_.sight == Sight::round;
  if (round) {
    // Rows of one position, the last of all: what they see ends there.
    rows.position = unit.length - 1;
    rows.group = rows.count;
    rows.window = 0;
  }
  const std::int64_t begin = std::max(all.begin, span * span_tokens), end = std::min(all.end, (span + 1) * span_tokens);
  if (layer.chosen != nullptr) return attend_chosen(layer, unit, {begin / page_tokens, div_up<std::int64_t>(end, page_tokens)}, end, rows, scratch);
  for (std::int64_t page = begin / page_tokens; page * page_tokens < end; ++page) {
    if (!round || layer.window == 0) {
      attend(layer, unit, page, end, rows, scratch);
      continue;
    }
    // Each token by itself, for each sees another number of tokens near the end.
    for (std::int64_t t = 0; t < unit.sequence.tokens; ++t) {
      const Seen own = seen_by(first + t, first + t, unit.length, layer.window);
      if (own.end <= page * page_tokens || own.begin >= (page + 1) * page_tokens) continue;
      const std::int64_t row = t * unit.heads;
      attend(layer, unit, page, end, {rows.q + row * padded_, rows.out + row * value_padded_, rows.states + row, static_cast<int>(unit.heads), static_cast<int>(unit.heads), own.end - 1, own.end - own.begin}, scratch);
    }
  }
}

/// The same where an indexer chose what rows see, over the pages of a span. Scores of tokens that were not chosen are dropped, or, where a row sees few and
/// many heads read them, those are brought together. Which it is, a row's own choice says: results do not depend on what else is in the unit.
inline void Attention::attend_chosen(const Layer& layer, const Unit& unit, Range pages, std::int64_t end, AttentionRows rows, Scratch& scratch) const noexcept {
  constexpr std::int64_t width = KvCache::stretch_pages;
  for (std::int64_t t = 0; t < unit.sequence.tokens; ++t) {
    const auto seen = std::span(layer.chosen->pages + (unit.sequence.row + t) * layer.chosen->stride + pages.begin, static_cast<std::size_t>(pages.end - pages.begin));
    int count = 0;
    for (const std::uint64_t word : seen) count += std::popcount(word);
    const auto put = [&](std::vector<std::uint64_t>& words, bool those) {
      for (std::size_t i = 0; i < seen.size(); ++i) words[static_cast<std::size_t>(t * width) + i] = those ? seen[i] : 0;
    };
    const bool few = group_ >= gathering_heads && count <= most_gathered;
    put(scratch.few, few);
    put(scratch.many, !few);
  }
  const KvCache& cache = *unit.sequence.cache;
  const bool latent = cache.is_latent(layer.index);
  for (std::int64_t page = pages.begin; page < pages.end; ++page) {
    const auto any = [&](const std::vector<std::uint64_t>& words) {
      std::uint64_t all = 0;
      for (std::int64_t t = 0; t < unit.sequence.tokens; ++t) all |= words[static_cast<std::size_t>(t * width + page - pages.begin)];
      return all != 0;
    };
    if (any(scratch.many)) {
      rows.chosen = scratch.many.data() + (page - pages.begin);
      rows.chosen_stride = width;
      attend(layer, unit, page, end, rows, scratch);
    }
    if (!any(scratch.few)) continue;
    const int held = static_cast<int>(std::min<std::int64_t>(page_tokens, end - page * page_tokens));
    const float* const keys = cache.expand(layer.kernels, layer.index, false, unit.head, page, held, scratch.keys.data());
    const float* const values = latent ? nullptr : cache.expand(layer.kernels, layer.index, true, unit.head, page, held, scratch.values.data());
    for (std::int64_t t = 0; t < unit.sequence.tokens; ++t) {
      scratch.gathered.add(t, scratch.few[static_cast<std::size_t>(t * width + page - pages.begin)], keys, values, shape_.head_dim - shape_.value_dim,
                           [&](std::int64_t token) { attend_gathered(layer, unit, token, rows, scratch); });
    }
  }
  for (std::int64_t t = 0; t < unit.sequence.tokens; ++t) {
    if (scratch.gathered.count(t) > 0) attend_gathered(layer, unit, t, rows, scratch);
  }
}

/// The rows of one token of a unit over what was brought together for it.
inline void Attention::attend_gathered(const Layer& layer, const Unit& unit, std::int64_t token, const AttentionRows& rows, Scratch& scratch) const noexcept {
  const std::int64_t first = token * unit.heads;
  AttentionRows those = rows;
  those.q += first * padded_;
  those.out += first * value_padded_;
  those.states += first;
  those.count = those.group = static_cast<int>(unit.heads);
  those.position = scratch.gathered.count(token) - 1;
  those.window = 0;
  those.chosen = nullptr;
  const auto as_bytes = [](const float* floats) { return reinterpret_cast<const std::byte*>(floats); };
  layer.kernels.kv[0].attend({as_bytes(scratch.gathered.keys(token)), as_bytes(scratch.gathered.values(token)), 0, padded_, shape_.scale, nullptr, nullptr, value_padded_, shape_.softcap}, those);
  scratch.gathered.clear(token);
}

/// The same over one page, as far as `end`.
inline void Attention::attend(const Layer& layer, const Unit& unit, std::int64_t page, std::int64_t end, const AttentionRows& rows, Scratch& scratch) const noexcept {
  const KvCache& cache = *unit.sequence.cache;
  const bool latent = cache.is_latent(layer.index);
  if (rows.count < expanding_rows && !latent) {
    cache.attend(layer.kernels, layer.index, unit.head, page, shape_.scale, shape_.softcap, rows);
    return;
  }
  const std::int64_t start = page * page_tokens;
  const int held = static_cast<int>(std::min<std::int64_t>(page_tokens, end - start));
  const auto as_bytes = [](const float* floats) { return reinterpret_cast<const std::byte*>(floats); };
  const float* keys = cache.expand(layer.kernels, layer.index, false, unit.head, page, held, scratch.keys.data());
  const float* values = latent ? values_of_keys(keys, held, scratch.values.data())
                               : cache.expand(layer.kernels, layer.index, true, unit.head, page, held, scratch.values.data());
  layer.kernels.kv[0].attend({as_bytes(keys), as_bytes(values), start, padded_, shape_.scale, nullptr, nullptr, value_padded_, shape_.softcap}, rows);
}

/// The last numbers of the keys of a page, token by token.
inline const float* Attention::values_of_keys(const float* keys, int tokens, float* values) const noexcept {
  const float* first = keys + (shape_.head_dim - shape_.value_dim) * page_tokens;
  // Sixteen by sixteen: what is read and what is written stay in the first-level cache.
  for (int t = 0; t < tokens; t += 16) {
    const int end = std::min(tokens, t + 16);
    for (std::int64_t c = 0; c < shape_.value_dim; c += 16) {
      const std::int64_t last = std::min(shape_.value_dim, c + 16);
      for (int token = t; token < end; ++token) {
        for (std::int64_t i = c; i < last; ++i) values[token * value_padded_ + i] = first[i * page_tokens + token];
      }
    }
  }
  return values;
}

inline void Attention::merge(const Layer& layer, const Unit& unit, Slot slot, Slot next) const noexcept {
  for (std::int64_t row = 0; row < rows_of(unit); ++row) {
    layer.kernels.attend_merge(slot.states[row], slot.sums + row * value_padded_, next.states[row], next.sums + row * value_padded_, value_padded_);
  }
}

/// Divides the sums of a unit's rows and brings them to where they belong.
inline void Attention::finish(const Layer& layer, const Unit& unit, Slot slot) const noexcept {
  const std::int64_t d = shape_.value_dim;
  for (std::int64_t row = 0; row < rows_of(unit); ++row) {
    float* sums = slot.sums + row * value_padded_;
    AttentionState& state = slot.states[row];
    if (layer.sinks != nullptr) state.sums[0] += std::exp(layer.sinks[query_head(unit, row)] - state.maximum);
    layer.kernels.attend_finish(state, sums, value_padded_);
    layer.kernels.rotate_blocks(sums, value_padded_, unit.sequence.cache->rotation_block(layer.index, true));
    std::copy_n(sums, d, layer.out.values + offset(layer.out.stride, d, unit, row));
  }
}

}  // namespace bantam::inline v0::nn
