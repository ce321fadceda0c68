// Orders of rows and columns in other containers.
#include "arrangement.hpp"

#include <cmath>
#include <numeric>

#include "bantam/model/roles.hpp"
#include "sources/transforms.hpp"

namespace bantam::inline v0 {

namespace {

using Order = std::vector<std::int64_t>;

Order in_order(const Selection& selection) {
  Order order;
  selection.for_each([&](std::int64_t index) { order.push_back(index); });
  return order;
}

/// Value heads of a delta net, `width` numbers each behind `before` others: head i of ours goes with key head i mod key_heads; folders
/// have those of a key head side by side.
Order tiled_values(const nn::RecurrentLayer& sizes, std::int64_t width, std::int64_t before = 0) {
  Order order(static_cast<std::size_t>(before));
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t each = sizes.value_heads / sizes.key_heads;
  for (std::int64_t i = 0; i < sizes.value_heads; ++i) {
    const std::int64_t theirs = i % sizes.key_heads * each + i / sizes.key_heads;
    for (std::int64_t w = 0; w < width; ++w) order.push_back(before + theirs * width + w);
  }
  return order;
}

/// Convolutions: ours is (taps, channels), theirs (channels, taps), with channels in an order of their own.
Order by_channels(std::int64_t taps, std::int64_t channels, const Order& order) {
  Order all;
  for (std::int64_t m = 0; m < taps; ++m) {
    for (std::int64_t c = 0; c < channels; ++c) all.push_back((order.empty() ? c : order[static_cast<std::size_t>(c)]) * taps + m);
  }
  return all;
}

}  // namespace

Arrangement arrangement_of(const TensorId& id, const ModelConfig& config, Container container) {
  if (container == Container::native || id.layer < 0) return {};
  const bool gguf = container == Container::gguf;
  const nn::RecurrentLayer& sizes = config.recurrent;
  // Where each key head has one value head both orders are the same.
  const bool tiles = config.arch->tiled_values && !gguf && sizes.value_heads != sizes.key_heads;
  const auto values = [&](std::int64_t width, std::int64_t before = 0) { return tiles ? tiled_values(sizes, width, before) : Order(); };
  switch (id.role) {
    case Role::delta_qkv: return {.rows = values(sizes.value_dim, 2 * sizes.key_heads * sizes.key_dim)};
    case Role::delta_z: return {.rows = values(sizes.value_dim)};
    case Role::delta_a:
    case Role::delta_b: return {.rows = values(1)};
    case Role::delta_out: return {.columns = values(sizes.value_dim)};
    case Role::delta_convolution: return {.columns = by_channels(sizes.taps, sizes.channels, values(sizes.value_dim, 2 * sizes.key_heads * sizes.key_dim))};
    case Role::delta_decay: return {.columns = values(1), .is_log = !gguf};
    case Role::delta_decay_bias: return {.columns = values(1)};
    case Role::channel_q_convolution:
    case Role::channel_k_convolution:
    case Role::channel_v_convolution: return {.columns = by_channels(sizes.taps, sizes.key_heads * sizes.key_dim, {})};
    case Role::channel_decay: return {.is_log = !gguf, .is_negative = gguf && config.arch->find(Field::decay_bound) != nullptr};
    case Role::state_convolution: return {.columns = by_channels(sizes.taps, sizes.channels, {})};
    case Role::state_decay: return {.is_log = !gguf};
    case Role::short_convolution: return {.columns = by_channels(sizes.taps, config.dim, {})};
    case Role::ngram_convolution: return {.columns = by_channels(config.ngrams.taps, config.streams * config.dim, {})};
    default: break;
  }
  const std::int64_t heads = gguf && config.arch->gguf_pairs != config.arch->pairs ? rope_heads_of(id.role, id.layer, config) : 0;
  if (heads == 0) return {};
  const auto [rows, columns] = shape_of(id.role, id.layer, config);
  if (!info_of(id.role).is_matrix()) return {.columns = in_order(Selection::rope_halves(heads, columns / heads))};
  return {.rows = in_order(Selection::rope_halves(heads, rows / heads))};
}

std::vector<std::int64_t> stored_shape(const TensorId& id, const ModelConfig& config, Container container) {
  if (container == Container::native) return {};
  const bool gguf = container == Container::gguf;
  const nn::RecurrentLayer& sizes = config.recurrent;
  const auto of_taps = [&](std::int64_t channels, std::int64_t taps) { return gguf ? Order{channels, taps} : Order{channels, 1, taps}; };
  const auto convolution = [&](std::int64_t channels) { return of_taps(channels, sizes.taps); };
  switch (id.role) {
    case Role::delta_convolution:
    case Role::state_convolution: return convolution(sizes.channels);
    case Role::short_convolution: return convolution(config.dim);
    case Role::ngram_convolution: return of_taps(config.streams * config.dim, config.ngrams.taps);
    case Role::mixer_streams_inject:
    case Role::ffn_streams_inject: return Order{config.streams, config.streams * config.dim};
    // The channels' axis of one is in both.
    case Role::channel_q_convolution:
    case Role::channel_k_convolution:
    case Role::channel_v_convolution: return Order{sizes.key_heads * sizes.key_dim, 1, sizes.taps};
    case Role::channel_decay: return gguf ? Order{sizes.value_heads, 1} : Order{1, 1, sizes.value_heads, 1};
    case Role::state_decay:
    case Role::state_skip: return gguf ? Order{sizes.value_heads, 1} : Order{};
    case Role::q_norm:
    case Role::k_norm: {
      const std::int64_t width = shape_of(id.role, id.layer, config).second;
      return config.arch->head_norm == nn::HeadNorm::own ? Order{width / config.head_dim, config.head_dim} : Order{};
    }
    case Role::token_type_embedding: return Order{config.token_types, config.dim};
    case Role::relative_bias: return Order{config.relative_bias.buckets, shape_of(id.role, id.layer, config).second / config.relative_bias.buckets};
    case Role::stream_router: return Order{config.streams, config.dim};
    case Role::stream_prediction: return Order{config.streams * config.streams, config.streams};
    case Role::stream_correction: return Order{config.streams, config.streams};
    case Role::class_dense: return Order{config.dim, config.dim};
    case Role::class_head: return Order{config.labels, config.dim};
    case Role::pooled_dense: return Order{config.pooled_layers[0].outputs, config.dim};
    case Role::pooled_dense_2: return Order{config.pooled_layers[1].outputs, config.pooled_layers[0].outputs};
    case Role::state_norm: return gguf ? Order{sizes.key_heads, sizes.value_heads / sizes.key_heads * sizes.value_dim} : Order{};
    default: return {};
  }
}

std::vector<float> in_container(const std::vector<float>& values, const Arrangement& theirs) {
  std::vector<float> stored = values;
  for (std::size_t i = 0; i < theirs.columns.size(); ++i) stored[static_cast<std::size_t>(theirs.columns[i])] = values[i];
  for (float& x : stored) x = theirs.is_log ? std::log(-x) : theirs.is_negative ? -x : x;
  return stored;
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  Order result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return result;
}

}  // namespace bantam::inline v0
