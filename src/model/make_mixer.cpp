// Options of blocks from a model's config.
#include "make_mixer.hpp"

#include <cmath>

#include "bantam/nn/blocks/attention.hpp"
#include "bantam/nn/blocks/attention_beside_space.hpp"
#include "bantam/nn/blocks/channel_delta.hpp"
#include "bantam/nn/blocks/gated_delta.hpp"
#include "bantam/nn/blocks/latent_attention.hpp"
#include "bantam/nn/blocks/short_convolution.hpp"
#include "bantam/nn/blocks/state_space.hpp"

namespace bantam::inline v0 {

namespace {

/// What scores of a layer are multiplied by.
double score_scale(const ModelConfig& c, const LayerSpec& spec) {
  return c.scales.attention > 0 ? c.scales.attention : 1 / std::sqrt(static_cast<double>(c.head_dim_of(spec)));
}

std::optional<nn::IndexerOptions> indexer_options(const ModelConfig& c) {
  if (c.index.used == 0) return std::nullopt;
  nn::RopeOptions rope = c.rope;
  rope.pairs = c.arch->index_pairs;
  // DeepSeek's norm of keys is a layer norm, with an epsilon of its own.
  return nn::IndexerOptions{.heads = c.index.heads, .dim = c.index.dim, .used = c.index.used, .block = c.index.block, .rope = rope, .norm_eps = c.is_latent() ? 1e-6 : c.norm_eps};
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
                    .value_dim = c.value_dim_of(spec), .softcap = static_cast<float>(c.scales.attention_softcap), .sight = c.sees_all(i) ? nn::Sight::round : nn::Sight::back, .chunked = c.arch->chunks_windows, .sparse = c.index.used > 0},
          .rope = own_rope ? c.rope : *c.local_rope, .local_rope = any_local ? c.local_rope : std::nullopt, .temperature = c.temperature, .head_norm = c.arch->head_norm,
          .head_layer_norms = c.arch->head_layer_norms, .alibi = c.alibi, .alibi_scale = c.arch->scales_alibi ? score_scale(c, spec) : 1, .relative_bias = c.relative_bias, .clip = static_cast<float>(c.qkv_clip),
          .norms_turned = c.norms_turned, .norms_values = c.arch->norms_values, .value_scale = static_cast<float>(c.scales.values), .output_gate = c.arch->output_gate, .norm_eps = c.norm_eps,
          .indexer = indexer_options(c)};
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

nn::LatentAttentionOptions latent_options(const ModelConfig& c) {
  // Long contexts lower every score; YaRN's other half makes up for it (arXiv:2309.00071, 3.4).
  const double m = c.rope.scaling == nn::RopeScaling::yarn ? 0.1 * c.rope.score_mscale * std::log(c.rope.factor) + 1 : 1;
  return {.heads = c.heads, .head_dim = c.head_dim, .value_dim = c.value_dim, .q_rank = c.q_rank, .kv_rank = c.kv_rank, .rope = c.rope,
          .scale = static_cast<float>(m * m / std::sqrt(static_cast<double>(c.head_dim))), .norm_eps = c.norm_eps, .temperature = c.temperature, .gates_heads = c.arch->output_gate == nn::OutputGate::of_heads,
          .indexer = indexer_options(c)};
}

}  // namespace

std::unique_ptr<nn::Mixer> make_mixer(std::int64_t layer, const KernelTable& kernels, const ModelConfig& c, std::int64_t context_tokens, int workers) {
  switch (c.mixer_of(layer)) {
    case MixerKind::attention: return std::make_unique<nn::MixerOf<nn::SelfAttention, &LayerWeights::attention>>(kernels, attention_options(c, layer), context_tokens, workers);
    case MixerKind::latent_attention: return std::make_unique<nn::MixerOf<nn::LatentAttention, &LayerWeights::attention>>(kernels, latent_options(c), context_tokens, workers);
    case MixerKind::gated_delta: return std::make_unique<nn::MixerOf<nn::GatedDelta, &LayerWeights::delta>>(kernels, c.recurrent, c.arch->tiled_values, c.sigmoid_delta, c.norm_eps, workers);
    case MixerKind::channel_delta: return std::make_unique<nn::MixerOf<nn::ChannelDelta, &LayerWeights::channel_delta>>(kernels, c.recurrent, c.norm_eps, workers, c.decay_bound);
    case MixerKind::state_space: return std::make_unique<nn::MixerOf<nn::StateSpace, &LayerWeights::state_space>>(kernels, space_options(c), workers);
    case MixerKind::attention_beside_space: return std::make_unique<nn::AttentionBesideSpace>(kernels, beside_options(c, layer), c.dim, context_tokens, workers);
    case MixerKind::short_convolution: return std::make_unique<nn::MixerOf<nn::ShortConvolution, &LayerWeights::convolution>>(kernels, c.recurrent);
    case MixerKind::none: break;
  }
  return nullptr;
}

std::int64_t first_like(const ModelConfig& c, std::int64_t i) noexcept {
  const MixerKind kind = c.mixer_of(i);
  const bool by_shape = kind == MixerKind::attention || kind == MixerKind::attention_beside_space;
  std::int64_t like = 0;
  while (like < i && !(c.mixer_of(like) == kind && (!by_shape || c.attends_alike(like, i)))) ++like;
  return like;
}

nn::AttentionShape cross_shape(const ModelConfig& c) {
  return {.heads = c.heads, .kv_heads = c.heads, .head_dim = c.head_dim, .scale = static_cast<float>(c.scales.attention), .sight = nn::Sight::round};
}

nn::AltUpOptions altup_options(const ModelConfig& c) noexcept { return {.dim = c.dim, .streams = c.streams, .active = c.active_stream, .norm_eps = c.norm_eps}; }

nn::HyperConnectionOptions connection_options(const ModelConfig& c) noexcept { return {.dim = c.dim, .streams = c.streams, .rank = c.stream_rank, .norm_eps = c.norm_eps}; }

nn::PerLayerOptions per_layer_options(const ModelConfig& c) {
  return {.dim = c.dim, .width = c.per_layer_dim, .layers = c.layers, .norm_eps = c.norm_eps, .gate = c.gate};
}

}  // namespace bantam::inline v0
