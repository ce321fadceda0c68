// What a ModelConfig says of itself: kinds of layers, caches and states that sequences need, numbers by field.
#include "bantam/model/config.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/nn/kv_state.hpp"
#include "bantam/nn/source_state.hpp"
#include "bantam/nn/token_history.hpp"

namespace bantam::inline v0 {

void check_positions(const ModelConfig& config, std::int64_t tokens, std::string_view what) {
  if (!config.arch->learns_positions() || tokens <= config.context) return;
  fail(Errc::invalid_argument, what, ": expected at most the ", config.context, " tokens that the model has learned positions of, found ", tokens);
}

std::int64_t ModelConfig::dense_layers() const noexcept { return std::ranges::find_if(specs, &LayerSpec::is_sparse) - specs.begin(); }

Pooling ModelConfig::usual_pooling() const noexcept {
  return pooling.value_or(labels == 0 ? Pooling::mean : arch->causal ? Pooling::last : Pooling::cls);
}

std::int64_t ModelConfig::sparse_step() const noexcept {
  const std::int64_t step = dense_layers() + 1;
  const ConfigKey* key = arch->find(Field::sparse_step);
  if (key == nullptr || key->hf.empty() || key->gguf.empty() || arch->find(Field::dense_layers) != nullptr) return 1;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (layer(i).is_sparse() != ((i + 1) % step == 0)) return 1;
  }
  return step;
}

double ModelConfig::logit_scale() const noexcept { return arch->scales_tied_logits && tied ? scales.logits / std::sqrt(static_cast<double>(dim)) : scales.logits; }

std::int64_t ModelConfig::ngram_layer() const noexcept { return std::ranges::find(specs, true, &LayerSpec::reads_ngrams) - specs.begin(); }

bool ModelConfig::lends_keys(std::int64_t i) const noexcept {
  return std::ranges::find(specs, i, &LayerSpec::kv_layer) != specs.end();
}

std::int64_t ModelConfig::choice_place(std::int64_t i) const noexcept {
  while (layer(i).shares_choice) --i;
  return i;
}

bool ModelConfig::is_uniform() const noexcept {
  const bool full_differ = arch->full_layers_differ();
  // Layers of a kind have the same sizes; which layers are of which kind, containers say.
  const auto of_a_kind = [&](const LayerSpec& a, const LayerSpec& b) {
    const bool same = !full_differ || ((a.window > 0) == (b.window > 0) && (a.kv_layer < 0) == (b.kv_layer < 0));
    return same && a.mixer == b.mixer && a.is_sparse() == b.is_sparse() && a.has_feed_forward() == b.has_feed_forward();
  };
  const auto alike = [](const LayerSpec& a, const LayerSpec& b) {
    return a.kv_heads == b.kv_heads && a.ffn == b.ffn && a.experts == b.experts && a.expert_ffn == b.expert_ffn;
  };
  const std::int64_t dense = dense_layers(), step = sparse_step();
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto first = std::ranges::find_if(specs, [&](const LayerSpec& spec) { return of_a_kind(spec, layer(i)); });
    const bool in_order = arch->recurrent != MixerKind::none || i < dense || layer(i).is_sparse() || step > 1;
    if ((layer(i).kv_heads != kv_heads && !full_differ) || !alike(layer(i), *first) || !in_order) return false;
  }
  return true;
}

bool ModelConfig::has_block_configs() const noexcept {
  return arch->drops_halves && std::ranges::all_of(specs, [this](const LayerSpec& spec) { return !attends(spec.mixer) || spec.kv_heads * group_of(spec) == heads; });
}

void ModelConfig::set_layers(std::vector<LayerSpec> of_layers) {
  BANTAM_ASSERT(!of_layers.empty());
  std::int64_t most_heads = 0;
  for (const LayerSpec& spec : of_layers) most_heads = std::max(most_heads, spec.kv_heads * group_of(spec));
  const auto most = [&](std::int64_t LayerSpec::* size) { return (*std::ranges::max_element(of_layers, {}, size)).*size; };
  kv_heads = most(&LayerSpec::kv_heads);
  heads = most_heads;
  ffn = most(&LayerSpec::ffn);
  window = most(&LayerSpec::window);
  router.experts = most(&LayerSpec::experts);
  layers = static_cast<std::int64_t>(of_layers.size());
  encoder_layers = std::ranges::count_if(of_layers, &LayerSpec::encodes);
  if (std::ranges::none_of(of_layers, &LayerSpec::reads_ngrams)) ngrams = {};
  specs = std::move(of_layers);
}

std::vector<std::string> ModelConfig::names_of_labels() const {
  std::vector<std::string> names = label_names;
  names.resize(static_cast<std::size_t>(labels));
  for (std::size_t i = label_names.size(); i < names.size(); ++i) names[i] = message("LABEL_", i);
  return names;
}

std::string name_in(const ModelConfig& c, std::string_view pattern, const TensorId& id) {
  constexpr std::string_view usual = "model.layers.{}.";
  const bool other = !c.arch->drafting_name.empty() && c.is_drafting(id.layer) && pattern.starts_with(usual);
  if (other) return std::string(c.arch->drafting_name) + name_from(pattern.substr(usual.size()), id);
  // A decoder's are counted from its first.
  const bool behind = c.has_source() && id.layer >= c.encoder_layers;
  return name_from(pattern, {id.role, id.layer - (behind ? c.encoder_layers : 0), id.expert});
}

ModelConfig ModelConfig::drafter() const {
  BANTAM_ASSERT(!drafting.empty());
  ModelConfig c = *this;
  c.drafting.clear();
  c.drafting_layers = 0;
  c.set_layers(drafting);
  return c;
}

std::vector<LayerSpec> ModelConfig::drafting_like() const {
  if (drafting_layers != 1 || !arch->may_draft()) return {};
  for (auto spec = specs.rbegin(); spec != specs.rend(); ++spec) {
    if (!attends(spec->mixer) || !spec->has_feed_forward()) continue;
    LayerSpec like = *spec;
    like.shares_choice = false;
    return {like};
  }
  return {};
}

nn::KvShape ModelConfig::kv_shape(std::span<const LayerSpec> of_layers) const {
  std::int64_t most_dim = 0;
  for (const LayerSpec& spec : of_layers) most_dim = std::max({most_dim, head_dim_of(spec), value_dim_of(spec)});
  // One vector for all heads of latent attention; it is the values, too.
  nn::KvShape shape{std::ssize(of_layers), is_latent() ? 1 : kv_heads, is_latent() ? kv_rank + rope.dim : most_dim, {}};
  for (const LayerSpec& spec : of_layers) {
    if (!attends(spec.mixer) || spec.kv_layer >= 0 || spec.encodes) {
      shape.of_layers.emplace_back();
    } else {
      shape.of_layers.push_back(is_latent() ? nn::KvLayer{1, shape.head_dim, 0, spec.window, kv_rank} : nn::KvLayer{spec.kv_heads, head_dim_of(spec), value_dim_of(spec), spec.window});
      if (!spec.shares_choice) shape.of_layers.back().index_dim = index.dim;
    }
  }
  // Whoever reads another's may see more of them.
  for (const LayerSpec& spec : of_layers) {
    if (!attends(spec.mixer) || spec.kv_layer < 0 || spec.kv_layer >= std::ssize(of_layers)) continue;
    std::int64_t& window = shape.of_layers[static_cast<std::size_t>(spec.kv_layer)].window;
    window = spec.window == 0 || window == 0 ? 0 : std::max(window, spec.window);
  }
  return shape;
}

nn::SequenceState ModelConfig::new_state(std::string_view kv, std::span<const LayerSpec> of_layers) const {
  std::vector<std::unique_ptr<nn::BlockState>> blocks;
  const auto none_attends = std::ranges::none_of(of_layers, [](const LayerSpec& spec) { return attends(spec.mixer); });
  // A state counts its tokens, even where no layer of those asked for keeps anything.
  const bool any_recurs = std::ranges::any_of(of_layers, [](const LayerSpec& spec) { return recurs(spec.mixer); });
  // Behind what layers keep: the tokens that n-grams end in, and what was made of them.
  const bool any_reads = std::ranges::any_of(of_layers, &LayerSpec::reads_ngrams);
  if (!none_attends) blocks.push_back(std::make_unique<nn::KvState>(nn::KvCache(kv_shape(of_layers), kv)));
  if (any_recurs || none_attends || any_reads) {
    std::vector<nn::RecurrentLayer> layers;
    for (const LayerSpec& spec : of_layers) layers.push_back(recurs(spec.mixer) ? recurrent : nn::RecurrentLayer{});
    if (any_reads) layers.push_back({.channels = streams * dim, .taps = ngrams.reach() + 1});
    blocks.push_back(std::make_unique<nn::RecurrentState>(std::move(layers)));
  }
  if (any_reads) blocks.push_back(std::make_unique<nn::TokenHistory>());
  if (std::ranges::any_of(of_layers, &LayerSpec::encodes)) blocks.push_back(std::make_unique<nn::SourceState>(nn::KvCache(kv_shape(of_layers), kv)));
  return nn::SequenceState(std::move(blocks));
}

nn::SequenceState ModelConfig::new_layer_state(std::string_view kv, std::int64_t i) const {
  const std::int64_t at = kv_place(i);
  LayerSpec spec = layer(at);
  spec.encodes = false;  // by itself it is a layer like others
  for (std::int64_t j = 0; j < layers; ++j) {
    if (attends_alike(at, j)) spec.kv_heads = std::max(spec.kv_heads, layer(j).kv_heads);
  }
  return new_state(kv, {&spec, 1});
}

FieldValue value_of(const ModelConfig& c, Field field) {
  const std::int64_t dense = c.dense_layers();
  const LayerSpec sparse = dense < c.layers ? c.layer(dense) : LayerSpec();
  const auto of_kind = [&](bool windowed) {
    const auto found = std::ranges::find_if(c.specs, [&](const LayerSpec& spec) { return (spec.window > 0) == windowed; });
    return found != c.specs.end() ? *found : c.layer(0);
  };
  const bool full_differ = c.arch->full_layers_differ();
  const auto unless = [](std::int64_t usual, std::int64_t value) { return value == usual ? FieldValue() : FieldValue(value); };
  switch (field) {
    case Field::dim: return c.dim;
    case Field::layers: return c.has_source() ? c.encoder_layers : c.layers;
    case Field::decoder_layers: return c.has_source() ? FieldValue(c.layers - c.encoder_layers) : FieldValue();
    case Field::decoder_heads: return c.heads;
    case Field::decoder_ffn: return c.ffn;
    case Field::decoder_start: return unless(-1, c.decoder_start);
    case Field::forced_start: return unless(-1, c.forced_start);
    case Field::heads: return c.heads;
    case Field::kv_heads: return full_differ ? of_kind(true).kv_heads : c.kv_heads;
    case Field::full_head_dim:
    case Field::full_value_dim: return c.head_dim_of(of_kind(false));
    case Field::full_kv_heads: return of_kind(false).kv_heads;
    case Field::shared_layers: return std::ranges::count_if(c.specs, [](const LayerSpec& spec) { return spec.kv_layer >= 0; });
    case Field::per_layer_dim: return c.per_layer_dim;
    case Field::per_layer_vocab: return c.per_layer_dim > 0 ? FieldValue(c.per_layer_tokens()) : FieldValue();
    case Field::streams: return unless(0, c.streams);
    case Field::stream_rank: return unless(0, c.stream_rank);
    case Field::active_stream: return c.active_stream;
    case Field::laurel_rank: return unless(0, c.laurel_rank);
    case Field::head_dim: return c.head_dim;
    case Field::value_dim: return c.value_dim;
    // Loaders ask for one where all layers have experts, too, and multiply it by the number of shared ones.
    case Field::ffn:
      if (const auto mlp = std::ranges::find_if(c.specs, [](const LayerSpec& spec) { return !spec.is_sparse() && spec.ffn > 0; }); mlp != c.specs.end()) return mlp->ffn;
      return c.arch->find(Field::shared_experts) != nullptr ? sparse.expert_ffn : unless(0, std::max(sparse.ffn, sparse.expert_ffn));
    case Field::ffn_factor: return c.ffn % c.dim == 0 ? FieldValue(c.ffn / c.dim) : FieldValue(static_cast<double>(c.ffn) / static_cast<double>(c.dim));
    case Field::vocab: return c.vocab;
    case Field::context: return c.context;
    case Field::index_heads: return unless(0, c.index.heads);
    case Field::index_dim: return unless(0, c.index.dim);
    case Field::index_used: return unless(0, c.index.used);
    case Field::index_block: return c.index.block;
    case Field::norm_eps: return c.norm_eps;
    case Field::rope_base: return c.rope.base;
    case Field::local_rope_base: return c.local_rope ? FieldValue(c.local_rope->base) : FieldValue();
    case Field::rope_dim: return c.rope.dim;
    case Field::local_rope_dim: return c.local_rope ? FieldValue(c.local_rope->dim) : FieldValue();
    case Field::window: return unless(0, c.window);
    case Field::q_rank: return unless(0, c.q_rank);
    case Field::kv_rank:
    case Field::latent_value_dim: return unless(0, c.kv_rank);
    case Field::nope_dim: return c.head_dim - c.rope.dim;
    case Field::latent_heads: return std::int64_t{1};
    case Field::latent_key_dim: return c.kv_rank + c.rope.dim;
    case Field::alibi: return c.alibi;
    case Field::bias_buckets: return c.relative_bias.buckets;
    case Field::bias_distance: return c.relative_bias.distance;
    case Field::qkv_clip: return c.qkv_clip > 0 ? FieldValue(c.qkv_clip) : FieldValue();
    case Field::attention_softcap: return c.scales.attention_softcap;
    case Field::final_softcap: return c.scales.final_softcap;
    case Field::embedding_scale: return c.scales.embedding;
    case Field::residual_scale: return c.scales.residual;
    case Field::depth_scale: return c.scales.residual * std::sqrt(static_cast<double>(c.layers));
    case Field::attention_scale: return c.scales.attention;
    case Field::attention_scalar: {
      if (c.scales.attention == 0) return c.head_dim;
      const double scalar = 1 / (c.scales.attention * c.scales.attention);
      // What it was made of, mostly.
      return std::fabs(scalar - std::round(scalar)) < 1e-9 * scalar ? FieldValue(static_cast<std::int64_t>(std::llround(scalar))) : FieldValue(scalar);
    }
    case Field::temperature_scale: return c.temperature.scale > 0 ? FieldValue(c.temperature.scale) : FieldValue();
    case Field::logit_scale: return 1 / c.scales.logits;
    case Field::logit_factor: return c.scales.logits;
    case Field::base_dim: return c.scales.logits * static_cast<double>(c.dim);
    case Field::attention_in_scale: return c.scales.attention_in;
    case Field::attention_out_scale: return c.scales.attention_out;
    case Field::key_scale: return c.scales.keys;
    case Field::value_scale: return c.scales.values;
    case Field::space_in_scale: return c.scales.space_in;
    case Field::space_out_scale: return c.scales.space_out;
    case Field::space_gate_scale: return c.scales.space[0];
    case Field::space_value_scale: return c.scales.space[1];
    case Field::space_key_scale: return c.scales.space[2];
    case Field::space_query_scale: return c.scales.space[3];
    case Field::space_step_scale: return c.scales.space[4];
    case Field::gate_scale: return c.scales.gate;
    case Field::down_scale: return c.scales.down;
    case Field::convolution_taps: return unless(1, c.recurrent.taps);
    case Field::recurrent_key_heads: return unless(0, c.recurrent.key_heads);
    case Field::recurrent_key_dim: return unless(0, c.recurrent.key_dim);
    case Field::recurrent_heads: return unless(0, c.recurrent.value_heads);
    case Field::recurrent_value_dim: return unless(0, c.recurrent.value_dim);
    case Field::recurrent_inner: return unless(0, c.recurrent.value_heads * c.recurrent.value_dim);
    case Field::decay_bound: return c.decay_bound;
    case Field::attention_step: return c.arch->attention_step;
    case Field::experts: return unless(0, sparse.experts);
    case Field::experts_used: return unless(0, c.router.used);
    case Field::expert_ffn: return unless(0, sparse.expert_ffn);
    case Field::expert_latent: return unless(0, c.expert_latent);
    case Field::shared_ffn: return sparse.ffn;
    case Field::shared_experts:
      if (sparse.expert_ffn == 0) return {};
      if (sparse.ffn % sparse.expert_ffn == 0) return sparse.ffn / sparse.expert_ffn;
      fail(Errc::unsupported, "config: expected a shared expert as wide as a number of experts of ", sparse.expert_ffn, ", which files of type ", c.arch->name,
           " give, found ", sparse.ffn);
    case Field::dense_layers: return dense;
    case Field::sparse_step: return c.sparse_step();
    case Field::drafting_layers: return std::ssize(c.drafting);
    case Field::router_groups: return c.router.groups;
    case Field::router_groups_used: return c.router.groups_used;
    case Field::router_scale: return static_cast<double>(c.router.scale);
    case Field::router_jitter: return static_cast<double>(c.router.jitter);
  }
  return {};
}

}  // namespace bantam::inline v0
