// Passes of tokens: what goes into each, the layers it goes through, and what is handed out.
#include "bantam/model/forward.hpp"

#include <chrono>

#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/token_history.hpp"
#include "make_mixer.hpp"

namespace bantam::inline v0 {

namespace {

/// Takes states back to where they were, unless everything went well.
class Rollback {
 public:
  explicit Rollback(std::span<const SequenceInput> sequences) : sequences_(sequences) {
    for (const SequenceInput& s : sequences) tokens_.push_back(s.state->tokens());
  }
  ~Rollback() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) sequences_[i].state->truncate(tokens_[i]);
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void release() noexcept { tokens_.clear(); }

 private:
  std::span<const SequenceInput> sequences_;
  std::vector<std::int64_t> tokens_;
};

}  // namespace


void normalize_row(const KernelTable& kernels, const ModelConfig& config, const float* x, const std::vector<float>& weight,
                   const std::vector<float>& bias, float* out) noexcept {
  const auto eps = static_cast<float>(config.norm_eps);
  if (weight.empty() && !config.arch->plain_norms) {
    std::copy_n(x, config.dim, out);
  } else if (config.arch->norm == Norm::layer) {
    kernels.layer_norm(x, nn::values_of(weight), nn::values_of(bias), eps, out, config.dim);
  } else {
    kernels.rms_norm(x, weight.data(), eps, out, config.dim);
  }
}

void place_embedding(const KernelTable& kernels, const ModelConfig& config, const ModelWeights& tables, Stack stack, std::int64_t position, std::uint8_t type, std::span<float> row,
                     std::span<float> scratch, RowCodes& codes) noexcept {
  const bool encodes = config.has_source() && stack == Stack::encoder;
  const WeightMatrix& positions = encodes ? tables.encoder_position_embedding : tables.position_embedding;
  const std::vector<float>&norm = encodes ? tables.encoder_embedding_norm : tables.embedding_norm, &bias = encodes ? tables.encoder_embedding_norm_bias : tables.embedding_norm_bias;
  if (!positions.empty()) {
    positions.read_row(position + config.arch->position_offset, scratch, codes);
    kernels.add(row.data(), scratch.data(), config.dim);
  }
  if (!tables.token_types.empty()) kernels.add(row.data(), tables.token_types.data() + type * config.dim, config.dim);
  if (!norm.empty()) normalize_row(kernels, config, row.data(), norm, bias, row.data());
}

Forward::Forward(const ModelConfig& config, const ModelWeights& weights, std::int64_t context_tokens, int threads)
    : Forward(config, weights, nullptr, context_tokens, threads) {
  // Before the first pass, so that it allocates once.
  for (std::int64_t i = 0; i < std::min(config.layers, std::ssize(weights.layers)); ++i) (void)acquire(i);
}

Forward::Forward(const ModelConfig& config, const ModelWeights& weights, const BlockSource* blocks, std::int64_t context_tokens, int threads)
    : config_(config), weights_(weights), resident_(weights), blocks_(blocks != nullptr ? *blocks : resident_), served_(static_cast<std::size_t>(config.layers)), kernels_(kernels_in_use()),
      team_(threads), embedding_(weights.embedding, blocks_.table(Role::embedding)), per_layer_embedding_(weights.per_layer_embedding, blocks_.table(Role::per_layer_embedding)),
      ngram_embedding_(weights.ngram_embedding, blocks_.table(Role::ngram_embedding)), mlp_(kernels_, config.gate, static_cast<float>(config.scales.gate), config.norm_eps) {
  check_positions(config, context_tokens, "context");
  for (const auto& [role, table] : {std::pair{Role::per_layer_embedding, &weights.per_layer_embedding}, {Role::ngram_embedding, &weights.ngram_embedding}}) {
    const bool is_there = table->rows() == 0 || !table->empty() || blocks_.table(role) != nullptr;
    if (!is_there) fail(Errc::invalid_argument, "weights: expected the table of ", role == Role::ngram_embedding ? "n-grams" : "per-layer embeddings", " in memory (WeightMemory::huge_pages), found it in the model's file");
  }
  make_mixers(context_tokens);
  if (config.has_source()) cross_.emplace(kernels_, cross_shape(config), team_.size());
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const bool keeps = attends(config.layer(i).mixer);
    key_numbers_.push_back(keeps ? std::ssize(key_places_) : -1);
    if (keeps) key_places_.push_back(config.kv_place(i));
  }
  if (config.per_layer_dim > 0) per_layer_.emplace(kernels_, per_layer_options(config), team_.size());
  if (config.alternates_streams()) streams_.emplace(kernels_, altup_options(config)).serve(weights.stream_projection, weights.stream_unembedding);
  if (config.connects_streams()) connections_.emplace(kernels_, connection_options(config)).serve(weights.head_streams_down, weights.head_streams_up);
  if (config.ngrams.exist()) ngrams_.emplace(kernels_, config.ngrams, connection_options(config));
  if (config.laurel_rank > 0) laurel_.emplace(kernels_);
  if (!weights.per_layer_projection.empty()) normed_.serve(kernels_, weights.per_layer_projection);
  if (config.has_experts()) experts_.emplace(kernels_, config.router, config.gate, team_.size());
  if (config.expert_latent > 0) latent_expert_.emplace(kernels_, config.gate);
  if (!weights.head.empty()) headed_.serve(kernels_, weights.head);
  codes_.resize(static_cast<std::size_t>(team_.size()));
  position_rows_.resize(codes_.size());
  for (auto& row : position_rows_) row.ensure(static_cast<std::size_t>(weights.position_embedding.empty() ? 0 : config.dim));
  for (Pending& p : pending_) {
    for (std::vector<float>* values : {&p.norm, &p.bias}) values->reserve(static_cast<std::size_t>(config.dim));
  }
  if (streams_) pending_streams_.norm.reserve(static_cast<std::size_t>(config.dim));
}

/// One for each kind, and of attention for each shape of heads.
void Forward::make_mixers(std::int64_t context_tokens) {
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const std::int64_t like = first_like(config_, i);
    if (like < i || config_.mixer_of(i) == MixerKind::none) {
      mixer_numbers_.push_back(like < i ? mixer_numbers_[static_cast<std::size_t>(like)] : -1);
      continue;
    }
    mixer_numbers_.push_back(static_cast<int>(mixers_.size()));
    mixers_.push_back(make_mixer(i, kernels_, config_, context_tokens, team_.size()));
  }
}

void Forward::serve(const LayerWeights& w, std::int64_t index) {
  if (nn::Mixer* mixer = mixer_of(index)) mixer->serve(w, normed_);
  if (cross_) cross_->serve(w.cross, normed_, source_);
  if (connections_) connections_->serve(w.mixer_streams.down, w.mixer_streams.up), connections_->serve(w.ffn_streams.down, w.ffn_streams.up);
  if (ngrams_) ngrams_->serve(w.ngram);
  if (is_latent_expert(w)) return latent_expert_->serve(w.experts, w.mlp, normed_);
  mlp_.serve(w.mlp, normed_);
  if (!w.experts.experts.empty()) experts_->serve(w.experts);
  if (per_layer_) per_layer_->serve(w.per_layer, normed_);
  if (laurel_) laurel_->serve(w.laurel, normed_);
}

/// A layer, whose rows the buffers of a pass have room for.
std::shared_ptr<const LayerWeights> Forward::acquire(std::int64_t layer) {
  std::shared_ptr<const LayerWeights> w = blocks_.acquire(layer);
  if (served_[static_cast<std::size_t>(layer)]) return w;
  serve(*w, layer);
  served_[static_cast<std::size_t>(layer)] = true;
  if (!rows_.empty()) {
    resize(std::ssize(rows_));
    plan();
  }
  return w;
}

/// Room for the rows of a pass, whose sequences are known.
void Forward::resize(std::int64_t tokens) {
  const ModelConfig& c = config_;
  residual_.ensure(static_cast<std::size_t>(tokens * c.dim));
  branch_.resize(tokens, c.dim);
  if (streams_) streams_->resize(tokens);
  if (connections_) connections_->resize(tokens);
  if (laurel_) laurel_->resize(tokens, c.laurel_rank);
  if (c.arch->parallel || laurel_ || c.arch->find(Role::expert_norm) != nullptr) beside_.resize(tokens, c.dim);
  if (c.arch->find(Role::router_scale) != nullptr || c.arch->routes_inputs) routed_.resize(tokens, c.dim);
  if (per_layer_) per_layer_->resize(tokens, !weights_.per_layer_projection.empty());
  if (c.has_head) logits_.ensure(static_cast<std::size_t>(outputs_at_once * c.vocab));
  normed_.resize(tokens, c.dim);
  headed_.resize(std::min(tokens, outputs_at_once), c.dim);
  // An expert may be run as the MLP of a block.
  const std::int64_t expert_ffn = std::ranges::max(c.specs, {}, &LayerSpec::expert_ffn).expert_ffn;
  mlp_.resize(tokens, std::max(c.ffn, expert_ffn));
  if (experts_) experts_->resize(tokens, c.dim, expert_ffn, c.expert_latent);
  if (latent_expert_) latent_expert_->resize(tokens, c.expert_latent, expert_ffn);
}

/// The same of the blocks of first halves.
void Forward::plan() {
  for (const auto& mixer : mixers_) {
    if (mixer) mixer->plan(std::ssize(rows_), sequences_);
  }
  if (cross_ && stack_ == Stack::decoder) cross_->plan(std::ssize(rows_), sequences_);
  if (ngrams_) ngrams_->plan(std::ssize(rows_), sequences_);
}

/// Begins a pass of nothing.
void Forward::clear() noexcept {
  segments_.clear();
  sequences_.clear();
  rows_.clear();
  inputs_.clear();
}

/// Makes ready for the layers what was taken of these inputs.
void Forward::prepare(std::span<const SequenceInput> inputs) {
  find_adapted(inputs);
  find_keys();
  resize(std::ssize(rows_));
  plan();
  look_up();
  stopped_ = false;
}

/// Makes room for the next `count` tokens of an input in its state and adds them to the pass.
void Forward::take(const SequenceInput& input, Segment segment, std::int64_t count) {
  const std::int64_t position = input.state->tokens(), number = std::ssize(sequences_);
  sequences_.push_back({input.state, std::ssize(rows_), count, position});
  segments_.push_back(segment);
  input.state->extend(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = segment.first + i;
    const std::uint8_t type = input.types.empty() ? std::uint8_t{0} : input.types[static_cast<std::size_t>(at)];
    inputs_.push_back(input.embeddings.empty() ? RowInput{input.tokens[static_cast<std::size_t>(at)], type} : RowInput{0, 0, input.embeddings.data() + at * config_.dim});
    rows_.push_back({position + i, number});
  }
}

void Forward::run(std::span<const SequenceInput> sequences, PassSink sink, KeepGoing keep_going, PassOutput output, SinkCalls calls) {
  const auto dim = static_cast<std::size_t>(config_.dim), vocab = static_cast<std::size_t>(config_.vocab);
  Rollback rollback(sequences);
  std::int64_t read = 0;
  std::size_t next = 0;
  std::int64_t first = 0;  // of what is left of sequence `next`
  for (const SequenceInput& s : sequences) {
    if (s.source.empty()) continue;
    encode(s, [&](std::int64_t now) { return keep_going(read + now); });
    read += std::ssize(s.source);
  }
  stack_ = Stack::decoder;
  while (next < sequences.size()) {
    clear();
    for (std::int64_t room = largest_chunk; room > 0 && next < sequences.size();) {
      const std::int64_t length = sequences[next].length(config_.dim);
      // Tokens that all see each other go together, however many they are.
      const bool waits = !config_.arch->causal && length > room && !rows_.empty();
      const std::int64_t count = waits ? 0 : config_.arch->causal ? std::min(room, length - first) : length;
      if (count > 0) take(sequences[next], {static_cast<std::int64_t>(next), first}, count);
      room -= count;
      first += count;
      if (first < length) break;
      first = 0;
      ++next;
    }
    prepare(sequences);
    const auto begun = std::chrono::steady_clock::now();
    layers({config_.encoder_layers, config_.layers}, [&](std::int64_t now) { return keep_going(read + now); });
    if (rows_.size() == 1) fetch_.passed(std::chrono::steady_clock::now() - begun);
    if (stopped_) fail(Errc::cancelled, "cancelled after reading ", read, " tokens");
    read += std::ssize(rows_);
    hand_out_states(sequences);

    std::vector<std::int64_t> rows;
    std::vector<std::pair<std::int64_t, std::int64_t>> places;  // (sequence, index) of each row
    const auto flush = [&] {
      if (output == PassOutput::logits) head(rows);
      const auto hand_out = [&](std::size_t i) {
        const std::span<float> values = output == PassOutput::logits ? std::span(logits_.data() + i * vocab, vocab) : std::span(branch_.row(0), dim);
        if (output == PassOutput::state) final_norm(rows[i], values.data());
        sink(places[i].first, places[i].second, values);
      };
      if (calls == SinkCalls::at_once && output == PassOutput::logits && rows.size() > 1) {
        team().deal(std::ssize(rows), 1, [&](Range part, int) {
          for (std::int64_t i = part.begin; i < part.end; ++i) hand_out(static_cast<std::size_t>(i));
        });
      } else {
        for (std::size_t i = 0; i < rows.size(); ++i) hand_out(i);
      }
      rows.clear();
      places.clear();
    };
    for (std::size_t n = 0; n < segments_.size(); ++n) {
      const Segment& s = segments_[n];
      const std::int64_t from = std::max<std::int64_t>(0, sequences[static_cast<std::size_t>(s.input)].first_output - s.first);
      for (std::int64_t i = from; i < sequences_[n].tokens; ++i) {
        rows.push_back(sequences_[n].row + i);
        places.emplace_back(s.input, s.first + i);
        if (std::ssize(rows) == outputs_at_once) flush();
      }
    }
    if (!rows.empty()) flush();
  }
  rollback.release();
}

/// Which sequences of a pass do not have all of their keys and values in memory.
void Forward::find_keys() {
  stored_keys_.clear();
  for (const nn::PassSequence& s : sequences_) {
    auto* const keys = s.state->find<nn::KvState>();
    if (keys != nullptr && keys->cache().stored_pages() > 0) stored_keys_.push_back({&keys->cache(), s.position});
  }
}

/// What the rows of the pass see of a layer's keys and values is in memory from here on, or a stretch of it, and what they see next on its way. False: there
/// are no so many stretches.
bool Forward::acquire_keys(std::int64_t layer, std::int64_t stretch) {
  const std::int64_t number = key_numbers_[static_cast<std::size_t>(layer)];
  if (number < 0) return false;
  bool any = false;
  for (const StoredKeys& keys : stored_keys_) any |= keys.cache->acquire(key_places_, static_cast<std::size_t>(number), keys.position, stretch);
  return any;
}

/// Puts the states of a pass where their inputs ask for them.
void Forward::hand_out_states(std::span<const SequenceInput> sequences) const noexcept {
  for (std::size_t n = 0; n < segments_.size(); ++n) {
    const std::span<float> states = sequences[static_cast<std::size_t>(segments_[n].input)].states;
    if (states.empty()) continue;
    for (std::int64_t i = 0; i < sequences_[n].tokens; ++i) final_norm(sequences_[n].row + i, states.data() + (segments_[n].first + i) * config_.dim);
  }
}

/// logits_ = head(final norm(residual)) of some rows.
void Forward::head(std::span<const std::int64_t> rows) {
  if (!adapted_.empty()) adapt_model(rows);
  const auto count = static_cast<std::int64_t>(rows.size());
  headed_.resize(count, config_.dim);  // had room for as many
  Team& team = team_for(weights_.head.bytes() * count);
  const auto for_outputs = [&](FunctionRef<void(std::int64_t)> f) {
    team.deal(count, team.grain_of(count, 4), [&](Range part, int) {
      for (std::int64_t i = part.begin; i < part.end; ++i) f(i);
    }, Work::norms);
  };
  for_outputs([&](std::int64_t i) {
    final_norm(rows[static_cast<std::size_t>(i)], headed_.row(i));
    headed_.quantize_row(kernels_, i);
    headed_.gather_row(kernels_, {&weights_.head}, i);
  });
  nn::linear(pass_on(team), headed_, {{weights_.head, nn::values_of(weights_.head_bias), {logits_.data(), config_.vocab}}}, Work::head);
  const auto scale = static_cast<float>(config_.logit_scale()), cap = static_cast<float>(config_.scales.final_softcap);
  if (scale == 1 && cap == 0) return;
  for_outputs([&](std::int64_t i) {
    float* logits = logits_.data() + i * config_.vocab;
    for (std::int64_t v = 0; v < config_.vocab; ++v) logits[v] *= scale;
    if (cap > 0) kernels_.softcap(logits, cap, config_.vocab);
  });
}

void Forward::final_norm(std::int64_t row, float* out) const noexcept {
  normalize_row(kernels_, config_, residual_.data() + row * config_.dim, weights_.final_norm, weights_.final_norm_bias, out);
}

/// Reads what tables in the file have for the pass.
void Forward::look_up() {
  const auto id_of = [&](std::int64_t t) { return inputs_[static_cast<std::size_t>(t)].id; };
  embedding_.read(std::ssize(rows_), id_of);
  if (per_layer_) per_layer_embedding_.read(std::ssize(rows_), [&](std::int64_t t) { return config_.per_layer_row(id_of(t)); });
  if (ngrams_) look_up_ngrams();
}

/// The same of the n-grams that end in each row's token.
void Forward::look_up_ngrams() {
  const nn::NgramOptions& o = config_.ngrams;
  const auto heads = static_cast<std::size_t>(o.all_heads());
  ngram_ids_.resize(rows_.size() * heads);
  for (const nn::PassSequence& s : sequences_) {
    auto& tokens = *s.state->find<nn::TokenHistory>();
    for (std::int64_t i = 0; i < s.tokens; ++i) {
      const RowInput& input = inputs_[static_cast<std::size_t>(s.row + i)];
      tokens.set(s.position + i, input.embedding != nullptr ? static_cast<TokenId>(o.stand_in()) : input.id);
      nn::find_ngram_rows(o, tokens.at(s.position + i), [&](std::int64_t before) { return tokens.at(s.position + i - before); },
                          std::span(ngram_ids_).subspan(static_cast<std::size_t>(s.row + i) * heads, heads));
    }
  }
  ngram_embedding_.read(std::ssize(ngram_ids_), [&](std::int64_t i) { return ngram_ids_[static_cast<std::size_t>(i)]; });
}

}  // namespace bantam::inline v0
