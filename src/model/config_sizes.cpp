// Sizes of a model and what else config.json and GGUF metadata say in the same way, read and checked.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "bantam/core/error.hpp"
#include "bantam/nn/blocks/altup.hpp"
#include "bantam/nn/blocks/hyper_connections.hpp"
#include "model/config_source.hpp"
#include "model/recurrent_config.hpp"

namespace bantam::inline v0::detail {

namespace {

/// More than any model has by far; a file of a kilobyte must not ask for more.
constexpr std::int64_t most_experts = 1 << 14;

double require_number(const Source& source, Field field) {
  const std::optional<double> value = source.number(field);
  if (!value) fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a number, found nothing");
  return *value;
}

std::int64_t extent_of(const Source& source, Field field, double value) {
  if (!(value >= 1) || value > static_cast<double>(largest_extent) || value != std::floor(value)) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a whole number from 1 to ", largest_extent, ", found ", value);
  }
  return static_cast<std::int64_t>(value);
}

/// One number for all layers, or one for each: 0 for those that do not have it.
std::vector<std::int64_t> extents_of(const Source& source, Field field, std::int64_t layers, const std::function<bool(std::int64_t)>& has) {
  std::vector<std::int64_t> extents;
  for (const double value : source.list(field)) extents.push_back(value == 0 && !has(std::ssize(extents)) ? 0 : extent_of(source, field, value));
  if (extents.empty()) return {require_extent(source, field)};
  if (static_cast<std::int64_t>(extents.size()) != layers) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected one number or ", layers, ", found ", extents.size());
  }
  return extents;
}

/// FFN widths as extents_of() gives them; some files give them in widths of the residual stream.
std::vector<std::int64_t> ffn_of(const Source& source, const ModelConfig& c, const std::function<bool(std::int64_t)>& has) {
  const std::optional<double> factor = source.number(Field::ffn_factor);
  const bool is_said = source.number(Field::ffn) || !source.list(Field::ffn).empty();
  if (!factor || is_said) return extents_of(source, Field::ffn, c.layers, has);
  return {extent_of(source, Field::ffn_factor, std::round(*factor * static_cast<double>(c.dim)))};
}

/// A whole number, 0 where there is none.
std::int64_t count_of(const Source& source, Field field, std::int64_t most = largest_extent) {
  const double value = source.number(field).value_or(0);
  if (!(value >= 0) || value > static_cast<double>(most) || value != std::floor(value)) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a whole number from 0 to ", most, ", found ", value);
  }
  return static_cast<std::int64_t>(value);
}

/// The numbers of the router, checked against each other under the names that they have in the file.
void read_router(const Source& source, std::int64_t experts, nn::RouterOptions& router) {
  const auto expect = [&](bool holds, Field field, auto&&... words) {
    if (!holds) fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected ", words...);
  };
  router.experts = experts;
  router.used = require_extent(source, Field::experts_used);
  router.groups = std::max<std::int64_t>(1, count_of(source, Field::router_groups));
  router.groups_used = std::max<std::int64_t>(1, count_of(source, Field::router_groups_used));
  expect(router.used <= experts, Field::experts_used, "1 to ", experts, " experts a token, found ", router.used);
  expect(experts % router.groups == 0, Field::router_groups, "groups that divide ", experts, " experts, found ", router.groups);
  expect(router.groups_used <= router.groups, Field::router_groups_used, "1 to ", router.groups, " groups a token, found ", router.groups_used);
  const std::int64_t open = experts / router.groups * router.groups_used;
  expect(router.used <= open, Field::experts_used, "at most the ", open, " experts of ", router.groups_used, " of ", router.groups, " groups, found ", router.used);
  const double jitter = source.number(Field::router_jitter).value_or(static_cast<double>(router.jitter));
  expect(jitter >= 0 && jitter <= 1, Field::router_jitter, "a number from 0 to 1, found ", jitter);
  router.jitter = static_cast<float>(jitter);
  const double scale = source.number(Field::router_scale).value_or(0);
  if (scale == 0) return;  // some writers say so where there is none
  // More than any by far, and far from what would overflow.
  constexpr double most = 1e6;
  expect(scale > 0 && scale <= most, Field::router_scale, "a number above 0 and up to ", most, ", found ", scale);
  router.scale = static_cast<float>(scale);
}

/// Experts of the sparse layers, and which layers are dense. Where all are, nothing has to be said of experts.
void read_experts(const Source& source, const std::vector<LayerKind>& kinds, std::vector<LayerSpec>& layers, ModelConfig& c) {
  const std::int64_t dense = count_of(source, Field::dense_layers), step = std::max<std::int64_t>(1, count_of(source, Field::sparse_step));
  std::vector<LayerSpec*> sparse;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const FeedForward half = kinds.empty() ? FeedForward::any : kinds[static_cast<std::size_t>(i)].feed_forward;
    if (half == FeedForward::dense || half == FeedForward::none) continue;
    if (half == FeedForward::any && (i < dense || (i + 1) % step != 0 || source.is_dense(i))) continue;
    sparse.push_back(&layers[static_cast<std::size_t>(i)]);
  }
  if (sparse.empty()) return;
  const std::int64_t experts = require_extent(source, Field::experts), ffn = require_extent(source, Field::expert_ffn);
  if (experts > most_experts) fail(Errc::corrupt, source.place, ": ", source.key(Field::experts), ": expected at most ", most_experts, ", found ", experts);
  read_router(source, experts, c.router);
  c.expert_latent = count_of(source, Field::expert_latent, 1 << 16);
  const std::int64_t shared_experts = count_of(source, Field::shared_experts, most_experts);
  const std::int64_t shared = shared_experts > 0 ? shared_experts * ffn : count_of(source, Field::shared_ffn);
  if (shared > largest_extent) fail(Errc::corrupt, source.place, ": ", source.key(Field::shared_experts), ": expected at most ", largest_extent / ffn, ", found ", shared_experts);
  for (LayerSpec* layer : sparse) {
    layer->experts = experts;
    layer->expert_ffn = ffn;
    layer->ffn = shared;
  }
}

/// Heads, key-value heads and FFN widths, of all layers alike or of each; experts; which layers recur.
void read_layers(const Source& source, ModelConfig& c) {
  const std::vector<LayerKind> kinds = source.kinds(c.layers);
  const auto kind_of = [&](std::int64_t i) { return kinds.empty() ? LayerKind() : kinds[static_cast<std::size_t>(i)]; };
  const auto attends_at = [&](std::int64_t i) { return attends(kind_of(i).mixer); };
  const auto feeds_at = [&](std::int64_t i) { return kind_of(i).feed_forward != FeedForward::none; };
  const auto at = [](const std::vector<std::int64_t>& list, std::int64_t i) { return list[list.size() == 1 ? 0 : static_cast<std::size_t>(i)]; };
  std::int64_t first = 0;  // that attends
  while (first < c.layers && !attends_at(first)) ++first;
  c.heads = c.kv_heads = 1;
  std::vector<LayerSpec> layers(static_cast<std::size_t>(c.layers));
  if (first < c.layers) {
    const std::vector<std::int64_t> heads = extents_of(source, Field::heads, c.layers, attends_at);
    const bool grouped = source.number(Field::kv_heads) || !source.list(Field::kv_heads).empty();
    const std::vector<std::int64_t> kv_heads = grouped ? extents_of(source, Field::kv_heads, c.layers, attends_at) : heads;
    c.heads = at(heads, first);
    // Every head of latent attention has its own part of the keys' up-projection, whatever the cache holds.
    c.kv_heads = c.arch->latent ? c.heads : at(kv_heads, first);
    for (std::int64_t i = 0; i < c.layers; ++i) {
      // What does not attend has as many as the first that does, of which it makes nothing.
      const std::int64_t of = attends_at(i) ? i : first, h = at(heads, of), kv = c.arch->latent ? h : at(kv_heads, of);
      if (kv > h || h % kv != 0) {
        fail(Errc::corrupt, source.place, ": ", source.key(Field::kv_heads), ": expected a divisor of the ", h, " heads, found ", kv);
      }
      if (h / kv != c.heads / c.kv_heads && !c.arch->groups_differ()) {
        fail(Errc::unsupported, source.place, ": ", source.key(Field::kv_heads), "[", i, "]: expected ", c.heads / c.kv_heads,
             " heads for each, as in layer ", first, ", found ", h / kv);
      }
      layers[static_cast<std::size_t>(i)].kv_heads = kv;
      if (c.arch->groups_differ()) layers[static_cast<std::size_t>(i)].group = h / kv;
    }
  } else {
    for (LayerSpec& layer : layers) layer.kv_heads = 1;
  }
  for (std::int64_t i = 0; i < c.layers; ++i) layers[static_cast<std::size_t>(i)].mixer = kind_of(i).mixer, layers[static_cast<std::size_t>(i)].encodes = i < c.encoder_layers;
  if (c.arch->has_experts()) read_experts(source, kinds, layers, c);
  const auto is_dense = [&](std::int64_t i) { return feeds_at(i) && !layers[static_cast<std::size_t>(i)].is_sparse(); };
  bool any_dense = false;
  for (std::int64_t i = 0; i < c.layers; ++i) any_dense = any_dense || is_dense(i);
  if (any_dense) {
    const std::vector<std::int64_t> ffn = ffn_of(source, c, is_dense);
    for (std::int64_t i = 0; i < c.layers; ++i) {
      if (is_dense(i)) layers[static_cast<std::size_t>(i)].ffn = at(ffn, i);
    }
  }
  c.set_layers(std::move(layers));
  read_recurrent(source, c);
}

/// The indexer of sparse attention.
void read_index(const Source& source, ModelConfig& c) {
  if (c.arch->find(Field::index_used) == nullptr) return;
  c.index = {.heads = require_extent(source, Field::index_heads), .dim = require_extent(source, Field::index_dim), .used = require_extent(source, Field::index_used),
             .block = extent_or(source, Field::index_block, 1)};
  if (c.index.block > c.index.used) fail(Errc::corrupt, source.place, ": ", source.key(Field::index_block), ": expected up to ", c.index.used, " tokens, found ", c.index.block);
  if (c.index.heads > 1 << 16 || c.index.dim > 1 << 16) fail(Errc::corrupt, source.place, ": ", source.key(Field::index_heads), ": expected up to 65536 heads of up to 65536, found ", c.index.heads, " of ", c.index.dim);
}

/// Ranks and sizes of latent attention.
void read_latent(const Source& source, ModelConfig& c) {
  c.q_rank = count_of(source, Field::q_rank);
  c.kv_rank = require_extent(source, Field::kv_rank);
  c.rope.dim = require_extent(source, Field::rope_dim);
  // Folders name the two parts of a head, GGUF files the whole: absorbed ones beside the sizes of the cache, older ones alone.
  const bool absorbed = source.number(Field::head_dim).has_value();
  c.head_dim = source.number(Field::nope_dim) ? require_extent(source, Field::nope_dim) + c.rope.dim
                                              : require_extent(source, absorbed ? Field::head_dim : Field::latent_key_dim);
  c.value_dim = require_extent(source, source.number(Field::value_dim) ? Field::value_dim : Field::latent_value_dim);
  if (c.rope.dim >= c.head_dim || c.rope.dim % 2 != 0) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::rope_dim), ": expected an even size below the head's ", c.head_dim, ", found ", c.rope.dim);
  }
  for (const auto& [field, size] : {std::pair{Field::kv_rank, c.kv_rank}, {Field::value_dim, c.value_dim}}) {
    if (size % panel_rows != 0 || size > 1 << 16) {
      fail(Errc::unsupported, source.place, ": ", source.key(field), ": expected a multiple of ", panel_rows, " up to 65536, found ", size);
    }
  }
}

/// What a decoder begins with, and that its sizes are the encoder's.
void read_decoder(const Source& source, ModelConfig& c) {
  const auto same = [&](Field field, Field of_encoder, std::int64_t expected) {
    const std::int64_t found = extent_or(source, field, expected);
    if (found != expected) fail(Errc::unsupported, source.place, ": ", source.key(field), ": expected the ", expected, " of ", source.key(of_encoder), ", found ", found);
  };
  same(Field::decoder_heads, Field::heads, c.heads);
  same(Field::decoder_ffn, Field::ffn, c.ffn);
  c.decoder_start = count_of(source, Field::decoder_start);
  if (source.number(Field::forced_start)) c.forced_start = count_of(source, Field::forced_start);
}

/// Buckets of distances.
void read_relative_bias(const Source& source, ModelConfig& c) {
  c.relative_bias = {extent_or(source, Field::bias_buckets, c.arch->relative_bias.buckets), extent_or(source, Field::bias_distance, c.arch->relative_bias.distance)};
  // More than any model has by far: a table of all distances is made for each head.
  constexpr std::int64_t most = 1 << 14;
  const auto& [buckets, distance] = c.relative_bias;
  if (buckets % 4 != 0 || buckets > most) fail(Errc::corrupt, source.place, ": ", source.key(Field::bias_buckets), ": expected a multiple of 4 up to ", most, ", found ", buckets);
  if (distance <= buckets / 2 || distance > most) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::bias_distance), ": expected more than ", buckets / 2, " and up to ", most, " tokens, found ", distance);
  }
}

/// Several residual streams, and the branch beside attention.
void read_streams(const Source& source, ModelConfig& c) {
  const auto usual = [&](Field field) { return static_cast<std::int64_t>(c.arch->find(field)->otherwise); };
  if (c.arch->find(Field::laurel_rank) != nullptr) c.laurel_rank = extent_or(source, Field::laurel_rank, usual(Field::laurel_rank));
  if (c.arch->find(Field::streams) == nullptr) return;
  c.streams = extent_or(source, Field::streams, usual(Field::streams));
  static_assert(nn::HyperConnectionOptions::most_streams == nn::AltUpOptions::most_streams);
  if (c.arch->find(Field::stream_rank) != nullptr) {
    c.stream_rank = extent_or(source, Field::stream_rank, usual(Field::stream_rank));
    if (c.stream_rank > 1 << 16) fail(Errc::corrupt, source.place, ": ", source.key(Field::stream_rank), ": expected at most 65536, found ", c.stream_rank);
  }
  c.active_stream = count_of(source, Field::active_stream);
  constexpr std::int64_t most = nn::AltUpOptions::most_streams;
  if (c.streams < 2 || c.streams > most) fail(Errc::unsupported, source.place, ": ", source.key(Field::streams), ": expected 2 to ", most, ", found ", c.streams);
  if (c.connects_streams()) return;
  if (c.active_stream >= c.streams) fail(Errc::corrupt, source.place, ": ", source.key(Field::active_stream), ": expected one of ", c.streams, ", found ", c.active_stream);
  if (c.dim % panel_rows != 0) fail(Errc::unsupported, source.place, ": ", source.key(Field::dim), ": expected a multiple of ", panel_rows, " where there are several residual streams, found ", c.dim);
  if (c.per_layer_dim == 0) fail(Errc::unsupported, source.place, ": ", source.key(Field::per_layer_dim), ": expected at least 1 where there are several residual streams, found 0");
}

double positive_or(const Source& source, Field field, double otherwise) {
  const double value = source.number(field).value_or(otherwise);
  if (!(value > 0) || !std::isfinite(value)) {
    fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected a number above 0, found ", value);
  }
  return value;
}

/// What a few models multiply by. 0, or nothing, stands for what others do.
void read_scales(const Source& source, ModelConfig& c) {
  const auto scale = [&](Field field, double otherwise) {
    if (const ConfigKey* key = c.arch->find(field); key != nullptr && key->otherwise != 0) otherwise = key->otherwise;
    const double value = source.number(field).value_or(0);
    return value == 0 ? otherwise : positive_or(source, field, otherwise);
  };
  ModelScales& s = c.scales;
  s.embedding = scale(Field::embedding_scale, c.arch->scales_embedding ? std::sqrt(static_cast<double>(c.dim)) : 1);
  const auto layers = static_cast<double>(c.layers), dim = static_cast<double>(c.dim);
  s.residual = scale(Field::residual_scale, scale(Field::depth_scale, std::sqrt(layers)) / std::sqrt(layers));
  s.attention = scale(Field::attention_scale, c.arch->attention_scale);
  if (const double scalar = scale(Field::attention_scalar, 0); scalar > 0 && scalar != static_cast<double>(c.head_dim)) s.attention = 1 / std::sqrt(scalar);
  s.logits = scale(Field::logit_factor, 1) / scale(Field::logit_scale, dim / scale(Field::base_dim, dim));
  s.attention_in = scale(Field::attention_in_scale, 1);
  s.attention_out = scale(Field::attention_out_scale, 1);
  s.keys = scale(Field::key_scale, 1);
  s.values = scale(Field::value_scale, 1);
  s.space_in = scale(Field::space_in_scale, 1);
  s.space_out = scale(Field::space_out_scale, 1);
  s.space = {scale(Field::space_gate_scale, 1), scale(Field::space_value_scale, 1), scale(Field::space_key_scale, 1), scale(Field::space_query_scale, 1),
             scale(Field::space_step_scale, 1)};
  s.gate = scale(Field::gate_scale, 1);
  s.down = scale(Field::down_scale, 1);
  s.attention_softcap = scale(Field::attention_softcap, 0);
  s.final_softcap = scale(Field::final_softcap, 0);
  c.alibi = scale(Field::alibi, c.arch->alibi);
  c.qkv_clip = scale(Field::qkv_clip, 0);
  // More than the paper's by far; steeper slopes are 0.
  if (c.alibi > 1024) fail(Errc::corrupt, source.place, ": ", source.key(Field::alibi), ": expected a number up to 1024, found ", c.alibi);
}

}  // namespace

std::int64_t require_extent(const Source& source, Field field) {
  return extent_of(source, field, require_number(source, field));
}

std::int64_t extent_or(const Source& source, Field field, std::int64_t otherwise) {
  const std::optional<double> value = source.number(field);
  return value ? extent_of(source, field, *value) : otherwise;
}

ModelConfig read_sizes(const ArchSpec& arch, const Source& source) {
  ModelConfig c;
  c.arch = &arch;
  c.router = arch.router;
  c.gate = arch.gate;
  c.rope.pairs = arch.pairs;
  c.has_head = arch.find(Role::head) != nullptr;
  c.has_rope = !arch.learns_positions();
  c.dim = require_extent(source, Field::dim);
  c.layers = require_extent(source, Field::layers);
  if (arch.encodes) c.encoder_layers = c.layers;
  if (arch.encodes) c.layers += extent_or(source, Field::decoder_layers, c.layers);
  if (c.layers > 100'000) fail(Errc::corrupt, source.place, ": ", source.key(Field::layers), ": expected at most 100000, found ", c.layers);
  c.drafting_layers = count_of(source, Field::drafting_layers, 64);
  if (source.layers_have_drafting) c.layers -= c.drafting_layers;
  if (c.layers < 1) fail(Errc::corrupt, source.place, ": ", source.key(Field::drafting_layers), ": expected fewer than the layers, found ", c.drafting_layers);
  read_layers(source, c);
  const std::optional<double> head_dim = source.number(Field::head_dim);
  const bool any_attends = std::ranges::any_of(c.specs, [](const LayerSpec& spec) { return attends(spec.mixer); });
  if (!any_attends) {
    c.head_dim = c.value_dim = 16;  // of no layer
  } else if (arch.latent) {
    read_latent(source, c);
  } else if (!head_dim && c.dim % c.heads != 0) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::dim), ": expected a multiple of the ", c.heads, " heads, found ", c.dim);
  } else {
    c.head_dim = head_dim ? extent_of(source, Field::head_dim, *head_dim) : c.dim / c.heads;
    c.value_dim = extent_or(source, Field::value_dim, c.head_dim);
  }
  if ((!arch.latent && c.head_dim % 2 != 0) || c.head_dim > most_head_dim) {
    const bool is_said = !source.key(Field::head_dim).empty();
    fail(Errc::corrupt, source.place, ": ", source.key(is_said ? Field::head_dim : Field::heads), ": expected ", is_said ? "" : "heads of ", "an even size up to ", most_head_dim, ", found ", c.head_dim);
  }
  // Values that may be keys, and outputs with gates beside queries, are as long as these.
  const bool as_long = arch.full_heads_differ() || arch.output_gate == nn::OutputGate::beside_queries || arch.encodes;
  if (!arch.latent && (c.value_dim > most_head_dim || (as_long && c.value_dim != c.head_dim))) {
    fail(Errc::unsupported, source.place, ": ", source.key(Field::value_dim), ": expected ", as_long ? message("the ", c.head_dim, " of keys") : message("at most ", most_head_dim), ", found ", c.value_dim);
  }
  if (c.heads * std::max({c.head_dim, c.value_dim, c.kv_rank}) > largest_extent) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::heads), ": expected at most ", largest_extent, " rows of q, found ", c.heads, " heads of ", c.head_dim);
  }
  if (arch.encodes) read_decoder(source, c);
  if (arch.relative_bias.buckets > 0) read_relative_bias(source, c);
  c.context = extent_or(source, Field::context, 2048);
  c.norm_eps = positive_or(source, Field::norm_eps, arch.default_norm_eps);
  c.rope.base = positive_or(source, Field::rope_base, arch.default_rope_base);
  c.per_layer_dim = count_of(source, Field::per_layer_dim);
  if (c.per_layer_dim * c.layers > largest_extent) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::per_layer_dim), ": expected at most ", largest_extent / c.layers, ", found ", c.per_layer_dim);
  }
  read_streams(source, c);
  // Of layers without a window the whole head, in the end: see read_full_layers().
  if (arch.proportional_rope) c.rope.dim = c.head_dim;
  if (!arch.latent && !arch.proportional_rope) c.rope.dim = any_attends ? extent_or(source, Field::rope_dim, c.head_dim) : c.head_dim;
  if (c.rope.dim > c.head_dim || c.rope.dim % 2 != 0) {
    fail(Errc::corrupt, source.place, ": ", source.key(Field::rope_dim), ": expected an even size up to the head's ", c.head_dim, ", found ", c.rope.dim);
  }
  c.rope.original_context = c.context;
  read_index(source, c);
  read_scales(source, c);
  return c;
}

float checked_limit(double limit, const std::string& place) {
  if (!(limit >= 0) || !std::isfinite(static_cast<float>(limit))) fail(Errc::corrupt, place, ": expected a number of at least 0, found ", limit);
  return static_cast<float>(limit);
}

double unsaid_attention_scale(const ModelConfig& c) noexcept {
  if (c.arch->attention_scale > 0) return c.arch->attention_scale;
  if (c.arch->layers_scaled_by_dim != c.layers || c.dim / c.heads == c.head_dim) return 0;
  return 1 / std::sqrt(static_cast<double>(c.dim / c.heads));
}

void set_ropes(ModelConfig& c, double local_base, std::int64_t local_dim) {
  for (std::int64_t i = 0; i < c.layers; ++i) c.specs[static_cast<std::size_t>(i)].rope = rope_of(c, i);
  if (std::ranges::none_of(c.specs, [](const LayerSpec& spec) { return spec.rope == nn::LayerRope::local; })) return;
  const double usual = c.arch->default_local_rope_base > 0 ? c.arch->default_local_rope_base : c.rope.base;
  // A rope over whole heads: those of layers with a window.
  const std::int64_t dim = c.arch->proportional_rope ? c.head_dim : local_dim;
  c.local_rope = nn::RopeOptions{.dim = dim, .base = local_base > 0 ? local_base : usual, .pairs = c.rope.pairs};
}

void check_router(const nn::RouterOptions& router, const std::string& place) {
  if (router.experts == 0) return;
  try {
    const nn::Router checked(router);
  } catch (const Error& error) {
    fail(Errc::corrupt, place, ": ", error.what());
  }
}

void check_rope(const nn::RopeOptions& rope, const std::string& place) {
  if (rope.scaling == nn::RopeScaling::yarn && !(rope.base > 1 && rope.beta_slow > 0 && rope.beta_fast > 0)) {
    fail(Errc::corrupt, place, ": rope: yarn expects a base above 1 and betas above 0, found ", rope.base, ", ", rope.beta_fast, " and ", rope.beta_slow);
  }
  if (!(rope.attention_factor >= 0) || !std::isfinite(rope.attention_factor)) {
    fail(Errc::corrupt, place, ": rope: expected an attention factor of at least 0, found ", rope.attention_factor);
  }
  for (const float divisor : rope.long_divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) fail(Errc::corrupt, place, ": rope: expected long factors above 0, found ", divisor);
  }
  for (const float divisor : rope.divisors) {
    if (!(divisor > 0) || !std::isfinite(divisor)) fail(Errc::corrupt, place, ": rope_divisors: expected numbers above 0, found ", divisor);
  }
}

}  // namespace bantam::inline v0::detail
