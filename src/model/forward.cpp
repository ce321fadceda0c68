// One pass of tokens through the layers, in phases that are dealt out to the team one after another.
#include "bantam/model/forward.hpp"

#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "bantam/nn/blocks/attention.hpp"
#include "bantam/nn/blocks/attention_beside_space.hpp"
#include "bantam/nn/blocks/channel_delta.hpp"
#include "bantam/nn/blocks/gated_delta.hpp"
#include "bantam/nn/blocks/latent_attention.hpp"
#include "bantam/nn/blocks/short_convolution.hpp"
#include "bantam/nn/blocks/state_space.hpp"
#include "bantam/nn/kv_state.hpp"

namespace bantam::inline v0 {

namespace {

/// Logits computed at once: a panel of the head is read once for this many tokens.
constexpr std::int64_t outputs_at_once = 16;

/// What scores of a layer are multiplied by.
double score_scale(const ModelConfig& c, const LayerSpec& spec) {
  return c.scales.attention > 0 ? c.scales.attention : 1 / std::sqrt(static_cast<double>(c.head_dim_of(spec)));
}

/// Of the layers whose attention is like that of layer i.
nn::SelfAttentionOptions attention_options(const ModelConfig& c, std::int64_t i) {
  std::int64_t kv_heads = 1;
  bool any_local = false, any_other = false;
  for (std::int64_t j = 0; j < c.layers; ++j) {
    if (!c.attends_alike(i, j)) continue;
    kv_heads = std::max(kv_heads, c.kv_heads_of(j));
    const bool local = c.layer(j).rope == nn::LayerRope::local;
    any_local = any_local || local;
    any_other = any_other || !local;
  }
  const LayerSpec& spec = c.layer(i);
  const bool own_rope = any_other || !c.local_rope;
  // What queries and keys are multiplied by, scores may be. 0: 1 / sqrt(head_dim), in floats.
  const double of_both = c.scales.attention_in * c.scales.attention_in * c.scales.keys, scale = of_both == 1 ? c.scales.attention : score_scale(c, spec) * of_both;
  return {.shape = {.heads = kv_heads * c.group_of(spec), .kv_heads = kv_heads, .head_dim = c.head_dim_of(spec), .scale = static_cast<float>(scale),
                    .value_dim = c.value_dim_of(spec), .softcap = static_cast<float>(c.scales.attention_softcap), .sight = c.sees_all(i) ? nn::Sight::round : nn::Sight::back, .chunked = c.arch->chunks_windows},
          .rope = own_rope ? c.rope : *c.local_rope, .local_rope = any_local ? c.local_rope : std::nullopt, .temperature = c.temperature, .head_norm = c.arch->head_norm,
          .head_layer_norms = c.arch->head_layer_norms, .alibi = c.alibi, .alibi_scale = c.arch->scales_alibi ? score_scale(c, spec) : 1, .relative_bias = c.relative_bias, .clip = static_cast<float>(c.qkv_clip),
          .norms_turned = c.norms_turned, .norms_values = c.arch->norms_values, .output_gate = c.arch->output_gate, .norm_eps = c.norm_eps};
}

/// Of layers of a decoder, to what an encoder made.
nn::AttentionShape cross_shape(const ModelConfig& c) {
  return {.heads = c.heads, .kv_heads = c.heads, .head_dim = c.head_dim, .scale = static_cast<float>(c.scales.attention), .sight = nn::Sight::round};
}

nn::StateSpaceOptions space_options(const ModelConfig& c) {
  nn::StateSpaceOptions options{.sizes = c.recurrent, .norm_eps = c.norm_eps, .scales = c.scales.space};
  for (double& scale : options.scales) scale *= c.scales.space_in;
  return options;
}

nn::AttentionBesideSpaceOptions beside_options(const ModelConfig& c, std::int64_t i) {
  return {.attention = attention_options(c, i), .space = space_options(c), .attention_scale = static_cast<float>(c.scales.attention_in * c.scales.attention_out),
          .space_scale = static_cast<float>(c.scales.space_out)};
}

nn::PerLayerOptions per_layer_options(const ModelConfig& c) {
  return {.dim = c.dim, .width = c.per_layer_dim, .layers = c.layers, .norm_eps = c.norm_eps, .gate = c.gate};
}

nn::LatentAttentionOptions latent_options(const ModelConfig& c) {
  // Long contexts lower every score; YaRN's other half makes up for it (arXiv:2309.00071, 3.4).
  const double m = c.rope.scaling == nn::RopeScaling::yarn ? 0.1 * c.rope.score_mscale * std::log(c.rope.factor) + 1 : 1;
  return {.heads = c.heads, .head_dim = c.head_dim, .value_dim = c.value_dim, .q_rank = c.q_rank, .kv_rank = c.kv_rank, .rope = c.rope,
          .scale = static_cast<float>(m * m / std::sqrt(static_cast<double>(c.head_dim))), .norm_eps = c.norm_eps};
}

std::unique_ptr<nn::Mixer> make_mixer(std::int64_t layer, const KernelTable& kernels, const ModelConfig& c, std::int64_t context_tokens, int workers) {
  switch (c.mixer_of(layer)) {
    case MixerKind::attention: return std::make_unique<nn::MixerOf<nn::SelfAttention, &LayerWeights::attention>>(kernels, attention_options(c, layer), context_tokens, workers);
    case MixerKind::latent_attention: return std::make_unique<nn::MixerOf<nn::LatentAttention, &LayerWeights::attention>>(kernels, latent_options(c), context_tokens, workers);
    case MixerKind::gated_delta: return std::make_unique<nn::MixerOf<nn::GatedDelta, &LayerWeights::delta>>(kernels, c.recurrent, c.arch->tiled_values, c.norm_eps, workers);
    case MixerKind::channel_delta: return std::make_unique<nn::MixerOf<nn::ChannelDelta, &LayerWeights::channel_delta>>(kernels, c.recurrent, c.norm_eps, workers);
    case MixerKind::state_space: return std::make_unique<nn::MixerOf<nn::StateSpace, &LayerWeights::state_space>>(kernels, space_options(c), workers);
    case MixerKind::attention_beside_space: return std::make_unique<nn::AttentionBesideSpace>(kernels, beside_options(c, layer), c.dim, context_tokens, workers);
    case MixerKind::short_convolution: return std::make_unique<nn::MixerOf<nn::ShortConvolution, &LayerWeights::convolution>>(kernels, c.recurrent);
    case MixerKind::none: break;
  }
  return nullptr;
}

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
  if (weight.empty()) {
    std::copy_n(x, config.dim, out);
  } else if (config.arch->norm == Norm::layer) {
    kernels.layer_norm(x, weight.data(), nn::values_of(bias), eps, out, config.dim);
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
      team_(threads), embedding_(weights.embedding, blocks_.table(Role::embedding)), per_layer_embedding_(weights.per_layer_embedding, blocks_.table(Role::per_layer_embedding)), mlp_(kernels_, config.gate, static_cast<float>(config.scales.gate)) {
  check_positions(config, context_tokens, "context");
  make_mixers(context_tokens);
  if (config.has_source()) cross_.emplace(kernels_, cross_shape(config), team_.size());
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const bool keeps = attends(config.layer(i).mixer);
    key_numbers_.push_back(keeps ? std::ssize(key_places_) : -1);
    if (keeps) key_places_.push_back(config.kv_place(i));
  }
  if (config.per_layer_dim > 0) per_layer_.emplace(kernels_, per_layer_options(config), team_.size());
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
}

/// One for each kind, and of attention for each shape of heads.
void Forward::make_mixers(std::int64_t context_tokens) {
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const MixerKind kind = config_.mixer_of(i);
    std::int64_t like = 0;
    while (like < i && !(config_.mixer_of(like) == kind && ((kind != MixerKind::attention && kind != MixerKind::attention_beside_space) || config_.attends_alike(like, i)))) ++like;
    if (like < i || kind == MixerKind::none) {
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
  if (is_latent_expert(w)) return latent_expert_->serve(w.experts, w.mlp, normed_);
  mlp_.serve(w.mlp, normed_);
  if (!w.experts.experts.empty()) experts_->serve(w.experts);
  if (per_layer_) per_layer_->serve(w.per_layer, normed_);
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
  if (c.arch->parallel || c.arch->find(Role::expert_norm) != nullptr) beside_.resize(tokens, c.dim);
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

void Forward::run(std::span<const SequenceInput> sequences, PassSink sink, KeepGoing keep_going, PassOutput output) {
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
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::span<float> values = output == PassOutput::logits ? std::span(logits_.data() + i * vocab, vocab) : std::span(branch_.row(0), dim);
        if (output == PassOutput::state) final_norm(rows[i], values.data());
        sink(places[i].first, places[i].second, values);
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

/// Reads the source of a sequence, whole: the state gets keys and values of what the encoder makes of it, for each layer behind.
void Forward::encode(const SequenceInput& input, KeepGoing keep_going) {
  const std::int64_t tokens = std::ssize(input.source);
  nn::SequenceState own = config_.new_layer_state("f32", 0);
  const SequenceInput source{.tokens = input.source, .state = &own, .adapters = input.adapters};
  nn::KvCache cache = config_.new_source(nn::kv_cache_of(*input.state).kind());
  cache.extend(tokens);
  clear();
  stack_ = Stack::encoder;
  take(source, {0, 0}, tokens);
  prepare({&source, 1});
  layers({0, config_.encoder_layers}, keep_going);
  for (std::int64_t i = config_.encoder_layers; i < config_.layers && !stopped_; ++i) {
    stopped_ = !keep_going(tokens);
    const std::shared_ptr<const LayerWeights> w = acquire(i);
    if (i + 1 < config_.layers) blocks_.prefetch(i + 1);
    if (!adapted_.empty()) adapt_layer(i, *w);
    const auto state_of = [&](std::int64_t t, float* out) {
      normalize_row(kernels_, config_, residual_.data() + t * config_.dim, weights_.encoder_norm, weights_.encoder_norm_bias, out);
    };
    remember(pass_on(team_), *w, i, state_of, cache);
  }
  if (stopped_) fail(Errc::cancelled, "cancelled while reading ", tokens, " tokens of the source");
  input.state->find<nn::SourceState>()->set(std::move(cache));
}

/// Keys and values of a layer, at its place in `cache`, of the encoder's states of a pass over the source.
void Forward::remember(const nn::Pass& pass, const LayerWeights& w, std::int64_t place, FunctionRef<void(std::int64_t, float*)> state_of, nn::KvCache& cache) {
  const nn::Readers readers = nn::CrossAttention::source_readers(w.cross);
  source_.resize(pass.tokens(), config_.dim);
  cross_->plan_source(pass.tokens());
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      state_of(t, source_.row(t));
      source_.quantize_row(kernels_, t);
      source_.gather_row(kernels_, readers, t);
    }
  });
  cross_->remember(pass, w.cross, place, source_, cache);
}

/// Makes keys and values of a source for a layer that is run alone over the rows at hand: `states`, (tokens, dim), as `remember` leaves them.
void Forward::read_source(const LayerWeights& w, std::span<const float> states) {
  const std::int64_t tokens = std::ssize(states) / config_.dim;
  BANTAM_ASSERT(tokens > 0);
  nn::KvCache cache({.layers = 1, .kv_heads = config_.heads, .head_dim = config_.head_dim}, "f32");
  cache.extend(tokens);
  const std::vector<nn::PassRow> rows(static_cast<std::size_t>(tokens));
  remember({kernels_, team_, rows, fetch_.level()}, w, 0, [&](std::int64_t t, float* out) { std::copy_n(states.data() + t * config_.dim, config_.dim, out); }, cache);
  std::vector<std::unique_ptr<nn::BlockState>> blocks;
  blocks.push_back(std::make_unique<nn::SourceState>(std::move(cache)));
  part_state_.emplace(std::move(blocks));
  sequences_.assign(1, {&*part_state_, 0, std::ssize(rows_), 0});
  cross_->plan(std::ssize(rows_), sequences_);
}

/// Which sequences of a pass do not have all of their keys and values in memory.
void Forward::find_keys() {
  stored_keys_.clear();
  for (const nn::PassSequence& s : sequences_) {
    auto* const keys = s.state->find<nn::KvState>();
    if (keys != nullptr && keys->cache().stored_pages() > 0) stored_keys_.push_back({&keys->cache(), s.position});
  }
}

/// What the rows of the pass see of a layer's keys and values is in memory from here on, and what they see of the next layer's on its way.
void Forward::acquire_keys(std::int64_t layer) {
  const std::int64_t number = key_numbers_[static_cast<std::size_t>(layer)];
  if (number < 0) return;
  for (const StoredKeys& keys : stored_keys_) keys.cache->acquire(key_places_, static_cast<std::size_t>(number), keys.position);
}

/// Which rows of a pass have adapters.
void Forward::find_adapted(std::span<const SequenceInput> sequences) {
  const auto alike = [](const ScaledAdapter& a, const ScaledAdapter& b) { return a.adapter.matrices().data() == b.adapter.matrices().data() && a.scale == b.scale; };
  adapted_.clear();
  adapted_ranks_ = 0;
  for (std::size_t n = 0; n < segments_.size(); ++n) {
    const std::span<const ScaledAdapter> adapters = sequences[static_cast<std::size_t>(segments_[n].input)].adapters;
    if (adapters.empty()) continue;
    const Range rows{sequences_[n].row, sequences_[n].row + sequences_[n].tokens};
    if (!adapted_.empty() && adapted_.back().rows.end == rows.begin && std::ranges::equal(adapted_.back().adapters, adapters, alike)) {
      adapted_.back().rows.end = rows.end;
      continue;
    }
    adapted_.push_back({rows, adapters});
    std::int64_t ranks = 0;
    for (const ScaledAdapter& one : adapters) ranks += round_up<std::int64_t>(one.adapter.rank(), 16);
    adapted_ranks_ = std::max(adapted_ranks_, ranks);
  }
  // What one call of linear() multiplies by.
  constexpr std::int64_t most_products = 6;
  if (!adapted_.empty()) terms_.resize(most_products * std::ssize(rows_), adapted_ranks_, team_.size());
}

/// What is added to the matrices of a layer.
void Forward::adapt_layer(std::int64_t layer, const LayerWeights& w) {
  terms_.clear();
  for (const AdaptedRows& part : adapted_) {
    for (const ScaledAdapter& one : part.adapters) {
      for (const AdapterMatrix& m : one.adapter.of_layer(layer)) {
        const bool by_heads = info_of(m.id.role).by_heads;
        terms_.add({.matrix = matrix_of(w, by_heads ? TensorId(m.id.role, layer) : m.id), .update = &m.update, .rows = part.rows, .scale = one.scale, .head = by_heads ? m.id.expert : 0});
      }
    }
  }
  if (!w.experts.experts.empty()) experts_->resize_terms(terms_.terms().size(), adapted_ranks_);
  if (nn::Mixer* mixer = mixer_of(layer)) mixer->resize_terms(terms_.terms().size(), adapted_ranks_);
}

/// The same of those of no layer, for all rows of the pass, or for `outputs`, ascending, which are the rows that the head reads.
void Forward::adapt_model(std::span<const std::int64_t> outputs) {
  terms_.clear();
  for (const AdaptedRows& part : adapted_) {
    Range rows = part.rows;
    if (!outputs.empty()) {
      rows.begin = std::ranges::lower_bound(outputs, part.rows.begin) - outputs.begin();
      rows.end = std::ranges::lower_bound(outputs, part.rows.end) - outputs.begin();
    }
    if (rows.begin == rows.end) continue;
    for (const ScaledAdapter& one : part.adapters) {
      for (const AdapterMatrix& m : one.adapter.of_layer(-1)) terms_.add({.matrix = matrix_of(weights_, m.id), .update = &m.update, .rows = rows, .scale = one.scale});
    }
  }
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
    });
  };
  for_outputs([&](std::int64_t i) {
    final_norm(rows[static_cast<std::size_t>(i)], headed_.row(i));
    headed_.quantize_row(kernels_, i);
    headed_.gather_row(kernels_, {&weights_.head}, i);
  });
  nn::linear(pass_on(team), headed_, {{weights_.head, nn::values_of(weights_.head_bias), {logits_.data(), config_.vocab}}});
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

/// The rotations of some rows' positions.
void Forward::find_angles(Range rows) noexcept {
  for (const auto& mixer : mixers_) {
    if (mixer) mixer->find_angles(rows_, rows);
  }
}

/// Reads what tables in the file have for the pass.
void Forward::look_up() {
  const auto id_of = [&](std::int64_t t) { return inputs_[static_cast<std::size_t>(t)].id; };
  embedding_.read(std::ssize(rows_), id_of);
  if (per_layer_) per_layer_embedding_.read(std::ssize(rows_), id_of);
}

/// residual = rows of the embedding, or those that came in their place.
void Forward::embed(Team& team) noexcept {
  const auto scale = static_cast<float>(config_.scales.embedding);
  pass_on(team).for_rows([&](Range part, int worker) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      const std::span row(residual_.data() + t * config_.dim, static_cast<std::size_t>(config_.dim));
      const RowInput& input = inputs_[static_cast<std::size_t>(t)];
      RowCodes& codes = codes_[static_cast<std::size_t>(worker)];
      if (input.embedding != nullptr) {
        std::ranges::copy_n(input.embedding, config_.dim, row.begin());
      } else {
        embedding_.copy(t, input.id, row, codes);
        for (std::size_t c = 0; scale != 1 && c < row.size(); ++c) row[c] *= scale;
      }
      const std::span scratch(position_rows_[static_cast<std::size_t>(worker)].data(), weights_.position_embedding.empty() ? 0 : row.size());
      place_embedding(kernels_, config_, weights_, stack_, rows_[static_cast<std::size_t>(t)].position, input.type, row, scratch, codes);
    }
    find_angles(part);
  });
  if (!per_layer_) return;
  const nn::Pass pass = pass_on(team);
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      std::copy_n(residual_.data() + t * config_.dim, config_.dim, normed_.row(t));
      normed_.quantize_row(kernels_, t);
      normed_.gather_row(kernels_, {&weights_.per_layer_projection}, t);
    }
  });
  // Rows that came in the place of a token's are taken for those of the first, which pads.
  per_layer_->embed(pass, weights_.per_layer_projection, weights_.per_layer_norm, normed_, [&](std::int64_t t, std::span<float> out, RowCodes& codes) {
    per_layer_embedding_.copy(t, inputs_[static_cast<std::size_t>(t)].id, out, codes);
  });
}

/// What a branch made waits until the next one settles it row by row, for a barrier less.
void Forward::add_later(nn::RowBuffer& rows, const std::vector<float>& norm, const std::vector<float>& bias, double scale) noexcept {
  Pending& p = pending_[pending_count_++];
  p.rows = &rows;
  p.scale = static_cast<float>(config_.scales.residual * scale);
  p.norm.assign(norm.begin(), norm.end());  // there is room
  p.bias.assign(bias.begin(), bias.end());
}
void Forward::add_later(nn::RowBuffer& rows, const LayerWeights& w, Half half) noexcept {
  half == Half::mixer   ? add_later(rows, w.attention_out_norm, w.attention_out_norm_bias)
  : half == Half::cross ? add_later(rows, w.cross_out_norm, w.cross_out_norm_bias)
                        : add_later(rows, w.ffn_out_norm, w.ffn_out_norm_bias, config_.scales.down);
}

/// Adds what waits to a row of the residual stream.
void Forward::settle(std::int64_t row) noexcept {
  float* x = residual_.data() + row * config_.dim;
  for (const Pending& p : std::span(pending_).first(pending_count_)) {
    float* more = p.rows->row(row);
    if (!p.norm.empty() && !config_.arch->norms_sums) normalize_row(kernels_, config_, more, p.norm, p.bias, more);
    if (p.scale != 1) {
      for (std::int64_t c = 0; c < config_.dim; ++c) more[c] *= p.scale;
    }
    kernels_.add(x, more, config_.dim);
    if (!p.norm.empty() && config_.arch->norms_sums) normalize_row(kernels_, config_, x, p.norm, p.bias, x);
  }
  if (pending_scale_ == 1) return;
  for (std::int64_t c = 0; c < config_.dim; ++c) x[c] *= pending_scale_;
}

/// The same of a block that is run alone, for all rows, and its outputs.
void Forward::settle_in(std::span<float> hidden) noexcept {
  pass_on(team_).for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) settle(t);
    std::copy_n(residual_.data() + part.begin * config_.dim, (part.end - part.begin) * config_.dim, hidden.data() + part.begin * config_.dim);
  });
  settled();
}

/// Some layers of the rows of this pass; what they add is in residual_.
void Forward::layers(Range which, KeepGoing keep_going) {
  const std::int64_t tokens = std::ssize(rows_);
  Team& team = team_for(weights_.streamed_bytes / config_.layers * tokens);
  const nn::Pass pass = pass_on(team);
  settled();
  if (!adapted_.empty()) adapt_model({});
  embed(team);
  for (std::int64_t i = which.begin; i < which.end; ++i) {
    if (tokens > 1 && !keep_going(tokens * (i - which.begin) / (which.end - which.begin))) {
      stopped_ = true;
      return;
    }
    const std::shared_ptr<const LayerWeights> w = acquire(i);
    // After the last comes the first of the next pass, which is not an encoder's.
    blocks_.prefetch(i + 1 < config_.layers ? i + 1 : config_.encoder_layers);
    if (!adapted_.empty()) adapt_layer(i, *w);
    if (!stored_keys_.empty()) acquire_keys(i);
    // What layer i of the model keeps of a sequence is at place i of its states.
    mix(pass, *w, i, config_.kv_place(i), nn::to_the_end);
    cross(pass, *w, i, nn::to_the_end);
    feed_forward(pass, *w, i, config_.arch->parallel, nn::to_the_end);
    end_layer(pass, *w, per_layer_ ? per_layer_->of_layer(i) : FloatRows(), nn::to_the_end);
  }
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) settle(t);
  });
  settled();
}

void Forward::run_part(const LayerWeights& w, std::int64_t index, Half half, int until, std::span<float> hidden, const BesideStates& beside) {
  // Most layers have nothing behind their halves.
  if (half == Half::end && w.per_layer.gate.empty() && w.layer_scale.empty()) return;
  if (half == Half::cross && w.cross.o.empty()) return;
  const std::int64_t tokens = static_cast<std::int64_t>(hidden.size()) / config_.dim;
  const bool parallel = config_.arch->parallel, ends = until == nn::to_the_end;
  serve(w, index);
  const bool reads = half == Half::mixer && config_.layer(index).kv_layer >= 0;
  const bool kept = half == Half::mixer && beside.keys != nullptr;
  nn::SequenceState& state = kept ? *beside.keys : part_state_.emplace(config_.new_layer_state("f32", index));
  if (!reads) {
    state.truncate(0);
    state.extend(tokens);
  }
  BANTAM_ASSERT(state.tokens() == tokens);
  rows_.clear();
  for (std::int64_t t = 0; t < tokens; ++t) rows_.push_back({t});
  sequences_.assign(1, {&state, 0, tokens, 0});
  resize(tokens);
  nn::Mixer* const mixer = mixer_of(index);
  if (mixer != nullptr) mixer->plan(tokens, sequences_);
  part_inputs_ = ends ? nullptr : half == Half::feed_forward && is_latent_expert(w) ? &latent_expert_->inputs(until) : &inputs_of(index, half, until);
  settled();
  std::copy_n(hidden.data(), hidden.size(), residual_.data());
  for (std::int64_t t = 0; !beside.layer_inputs.empty() && t < tokens; ++t) std::copy_n(beside.layer_inputs.data() + t * config_.dim, config_.dim, routed_.row(t));
  const nn::Pass pass = pass_on(team_);
  // Where both halves read the same state, what they add is added at the end of the second.
  if (parallel && half == Half::mixer && ends) return;
  if (half == Half::mixer || (parallel && ends)) {
    pass.for_rows([&](Range part, int) {
      if (mixer != nullptr) mixer->find_angles(rows_, part);
    });
    mix(pass, w, index, 0, half == Half::mixer ? until : nn::to_the_end);
  }
  if (half == Half::cross) {
    read_source(w, beside.source);
    cross(pass, w, 0, until);
  }
  if (half == Half::feed_forward) feed_forward(pass, w, index, parallel && ends, until, beside.input_scales);
  if (half == Half::end) end_layer(pass, w, {beside.embeddings.data(), config_.per_layer_dim}, until);
  if (ends) settle_in(hidden);
}

std::span<const nn::RoutedExpert> Forward::route(const LayerWeights& w) noexcept {
  const nn::Activations* routed = routed_of(pass_on(team_), w);
  experts_->route(pass_on(team_), w.experts, routed != nullptr ? *routed : normed_, false);
  return experts_->routed(std::ssize(rows_));
}

void Forward::end_half(const LayerWeights& w, std::int64_t index, const InputGroup& group, TensorView<const float, 2> inputs, std::span<float> hidden) {
  const std::int64_t tokens = inputs.extent(0);
  const Role role = group.roles[0];
  const WeightMatrix& last = *matrix_of(w, role);
  nn::Activations& x = inputs_of(index, group.half, group.number);
  serve(w, index);
  rows_.assign(static_cast<std::size_t>(tokens), {});
  resize(tokens);
  x.resize(tokens, last.columns());
  std::copy_n(hidden.data(), hidden.size(), residual_.data());
  const nn::Pass pass = pass_on(team_);
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      std::copy_n(&inputs(t, 0), inputs.extent(1), x.row(t));
      x.quantize_row(kernels_, t);
      x.gather_row(kernels_, {&last}, t);
    }
  });
  const std::vector<float>* bias = bias_of(w, role);
  nn::linear(pass, x, {{last, bias != nullptr ? bias->data() : nullptr, branch_.output()}});
  settled();
  group.half == Half::end ? add_later(branch_, w.per_layer.norm) : add_later(branch_, w, group.half);
  if (group.half == Half::end && !w.layer_scale.empty()) pending_scale_ = w.layer_scale[0];
  settle_in(hidden);
}

nn::Activations& Forward::inputs_of(std::int64_t layer, Half half, int group) noexcept {
  if (group == 0) return normed_;
  if (half == Half::end) return per_layer_->hidden();
  if (half == Half::cross) return group == 1 ? source_ : cross_->attended();
  return half == Half::mixer ? mixer_of(layer)->inputs(group) : mlp_.hidden();
}

TensorView<const float, 2> Forward::inputs() const noexcept {
  const nn::Activations& x = *part_inputs_;
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

/// normed = norm(residual), times `scales` where there are some, rounded too, for `readers`; what waits is added first, unless the branch is
/// `beside` the one before.
void Forward::normalize(const nn::Pass& pass, const std::vector<float>& weight, const std::vector<float>& bias, bool beside, const nn::Readers& readers,
                        std::span<const float> scales) noexcept {
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      if (!beside) settle(t);
      normalize_row(kernels_, config_, residual_.data() + t * config_.dim, weight, bias, normed_.row(t));
      for (std::int64_t c = 0; !scales.empty() && c < config_.dim; ++c) normed_.row(t)[c] *= scales[static_cast<std::size_t>(t)];
      normed_.quantize_row(kernels_, t);
      normed_.gather_row(kernels_, readers, t);
    }
  });
  if (!beside) settled();
}

const nn::Activations* Forward::routed_of(const nn::Pass& pass, const LayerWeights& w) noexcept {
  const std::vector<float>& scale = w.experts.router_scale;
  if (config_.arch->routes_inputs) return &routed_;
  if (scale.empty()) return nullptr;
  const float shrink = 1 / std::sqrt(static_cast<float>(config_.dim));
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float* row = routed_.row(t);
      kernels_.rms_norm(residual_.data() + t * config_.dim, scale.data(), static_cast<float>(config_.norm_eps), row, config_.dim);
      for (std::int64_t c = 0; c < config_.dim; ++c) row[c] *= shrink;
    }
  });
  return &routed_;
}

/// Leaves what a layer reads to its router.
void Forward::keep_inputs(const nn::Pass& pass) noexcept {
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      settle(t);
      std::copy_n(residual_.data() + t * config_.dim, config_.dim, routed_.row(t));
    }
  });
  settled();
}

/// Experts of layer `index`, as many at a time as are in memory.
void Forward::run_experts(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool shared, OutputRows out) {
  experts_->run(pass, w.experts, normed_, shared, out, routed_of(pass, w),
                [&](std::span<std::int64_t> wanted) { return blocks_.acquire_experts(index, wanted); },
                config_.router.cold.matter() ? blocks_.cold_experts(index) : std::span<const std::uint8_t>());
}

/// Experts beside an MLP whose outputs are in branch_, each normed by itself before they are added up.
void Forward::add_apart(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool has_mlp) {
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) normalize_row(kernels_, config_, residual_.data() + t * config_.dim, w.expert_norm, {}, normed_.row(t));
  });
  run_experts(pass, w, index, false, beside_.output());
  pass.for_rows([&](Range part, int) {
    for (std::int64_t t = part.begin; t < part.end; ++t) {
      float *sum = branch_.row(t), *experts = beside_.row(t);
      normalize_row(kernels_, config_, experts, w.expert_out_norm, {}, experts);
      if (has_mlp) {
        normalize_row(kernels_, config_, sum, w.mlp_out_norm, {}, sum);
        kernels_.add(sum, experts, config_.dim);
      } else {
        std::copy_n(experts, config_.dim, sum);
      }
    }
  });
}

/// What comes behind the halves: a per-layer embedding, whose gate reads the residual stream as it is, and a scale of all.
void Forward::end_layer(const nn::Pass& pass, const LayerWeights& w, const FloatRows& embeddings, int until) noexcept {
  if (!w.per_layer.gate.empty()) {
    pass.for_rows([&](Range part, int) {
      for (std::int64_t t = part.begin; t < part.end; ++t) {
        settle(t);
        std::copy_n(residual_.data() + t * config_.dim, config_.dim, normed_.row(t));
        normed_.quantize_row(kernels_, t);
        normed_.gather_row(kernels_, {&w.per_layer.gate}, t);
      }
    });
    settled();
    if (until == 0) return;
    per_layer_->hide(pass, w.per_layer, normed_, embeddings);
    if (until != nn::to_the_end) return;
    per_layer_->project(pass, w.per_layer, branch_.output());
    add_later(branch_, w.per_layer.norm);
  }
  if (until == nn::to_the_end && !w.layer_scale.empty()) pending_scale_ = w.layer_scale[0];
}

/// The first half of layer `index`, whose state of a sequence is at `place`, as far as `until`.
void Forward::mix(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, std::int64_t place, int until) noexcept {
  nn::Mixer* const mixer = mixer_of(index);
  if (mixer == nullptr) return;
  const LayerSpec& spec = config_.layer(index);
  if (config_.arch->routes_inputs) keep_inputs(pass);
  normalize(pass, w.attention_norm, w.attention_norm_bias, false, mixer->readers(w));
  mixer->run(pass, w, {.place = place, .window = spec.window, .rope = spec.rope}, normed_, branch_.output(), until);
  if (until == nn::to_the_end) add_later(branch_, w, Half::mixer);
}

/// What a decoder's layer reads of an encoder, whose keys and values are at `place` of the state, as far as `until`.
void Forward::cross(const nn::Pass& pass, const LayerWeights& w, std::int64_t place, int until) noexcept {
  if (w.cross.o.empty()) return;
  normalize(pass, w.cross_norm, w.cross_norm_bias, false, nn::CrossAttention::readers(w.cross));
  if (until <= 1) return;  // keys and values are made before
  cross_->run(pass, w.cross, place, normed_, branch_.output(), until);
  if (until == nn::to_the_end) add_later(branch_, w, Half::cross);
}

/// The second half: an MLP, experts, or both side by side. `beside`: it reads the state that attention read.
void Forward::feed_forward(const nn::Pass& pass, const LayerWeights& w, std::int64_t index, bool beside, int until, std::span<const float> scales) {
  if (!config_.layer(index).has_feed_forward()) return;
  const bool has_mlp = !w.mlp.down.empty();
  const bool own_norm = !config_.arch->parallel || !w.ffn_norm.empty();
  nn::RowBuffer& out = beside ? beside_ : branch_;
  const bool latent = is_latent_expert(w);
  const nn::Readers readers = latent ? nn::LatentExpert::readers(w.experts) : has_mlp ? nn::Mlp::readers(w.mlp) : nn::Readers{};
  // Beside attention and without a norm of its own it reads what attention read, rounded, too; but for orders of columns.
  if (own_norm || !beside || normed_.has_orders()) {
    normalize(pass, own_norm ? w.ffn_norm : w.attention_norm, own_norm ? w.ffn_norm_bias : w.attention_norm_bias, beside, readers, scales);
  }
  if (latent) {
    latent_expert_->narrow(pass, w.experts, w.mlp, normed_);
    if (until == 0) return;
    latent_expert_->hide(pass, w.mlp);
    if (until != nn::to_the_end) return;
    latent_expert_->project(pass, w.experts, w.mlp, out.output());
    return add_later(out, w, Half::feed_forward);
  }
  if (until == 0) return;
  if (has_mlp) mlp_.hide(pass, w.mlp, normed_);
  if (until != nn::to_the_end) return;
  if (has_mlp) mlp_.project(pass, w.mlp, out.output());
  if (are_apart(w)) {
    add_apart(pass, w, index, has_mlp);
  } else if (!w.experts.experts.empty()) {
    run_experts(pass, w, index, has_mlp, out.output());
  }
  add_later(out, w, Half::feed_forward);
}

}  // namespace bantam::inline v0
