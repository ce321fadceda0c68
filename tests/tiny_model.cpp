// Making and writing tiny models: once for all test programs.
#include "tiny_model.hpp"

#include <cmath>
#include <numbers>
#include <map>
#include <set>

#include "bantam/core/half.hpp"
#include "bantam/io/safetensors.hpp"
#include "bantam/model/seeing.hpp"
#include "limits.hpp"
#include "model/arrangement.hpp"
#include "model/config_words.hpp"
#include "model/gate_sparsity.hpp"
#include "model/listed_numbers.hpp"
#include "model/match_tensors.hpp"
#include "model/ngram_config.hpp"
#include "model/recurrent_config.hpp"
#include "model/sentence_modules.hpp"
#include "reference/rope.hpp"

namespace bantam::test {

namespace {

/// Row i of half j of a head goes to 2 i + j.
std::vector<float> for_gguf(const TinyTensor& t) {
  if (t.permuted_heads == 0) return t.values;
  const std::int64_t rows = t.shape[0], d = rows / t.permuted_heads, columns = static_cast<std::int64_t>(t.values.size()) / rows;
  std::vector<float> out(t.values.size());
  for (std::int64_t h = 0; h < t.permuted_heads; ++h) {
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t i = 0; i < d / 2; ++i) {
        std::copy_n(t.values.begin() + (h * d + j * d / 2 + i) * columns, columns, out.begin() + (h * d + 2 * i + j) * columns);
      }
    }
  }
  return out;
}

/// A weight of a recurrent layer as GGUF files have it, of what folders have.
std::vector<float> for_gguf(const TensorId& id, const ModelConfig& sizes, const std::vector<float>& values) {
  const Arrangement folder = arrangement_of(id, sizes, Container::folder), gguf = arrangement_of(id, sizes, Container::gguf);
  const auto [rows, columns] = shape_of(id.role, id.layer, sizes);
  if (std::ssize(values) != rows * columns) return values;  // which a test has cut
  const auto at = [](const std::vector<std::int64_t>& order, std::int64_t i) { return order.empty() ? i : order[static_cast<std::size_t>(i)]; };
  std::vector<float> out(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      float x = values[static_cast<std::size_t>(at(folder.rows, r) * columns + at(folder.columns, c))];
      if (folder.is_log && !gguf.is_log) x = gguf.is_negative ? std::exp(x) : -std::exp(x);
      out[static_cast<std::size_t>(at(gguf.rows, r) * columns + at(gguf.columns, c))] = x;
    }
  }
  return out;
}

/// What the reference calls a tensor: by the names of Llama, of Qwen3 for what Llama lacks, of Qwen2-MoE where there are experts, and of
/// gpt-oss for what all of these lack.
std::string reference_name(const TensorId& id, bool sparse) {
  const TensorKey* key = sparse ? archs::qwen2_moe.find(id.role, true) : archs::llama.find(id.role);
  if (key == nullptr) key = (sparse ? archs::glm4_moe : archs::qwen3).find(id.role, sparse);
  if (key == nullptr) key = archs::gpt_oss.find(id.role, sparse);
  if (key == nullptr) key = archs::kimi_linear.find(id.role, sparse);
  const std::string layer = message("model.layers.", id.layer, ".");
  switch (id.role) {
    case Role::position_embedding: return "position_embedding";
    case Role::encoder_norm: return "model.encoder_norm.weight";
    case Role::encoder_norm_bias: return "model.encoder_norm.bias";
    case Role::encoder_position_embedding: return "encoder_position_embedding";
    case Role::encoder_embedding_norm: return "encoder_embedding_norm.weight";
    case Role::encoder_embedding_norm_bias: return "encoder_embedding_norm.bias";
    case Role::relative_bias: return layer + "self_attn.relative_bias";
    case Role::cross_norm: return layer + "cross_norm.weight";
    case Role::cross_norm_bias: return layer + "cross_norm.bias";
    case Role::cross_out_norm: return layer + "cross_out_norm";
    case Role::cross_out_norm_bias: return layer + "cross_out_norm_bias";
    case Role::cross_q: return layer + "cross_attn.q_proj.weight";
    case Role::cross_k: return layer + "cross_attn.k_proj.weight";
    case Role::cross_v: return layer + "cross_attn.v_proj.weight";
    case Role::cross_o: return layer + "cross_attn.o_proj.weight";
    case Role::cross_q_bias: return layer + "cross_attn.q_proj.bias";
    case Role::cross_k_bias: return layer + "cross_attn.k_proj.bias";
    case Role::cross_v_bias: return layer + "cross_attn.v_proj.bias";
    case Role::cross_o_bias: return layer + "cross_attn.o_proj.bias";
    case Role::embedding_norm: return "embedding_norm.weight";
    case Role::embedding_norm_bias: return "embedding_norm.bias";
    case Role::token_type_embedding: return "token_type_embedding";
    case Role::class_dense: return "class_dense";
    case Role::class_dense_bias: return "class_dense_bias";
    case Role::class_norm: return "class_norm";
    case Role::class_head: return "class_head";
    case Role::class_head_bias: return "class_head_bias";
    case Role::pooled_dense: return "pooled_dense";
    case Role::pooled_dense_bias: return "pooled_dense_bias";
    case Role::pooled_dense_2: return "pooled_dense_2";
    case Role::pooled_dense_2_bias: return "pooled_dense_2_bias";
    case Role::attention_out_norm_bias: return layer + "attention_out_norm_bias";
    case Role::ffn_out_norm_bias: return layer + "ffn_out_norm_bias";
    case Role::q_norm_bias: return layer + "self_attn.q_norm.bias";
    case Role::k_norm_bias: return layer + "self_attn.k_norm.bias";
    case Role::final_norm_bias: return "model.norm.bias";
    case Role::head_bias: return "lm_head.bias";
    case Role::attention_norm_bias: return layer + "input_layernorm.bias";
    case Role::ffn_norm_bias: return layer + "post_attention_layernorm.bias";
    case Role::up_bias: return layer + "mlp.up_proj.bias";
    case Role::down_bias: return layer + "mlp.down_proj.bias";
    case Role::attention_gate: return layer + "self_attn.gate_proj.weight";
    case Role::index_q:
    case Role::index_q_stream: return layer + "self_attn.indexer.q";
    case Role::index_k: return layer + "self_attn.indexer.k";
    case Role::index_weights: return layer + "self_attn.indexer.weights";
    case Role::index_q_norm: return layer + "self_attn.indexer.q_norm";
    case Role::index_k_norm: return layer + "self_attn.indexer.k_norm";
    case Role::index_k_norm_bias: return layer + "self_attn.indexer.k_norm_bias";
    case Role::attention_out_norm: return layer + "attention_out_norm";
    case Role::ffn_out_norm: return layer + "ffn_out_norm";
    case Role::latent_down: return layer + "mlp.latent_down.weight";
    case Role::latent_up: return layer + "mlp.latent_up.weight";
    case Role::state_in: return layer + "mamba.in_proj.weight";
    case Role::state_out: return layer + "mamba.out_proj.weight";
    case Role::state_convolution: return layer + "mamba.conv1d.weight";
    case Role::state_convolution_bias: return layer + "mamba.conv1d.bias";
    case Role::state_decay: return layer + "mamba.A_log";
    case Role::state_decay_bias: return layer + "mamba.dt_bias";
    case Role::state_skip: return layer + "mamba.D";
    case Role::state_norm: return layer + "mamba.norm.weight";
    case Role::per_layer_embedding: return "per_layer_embedding";
    case Role::per_layer_model_projection: return "per_layer_model_projection";
    case Role::per_layer_model_norm: return "per_layer_model_norm";
    case Role::per_layer_gate: return layer + "per_layer_gate";
    case Role::per_layer_projection: return layer + "per_layer_projection";
    case Role::per_layer_norm: return layer + "per_layer_norm";
    case Role::stream_projection: return "stream_projection";
    case Role::stream_unembedding: return "stream_unembedding";
    case Role::stream_router: return layer + "stream_router";
    case Role::stream_router_norm: return layer + "stream_router_norm";
    case Role::stream_prediction: return layer + "stream_prediction";
    case Role::stream_correction: return layer + "stream_correction";
    case Role::stream_scale: return layer + "stream_scale";
    case Role::head_streams_norm: return "head_streams_norm";
    case Role::head_streams_down: return "head_streams_down";
    case Role::head_streams_up: return "head_streams_up";
    case Role::mixer_streams_norm: return layer + "mixer_streams_norm";
    case Role::mixer_streams_down: return layer + "mixer_streams_down";
    case Role::mixer_streams_up: return layer + "mixer_streams_up";
    case Role::mixer_streams_inject: return layer + "mixer_streams_inject";
    case Role::ffn_streams_norm: return layer + "ffn_streams_norm";
    case Role::ffn_streams_down: return layer + "ffn_streams_down";
    case Role::ffn_streams_up: return layer + "ffn_streams_up";
    case Role::ffn_streams_inject: return layer + "ffn_streams_inject";
    case Role::ngram_embedding: return "ngram_embedding";
    case Role::ngram_key: return layer + "ngram_key";
    case Role::ngram_value: return layer + "ngram_value";
    case Role::ngram_key_norm: return layer + "ngram_key_norm";
    case Role::ngram_query_norm: return layer + "ngram_query_norm";
    case Role::ngram_value_norm: return layer + "ngram_value_norm";
    case Role::ngram_convolution: return layer + "ngram_convolution";
    case Role::laurel_left: return layer + "laurel_left";
    case Role::laurel_right: return layer + "laurel_right";
    case Role::laurel_norm: return layer + "laurel_norm";
    case Role::layer_scale: return layer + "layer_scale";
    case Role::mlp_out_norm: return layer + "mlp_out_norm";
    case Role::xielu_positive: return layer + "mlp.act_fn.alpha_p";
    case Role::xielu_negative: return layer + "mlp.act_fn.alpha_n";
    case Role::xielu_slope: return layer + "mlp.act_fn.beta";
    case Role::xielu_limit: return layer + "mlp.act_fn.eps";
    case Role::expert_norm: return layer + "expert_norm";
    case Role::expert_out_norm: return layer + "expert_out_norm";
    case Role::router_scale: return layer + "mlp.router_scale";
    case Role::expert_scale: return layer + "mlp.expert_scale";
    case Role::draft_projection: return "draft.projection.weight";
    case Role::draft_embedding_norm: return "draft.embedding_norm.weight";
    case Role::draft_state_norm: return "draft.state_norm.weight";
    case Role::draft_final_norm: return "draft.norm.weight";
    default: return key == nullptr ? std::string() : name_from(key->hf, id);
  }
}

/// Tables and matrices of no block that are kept as vectors: around 0.
bool is_table_of_floats(Role role) {
  return role == Role::token_type_embedding || role == Role::class_dense || role == Role::class_dense_bias || role == Role::class_head || role == Role::class_head_bias || role == Role::relative_bias ||
         role == Role::mixer_streams_inject || role == Role::ffn_streams_inject || role == Role::stream_router || role == Role::stream_prediction || role == Role::stream_correction || role == Role::pooled_dense || role == Role::pooled_dense_bias || role == Role::pooled_dense_2 || role == Role::pooled_dense_2_bias;
}

/// What is added, or multiplied by, around 0.
bool is_recurrent_offset(Role role) {
  return role == Role::delta_convolution || role == Role::delta_decay_bias || role == Role::state_convolution || role == Role::state_convolution_bias ||
         role == Role::state_decay_bias || role == Role::short_convolution || role == Role::channel_q_convolution || role == Role::channel_k_convolution ||
         role == Role::channel_v_convolution || role == Role::channel_decay_bias || role == Role::ngram_convolution;
}

}  // namespace

/// Nothing, where the architecture has no such tensor or may do without.
void TinyModel::add(Random& random, const RoleInfo& info, const TensorId& id) {
  const bool sparse = id.layer >= 0 && sizes.layer(id.layer).is_sparse();
  const TensorKey* key = sizes.key_of(info.role, id.layer);
  if (key == nullptr || !is_in_layer(info.role, id.layer, sizes)) return;
  const bool wanted = info.role == Role::head ? !tied : info.role == Role::token_type_embedding || info.role == Role::draft_final_norm || (biases && info.role != Role::rope_divisors);
  if (key->presence == Presence::optional && !wanted) return;
  const auto [rows, columns] = shape_of(info.role, id.layer, sizes);
  TinyTensor t{name_in(sizes, key->hf, id), name_in(sizes, key->gguf, id), {columns}, {}};
  t.reference_name = reference_name(id, sparse);
  t.own = id;
  if (info.is_matrix()) t.shape.insert(t.shape.begin(), rows);
  if (key->is_scalar) t.shape.clear();
  if (key->is_listed) t.gguf_name.clear();
  if (const auto shape = stored_shape(id, sizes, Container::folder); !shape.empty()) t.shape = shape;
  if (arch->gguf_pairs != arch->pairs) t.permuted_heads = rope_heads_of(info.role, id.layer, sizes);
  if (id.layer >= 0 && recurs(sizes.layer(id.layer).mixer)) t.id = id;
  t.gguf_shape = stored_shape(id, sizes, Container::gguf);
  if (info.by_heads) t.heads = heads;
  if (info.by_streams) t.heads = sizes.streams - 1;
  t.pieces = names_of_pieces(sizes, id);
  if (info.role == Role::per_layer_embedding) t.rows_put_in = vocab - rows;
  if (!key->fused.name.empty() && (sees || !key->fused.only_read)) t.fused_name = name_in(sizes, key->fused.name, id), t.fused = key->fused;
  if (!info.is_of_expert() && !info.by_heads) t.groups = key->fused.by_groups ? sizes.kv_heads_of(id.layer) : key->fused.by_key_heads ? sizes.recurrent.key_heads : 1;
  const bool scales = !info.is_matrix() && !info.bias_of && info.role != Role::shared_gate && info.role != Role::selection_bias && info.role != Role::sinks && !is_recurrent_offset(info.role) && !is_table_of_floats(info.role);
  const bool decays = info.role == Role::delta_decay || info.role == Role::state_decay || info.role == Role::channel_decay;
  const double mean = decays ? -1 : scales ? 1 : 0, spread = info.is_matrix() ? 1 / std::sqrt(static_cast<double>(columns)) : 0.3;
  if (info.role == Role::xielu_limit) t.values = {-0.01F};
  if (info.role == Role::rope_divisors) t.values = sizes.rope.divisors;
  if (info.role == Role::position_embedding && arch->pads_positions && !arch->gguf.empty()) t.rows_left_out = arch->position_offset;
  for (std::int64_t i = std::ssize(t.values); i < rows * columns; ++i) t.values.push_back(static_cast<float>(mean + spread * random.normal()));
  // As it is with T5, whose queries have no norm.
  const bool plain_queries = (info.role == Role::q || info.role == Role::cross_q) && arch->find(Role::q_norm) == nullptr;
  if (arch->attention_scale == 1 && plain_queries) {
    for (float& x : t.values) x /= std::sqrt(static_cast<float>(head_dim));
  }
  if (arch->attention_scale == 1 && info.role == Role::q_norm) {
    // Queries are trained to be as short as a scale of 1 asks for.
    for (float& x : t.values) x /= std::sqrt(static_cast<float>(columns));
  }
  if (arch->norm_offset != 0 && is_norm(info.role)) {
    t.less = arch->norm_offset;
    // The same in floats with the offset and without.
    for (float& x : t.values) x = std::round(x * 4096) / 4096;
  }
  tensors.push_back(std::move(t));
}

/// Every kind of layer that the architecture has, one after another.
void TinyModel::set_kind(LayerSpec& spec, std::size_t i) {
  if (arch->single_halves) {
    spec.mixer = i % 4 == 0 ? arch->recurrent : i % 4 == 2 ? MixerKind::attention : MixerKind::none;
    if (spec.mixer != MixerKind::none) spec.ffn = spec.experts = spec.expert_ffn = 0;
  } else if (arch->attention_step > 0) {
    if ((static_cast<std::int64_t>(i) + 1) % arch->attention_step != 0) spec.mixer = arch->recurrent;
  } else if (!arch->feeds || attends(arch->recurrent) || i % 2 == 0) {
    spec.mixer = arch->recurrent;
  }
  if (!arch->feeds) spec.ffn = spec.experts = spec.expert_ffn = 0;
  if (!recurs(spec.mixer)) return;
  nn::RecurrentLayer& r = sizes.recurrent;
  r.taps = taps;
  r.channels = dim;
  if (spec.mixer == MixerKind::short_convolution) return;
  if (spec.mixer == MixerKind::channel_delta) {
    // As many heads as attention has: GGUF files name one number.
    if (arch->find(Field::decay_bound) != nullptr) sizes.decay_bound = -3;
    r = {.key_heads = heads, .value_heads = heads, .key_dim = key_dim, .value_dim = key_dim, .channels = 3 * heads * key_dim, .taps = taps, .channel_decays = true};
    return;
  }
  r = {.key_heads = key_heads, .value_heads = value_heads, .key_dim = key_dim, .value_dim = state_value_dim, .channels = 2 * key_heads * key_dim + value_heads * state_value_dim, .taps = taps};
}

/// Layers without a window have key-value heads of their own. Where these have another size, too, windows are in two of three layers, and half of the
/// layers read others' keys, where values are not keys.
void TinyModel::set_full_layers(std::vector<LayerSpec>& specs) {
  for (std::size_t i = 0; arch->full_layers_differ() && i < specs.size(); ++i) {
    specs[i].kv_heads = specs[i].window > 0 ? kv_heads : full_kv_heads;
    specs[i].group = heads / specs[i].kv_heads;
  }
  if (!arch->full_heads_differ()) return;
  if (full_head_dim == 0) full_head_dim = 2 * head_dim;
  shares_values = shares_values || arch->has_experts();
  const std::size_t first = shares_values ? specs.size() : specs.size() / 2;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    LayerSpec& spec = specs[i];
    const bool full = i % 3 == 2;
    spec.window = full ? 0 : window;
    spec.rope = full ? nn::LayerRope::model : nn::LayerRope::local;
    spec.kv_heads = full ? full_kv_heads : kv_heads;
    if (full) spec.head_dim = full_head_dim;
    spec.group = heads / spec.kv_heads;
    spec.shares_values = full && shares_values;
    if (i < first) continue;
    spec.kv_layer = static_cast<std::int64_t>(first) - (full ? 1 : 2);
    spec.ffn *= 2;
  }
  sizes.rope.dim = full_head_dim;
  sizes.rope.divisors.assign(static_cast<std::size_t>(full_head_dim / 2), 1e30F);
  std::fill_n(sizes.rope.divisors.begin(), full_head_dim / 8, 1.0F);
  if (!shares_values) sizes.per_layer_dim = per_layer_dim;
}

/// Several residual streams; the last layers read the keys of others, gates of some are sparse, and a few tokens have no per-layer embedding.
void TinyModel::set_streams(std::vector<LayerSpec>& specs) {
  if (arch->find(Field::streams) == nullptr) return;
  if (arch->find(Field::stream_rank) != nullptr) {
    sizes.streams = streams, sizes.stream_rank = stream_rank;
    return set_ngrams(specs);
  }
  sizes.streams = streams, sizes.active_stream = active_stream, sizes.laurel_rank = laurel_rank;
  sizes.per_layer_dim = per_layer_dim, sizes.per_layer_vocab = vocab - 3;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (sparse_layers > 0 ? static_cast<std::int64_t>(i) < sparse_layers : i % 2 == 0) specs[i].gate_cutoff = gate_cutoff;
  }
  for (auto i = static_cast<std::size_t>(first_shared); i < specs.size(); ++i) specs[i].kv_layer = first_shared - (specs[i].window > 0 ? 2 : 1);
}

/// The second layer reads n-grams of up to three tokens, by two heads each.
void TinyModel::set_ngrams(std::vector<LayerSpec>& specs) {
  if (!reads_ngrams || arch->find(Role::ngram_embedding) == nullptr) return;
  specs[1].reads_ngrams = true;
  sizes.ngrams = {.tokens = 3, .heads = 2, .width = dim / 4, .rows = 64, .parts = 4, .taps = 4, .end = 18, .image = 4, .multipliers = {1099511627791, 7, 144115188075855873}, .offsets = {0, 11, 24, 41}, .sizes = {11, 13, 17, 19}};
}

/// Of four layers the second has no attention, the third neither half, and the fourth other sizes.
void TinyModel::drop_halves(std::vector<LayerSpec>& specs) {
  for (std::size_t i = 0; arch->drops_halves && i < specs.size(); ++i) {
    LayerSpec& spec = specs[i];
    if (i % 4 == 1 || i % 4 == 2) spec.mixer = MixerKind::none;
    if (i % 4 == 2) spec.ffn = 0;
    if (i % 4 == 3) spec.kv_heads = heads, spec.ffn *= 2;
    spec.group = heads / spec.kv_heads;
  }
}

/// What was said of layers in the words of Nemotron Super's folders.
void TinyModel::say_block_configs() {
  config["num_key_value_heads"] = config["intermediate_size"] = nullptr;
  config["block_configs"] = Json::array();
  for (const LayerSpec& spec : sizes.specs) {
    const bool has_attention = spec.mixer == MixerKind::attention, has_mlp = spec.ffn > 0;
    const Json group = has_attention ? Json(spec.group) : Json(), factor = has_mlp ? Json(1.5 * static_cast<double>(spec.ffn) / static_cast<double>(dim)) : Json();
    config["block_configs"].push_back({{"attention", {{"n_heads_in_group", group}, {"no_op", !has_attention}, {"num_sink_tokens", nullptr}, {"replace_with_linear", false}, {"sparsify", nullptr},
                                                      {"unshifted_sink", false}, {"use_prefill_window_in_sink_attention", false}, {"window_length", nullptr}}},
                                       {"ffn", {{"ffn_mult", factor}, {"no_op", !has_mlp}, {"replace_with_linear", false}, {"sparsify", nullptr}}}});
  }
}

/// What was said of layers in the words that Step-3.5's folders are published with.
void TinyModel::say_step_words() {
  for (const char* usual : {"num_attention_heads_per_layer", "rope_parameters", "mlp_layer_types", "partial_rotary_factor"}) config[usual] = nullptr;
  for (const char* list : {"rope_theta", "partial_rotary_factors", "layer_types", "swiglu_limits", "swiglu_limits_shared"}) config[list] = Json::array();
  std::string sparse;
  for (std::size_t i = 0; i < sizes.specs.size(); ++i) {
    const LayerSpec& spec = sizes.specs[i];
    const bool full = spec.window == 0;
    const nn::RopeOptions& rope = full ? sizes.rope : *sizes.local_rope;
    config["rope_theta"].push_back(rope.base);
    config["partial_rotary_factors"].push_back(static_cast<double>(rope.dim) / static_cast<double>(head_dim));
    config["layer_types"].push_back(full ? "full_attention" : "sliding_attention");
    config["swiglu_limits"].push_back(spec.expert_limit > 0 ? Json(spec.expert_limit) : Json());
    config["swiglu_limits_shared"].push_back(spec.mlp_limit);
    if (full) config["num_attention_heads"] = sizes.heads_of(static_cast<std::int64_t>(i));
    if (!full) config["attention_other_setting"] = {{"attention_type", "sliding_attention"}, {"num_attention_heads", sizes.heads_of(static_cast<std::int64_t>(i))}, {"num_attention_groups", spec.kv_heads}, {"head_dim", head_dim}};
    if (spec.is_sparse()) sparse += message(sparse.empty() ? "" : ",", i);
  }
  config["moe_layers_enum"] = sparse;
  config["yarn_only_types"] = Json::array({"full_attention"});
}

void TinyModel::say_full_layers() {
  if (!arch->full_heads_differ()) return;
  config["attention_k_eq_v"] = shares_values;
  config["use_double_wide_mlp"] = !shares_values;
  config["enable_moe_block"] = arch->has_experts();
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["sliding_window"] = window;
  config["layer_types"] = Json::array();
  for (const LayerSpec& spec : sizes.specs) config["layer_types"].push_back(spec.window > 0 ? "sliding_attention" : "full_attention");
  const double part = static_cast<double>(full_head_dim / 8) / static_cast<double>(full_head_dim / 2);
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", part}, {"rope_theta", 5000.0}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}}};
}

TinyModel& TinyModel::make() {
  Random random(seed);
  sizes = {};
  sizes.arch = arch;
  if (arch->find(Field::streams) != nullptr && arch->find(Field::stream_rank) == nullptr) dim = round_up<std::int64_t>(dim, panel_rows);
  if (arch->drops_halves) ffn = round_up<std::int64_t>(ffn, 256);  // which factors of dim can say
  if (!arch->latent && arch->find(Field::heads) != nullptr && arch->find(Field::head_dim) == nullptr) head_dim = dim / heads;
  sizes.has_head = arch->find(Role::head) != nullptr && labels == 0;
  if (arch->find(Role::token_type_embedding) != nullptr) sizes.token_types = token_types;
  if (arch->find(Role::class_head) != nullptr) sizes.labels = labels;
  sizes.pooling = pooling;
  sizes.pooled_layers = pooled_layers;
  const ConfigKey* of_kv_heads = arch->find(Field::kv_heads);
  if (!arch->latent && (of_kv_heads == nullptr || of_kv_heads->hf.empty())) kv_heads = of_kv_heads != nullptr && of_kv_heads->otherwise > 0 ? static_cast<std::int64_t>(of_kv_heads->otherwise) : heads;
  sizes.dim = dim, sizes.heads = heads, sizes.kv_heads = kv_heads, sizes.head_dim = head_dim, sizes.vocab = vocab, sizes.context = context;
  sizes.norm_eps = 0.00001, sizes.rope.base = arch->find(Field::rope_base) != nullptr ? 5000 : arch->default_rope_base, sizes.rope.dim = head_dim;
  sizes.value_dim = head_dim;
  if (const ConfigKey* of_values = arch->find(Field::value_dim); of_values != nullptr && !of_values->hf.empty()) sizes.value_dim = head_dim / 4 * 3;
  if (arch->latent) {
    sizes.kv_heads = heads, sizes.q_rank = q_rank, sizes.kv_rank = kv_rank, sizes.value_dim = value_dim, sizes.rope.dim = head_dim / 4 * 2;
  }
  const bool turns_part = !arch->latent && (arch->default_rope_part < 1 || (arch->find(Field::rope_dim) != nullptr && !arch->find(Field::rope_dim)->hf.empty()));
  if (turns_part) sizes.rope.dim = head_dim / 4 * 2;
  if (arch->find(Field::index_used) != nullptr) sizes.index = {.heads = 3, .dim = std::max<std::int64_t>(64, sizes.rope.dim), .used = index_used, .block = arch->find(Field::index_block) != nullptr ? 4 : 1};
  if (arch->find(Field::expert_latent) != nullptr) sizes.expert_latent = expert_latent;
  if (arch->single_group) key_heads = 1;
  sizes.has_rope = !arch->learns_positions() && (!arch->says_rope || turned);
  sizes.router = arch->router;
  sizes.gate = arch->gate;
  sizes.sigmoid_delta = !arch->delta_gate_key.empty();
  const auto scale = [&](Field field, double value) { return arch->find(field) != nullptr ? value : 1.0; };
  const auto cap = [&](Field field, double value) { return arch->find(field) != nullptr ? value : 0.0; };
  sizes.scales = {.embedding = arch->scales_embedding ? std::sqrt(static_cast<double>(dim)) : scale(Field::embedding_scale, 1.5), .residual = scale(Field::residual_scale, 0.75),
                  .attention = arch->find(Field::attention_scale) != nullptr ? 0.25 : arch->attention_scale, .logits = scale(Field::logit_scale, 0.5) * scale(Field::logit_factor, 1.25),
                  .attention_softcap = cap(Field::attention_softcap, 2), .final_softcap = cap(Field::final_softcap, final_softcap)};
  sizes.scales.values = scale(Field::value_scale, 0.625);
  if (arch->folds_scales) sizes.scales = scales;
  if (arch->find(Field::temperature_scale) != nullptr) {
    // Over half a window of the context: what is asked of tiny models comes to several steps.
    sizes.rope.scaling = nn::RopeScaling::yarn, sizes.rope.factor = 4, sizes.rope.original_context = 8, sizes.rope.attention_factor = 1;
    sizes.temperature = {.scale = 0.3, .length = 8};
    if (arch->latent) sizes.rope.score_mscale = 1;
  }
  if (arch->no_rope_step > 0) layers = std::max(layers, arch->no_rope_step);
  if (arch->attention_step > 0) layers = std::max(layers, arch->attention_step);
  if (arch->single_halves || arch->drops_halves) layers = std::max<std::int64_t>(layers, 4);
  const bool shares = arch->shares_keys() && !arch->full_layers_differ();
  if (arch->full_attention_step > 2) layers = std::max(layers, arch->full_attention_step + (arch->dense_see_all ? 1 : 0) + (shares ? 2 : 0));
  sizes.alibi = arch->alibi;
  sizes.relative_bias = arch->relative_bias;
  if (arch->encodes) sizes.decoder_start = 3;
  if (arch->find(Field::qkv_clip) != nullptr) sizes.qkv_clip = 0.5;
  const std::int64_t groups = arch->latent ? heads : kv_heads;
  LayerSpec dense{.kv_heads = groups, .ffn = ffn}, sparse{.kv_heads = groups, .ffn = 0, .window = 0, .experts = experts, .expert_ffn = expert_ffn};
  const ConfigKey* shared = arch->find(Field::shared_experts);
  if (arch->find(Field::shared_ffn) != nullptr || shared != nullptr) sparse.ffn = (shared != nullptr && shared->hf.empty() ? 1 : 2) * expert_ffn;
  if (arch->has_experts()) sizes.router.used = experts_used;
  std::vector<LayerSpec> specs(static_cast<std::size_t>(layers + (arch->encodes ? decoder_layers : 0)), arch->has_experts() ? sparse : dense);
  for (std::size_t i = 0; arch->encodes && i < static_cast<std::size_t>(layers); ++i) specs[i].encodes = true;
  if (arch->find(Field::dense_layers) != nullptr) specs[0] = dense;
  for (std::size_t i = 0; arch->chunks_windows && i < specs.size(); i += 2) specs[i] = dense;  // Maverick's
  if (arch->temperature.scale > 0) sizes.temperature = arch->temperature;
  sizes.norms_turned = arch->norms_turned;
  for (std::size_t i = 0; arch->recurrent != MixerKind::none && i < specs.size(); ++i) set_kind(specs[i], i);
  for (std::size_t i = 0; arch->full_attention_step > 0 && i < specs.size(); ++i) {
    const std::size_t lead = arch->dense_see_all ? 1 : 0;
    if (i >= lead && detail::has_window(*arch, static_cast<std::int64_t>(i - lead))) specs[i].window = window;
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!sizes.has_rope) specs[i].rope = nn::LayerRope::none;
    if (arch->no_rope_step > 0 && (static_cast<std::int64_t>(i) + 1) % arch->no_rope_step == 0) specs[i].rope = nn::LayerRope::none;
    if (arch->full_attention_step > 0) specs[i].rope = specs[i].window > 0 ? arch->window_rope : arch->full_rope;
    if (arch->dense_see_all && !specs[i].is_sparse()) specs[i].rope = nn::LayerRope::model;
    if (!arch->rope_bases_key.empty() && specs[i].window == 0) specs[i].rope = nn::LayerRope::none;
  }
  for (std::size_t i = 0; !arch->heads_key.empty() && i < specs.size(); ++i) specs[i].group = specs[i].window > 0 ? heads / kv_heads : 2;
  set_full_layers(specs);
  drop_halves(specs);
  set_streams(specs);
  for (std::size_t i = 0; arch->limits_gates() && i < specs.size(); ++i) (i % 2 == 1 ? specs[i].expert_limit : specs[i].mlp_limit) = 0.25F;
  for (std::size_t i = 2; arch->may_share_choices && i < specs.size(); i += 3) specs[i].shares_choice = true;
  sizes.set_layers(std::move(specs));
  if (arch->full_attention_step > 0 && arch->window_rope == nn::LayerRope::local) {
    const std::int64_t local_dim = arch->halves_full_rope ? 2 * sizes.rope.dim : arch->proportional_rope || arch->find(Field::local_rope_dim) != nullptr ? head_dim : sizes.rope.dim;
    sizes.local_rope = nn::RopeOptions{.dim = local_dim, .base = arch->find(Field::local_rope_base) != nullptr ? 300.0 : sizes.rope.base, .pairs = arch->pairs};
    // What turns the other layers differs in any case.
    if (arch->find(Field::local_rope_base) == nullptr) sizes.rope.scaling = nn::RopeScaling::yarn, sizes.rope.factor = 4, sizes.rope.original_context = 16;
  }
  if (drafts && arch->may_draft()) {
    sizes.drafting_layers = 1;
    sizes.drafting = sizes.drafting_like();
  }
  for (std::int64_t layer = -1; layer < sizes.layers + std::ssize(sizes.drafting); ++layer) {
    for (const RoleInfo& info : roles) {
      if (info.is_of_layer() != (layer >= 0)) continue;
      if (!info.is_of_expert()) add(random, info, {info.role, layer});
      for (std::int64_t e = 0; info.is_of_expert() && e < sizes.layer(layer).experts; ++e) add(random, info, {info.role, layer, e});
    }
  }
  config = {{"architectures", {std::string(arch->hf_class)}}, {"model_type", std::string(arch->name)}, {"tie_word_embeddings", tied}};
  for_each_number([&](const ConfigKey& key, auto number) {
    if (!key.hf.empty()) put_at(config, key.hf) = number;
  });
  for (const ConfigChoice& choice : arch->choices) put_at(config, choice.key) = !choice.text.empty() ? Json(choice.text) : choice.is_number ? Json(choice.value) : Json(choice.value != 0);
  if (arch->pads_positions) config["max_position_embeddings"] = context + arch->position_offset;
  if (labels > 0) config["architectures"] = {arch->class_of_classifier()};
  if (labels > 0 && pooling) config["classifier_pooling"] = std::string(name_of(*pooling));
  if (sizes.sigmoid_delta) config[std::string(arch->delta_gate_key)] = "sigmoid";
  detail::write_ngrams(sizes, config);
  // Folders have them as tensors, which hold where this says something else.
  for (const char* own : {"ngram_multipliers", "ngram_offsets", "ngram_sizes", "ngram_rows"}) config[own] = nullptr;
  if (arch->may_share_choices) {
    for (const LayerSpec& spec : sizes.specs) config["indexer_types"].push_back(spec.shares_choice ? "shared" : "full");
  }
  if (sizes.ngrams.exist()) config["ngram_vocab_size_base"] = 10, config["make_ngram_vocab_size_divisible_by"] = 64;
  detail::write_layer_kinds(sizes, config);
  if (arch->says_rope) config["position_embedding_type"] = turned ? "rope" : "nope";
  if (sizes.rope.scaling == nn::RopeScaling::yarn) {
    Json scaling = {{"rope_type", "yarn"}, {"factor", sizes.rope.factor}, {"original_max_position_embeddings", sizes.rope.original_context}};
    if (sizes.temperature.scale > 0 && arch->temperature.scale == 0) scaling["llama_4_scaling_beta"] = sizes.temperature.scale;
    if (sizes.temperature.scale > 0) scaling["mscale"] = scaling["mscale_all_dim"] = 1.0;
    config["rope_scaling"] = scaling;
  }
  if (says_ropes_by_kind(*arch)) {
    const auto part = [&](const nn::RopeOptions& rope) { return static_cast<double>(rope.dim) / static_cast<double>(head_dim); };
    config["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", sizes.rope.base}, {"partial_rotary_factor", part(sizes.rope)}}},
                                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", sizes.local_rope->base}, {"partial_rotary_factor", part(*sizes.local_rope)}}}};
  }
  if (!arch->rope_bases_key.empty()) {
    config[arch->rope_bases_key] = Json::array();
    for (const LayerSpec& spec : sizes.specs) config[arch->rope_bases_key].push_back(spec.rope == nn::LayerRope::none ? 0.0 : sizes.rope.base);
  }
  if (turns_part) config["partial_rotary_factor"] = static_cast<double>(sizes.rope.dim) / static_cast<double>(head_dim);
  if (arch->has_experts()) config["norm_topk_prob"] = sizes.router.renormalize;
  if (!arch->local_layers_key.empty()) {
    config[std::string(arch->local_layers_key)] = Json::array();
    for (const LayerSpec& spec : sizes.specs) config[std::string(arch->local_layers_key)].push_back(spec.window > 0 ? "local" : "global");
  }
  if (!arch->heads_key.empty()) {
    config[std::string(arch->heads_key)] = Json::array();
    for (std::int64_t i = 0; i < sizes.layers; ++i) config[std::string(arch->heads_key)].push_back(sizes.heads_of(i));
  }
  if (const ConfigKey* lead = arch->find(Field::dense_layers); arch->names_feed_forwards && lead != nullptr && lead->hf.empty()) {
    config["mlp_layer_types"] = Json::array();
    for (const LayerSpec& spec : sizes.specs) config["mlp_layer_types"].push_back(spec.is_sparse() ? "sparse" : "dense");
  }
  say_full_layers();
  detail::write_gate_sparsity(sizes, config);
  for (std::size_t number = 0; number < arch->limit_keys.size(); ++number) {
    Json& limits = config[arch->limit_keys[number]] = Json::array();
    for (const LayerSpec& spec : sizes.specs) limits.push_back(number == 0 ? spec.expert_limit : spec.mlp_limit);
  }
  if (arch->step_words) say_step_words();
  if (arch->drops_halves) say_block_configs();
  pieces = {"<unk>", "<s>", "</s>", "\xe2\x96\x81"};
  for (char c = 'a'; c <= 'z'; ++c) pieces.emplace_back(1, c);
  return *this;
}

std::vector<TinyTensor> TinyModel::folder_tensors() const {
  std::vector<TinyTensor> all;
  for (const TinyTensor& one : tensors) {
    if (one.name.empty()) continue;  // GGUF's alone
    for (std::size_t i = 0; i < one.pieces.size(); ++i) {
      const std::int64_t rows = one.shape[0] / std::ssize(one.pieces), numbers = rows * one.shape[1], from = static_cast<std::int64_t>(i) * numbers;
      all.push_back({one.pieces[i], "", {rows, one.shape[1]}, {one.values.begin() + from, one.values.begin() + from + numbers}});
    }
    if (!one.pieces.empty()) continue;
    // One matrix in a tensor of its own may be transposed there.
    if (one.fused_name.empty() || (!fuses && one.fused_name != one.name)) {
      all.push_back(one);
      for (float& x : all.back().values) x -= one.less;
      continue;
    }
    if (std::ranges::any_of(all, [&](const TinyTensor& t) { return t.name == one.fused_name; })) continue;
    if (one.heads > 0) {
      all.push_back(latent_tensor(one));
      continue;
    }
    if (one.groups > 0) {
      all.push_back(fused_rows_of(one));
      continue;
    }
    TinyTensor whole{one.fused_name, "", {}, {}};
    // Those of a role follow each other, expert by expert.
    std::vector<std::vector<const TinyTensor*>> parts(static_cast<std::size_t>(one.fused.parts));
    for (const TinyTensor& t : tensors) {
      if (t.fused_name == one.fused_name) parts[static_cast<std::size_t>(t.fused.part)].push_back(&t);
    }
    const std::int64_t rows = one.shape[0], columns = one.shape.size() == 2 ? one.shape[1] : 1, side_by_side = one.fused.parts * rows;
    const bool transposed = one.fused.transposed && one.shape.size() == 2;
    whole.shape = {std::ssize(parts[0])};
    if (one.shape.size() == 1) whole.shape.push_back(side_by_side);
    if (one.shape.size() == 2) whole.shape.insert(whole.shape.end(), {transposed ? columns : side_by_side, transposed ? side_by_side : columns});
    for (std::size_t e = 0; e < parts[0].size(); ++e) {
      for (std::int64_t i = 0; i < side_by_side * columns; ++i) {
        const std::int64_t row = transposed ? i % side_by_side : i / columns, column = transposed ? i / side_by_side : i % columns;
        const std::int64_t part = one.fused.interleaved ? row % one.fused.parts : row / rows, own = one.fused.interleaved ? row / one.fused.parts : row % rows;
        whole.values.push_back(parts[static_cast<std::size_t>(part)][e]->values[static_cast<std::size_t>(own * columns + column)]);
      }
    }
    all.push_back(std::move(whole));
  }
  return all;
}

std::vector<float> TinyModel::in_turn(std::int64_t groups, const std::vector<std::pair<const float*, std::int64_t>>& parts) {
  std::vector<float> values;
  for (std::int64_t g = 0; g < groups; ++g) {
    for (const auto& [from, count] : parts) values.insert(values.end(), from + g * count, from + (g + 1) * count);
  }
  return values;
}

std::vector<float> TinyModel::by_key_heads(const std::vector<const TinyTensor*>& parts) const {
  const nn::RecurrentLayer& r = sizes.recurrent;
  const std::int64_t columns = parts[0]->shape[1], keys = r.key_dim * columns, all_keys = r.key_heads * keys, each = r.value_heads / r.key_heads;
  const float *first = parts[0]->values.data(), *second = parts[1]->values.data();
  if (parts[0]->shape[0] == r.value_heads) return in_turn(r.key_heads, {{first, each * columns}, {second, each * columns}});
  const std::int64_t values = each * r.value_dim * columns;
  return in_turn(r.key_heads, {{first, keys}, {first + all_keys, keys}, {first + 2 * all_keys, values}, {second, values}});
}

/// Each group has some rows of each part, in the order of the parts.
TinyTensor TinyModel::fused_rows_of(const TinyTensor& one) const {
  std::vector<const TinyTensor*> parts(static_cast<std::size_t>(one.fused.parts));
  for (const TinyTensor& t : tensors) {
    if (t.fused_name == one.fused_name) parts[static_cast<std::size_t>(t.fused.part)] = &t;
  }
  const std::int64_t columns = one.shape.size() == 2 ? one.shape[1] : 1;
  TinyTensor whole{one.fused_name, "", {}, {}};
  if (one.fused.by_key_heads) whole.values = by_key_heads(parts);
  for (std::int64_t g = 0; !one.fused.by_key_heads && g < one.groups; ++g) {
    for (const TinyTensor* part : parts) {
      const std::int64_t size = part->shape[0] / one.groups * columns;
      whole.values.insert(whole.values.end(), part->values.begin() + g * size, part->values.begin() + (g + 1) * size);
    }
  }
  const std::int64_t rows = static_cast<std::int64_t>(whole.values.size()) / columns;
  whole.shape = one.shape;
  whole.shape[0] = rows;
  if (!one.fused.transposed || one.shape.size() == 1) return whole;
  const std::vector<float> values = whole.values;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) whole.values[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * columns + c)];
  }
  std::swap(whole.shape[0], whole.shape[1]);
  return whole;
}

TinyTensor TinyModel::latent_tensor(const TinyTensor& k_b) const {
  const auto v_b = std::ranges::find_if(tensors, [&](const TinyTensor& t) { return t.fused_name == k_b.fused_name && !t.fused.transposed; });
  const std::int64_t nope = k_b.shape[1];
  TinyTensor both{k_b.fused_name, name_from(k_b.fused.gguf, {Role::k_b, std::atoll(k_b.gguf_name.c_str() + 4)}), {heads * (nope + value_dim), kv_rank}, {}};
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t n = 0; n < nope; ++n) {
      for (std::int64_t r = 0; r < kv_rank; ++r) both.values.push_back(k_b.values[static_cast<std::size_t>((h * kv_rank + r) * nope + n)]);
    }
    const auto values = v_b->values.begin() + h * value_dim * kv_rank;
    both.values.insert(both.values.end(), values, values + value_dim * kv_rank);
  }
  both.reference_name = name_from(archs::deepseek_k_b.name, k_b.own);
  return both;
}

void TinyModel::write_tokenizer(const std::filesystem::path& folder) const {
  Json vocabulary, added = Json::array();
  for (std::size_t i = 0; i < pieces.size(); ++i) vocabulary[pieces[i]] = i;
  for (int id = 0; id < 3; ++id) added.push_back({{"id", id}, {"content", pieces[static_cast<std::size_t>(id)]}, {"special", true}, {"normalized", false}});
  const Json json = {
      {"version", "1.0"}, {"added_tokens", added},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", pieces[3]}}},
      {"decoder", {{"type", "Replace"}, {"pattern", {{"String", pieces[3]}}}, {"content", " "}}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"fuse_unk", true}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  write_file(folder / "tokenizer.json", json.dump());
  write_file(folder / "tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>","add_bos_token":true})");
}

void TinyModel::write_folder(const std::filesystem::path& folder, const std::string& type) const {
  std::filesystem::create_directories(folder);
  write_tokenizer(folder);
  write_file(folder / "config.json", config.dump(1));
  std::vector<SafetensorsWriter::Announced> announced;
  std::vector<TinyTensor> all = folder_tensors(), behind;
  std::ranges::copy_if(all, std::back_inserter(behind), [](const TinyTensor& t) { return module_of(t.name).has_value(); });
  std::erase_if(all, [](const TinyTensor& t) { return module_of(t.name).has_value(); });
  write_modules(folder, behind);
  for (const TinyTensor& t : all) announced.push_back({t.name, type, t.shape});
  const auto wholes = detail::ngram_tensors(sizes);
  for (const auto& [name, numbers] : wholes) announced.push_back({name, "I64", {std::ssize(numbers)}});
  SafetensorsWriter writer(folder / "model.safetensors", announced, {{"format", "pt"}});
  for (const TinyTensor& t : all) {
    const std::string bytes = bytes_of(t.values, type);
    writer.write(std::as_bytes(std::span(bytes)));
  }
  for (const auto& [name, numbers] : wholes) writer.write(std::as_bytes(std::span(numbers)));
  writer.commit();
}

void TinyModel::write_modules(const std::filesystem::path& folder, const std::vector<TinyTensor>& behind) const {
  if (pooled_layers.empty()) return;
  for (const auto& [name, text] : sentence_modules_of(sizes)) {
    std::filesystem::create_directories((folder / name).parent_path());
    write_file(folder / name, text);
  }
  for (const std::string name : {"2_Dense", "3_Dense"}) {
    std::vector<SafetensorsWriter::Announced> announced;
    for (const TinyTensor& t : behind) {
      if (module_of(t.name)->first == name) announced.push_back({module_of(t.name)->second, "F32", t.shape});
    }
    if (announced.empty()) continue;
    SafetensorsWriter writer(folder / name / "model.safetensors", announced, {{"format", "pt"}});
    for (const TinyTensor& t : behind) {
      const std::string values = bytes_of(t.values, "F32");
      if (module_of(t.name)->first == name) writer.write(std::as_bytes(std::span(values)));
    }
    writer.commit();
  }
}

GgufBuilder TinyModel::gguf() const {
  const std::string name(sees && !gguf_seeing(*arch).empty() ? gguf_seeing(*arch) : arch->gguf_name());
  GgufBuilder b;
  b.key("general.architecture", name);
  // What the file has room for is less exact than config.json: the nearest float.
  const bool old = old_gguf && arch->latent;
  for_each_number([&](const ConfigKey& key, auto number) {
    const bool listed = (arch->full_layers_differ() && (key.field == Field::kv_heads || (key.field == Field::ffn && arch->full_heads_differ()))) || (key.field == Field::heads && !arch->heads_key.empty()) ||
                        (arch->drops_halves && (key.field == Field::heads || key.field == Field::kv_heads || key.field == Field::ffn));
    if (key.gguf.empty() || listed || (arch->zero_heads && (key.field == Field::kv_heads || (arch->single_halves && key.field == Field::ffn))) || (old && (key.field == Field::head_dim || key.field == Field::value_dim))) return;
    if (key.field == Field::rope_dim && arch->halves_full_rope) number *= 2;
    if (key.field == Field::layers) number += static_cast<decltype(number)>(std::ssize(sizes.drafting));
    if (old && key.field == Field::latent_heads) number = static_cast<decltype(number)>(heads);
    if (old && key.field == Field::latent_key_dim) number = static_cast<decltype(number)>(head_dim);
    if (old && key.field == Field::latent_value_dim) number = static_cast<decltype(number)>(value_dim);
    if constexpr (std::is_same_v<decltype(number), double>) {
      b.key(message(name, '.', key.gguf), static_cast<float>(number));
    } else {
      b.key(message(name, '.', key.gguf), static_cast<std::uint32_t>(number));
    }
  });
  if (!arch->gguf_activation_key.empty()) b.key(message(name, '.', arch->gguf_activation_key), std::string(activation_name_of(sizes.gate)));
  // DeepSeek V2 and V3 share a name: this tells them apart.
  if (arch->latent) {
    b.key(message(name, ".expert_gating_func"), std::uint32_t{sizes.router.score == nn::RouterScore::sigmoid ? 2U : 1U});
    b.key(message(name, ".expert_weights_norm"), sizes.router.renormalize);
  }
  if (arch->zero_heads) {
    std::vector<std::int32_t> groups, widths;
    for (const LayerSpec& spec : sizes.specs) groups.push_back(!attends(spec.mixer) ? 0 : arch->latent ? 1 : static_cast<std::int32_t>(spec.kv_heads)), widths.push_back(static_cast<std::int32_t>(spec.is_sparse() ? spec.expert_ffn : spec.ffn));
    b.key(message(name, ".attention.head_count_kv"), groups);
    if (arch->single_halves) b.key(message(name, ".feed_forward_length"), widths);
  }
  if (arch->drops_halves) {
    std::vector<std::int32_t> of_layers, groups, widths;
    for (const LayerSpec& spec : sizes.specs) {
      const bool has_attention = spec.mixer == MixerKind::attention;
      of_layers.push_back(has_attention ? static_cast<std::int32_t>(heads) : 0);
      groups.push_back(has_attention ? static_cast<std::int32_t>(spec.kv_heads) : 0);
      widths.push_back(static_cast<std::int32_t>(spec.ffn));
    }
    b.key(message(name, ".attention.head_count"), of_layers);
    b.key(message(name, ".attention.head_count_kv"), groups);
    b.key(message(name, ".feed_forward_length"), widths);
  }
  if (!arch->heads_key.empty()) {
    std::vector<std::int32_t> of_layers;
    for (std::int64_t i = 0; i < sizes.layers; ++i) of_layers.push_back(static_cast<std::int32_t>(sizes.heads_of(i)));
    b.key(message(name, ".attention.head_count"), of_layers);
  }
  if (arch->limits_gates()) {
    std::vector<float> of_experts, of_mlps;
    for (const LayerSpec& spec : sizes.specs) of_experts.push_back(spec.expert_limit), of_mlps.push_back(spec.mlp_limit);
    b.key(message(name, ".swiglu_clamp_exp"), of_experts).key(message(name, ".swiglu_clamp_shexp"), of_mlps);
  }
  if (!arch->sparsity_key.empty()) {
    std::vector<float> deviations;
    for (const LayerSpec& spec : sizes.specs) deviations.push_back(spec.gate_cutoff.value_or(-INFINITY));
    b.key(message(name, ".activation_sparsity_scale"), deviations);
  }
  if (arch->flags_windows) {
    std::vector<bool> windows, turned;
    for (const LayerSpec& spec : sizes.specs) windows.push_back(spec.window > 0), turned.push_back(spec.rope != nn::LayerRope::none);
    b.key(message(name, ".attention.sliding_window_pattern"), windows);
    if (!arch->rope_bases_key.empty()) b.key(message(name, ".attention.rope_pattern"), turned);
  }
  if (arch->full_layers_differ()) {
    std::vector<std::int32_t> groups, widths;
    for (const LayerSpec& spec : sizes.specs) groups.push_back(static_cast<std::int32_t>(spec.kv_heads)), widths.push_back(static_cast<std::int32_t>(spec.ffn));
    b.key(message(name, ".attention.head_count_kv"), groups);
    if (arch->full_heads_differ() && !arch->has_experts()) b.key(message(name, ".feed_forward_length"), widths);
  }
  if (sizes.rope.scaling == nn::RopeScaling::yarn) {
    b.key(message(name, ".rope.scaling.type"), "yarn").key(message(name, ".rope.scaling.factor"), static_cast<float>(sizes.rope.factor));
    b.key(message(name, ".rope.scaling.original_context_length"), static_cast<std::uint32_t>(sizes.rope.original_context));
    if (sizes.temperature.scale > 0) b.key(message(name, ".rope.scaling.yarn_log_multiplier"), arch->latent ? 0.1F : 1.0F);
  }
  if (arch->may_share_choices) {
    std::vector<bool> own;
    for (const LayerSpec& spec : sizes.specs) own.push_back(!spec.shares_choice);
    b.key(message(name, ".attention.indexer.types"), own);
  }
  if (arch->find(Field::index_block) != nullptr) {
    std::vector<std::int32_t> blocks;
    for (const LayerSpec& spec : sizes.specs) blocks.push_back(attends(spec.mixer) ? static_cast<std::int32_t>(sizes.index.block) : 0);
    b.key(message(name, ".attention.compress_ratios"), blocks);
  }
  if (const nn::NgramOptions& o = sizes.ngrams; o.exist()) {
    const auto at = static_cast<std::int32_t>(sizes.ngram_layer());
    const auto number = [&](const char* key, std::int64_t value) { b.key(message(name, key), static_cast<std::uint32_t>(value)); };
    b.key(message(name, ".ple.layers"), std::vector<std::int32_t>{at});
    number(".ple.ngram_size", o.tokens), number(".ple.heads_per_ngram", o.heads), number(".ple.conv_kernel", o.taps), number(".ple.eos_token_id", o.end), number(".ple.image_token_id", o.image);
    number(".embedding_length_per_layer_input", o.width);
    b.key(message(name, ".ple.layer_multipliers"), o.multipliers).key(message(name, ".ple.head_offsets"), std::vector<std::uint64_t>(o.offsets.begin(), o.offsets.end()));
    b.key(message(name, ".ple.head_vocab_sizes"), std::vector<std::uint64_t>(o.sizes.begin(), o.sizes.end()));
  }
  if (arch->says_parallel) b.key(message(name, ".use_parallel_residual"), arch->parallel);
  if (!arch->causal) b.key(message(name, ".attention.causal"), false);
  if (pooling && labels == 0) b.key(message(name, ".pooling_type"), static_cast<std::uint32_t>(*pooling) + 1);
  if (labels > 0) b.key(message(name, ".pooling_type"), std::uint32_t{4});
  for (std::size_t i = 0; i < pooled_layers.size(); ++i) b.key(message(name, ".dense_", i + 2, "_feat_out"), static_cast<std::uint32_t>(pooled_layers[i].outputs));
  if (labels > 0 && pooling) b.key(message(name, ".classifier.pooling_type"), static_cast<std::uint32_t>(*pooling) + 1);
  if (arch->says_rope) b.key(message(name, ".rope.scaling.finetuned"), turned);
  for (const TensorKey& key : arch->more_tensors) {
    std::vector<float> numbers;
    for (const TinyTensor& t : tensors) {
      if (key.is_listed && t.own.role == key.role) numbers.push_back(t.values[0]);
    }
    if (key.is_listed && !numbers.empty()) b.key(std::string(list_of(key)), numbers);
  }
  put_vocabulary(b);
  if (more_keys) more_keys(b);
  put_tensors(b);
  return b;
}

void TinyModel::put_vocabulary(GgufBuilder& b) const {
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    scores.push_back(-static_cast<float>(i));
    types.push_back(i == 0 ? 2 : i < 3 ? 3 : 1);
  }
  b.key("tokenizer.ggml.model", "llama").key("tokenizer.ggml.tokens", pieces).key("tokenizer.ggml.scores", scores);
  b.key("tokenizer.ggml.token_type", types).key("tokenizer.ggml.add_space_prefix", false);
}

std::vector<float> TinyModel::folded(const TinyTensor& t) const {
  if (!arch->folds_scales) return t.values;
  const ModelScales& s = sizes.scales;
  const std::vector<std::pair<std::string, double>> factors = {
      {"embed_tokens.weight", s.embedding}, {"final_layernorm.weight", s.logits / (tied ? s.embedding : 1)}, {"q_proj.weight", s.attention_in}, {"k_proj.weight", s.attention_in * s.keys},
      {"v_proj.weight", s.attention_in}, {"o_proj.weight", s.attention_out}, {"mamba.out_proj.weight", s.space_out}, {"gate_proj.weight", s.gate}, {"down_proj.weight", s.down}};
  std::vector<float> values = t.values;
  for (const auto& [ending, factor] : factors) {
    for (float& x : values) x *= static_cast<float>(t.name.ends_with(ending) ? factor : 1);
  }
  if (!t.name.ends_with("mamba.in_proj.weight")) return values;
  std::size_t at = 0, part = 0;
  const std::int64_t inner = value_heads * state_value_dim, of_keys = key_heads * key_dim;
  for (const std::int64_t rows : {inner, inner, of_keys, of_keys, value_heads}) {
    for (std::int64_t i = 0; i < rows * dim; ++i) values[at++] *= static_cast<float>(s.space_in * s.space[part]);
    ++part;
  }
  return values;
}

void TinyModel::put_tensors(GgufBuilder& b) const {
  for (auto t = tensors.begin(); t != tensors.end();) {
    if (t->gguf_name.empty()) {
      ++t;  // of folders alone
      continue;
    }
    // Experts of one name are stacked.
    const auto end = std::find_if(t, tensors.end(), [&](const TinyTensor& other) { return other.gguf_name != t->gguf_name; });
    if (t->heads > 0 && old_gguf) {
      if (t->fused.transposed) {
        const TinyTensor both = latent_tensor(*t);
        b.tensor(both.gguf_name, {both.shape[1], both.shape[0]}, 0, bytes_of(both.values, "F32"));
      }
      ++t;
      continue;
    }
    std::vector<std::int64_t> dimensions(t->shape.rbegin(), t->shape.rend());
    if (!t->gguf_shape.empty()) dimensions.assign(t->gguf_shape.rbegin(), t->gguf_shape.rend());
    if (t->heads > 0) dimensions = {t->shape[1], t->shape[0] / t->heads, t->heads};
    const bool joins = end - t > 1 && t->groups > 0;  // gate and up
    if (joins) {
      for (auto other = t + 1; other != end; ++other) dimensions.back() += other->shape[0];
    } else if (end - t > 1) {
      dimensions.push_back(end - t);
    }
    std::string bytes;
    const std::string name = t->gguf_name;
    if (joins && t->fused.by_key_heads) {
      const bool in_order = t->fused.part == 0;
      bytes = bytes_of(by_key_heads({&*(in_order ? t : t + 1), &*(in_order ? t + 1 : t)}), "F32");
      t = end;
    }
    if (const std::int64_t left_out = t->rows_left_out; left_out > 0) {
      dimensions.back() -= left_out;
      bytes = bytes_of({t->values.begin() + left_out * dimensions[0], t->values.end()}, "F32");
      t = end;
    }
    if (t->rows_put_in > 0) {
      dimensions.back() += t->rows_put_in;
      bytes = bytes_of(t->values, "F32");
      for (std::int64_t i = 0; i < t->rows_put_in; ++i) bytes += bytes_of({t->values.begin(), t->values.begin() + dimensions[0]}, "F32");
      t = end;
    }
    for (; t != end; ++t) bytes += bytes_of(t->id.layer >= 0 ? for_gguf(t->id, sizes, folded(*t)) : arch->folds_scales ? folded(*t) : for_gguf(*t), "F32");
    b.tensor(name, dimensions, 0, bytes);
  }
}

reference::Transformer TinyModel::reference() const {
  reference::Transformer r{.dim = dim, .layers = sizes.layers, .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim,
                           .ffn = ffn, .vocab = vocab, .norm_eps = 0.00001, .frequencies = {}, .weights = {}};
  r.layer_norms = arch->norm == Norm::layer;
  r.position_offset = arch->position_offset;
  r.sees_all = !arch->causal;
  r.norms_sums = arch->norms_sums;
  r.encoder_layers = sizes.encoder_layers, r.decoder_start = static_cast<std::int32_t>(sizes.decoder_start);
  r.relative_buckets = sizes.relative_bias.buckets, r.relative_distance = sizes.relative_bias.distance;
  r.headless = !sizes.has_head;
  r.head_layer_norms = arch->head_layer_norms;
  r.alibi = sizes.alibi, r.scales_alibi = arch->scales_alibi, r.qkv_clip = sizes.qkv_clip;
  r.parallel = arch->parallel;
  const ModelScales& scales = sizes.scales;
  r.embedding_scale = scales.embedding, r.residual_scale = scales.residual, r.attention_scale = scales.attention, r.logit_scale = arch->scales_tied_logits && tied ? scales.logits / std::sqrt(static_cast<double>(dim)) : scales.logits;
  r.attention_softcap = scales.attention_softcap, r.final_softcap = scales.final_softcap;
  std::vector<LayerSpec> specs = sizes.specs;
  specs.insert(specs.end(), sizes.drafting.begin(), sizes.drafting.end());
  for (const LayerSpec& spec : specs) r.rotates.push_back(spec.rope != nn::LayerRope::none);
  if (arch->latent) {
    r.kv_rank = kv_rank, r.q_rank = q_rank, r.value_dim = value_dim, r.nope_dim = head_dim - sizes.rope.dim;
    r.attention_scale = std::pow(1 + 0.1 * sizes.rope.score_mscale * std::log(std::max(1.0, sizes.rope.factor)), 2) / std::sqrt(static_cast<double>(head_dim));
  }
  r.attention_in = scales.attention_in, r.attention_out = scales.attention_out, r.key_scale = scales.keys, r.space_in = scales.space_in, r.space_out = scales.space_out;
  r.gate_scale = scales.gate, r.down_scale = scales.down, r.space_scales.assign(scales.space.begin(), scales.space.end());
  r.gates_output = arch->output_gate == nn::OutputGate::beside_queries;
  r.plain_norms = arch->plain_norms;
  const nn::RecurrentLayer& recurrent = sizes.recurrent;
  r.recurrent = {static_cast<std::size_t>(recurrent.key_heads), static_cast<std::size_t>(recurrent.value_heads), static_cast<std::size_t>(recurrent.key_dim),
                 static_cast<std::size_t>(recurrent.value_dim), recurrent.taps};
  r.adjacent_pairs = arch->pairs == nn::RopePairs::adjacent;
  r.norms_rotated = arch->head_norm == nn::HeadNorm::each_rotated;
  r.norms_all_heads = arch->head_norm == nn::HeadNorm::all;
  r.norms_own_heads = arch->head_norm == nn::HeadNorm::own;
  if (arch->gate == ops::Gate::gelu_tanh) r.activation = [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))); };
  if (arch->gate == ops::Gate::relu) r.activation = [](double x) { return std::max(x, 0.0); };
  if (arch->gate == ops::Gate::relu2) r.activation = [](double x) { return std::pow(std::max(x, 0.0), 2); };
  if (arch->gate == ops::Gate::gelu_erf) r.activation = [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); };
  if (arch->class_activation == ClassActivation::relu) r.class_activation = [](double x) { return std::max(x, 0.0); };
  if (arch->class_activation == ClassActivation::gelu) r.class_activation = [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); };
  r.clamps = arch->gate == ops::Gate::clamped_silu;
  r.decay_bound = sizes.decay_bound;
  r.softplus_gates = arch->output_gate == nn::OutputGate::of_heads_softplus;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::string mlp = message("model.layers.", i, ".mlp.");
    if (specs[i].gate_cutoff) r.weights[mlp + "cutoff"] = {*specs[i].gate_cutoff};
    if (specs[i].mlp_limit > 0) r.weights[mlp + (specs[i].is_sparse() ? "shared_expert.limit" : "limit")] = {specs[i].mlp_limit};
    for (std::int64_t e = 0; specs[i].expert_limit > 0 && e < specs[i].experts; ++e) r.weights[message(mlp, "experts.", e, ".limit")] = {specs[i].expert_limit};
  }
  for (const LayerSpec& spec : specs) r.windows.push_back(spec.window);
  r.experts = sizes.router.experts, r.expert_ffn = expert_ffn, r.shared_ffn = 2 * expert_ffn;
  for (const LayerSpec& spec : specs) r.shared_ffn = spec.is_sparse() && spec.ffn > 0 ? spec.ffn : r.shared_ffn;
  r.chunked = arch->chunks_windows, r.norms_turned = sizes.norms_turned, r.warms_unturned = sizes.temperature.unturned, r.scales_inputs = sizes.router.scales_inputs, r.routes_inputs = arch->routes_inputs, r.averages_shared = arch->averages_shared;
  const nn::RouterOptions& o = sizes.router;
  r.router = {static_cast<reference::Score>(o.score), static_cast<std::size_t>(o.used), static_cast<std::size_t>(o.groups),
              static_cast<std::size_t>(o.groups_used), static_cast<std::size_t>(o.group_best), o.renormalize, double{o.scale}, double{o.jitter}};
  const auto frequencies = [&](double base) {
    std::vector<double> list;
    for (std::int64_t i = 0; i < sizes.rope.dim / 2; ++i) list.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(sizes.rope.dim)));
    return list;
  };
  r.frequencies = frequencies(sizes.rope.base);
  if (sizes.rope.scaling == nn::RopeScaling::yarn) {
    const auto original = static_cast<double>(sizes.rope.original_context);
    r.frequencies = reference::rope_yarn(static_cast<int>(sizes.rope.dim), sizes.rope.base, sizes.rope.factor, 32, 1, original);
    r.magnitude = sizes.rope.attention_factor > 0 ? sizes.rope.attention_factor : reference::yarn_magnitude(sizes.rope.factor);
  }
  for (std::size_t i = 0; arch->proportional_rope && i < r.frequencies.size(); ++i) r.frequencies[i] *= i < r.frequencies.size() / 4 ? 1 : 0;
  if (sizes.local_rope) {
    for (std::int64_t i = 0; i < sizes.local_rope->dim / 2; ++i) r.local_frequencies.push_back(std::pow(sizes.local_rope->base, -2.0 * static_cast<double>(i) / static_cast<double>(sizes.local_rope->dim)));
  }
  for (std::int64_t i = 0; !arch->heads_key.empty() && i < sizes.layers; ++i) r.layer_heads.push_back(sizes.heads_of(i));
  for (std::size_t i = 0; arch->shares_keys() && i < sizes.specs.size(); ++i) r.kv_layers.push_back(sizes.specs[i].kv_layer);
  for (std::size_t i = 0; (arch->full_layers_differ() || arch->drops_halves) && i < sizes.specs.size(); ++i) {
    const LayerSpec& spec = sizes.specs[i];
    r.head_dims.push_back(sizes.head_dim_of(spec));
    r.groups.push_back(spec.group);
  }
  r.norms_values = arch->norms_values;
  r.value_scale = scales.values;
  r.per_layer_dim = sizes.per_layer_dim;
  r.streams = sizes.streams, r.active_stream = sizes.active_stream;
  r.indexer = {static_cast<std::size_t>(sizes.index.heads), static_cast<std::size_t>(sizes.index.dim), static_cast<std::size_t>(sizes.index.used), static_cast<std::size_t>(sizes.index.block),
               arch->index_pairs == nn::RopePairs::adjacent, arch->latent ? 1e-6 : sizes.norm_eps};
  r.connects_streams = sizes.connects_streams(), r.sigmoid_delta = sizes.sigmoid_delta;
  const nn::NgramOptions& ngrams = sizes.ngrams;
  r.ngrams = {static_cast<std::size_t>(ngrams.tokens), static_cast<std::size_t>(ngrams.heads), ngrams.taps, static_cast<std::int32_t>(ngrams.end), ngrams.multipliers, ngrams.offsets, ngrams.sizes};
  for (const LayerSpec& spec : specs) r.locals.push_back(spec.rope == nn::LayerRope::local);
  r.temperature = sizes.temperature.scale, r.temperature_length = sizes.temperature.length, r.temperature_offset = sizes.temperature.offset;
  for (const TinyTensor& t : tensors) {
    if (t.name.empty()) continue;  // divisors: frequencies have them
    r.weights[t.reference_name.empty() ? t.name : t.reference_name] = t.values;
    if (t.heads > 0 && t.fused.transposed) r.weights[latent_tensor(t).reference_name] = latent_tensor(t).values;
  }
  return r;
}

std::string TinyModel::bytes_of(const std::vector<float>& values, const std::string& type) {
  std::string bytes;
  const auto append = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const float v : values) type == "F32" ? append(v) : type == "F16" ? append(f16(v)) : append(bf16(v));
  return bytes;
}

namespace {

/// What an architecture's models are made of, as (kind, which): weights, numbers of configs, and ways to put blocks together, which other code
/// does with experts and without.
std::set<std::pair<int, int>> parts_of(const ArchSpec& arch) {
  std::set<std::pair<int, int>> parts;
  int kind = arch.has_experts() ? 100 : 0;
  for (const auto& list : {arch.tensors, arch.more_tensors}) {
    for (const TensorKey& key : list) parts.emplace(kind, static_cast<int>(key.role));
  }
  ++kind;
  for (const auto& list : {arch.config, arch.more_config}) {
    for (const ConfigKey& key : list) parts.emplace(kind, static_cast<int>(key.field));
  }
  const int ways[] = {static_cast<int>(arch.norm), static_cast<int>(arch.recurrent), static_cast<int>(arch.output_gate), static_cast<int>(arch.head_norm), static_cast<int>(arch.gate),
                      arch.parallel, arch.causal, arch.encodes, arch.norms_sums, arch.first_unnormed, arch.latent, arch.single_halves, arch.drops_halves, arch.plain_norms, arch.head_layer_norms,
                      arch.chunks_windows, arch.averages_shared, arch.dense_see_all, arch.groups_differ(), !arch.rope_bases_key.empty(), arch.full_attention_step > 0, arch.full_layers_lead, arch.no_rope_step > 0, arch.may_draft(), arch.may_share_choices};
  for (const int way : ways) parts.emplace(++kind, way);
  return parts;
}

/// Again and again the one with most parts that those before lack. In the order of the list.
std::vector<const ArchSpec*> cover_all_parts() {
  std::map<const ArchSpec*, std::set<std::pair<int, int>>> missing;  // of each, what is not there yet
  for (const ArchSpec* arch : architectures) missing[arch] = parts_of(*arch);
  std::vector<const ArchSpec*> few(std::begin(architectures), std::end(architectures));
  const auto count = [&](const ArchSpec* arch) { return missing[arch].size(); };
  std::set<const ArchSpec*> chosen;
  for (const ArchSpec* most; count(most = *std::ranges::max_element(few, {}, count)) > 0;) {
    chosen.insert(most);
    const std::set<std::pair<int, int>> there = missing[most];
    for (auto& [arch, parts] : missing) std::erase_if(parts, [&](const auto& part) { return there.contains(part); });
  }
  std::erase_if(few, [&](const ArchSpec* arch) { return !chosen.contains(arch); });
  return few;
}

/// Of these the first of each kind and shape of what a text leaves behind.
std::vector<const ArchSpec*> one_of_each_state(std::vector<const ArchSpec*> of) {
  std::vector<std::tuple<std::vector<nn::KvLayer>, nn::RecurrentLayer, MixerKind, bool>> seen;
  std::erase_if(of, [&](const ArchSpec* arch) {
    TinyModel tiny{.arch = arch};
    tiny.make();
    std::vector<nn::KvLayer> layers;
    const nn::KvShape shape = tiny.sizes.kv_shape();
    for (std::int64_t i = 0; i < shape.layers; ++i) layers.push_back(shape.layer(i));
    std::tuple state(std::move(layers), tiny.sizes.recurrent, arch->recurrent, arch->may_draft());
    if (std::ranges::find(seen, state) != seen.end()) return true;
    seen.push_back(std::move(state));
    return false;
  });
  return of;
}

}  // namespace

const std::vector<const ArchSpec*>& few_architectures() {
  static const std::vector<const ArchSpec*> few = cover_all_parts();
  return few;
}

std::vector<const ArchSpec*> architectures_by_parts() {
  if (quick()) return few_architectures();
  return {std::begin(architectures), std::end(architectures)};
}

std::vector<const ArchSpec*> architectures_by_state() {
  static const std::vector<const ArchSpec*> fewer = one_of_each_state(few_architectures());
  return fewer;
}

std::vector<const ArchSpec*> dense_architectures() {
  std::vector<const ArchSpec*> dense = architectures_by_parts();
  std::erase_if(dense, [](const ArchSpec* arch) { return arch->has_experts(); });
  return dense;
}

std::vector<const ArchSpec*> plain_architectures() {
  std::vector<const ArchSpec*> plain = dense_architectures();
  std::erase_if(plain, [](const ArchSpec* arch) {
    const bool llama_norms = arch->norms_before_blocks() && arch->norm == Norm::rms && arch->find(Role::attention_norm)->hf == archs::llama.find(Role::attention_norm)->hf;
    const bool scales = arch->find(Field::embedding_scale) != nullptr || arch->scales_embedding || arch->find(Field::temperature_scale) != nullptr;
    return !arch->causal || arch->encodes || arch->latent || arch->full_attention_step > 0 || arch->recurrent != MixerKind::none || !llama_norms || scales || arch->drops_halves || arch->no_rope_step > 0 || !arch->find(Role::q)->fused.name.empty();
  });
  return plain;
}

std::vector<float> logits_of(const Model& model, const std::vector<TokenId>& tokens) {
  Session session(model, {.threads = 2, .kv = "f32"});
  std::vector<float> all;
  const auto take = [&](std::int64_t, std::span<const float> values) { all.insert(all.end(), values.begin(), values.end()); };
  if (model.config().has_source()) {
    // What the encoder reads, and after its start the decoder, too.
    session.prefill(tokens);
    take(0, session.logits());
    session.score(std::span(tokens).first(tokens.size() - 1), take);
    return all;
  }
  model.config().has_head ? session.score(tokens, take) : session.states(tokens, take);
  return all;
}

std::vector<float> states_of(const Model& model, const std::vector<TokenId>& tokens) {
  Engine engine(model, {.threads = 1});
  nn::SequenceState state = engine.new_state("f32");
  Engine::Sequence sequence{.tokens = tokens, .state = &state};
  std::vector<TokenId> own{static_cast<TokenId>(model.config().decoder_start)};
  own.insert(own.end(), tokens.begin(), tokens.end() - 1);
  if (model.config().has_source()) sequence.tokens = own, sequence.source = tokens;
  std::vector<float> all;
  engine.run({&sequence, 1}, [&](std::int64_t, std::int64_t, std::span<const float> row) { all.insert(all.end(), row.begin(), row.end()); }, [](std::int64_t) { return true; }, PassOutput::state);
  return all;
}

std::vector<TokenId> some_tokens(int count) {
  std::vector<TokenId> tokens{1};
  for (int i = 1; i < count; ++i) tokens.push_back((i * 7 + i * i) % 30);
  return tokens;
}

double distance(const std::vector<float>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(found[i]) - expected[i]));
  return largest;
}

}  // namespace bantam::test
