// One pass of tokens through the layers, in phases that are dealt out to the team one after another.
#include "bantam/model/forward.hpp"

#include <chrono>
#include <numeric>
#include <utility>

namespace bantam::inline v0 {

namespace {

/// Logits computed at once: a panel of the head is read once for this many tokens.
constexpr std::int64_t outputs_at_once = 16;

/// Takes caches back to where they were, unless everything went well.
class Rollback {
 public:
  explicit Rollback(std::span<const Forward::Sequence> sequences) : sequences_(sequences) {
    for (const Forward::Sequence& s : sequences) tokens_.push_back(s.cache->tokens());
  }
  ~Rollback() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) sequences_[i].cache->truncate(tokens_[i]);
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void release() noexcept { tokens_.clear(); }

 private:
  std::span<const Forward::Sequence> sequences_;
  std::vector<std::int64_t> tokens_;
};

/// Calls f(range, worker) for parts of the tokens: long enough for what they cost, which is little.
void for_tokens(Team& team, std::int64_t tokens, FunctionRef<void(Range, int worker)> f) noexcept { team.deal(tokens, team.grain_of(tokens, 4), f); }

/// Calls f(token, begin, end) for parts of (tokens, columns), cut at blocks of columns: a single token is shared out too.
template <class F>
void for_parts(Team& team, std::int64_t tokens, std::int64_t columns, F&& f) noexcept {
  const std::int64_t blocks = div_up<std::int64_t>(columns, block_columns);
  team.deal(tokens * blocks, team.grain_of(tokens * blocks, 2), [&](Range part, int) {
    for (std::int64_t at = part.begin; at < part.end;) {
      const std::int64_t first = at % blocks;
      const std::int64_t last = std::min(blocks, first + part.end - at);
      f(at / blocks, first * block_columns, std::min(last * block_columns, columns));
      at += last - first;
    }
  });
}

const float* values_of(const std::vector<float>& bias) noexcept { return bias.empty() ? nullptr : bias.data(); }

}  // namespace

Forward::Forward(const ModelConfig& config, const ModelWeights& weights, std::int64_t context_tokens, int threads)
    : config_(config), weights_(weights), kernels_(kernels_in_use()), team_(threads), rope_(config.rope, context_tokens),
      attention_({config.heads, config.kv_heads, config.head_dim}, team_.size()) {
  if (config.has_experts()) experts_.emplace(kernels_, config.router, config.gate, team_.size());
  for (const LayerWeights& layer : weights.layers) serve(layer);
  if (!weights.head.empty()) headed_.serve(kernels_, weights.head);
  const std::int64_t padded = round_up<std::int64_t>(config.head_dim, 16);
  heads_.resize(static_cast<std::size_t>(team_.size()));
  codes_.resize(static_cast<std::size_t>(team_.size()));
  for (auto& head : heads_) head.ensure(static_cast<std::size_t>(padded));
}

void Forward::serve(const LayerWeights& layer) {
  for (const InputGroup& group : input_groups()) {
    for (const Role role : group.roles) {
      if (const WeightMatrix& matrix = *matrix_of(layer, role); !matrix.empty()) inputs_of(group.inputs).serve(kernels_, matrix);
    }
  }
  if (!layer.experts.experts.empty()) experts_->serve(layer.experts);
}

/// Room for the rows of a pass, whose segments are known.
void Forward::resize(std::int64_t tokens) {
  const ModelConfig& c = config_;
  tokens_ = tokens;
  residual_.ensure(static_cast<std::size_t>(tokens * c.dim));
  branch_.resize(tokens, c.dim);
  q_.resize(tokens, c.heads * c.head_dim);
  for (nn::RowBuffer* x : {&k_, &v_}) x->resize(tokens, c.kv_heads * c.head_dim);
  // An expert may be run as the MLP of a block.
  const std::int64_t expert_ffn = std::ranges::max(c.specs, {}, &LayerSpec::expert_ffn).expert_ffn, ffn = std::max(c.ffn, expert_ffn);
  up_.resize(tokens, ffn);
  angles_.ensure(static_cast<std::size_t>(tokens * c.rope.dim));
  logits_.ensure(static_cast<std::size_t>(outputs_at_once * c.vocab));
  normed_.resize(tokens, c.dim);
  headed_.resize(std::min(tokens, outputs_at_once), c.dim);
  attended_.resize(tokens, c.heads * c.head_dim);
  hidden_.resize(tokens, ffn);
  if (experts_) experts_->resize(tokens, c.dim, expert_ffn);
  std::vector<nn::AttentionSequence> sequences;
  for (const Segment& s : segments_) sequences.push_back({s.cache, s.row, s.count, s.position});
  attention_.plan(sequences);
}

/// Makes room for a segment in its cache and adds its rows to the pass.
void Forward::take(const Sequence& sequence, Segment segment) {
  segment.position = sequence.cache->tokens();
  segment.row = static_cast<std::int64_t>(rows_.size());
  segment.cache = sequence.cache;
  sequence.cache->extend(segment.count);
  for (std::int64_t i = 0; i < segment.count; ++i) {
    rows_.push_back({sequence.tokens[static_cast<std::size_t>(segment.first + i)], segment.position + i, segment.cache});
  }
  segments_.push_back(segment);
}

void Forward::run(std::span<const Sequence> sequences, Sink sink, KeepGoing keep_going, Output output) {
  const auto dim = static_cast<std::size_t>(config_.dim), vocab = static_cast<std::size_t>(config_.vocab);
  Rollback rollback(sequences);
  std::int64_t read = 0;
  std::size_t next = 0;
  std::int64_t first = 0;  // of what is left of sequence `next`
  while (next < sequences.size()) {
    segments_.clear();
    rows_.clear();
    for (std::int64_t room = largest_chunk; room > 0 && next < sequences.size();) {
      const auto length = static_cast<std::int64_t>(sequences[next].tokens.size());
      const std::int64_t count = std::min(room, length - first);
      if (count > 0) take(sequences[next], {.sequence = static_cast<std::int64_t>(next), .first = first, .count = count});
      room -= count;
      first += count;
      if (first < length) break;
      first = 0;
      ++next;
    }
    resize(static_cast<std::int64_t>(rows_.size()));
    stopped_ = false;
    const auto begun = std::chrono::steady_clock::now();
    layers([&](std::int64_t now) { return keep_going(read + now); });
    if (tokens_ == 1) fetch_.passed(std::chrono::steady_clock::now() - begun);
    if (stopped_) fail(Errc::cancelled, "cancelled after reading ", read, " tokens");
    read += tokens_;

    std::vector<std::int64_t> rows;
    std::vector<std::pair<std::int64_t, std::int64_t>> places;  // (sequence, index) of each row
    const auto flush = [&] {
      if (output == Output::logits) head(rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::span<float> values = output == Output::logits ? std::span(logits_.data() + i * vocab, vocab) : std::span(branch_.row(0), dim);
        if (output == Output::state) final_norm(rows[i], values.data());
        sink(places[i].first, places[i].second, values);
      }
      rows.clear();
      places.clear();
    };
    for (const Segment& s : segments_) {
      const std::int64_t from = std::max<std::int64_t>(0, sequences[static_cast<std::size_t>(s.sequence)].first_output - s.first);
      for (std::int64_t i = from; i < s.count; ++i) {
        rows.push_back(s.row + i);
        places.emplace_back(s.sequence, s.first + i);
        if (std::ssize(rows) == outputs_at_once) flush();
      }
    }
    if (!rows.empty()) flush();
  }
  rollback.release();
}

/// logits_ = head(final norm(residual)) of some rows.
void Forward::head(std::span<const std::int64_t> rows) noexcept {
  const auto count = static_cast<std::int64_t>(rows.size());
  headed_.resize(count, config_.dim);  // had room for as many
  Team& team = team_for(weights_.head.bytes() * count);
  for_tokens(team, count, [&](Range part, int) {
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      final_norm(rows[static_cast<std::size_t>(i)], headed_.row(i));
      headed_.quantize_row(kernels_, i);
      headed_.gather_row(kernels_, {&weights_.head}, i);
    }
  });
  nn::linear(kernels_, team, headed_, {{weights_.head, nullptr, {logits_.data(), config_.vocab}}}, fetch_.level());
}

void Forward::final_norm(std::int64_t row, float* out) const noexcept {
  kernels_.rms_norm(residual_.data() + row * config_.dim, weights_.final_norm.data(), static_cast<float>(config_.norm_eps), out, config_.dim);
}

/// The rotations of some rows' positions.
void Forward::find_angles(Range rows) noexcept {
  const std::int64_t half = config_.rope.dim / 2;
  for (std::int64_t t = rows.begin; t < rows.end; ++t) {
    float* angles = angles_.data() + t * 2 * half;
    rope_.angles(rows_[static_cast<std::size_t>(t)].position, angles, angles + half);
  }
}

/// What the last layer adds to some rows.
void Forward::add_branch(Range rows) noexcept {
  for (std::int64_t t = rows.begin; t < rows.end; ++t) {
    kernels_.add(residual_.data() + t * config_.dim, branch_.row(t), config_.dim);
  }
}

/// All layers of the rows of this pass; what they add is in residual_.
void Forward::layers(KeepGoing keep_going) noexcept {
  Team& team = team_for(weights_.streamed_bytes / config_.layers * tokens_);
  const auto dim = static_cast<std::size_t>(config_.dim);
  for_tokens(team, tokens_, [&](Range part, int worker) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      const Row& row = rows_[static_cast<std::size_t>(t)];
      weights_.embedding.read_row(row.token, {residual_.data() + t * config_.dim, dim}, codes_[static_cast<std::size_t>(worker)]);
    }
    find_angles(part);
  });
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    if (tokens_ > 1 && !keep_going(tokens_ * i / config_.layers)) {
      stopped_ = true;
      return;
    }
    // Keys and values of layer i of the model are at place i of the caches.
    const LayerWeights& w = weights_.layers[static_cast<std::size_t>(i)];
    attention(team, w, i, i, i > 0, BlockStage::attention);
    feed_forward(team, w, true, BlockStage::mlp);
  }
  for_tokens(team, tokens_, [&](Range part, int) { add_branch(part); });
}

void Forward::run_block(const LayerWeights& w, std::int64_t index, BlockStage stage, std::span<float> hidden, nn::KvCache& cache) {
  const std::int64_t tokens = static_cast<std::int64_t>(hidden.size()) / config_.dim;
  serve(w);
  cache.truncate(0);
  cache.extend(tokens);
  rows_.clear();
  for (std::int64_t t = 0; t < tokens; ++t) rows_.push_back({0, t, &cache});
  segments_.assign(1, {.count = tokens, .cache = &cache});
  resize(tokens);
  stage_ = stage;
  std::copy_n(hidden.data(), hidden.size(), residual_.data());
  if (stage <= BlockStage::attention) {
    for_tokens(team_, tokens, [&](Range part, int) { find_angles(part); });
    attention(team_, w, index, 0, false, stage);
  } else {
    feed_forward(team_, w, false, stage);
  }
  if (stage == BlockStage::attention || stage == BlockStage::mlp) add_branch_to(hidden);
}

std::span<const nn::RoutedExpert> Forward::route(const LayerWeights& w) noexcept {
  experts_->route(team_, w.experts, normed_, false);
  return experts_->routed(tokens_);
}

void Forward::end_half(const LayerWeights& w, BlockStage half, TensorView<const float, 2> inputs, std::span<float> hidden) {
  const std::int64_t tokens = inputs.extent(0);
  const bool attends = half == BlockStage::attention;
  const WeightMatrix& last = attends ? w.o : w.down;
  nn::Activations& x = attends ? attended_ : hidden_;
  serve(w);
  resize(tokens);
  x.resize(tokens, last.columns());
  stage_ = half;
  std::copy_n(hidden.data(), hidden.size(), residual_.data());
  for_tokens(team_, tokens, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      std::copy_n(&inputs(t, 0), inputs.extent(1), x.row(t));
      x.quantize_row(kernels_, t);
      x.gather_row(kernels_, {&last}, t);
    }
  });
  nn::linear(kernels_, team_, x, {{last, values_of(attends ? w.o_bias : w.down_bias), branch_.output()}}, fetch_.level());
  add_branch_to(hidden);
}

/// hidden = residual + branch, of a block that is run alone.
void Forward::add_branch_to(std::span<float> hidden) noexcept {
  for_tokens(team_, tokens_, [&](Range part, int) {
    add_branch(part);
    std::copy_n(residual_.data() + part.begin * config_.dim, (part.end - part.begin) * config_.dim, hidden.data() + part.begin * config_.dim);
  });
}

const nn::Activations& Forward::inputs_of(BlockStage stage) const noexcept {
  return stage == BlockStage::output_inputs ? attended_ : stage == BlockStage::down_inputs ? hidden_ : normed_;
}

nn::Activations& Forward::inputs_of(BlockStage stage) noexcept { return const_cast<nn::Activations&>(std::as_const(*this).inputs_of(stage)); }

TensorView<const float, 2> Forward::stage_inputs() const noexcept {
  const nn::Activations& x = inputs_of(stage_);
  return {x.row(0), {x.tokens(), x.columns()}, {x.floats().stride, 1}};
}

void Forward::run_head(std::span<const float> hidden, FunctionRef<void(std::int64_t, std::span<const float>)> sink) {
  const auto dim = static_cast<std::size_t>(config_.dim), vocab = static_cast<std::size_t>(config_.vocab);
  constexpr auto most = static_cast<std::size_t>(outputs_at_once);
  logits_.ensure(most * vocab);
  residual_.ensure(most * dim);
  headed_.resize(outputs_at_once, config_.dim);
  const std::size_t tokens = hidden.size() / dim;
  std::vector<std::int64_t> rows;
  for (std::size_t first = 0; first < tokens; first += rows.size()) {
    rows.resize(std::min(most, tokens - first));
    std::iota(rows.begin(), rows.end(), 0);
    std::copy_n(hidden.data() + first * dim, rows.size() * dim, residual_.data());
    head(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) sink(static_cast<std::int64_t>(first + i), {logits_.data() + i * vocab, vocab});
  }
}

/// `add`: residual += branch first; normed = norm(residual), rounded too, for `readers`.
void Forward::normalize(Team& team, const std::vector<float>& weight, bool add, const nn::Readers& readers) noexcept {
  for_tokens(team, tokens_, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float* x = residual_.data() + t * config_.dim;
      if (add) kernels_.add(x, branch_.row(t), config_.dim);
      kernels_.rms_norm(x, weight.data(), static_cast<float>(config_.norm_eps), normed_.row(t), config_.dim);
      normed_.quantize_row(kernels_, t);
      normed_.gather_row(kernels_, readers, t);
    }
  });
}

/// RMS norms of q and k over all of their heads.
void Forward::normalize_all_heads(Team& team, const LayerWeights& w) noexcept {
  for_tokens(team, tokens_, [&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      kernels_.rms_norm(q_.row(t), w.q_norm.data(), static_cast<float>(config_.norm_eps), q_.row(t), w.q.rows());
      kernels_.rms_norm(k_.row(t), w.k_norm.data(), static_cast<float>(config_.norm_eps), k_.row(t), w.k.rows());
    }
  });
}

/// Norms, where that is done head by head, and rotates the heads of q and k, and stores k and v. Units are (token, head).
void Forward::rotate_and_store(Team& team, const LayerWeights& w, std::int64_t place) noexcept {
  const std::int64_t d = config_.head_dim;
  const std::int64_t heads = w.q.rows() / d, kv_heads = w.k.rows() / d;
  const std::int64_t half = config_.rope.dim / 2;
  const auto eps = static_cast<float>(config_.norm_eps);
  const std::int64_t units = heads + kv_heads;
  team.deal(tokens_ * units, team.grain_of(tokens_ * units, 2), [&](Range part, int worker) {
    float* padded = heads_[static_cast<std::size_t>(worker)].data();
    const auto store = [&](bool value, std::int64_t head, std::int64_t token, const float* x) {
      const Row& row = rows_[static_cast<std::size_t>(token)];
      std::copy_n(x, d, padded);
      row.cache->store(kernels_, place, value, head, row.position, padded);
    };
    for (std::int64_t unit = part.begin; unit < part.end; ++unit) {
      const std::int64_t t = unit / units;
      const std::int64_t h = unit % units;
      const bool is_q = h < heads;
      const std::int64_t kv = h - heads;
      float* head = is_q ? q_.row(t) + h * d : k_.row(t) + kv * d;
      const std::vector<float>& norm = is_q ? w.q_norm : w.k_norm;
      const HeadNorm when = config_.arch->head_norm;
      if (!norm.empty() && when == HeadNorm::each) kernels_.rms_norm(head, norm.data(), eps, head, d);
      const float* angles = angles_.data() + t * 2 * half;
      rope_.apply(kernels_, head, angles, angles + half);
      if (!norm.empty() && when == HeadNorm::each_rotated) kernels_.rms_norm(head, norm.data(), eps, head, d);
      if (is_q) continue;
      store(false, kv, t, head);
      store(true, kv, t, v_.row(t) + kv * d);
    }
  });
}

/// Makes rows as wide as the layer at hand has them.
void Forward::narrow(nn::Activations& x, std::int64_t columns) noexcept {
  if (x.columns() != columns) x.resize(tokens_, columns);
}

/// The first half of layer `index` of the model, whose keys and values are at `place` of the caches, as far as `until`; what it
/// adds is in branch_ then. `add`: the one before left something there.
void Forward::attention(Team& team, const LayerWeights& w, std::int64_t index, std::int64_t place, bool add, BlockStage until) noexcept {
  const ModelConfig& c = config_;
  const std::int64_t q_columns = w.q.rows();
  const std::int64_t kv_columns = w.k.rows();
  narrow(attended_, q_columns);
  const nn::Readers readers{&w.q, &w.k, &w.v};
  normalize(team, w.attention_norm, add, readers);
  if (until == BlockStage::attention_inputs) return;
  nn::linear(kernels_, team, normed_,
             {{w.q, values_of(w.q_bias), q_.output()},
              {w.k, values_of(w.k_bias), k_.output(), readers.form_of(1)},
              {w.v, values_of(w.v_bias), v_.output(), readers.form_of(2)}}, fetch_.level());
  if (c.arch->head_norm == HeadNorm::all) normalize_all_heads(team, w);
  rotate_and_store(team, w, place);
  attention_.run(kernels_, team, place, c.window_of(index), q_.input(), attended_.output(), kv_columns / c.head_dim, values_of(w.sinks));
  if (until == BlockStage::output_inputs) return;
  for_parts(team, tokens_, q_columns, [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    attended_.quantize_part(kernels_, t, begin, end);
    attended_.gather_part(kernels_, {&w.o}, t, begin, end);
  });
  nn::linear(kernels_, team, attended_, {{w.o, values_of(w.o_bias), branch_.output()}}, fetch_.level());
}

/// The second half: an MLP, experts, or both side by side.
void Forward::feed_forward(Team& team, const LayerWeights& w, bool add, BlockStage until) noexcept {
  const bool has_mlp = !w.down.empty();
  normalize(team, w.ffn_norm, add, has_mlp ? nn::Readers{&w.gate, &w.up} : nn::Readers{});
  if (until == BlockStage::mlp_inputs) return;
  if (has_mlp) mlp(team, w, until);
  if (until == BlockStage::down_inputs || w.experts.experts.empty()) return;
  experts_->run(team, w.experts, normed_, has_mlp, branch_.output(), fetch_.level());
}

void Forward::mlp(Team& team, const LayerWeights& w, BlockStage until) noexcept {
  const ModelConfig& c = config_;
  const std::int64_t ffn = w.down.columns();
  narrow(hidden_, ffn);
  const nn::Readers readers{&w.gate, &w.up};
  nn::linear(kernels_, team, normed_, {{w.gate, values_of(w.gate_bias), hidden_.output()}, {w.up, values_of(w.up_bias), up_.output(), readers.form_of(1)}}, fetch_.level());
  const auto gate = ops::gated_kernel(kernels_, c.gate);
  for_parts(team, tokens_, ffn, [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
    float* hidden = hidden_.row(t) + begin;
    gate(hidden, up_.row(t) + begin, hidden, end - begin);
    hidden_.quantize_part(kernels_, t, begin, end);
  });
  if (until == BlockStage::down_inputs) return;
  if (hidden_.has_orders()) {
    // A part of another order has columns from everywhere: they are all there only now.
    for_parts(team, tokens_, ffn, [&](std::int64_t t, std::int64_t begin, std::int64_t end) {
      hidden_.gather_part(kernels_, {&w.down}, t, begin, end);
    });
  }
  nn::linear(kernels_, team, hidden_, {{w.down, values_of(w.down_bias), branch_.output()}}, fetch_.level());
}

}  // namespace bantam::inline v0
