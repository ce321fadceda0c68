// What follows from the table of roles.
#include "bantam/model/roles.hpp"

#include <algorithm>

namespace bantam::inline v0 {

namespace {

template <class T>
T* place_of(LayerWeights& layer, const TensorId& id) noexcept {
  const RoleInfo& info = info_of(id.role);
  if constexpr (std::is_same_v<T, WeightMatrix>) {
    return info.matrix != nullptr ? info.matrix(layer, id.expert) : nullptr;
  } else {
    return info.vector != nullptr ? info.vector(layer, id.expert) : nullptr;
  }
}

template <class T>
T* place_of(ModelWeights& weights, const TensorId& id) noexcept {
  const RoleInfo& info = info_of(id.role);
  if constexpr (std::is_same_v<T, WeightMatrix>) {
    if (info.model_matrix != nullptr) return &(weights.*info.model_matrix);
  } else {
    if (info.model_vector != nullptr) return &(weights.*info.model_vector);
  }
  if (id.layer < 0) return nullptr;
  const std::int64_t layers = std::ssize(weights.layers);
  return place_of<T>(id.layer < layers ? weights.layers[static_cast<std::size_t>(id.layer)] : weights.drafting[static_cast<std::size_t>(id.layer - layers)], id);
}

/// The groups of all blocks, in the order in which a layer that had them all would run them.
constexpr auto groups = [] {
  constexpr std::size_t count = std::size(nn::attention_inputs) + std::size(nn::gated_delta_inputs) + std::size(nn::channel_delta_inputs) +
                                std::size(nn::state_space_inputs) + std::size(nn::short_convolution_inputs) + std::size(nn::cross_attention_inputs) + std::size(nn::mlp_inputs) + std::size(nn::per_layer_inputs);
  std::array<InputGroup, count> all{};
  std::size_t next = 0;
  const auto add = [&](std::span<const nn::BlockInputs> block, Half half, Role norm) {
    for (std::size_t i = 0; i < block.size(); ++i) all[next++] = {block[i].name, block[i].roles, block[i].source.value_or(norm), block[i].norm, half, static_cast<int>(i), block[i].adds, block[i].fixed};
  };
  for (const std::span<const nn::BlockInputs> mixer : {std::span<const nn::BlockInputs>(nn::attention_inputs), {nn::gated_delta_inputs}, {nn::channel_delta_inputs},
                                                       {nn::state_space_inputs}, {nn::short_convolution_inputs}}) {
    add(mixer, Half::mixer, Role::attention_norm);
  }
  add(nn::cross_attention_inputs, Half::cross, Role::cross_norm);
  add(nn::mlp_inputs, Half::feed_forward, Role::ffn_norm);
  add(nn::per_layer_inputs, Half::end, Role::ffn_norm);
  return all;
}();

/// Whether norms of queries and keys have a weight for each of their numbers, not for those of one head.
constexpr bool norms_whole_rows(const ModelConfig& c) noexcept {
  return c.arch->head_norm == nn::HeadNorm::all || c.arch->head_norm == nn::HeadNorm::own;
}

}  // namespace

std::int64_t extent_of(WeightAxis axis, std::int64_t layer, const ModelConfig& c) noexcept {
  LayerSpec spec = layer < 0 ? LayerSpec() : c.layer(layer);
  if (!attends(spec.mixer)) spec.kv_heads = 0;
  const std::int64_t heads = c.group_of(spec) * spec.kv_heads, head_dim = c.head_dim_of(spec);
  const bool chooses = spec.kv_heads > 0 && !spec.shares_choice;
  const std::int64_t keys = spec.kv_layer < 0 ? spec.kv_heads * head_dim : 0;
  const nn::RecurrentLayer delta = spec.mixer == MixerKind::gated_delta ? c.recurrent : nn::RecurrentLayer{};
  const nn::RecurrentLayer channel = spec.mixer == MixerKind::channel_delta ? c.recurrent : nn::RecurrentLayer{};
  const nn::RecurrentLayer state = has_space(spec.mixer) ? c.recurrent : nn::RecurrentLayer{};
  const std::int64_t convolved = spec.mixer == MixerKind::short_convolution ? c.dim : 0;
  switch (axis) {
    case WeightAxis::one: return 1;
    case WeightAxis::vocab: return c.vocab;
    case WeightAxis::per_layer_vocab: return c.per_layer_tokens();
    case WeightAxis::positions: return c.positions();
    case WeightAxis::encoder_positions: return c.has_source() ? c.positions() : 0;
    case WeightAxis::dim: return c.dim;
    case WeightAxis::twice_dim: return 2 * c.dim;
    case WeightAxis::heads: return heads;
    case WeightAxis::queries: return heads * head_dim * (c.arch->output_gate == nn::OutputGate::beside_queries ? 2 : 1);
    case WeightAxis::keys: return c.is_latent() ? 0 : keys;
    case WeightAxis::values: return c.is_latent() || spec.kv_layer >= 0 ? 0 : spec.kv_heads * c.value_dim_of(spec);
    case WeightAxis::outputs: return heads * c.value_dim_of(spec);
    case WeightAxis::q_norm: return spec.kv_heads == 0 ? 0 : norms_whole_rows(c) ? extent_of(WeightAxis::queries, layer, c) : head_dim;
    case WeightAxis::k_norm: return keys == 0 ? 0 : norms_whole_rows(c) ? keys : head_dim;
    case WeightAxis::bias_table: return c.relative_bias.buckets * heads;
    case WeightAxis::cross_heads: return c.has_source() && !spec.encodes ? heads * head_dim : 0;
    case WeightAxis::rope_pairs: return c.rope.dim / (c.arch->halves_full_rope ? 1 : 2);
    case WeightAxis::q_rank: return spec.kv_heads > 0 ? c.q_rank : 0;
    case WeightAxis::kv_rank: return spec.kv_heads > 0 ? c.kv_rank : 0;
    case WeightAxis::latent: return c.kv_rank > 0 && spec.kv_heads > 0 ? c.kv_rank + c.rope.dim : 0;
    case WeightAxis::latent_queries: return extent_of(WeightAxis::heads, layer, c) * c.kv_rank;
    case WeightAxis::nope: return c.head_dim - c.rope.dim;
    case WeightAxis::gates:
      return c.arch->output_gate == nn::OutputGate::own ? heads * c.value_dim_of(spec) : nn::is_of_heads(c.arch->output_gate) ? heads : 0;
    case WeightAxis::index_queries: return chooses ? c.index.heads * c.index.dim : 0;
    case WeightAxis::index_dim: return chooses ? c.index.dim : 0;
    case WeightAxis::index_heads: return chooses ? c.index.heads : 0;
    case WeightAxis::delta_channels: return delta.channels;
    case WeightAxis::delta_values: return delta.value_heads * delta.value_dim;
    case WeightAxis::delta_heads: return delta.value_heads;
    case WeightAxis::delta_taps: return delta.taps * delta.channels;
    case WeightAxis::delta_value: return delta.value_dim;
    case WeightAxis::channel_keys: return channel.key_heads * channel.key_dim;
    case WeightAxis::channel_heads: return channel.key_heads;
    case WeightAxis::channel_taps: return channel.taps * channel.key_heads * channel.key_dim;
    case WeightAxis::channel_rank: return channel.key_dim;
    case WeightAxis::channel_gates: return (c.arch->find(Role::channel_f_b) != nullptr ? 1 : channel.key_heads) * channel.key_dim;
    case WeightAxis::state_in: return state.value_heads * state.value_dim + state.channels + state.value_heads;
    case WeightAxis::state_inner: return state.value_heads * state.value_dim;
    case WeightAxis::state_channels: return state.channels;
    case WeightAxis::state_taps: return state.taps * state.channels;
    case WeightAxis::state_heads: return state.value_heads;
    case WeightAxis::short_in: return 3 * convolved;
    case WeightAxis::short_dim: return convolved;
    case WeightAxis::short_taps: return c.recurrent.taps * convolved;
    case WeightAxis::ffn: return spec.ffn;
    case WeightAxis::experts: return spec.experts;
    case WeightAxis::expert_ffn: return spec.expert_ffn;
    case WeightAxis::expert_dim: return c.expert_dim();
    case WeightAxis::expert_latent: return spec.is_sparse() ? c.expert_latent : 0;
    case WeightAxis::per_layer: return c.per_layer_dim;
    case WeightAxis::all_per_layer: return c.layers * c.per_layer_dim;
    case WeightAxis::other_streams: return c.alternates_streams() ? (c.streams - 1) * c.dim : 0;
    case WeightAxis::stream_router: return c.alternates_streams() ? c.streams * c.dim : 0;
    case WeightAxis::stream_pairs: return c.alternates_streams() ? c.streams * c.streams : 0;
    case WeightAxis::stream_triples: return c.alternates_streams() ? c.streams * c.streams * c.streams : 0;
    case WeightAxis::all_streams: return c.connects_streams() ? c.streams * c.dim : 0;
    case WeightAxis::stream_rank: return c.stream_rank;
    case WeightAxis::stream_inject: return c.connects_streams() ? c.streams * c.streams * c.dim : 0;
    case WeightAxis::ngram_rows: return c.ngrams.rows;
    case WeightAxis::ngram_row: return c.ngrams.width;
    case WeightAxis::ngram_width: return spec.reads_ngrams ? c.ngrams.all_width() : 0;
    case WeightAxis::ngram_streams: return spec.reads_ngrams ? c.streams * c.dim : 0;
    case WeightAxis::ngram_taps: return spec.reads_ngrams ? c.ngrams.taps * c.streams * c.dim : 0;
    case WeightAxis::laurel: return spec.mixer != MixerKind::none ? c.laurel_rank : 0;
    case WeightAxis::token_type_rows: return c.token_types * c.dim;
    case WeightAxis::class_square: return c.labels > 0 ? c.dim * c.dim : 0;
    case WeightAxis::class_rows: return c.labels * c.dim;
    case WeightAxis::labels: return c.labels;
    case WeightAxis::pooled_square: return c.pooled_layers.empty() ? 0 : c.pooled_layers[0].outputs * c.dim;
    case WeightAxis::pooled_rows: return c.pooled_layers.empty() || !c.pooled_layers[0].has_bias ? 0 : c.pooled_layers[0].outputs;
    case WeightAxis::pooled_square_2: return c.pooled_layers.size() < 2 ? 0 : c.pooled_layers[1].outputs * c.pooled_layers[0].outputs;
    case WeightAxis::pooled_rows_2: return c.pooled_layers.size() < 2 || !c.pooled_layers[1].has_bias ? 0 : c.pooled_layers[1].outputs;
  }
  return 0;
}

std::pair<std::int64_t, std::int64_t> shape_of(Role role, std::int64_t layer, const ModelConfig& config) noexcept {
  const RoleInfo& info = info_of(role);
  return {extent_of(info.rows, layer, config), extent_of(info.columns, layer, config)};
}

bool is_in_layer(Role role, std::int64_t layer, const ModelConfig& config) noexcept {
  if (const auto matrix = info_of(role).bias_of) return is_in_layer(*matrix, layer, config);
  const auto [rows, columns] = shape_of(role, layer, config);
  if (rows == 0 || columns == 0) return false;
  const LayerSpec spec = layer < 0 ? LayerSpec() : config.layer(layer);
  switch (role) {
    case Role::q: return config.q_rank == 0;  // else q_a and q_b are in its place
    case Role::v:
    case Role::v_bias: return !spec.shares_values;
    case Role::o:
    case Role::o_bias:
    case Role::o_norm: return attends(spec.mixer);
    case Role::sinks: return !config.arch->window_sinks || spec.window > 0;
    // The gate of a shared expert has its input's width alone, and belongs to the MLP beside experts.
    case Role::shared_gate: return spec.is_sparse() && spec.ffn > 0;
    // A layer that is one half has the norms of that half; where halves are side by side they may share one.
    case Role::mixer_streams_norm:
    case Role::mixer_streams_down:
    case Role::mixer_streams_up:
    case Role::mixer_streams_inject: return spec.mixer != MixerKind::none;
    case Role::attention_norm:
    case Role::attention_norm_bias: return spec.mixer != MixerKind::none && !(config.arch->first_unnormed && layer == 0);
    // One for all layers of an encoder or a decoder, or each its own.
    case Role::relative_bias: return !config.arch->shares_bias || layer == 0 || layer == config.encoder_layers;
    case Role::cross_norm:
    case Role::cross_norm_bias:
    case Role::cross_out_norm:
    case Role::cross_out_norm_bias: return config.has_source() && !spec.encodes;
    case Role::attention_out_norm:
    case Role::attention_out_norm_bias: return spec.mixer != MixerKind::none;
    case Role::ffn_norm:
    case Role::ffn_norm_bias:
    case Role::ffn_out_norm:
    case Role::ffn_out_norm_bias:
    case Role::ffn_streams_norm:
    case Role::ffn_streams_down:
    case Role::ffn_streams_up:
    case Role::ffn_streams_inject: return spec.has_feed_forward();
    // Apertus may have another activation, without numbers.
    case Role::xielu_positive:
    case Role::xielu_negative:
    case Role::xielu_slope:
    case Role::xielu_limit: return spec.has_feed_forward() && config.gate == ops::Gate::xielu;
    case Role::head:
    case Role::head_bias: return config.has_head;
    case Role::class_dense_bias:
    case Role::class_norm: return config.labels > 0;
    // Beside an MLP, which has norms of its own then.
    case Role::mlp_out_norm: return spec.is_sparse() && spec.ffn > 0;
    case Role::expert_norm:
    case Role::expert_out_norm:
    case Role::router_scale: return spec.is_sparse();
    case Role::per_layer_norm: return config.per_layer_dim > 0;
    case Role::laurel_norm: return config.laurel_rank > 0;
    case Role::draft_projection:
    case Role::draft_embedding_norm:
    case Role::draft_state_norm:
    case Role::draft_final_norm: return config.is_drafting(layer);
    default: return true;
  }
}

std::int64_t rope_heads_of(Role role, std::int64_t layer, const ModelConfig& config) noexcept {
  switch (info_of(role).bias_of.value_or(role)) {
    case Role::q: return config.heads_of(layer);
    case Role::k: return config.kv_heads_of(layer);
    default: return 0;
  }
}

WeightMatrix* matrix_of(LayerWeights& layer, const TensorId& id) noexcept { return place_of<WeightMatrix>(layer, id); }
const WeightMatrix* matrix_of(const LayerWeights& layer, const TensorId& id) noexcept { return matrix_of(const_cast<LayerWeights&>(layer), id); }
WeightMatrix* matrix_of(ModelWeights& weights, const TensorId& id) noexcept { return place_of<WeightMatrix>(weights, id); }
const WeightMatrix* matrix_of(const ModelWeights& weights, const TensorId& id) noexcept { return matrix_of(const_cast<ModelWeights&>(weights), id); }

std::vector<float>* vector_of(LayerWeights& layer, const TensorId& id) noexcept { return place_of<std::vector<float>>(layer, id); }
const std::vector<float>* vector_of(const LayerWeights& layer, const TensorId& id) noexcept { return vector_of(const_cast<LayerWeights&>(layer), id); }
std::vector<float>* vector_of(ModelWeights& weights, const TensorId& id) noexcept { return place_of<std::vector<float>>(weights, id); }
const std::vector<float>* vector_of(const ModelWeights& weights, const TensorId& id) noexcept { return vector_of(const_cast<ModelWeights&>(weights), id); }

std::optional<Role> bias_role_of(Role matrix) noexcept {
  const auto info = std::ranges::find(roles, std::optional(matrix), &RoleInfo::bias_of);
  return info == roles.end() ? std::nullopt : std::optional(info->role);
}

std::vector<float>* bias_of(LayerWeights& layer, const TensorId& matrix) noexcept {
  const std::optional<Role> bias = bias_role_of(matrix.role);
  std::vector<float>* values = bias ? vector_of(layer, {*bias, matrix.layer, matrix.expert}) : nullptr;
  return values == nullptr || values->empty() ? nullptr : values;
}
const std::vector<float>* bias_of(const LayerWeights& layer, const TensorId& matrix) noexcept {
  return bias_of(const_cast<LayerWeights&>(layer), matrix);
}

std::span<const InputGroup> input_groups() noexcept { return groups; }

Role source_of(const LayerWeights& layer, const InputGroup& group) noexcept {
  const std::vector<float>* const norm = group.norm ? vector_of(layer, *group.norm) : nullptr;
  return norm != nullptr && !norm->empty() ? *group.norm : group.source;
}

const WeightMatrix* first_of(const LayerWeights& layer, const InputGroup& group) noexcept {
  for (const Role role : group.roles) {
    if (const WeightMatrix* matrix = matrix_of(layer, role); !matrix->empty()) return matrix;
  }
  return nullptr;
}

const InputGroup* last_of(const LayerWeights& layer, Half half) noexcept {
  const auto adds = [&](const InputGroup& group) { return group.adds && group.half == half && first_of(layer, group) != nullptr; };
  const auto last = std::ranges::find_if(groups, adds);
  return last == groups.end() || std::find_if(last + 1, groups.end(), adds) != groups.end() ? nullptr : &*last;
}

const InputGroup& group_of(Role role) noexcept { return groups[input_group_of(role)]; }

std::size_t input_group_of(Role role) noexcept {
  const auto has = [&](const InputGroup& group) { return std::ranges::find(group.roles, role) != group.roles.end(); };
  return static_cast<std::size_t>(std::ranges::find_if(groups, has) - groups.begin());
}

}  // namespace bantam::inline v0
