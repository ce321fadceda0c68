// Writing config.json.
#include <algorithm>
#include <cmath>

#include "bantam/model/archs.hpp"
#include "model/block_configs.hpp"
#include "model/config_words.hpp"
#include "model/gate_sparsity.hpp"
#include "model/ngram_config.hpp"
#include "model/recurrent_config.hpp"
#include "model/sentence_modules.hpp"
#include "model/step_config.hpp"
#include "text/json.hpp"

namespace bantam::inline v0 {

namespace {

/// The class that a model of these parts has.
std::string class_of(const ModelConfig& c) {
  std::string name;
  if (c.labels > 0) name = c.arch->class_of_classifier();
  if (c.labels == 0 && !c.has_head && c.arch->find(Role::head) != nullptr) name = c.arch->class_without_head();
  return name.empty() ? std::string(c.arch->hf_class) : name;
}

/// What layers without a window have of their own, which keys are shared, and ropes by kind of layer.
void write_full_layers(const ModelConfig& c, Json& json) {
  if (c.arch->find(Field::per_layer_dim) != nullptr && c.arch->find(Field::per_layer_vocab) == nullptr && c.per_layer_dim > 0) json["vocab_size_per_layer_input"] = c.vocab;
  if (c.arch->may_share_values) json["attention_k_eq_v"] = std::ranges::any_of(c.specs, &LayerSpec::shares_values);
  if (c.arch->shares_keys() && c.arch->full_layers_differ()) {
    const auto reads = [](const LayerSpec& spec) { return spec.kv_layer >= 0; };
    const auto first = std::ranges::find_if(c.specs, reads);
    json["use_double_wide_mlp"] = first != c.specs.end() && first->ffn == 2 * c.layer(0).ffn;
    json["enable_moe_block"] = c.has_experts();
  }
  if (!c.arch->proportional_rope) return;
  const std::optional<std::int64_t> turned = detail::proportional_pairs(c.rope);
  json["rope_parameters"]["full_attention"] = {{"rope_type", "proportional"}, {"rope_theta", c.rope.base}};
  json["rope_parameters"]["full_attention"]["partial_rotary_factor"] = turned ? static_cast<double>(*turned) / static_cast<double>(c.rope.dim / 2) : 1.0;
  if (c.local_rope) json["rope_parameters"]["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", c.local_rope->base}};
}

/// Whether a config says which part of its heads rope turns, and that part.
bool says_part(const ModelConfig& c) { return !c.is_latent() && !c.arch->proportional_rope && (c.rope.dim != c.head_dim || c.arch->default_rope_part < 1); }
double part_of_heads(const nn::RopeOptions& rope, const ModelConfig& c) { return static_cast<double>(rope.dim) / static_cast<double>(c.head_dim); }

/// Ropes in the newer words: what was written as rope_scaling turns layers without a window.
void write_ropes_by_kind(const ModelConfig& c, Json& json) {
  Json full = {{"rope_type", "default"}};
  if (const Json* scaling = json.find("rope_scaling")) {
    for (const auto& [key, value] : scaling->items()) full[std::string(key)] = value;
    json["rope_scaling"] = nullptr;
  }
  full["rope_theta"] = c.rope.base;
  Json local = {{"rope_type", "default"}};
  if (c.local_rope) local["rope_theta"] = c.local_rope->base;
  if (says_part(c)) {
    full["partial_rotary_factor"] = part_of_heads(c.rope, c);
    if (c.local_rope) local["partial_rotary_factor"] = part_of_heads(*c.local_rope, c);
  }
  json["rope_parameters"]["full_attention"] = full;
  if (c.local_rope) json["rope_parameters"]["sliding_attention"] = local;
}

/// A classifier's labels, and what stands for a text.
void write_class(const ModelConfig& c, Json& json) {
  if (c.token_types > 0) json["type_vocab_size"] = c.token_types;
  if (c.labels > 0) {
    json["id2label"] = Json::object();
    json["label2id"] = Json::object();
    for (std::int64_t i = 0; const std::string& name : c.names_of_labels()) {
      json["id2label"][std::to_string(i)] = name;
      json["label2id"][name] = i++;
    }
    if (c.label_use != LabelUse::one_of) json["problem_type"] = std::string(problem_type_of(c.label_use));
    if (c.pooling && !c.arch->causal) json["classifier_pooling"] = std::string(name_of(*c.pooling));
    return;
  }
  if (!c.pooled_layers.empty()) json["bantam_pooled_layers"] = json_of(c.pooled_layers);
  if (c.pooling) json["bantam_pooling"] = std::string(name_of(*c.pooling));
  if (c.normalizes) json["bantam_normalize"] = *c.normalizes;
}

/// Numbers by their keys, and what all models of the class say in the same words.
void write_numbers(const ModelConfig& c, Json& json) {
  for (const auto& list : {c.arch->config, c.arch->more_config}) {
    for (const ConfigKey& key : list) {
      if (key.hf.empty() || key.field == Field::window || (key.field == Field::rope_base && c.arch->proportional_rope) || c.arch->find(key.field) != &key) continue;
      if (const FieldValue value = value_of(c, key.field)) std::visit([&](auto number) { put_at(json, key.hf) = number; }, *value);
    }
  }
  if (c.arch->pads_positions) json[std::string(c.arch->find(Field::context)->hf)] = c.context + c.arch->position_offset;
  for (const ConfigChoice& choice : c.arch->choices) {
    if (!choice.text.empty()) {
      put_at(json, choice.key) = std::string(choice.text);
      continue;
    }
    if (!choice.is_number || choice.value != 0) put_at(json, choice.key) = choice.is_number ? Json(static_cast<std::int64_t>(choice.value)) : Json(choice.value != 0);
  }
}

/// Sizes that differ from layer to layer, and which layers have experts.
void write_layers(const ModelConfig& c, Json& json) {
  // One number for each layer, which no loader of Hugging Face's takes.
  const auto list = [&](Field field, std::int64_t (ModelConfig::*of)(std::int64_t) const noexcept) {
    Json& sizes = put_at(json, list_key(*c.arch, field)) = Json::array();
    for (std::int64_t i = 0; i < c.layers; ++i) {
      const bool lacks = field != Field::ffn && c.arch->drops_halves && !attends(c.layer(i).mixer);
      sizes.push_back(lacks ? 0 : (c.*of)(i));
    }
  };
  if (!c.is_uniform() || !c.arch->heads_key.empty()) list(Field::heads, &ModelConfig::heads_of);
  if (!c.is_uniform()) {
    list(Field::kv_heads, &ModelConfig::kv_heads_of);
    list(Field::ffn, &ModelConfig::ffn_of);
  }
  if (c.arch->trims_ffn) json["block_auto_adjust_ff_dim"] = false;
  for (std::size_t number = 0; number < c.arch->limit_keys.size(); ++number) {
    Json& limits = json[c.arch->limit_keys[number]] = Json::array();
    for (const LayerSpec& spec : c.specs) limits.push_back(spec.*gate_limits[number].first);
  }
  if (!c.arch->names_feed_forwards) return;
  json["mlp_layer_types"] = Json::array();
  for (const LayerSpec& spec : c.specs) json["mlp_layer_types"].push_back(spec.is_sparse() ? "sparse" : "dense");
}

void write_router(const ModelConfig& c, Json& json) {
  if (c.has_experts()) json["norm_topk_prob"] = c.router.renormalize;
  // Of a class that may have experts, and has some where nothing is said.
  for (const ArchSpec* other : architectures) {
    if (other->hf_class == c.arch->hf_class && other->has_experts() && !c.arch->has_experts()) json[std::string(other->find(Field::experts)->hf)] = 0;
  }
  if (!c.arch->softmax_key.empty()) json[c.arch->softmax_key] = c.router.score != nn::RouterScore::sigmoid;
  if (!c.arch->score_key.empty()) json[c.arch->score_key] = c.router.score == nn::RouterScore::sigmoid ? "sigmoid" : "softmax";
}

void write_activation(const ModelConfig& c, Json& json) {
  const std::string_view activation = activation_name_of(c.gate);
  const bool own_name = !c.arch->activation_name.empty() && c.gate == c.arch->gate;
  json[std::string(c.arch->activation_key)] = std::string(own_name ? c.arch->activation_name : activation.empty() ? "silu" : activation);
}

/// Which layers rope turns, where that is not as in all models of the class.
void write_rotated_layers(const ModelConfig& c, Json& json) {
  if (!c.arch->rope_bases_key.empty()) {
    Json& bases = json[c.arch->rope_bases_key] = Json::array();
    for (const LayerSpec& spec : c.specs) bases.push_back(spec.rope == nn::LayerRope::none ? 0.0 : spec.rope == nn::LayerRope::local ? c.local_rope->base : c.rope.base);
    return;
  }
  bool usual = c.arch->no_rope_step == 0 && c.arch->window_layers_key.empty();
  for (std::int64_t i = 0; i < c.layers; ++i) usual = usual && c.layer(i).rope == detail::rope_of(c, i);
  if (usual || std::ranges::none_of(c.specs, [](const LayerSpec& spec) { return spec.rope == nn::LayerRope::none; })) return;
  Json& layout = json[c.arch->rope_layers_key] = Json::array();
  for (const LayerSpec& spec : c.specs) layout.push_back(spec.rope == nn::LayerRope::none ? 0 : 1);
}

/// The window, and the layers that have it.
void write_windows(const ModelConfig& c, Json& json) {
  if (!c.arch->window_layers_key.empty()) {
    Json& layout = json[c.arch->window_layers_key] = Json::array();
    for (const LayerSpec& spec : c.specs) layout.push_back(spec.window > 0 ? 1 : 0);
  }
  if (!c.arch->causal && c.arch->full_layers_lead) json["global_attn_every_n_layers"] = c.arch->full_attention_step;
  if (c.window == 0) {
    if (c.arch->causal) json["sliding_window"] = nullptr;  // Mistral's loaders take the absence for 4096
    return;
  }
  json[window_key(*c.arch)] = c.window;
  if (c.arch->find(Field::window) != nullptr && window_key(*c.arch) == "sliding_window") json["use_sliding_window"] = true;
  const auto first = std::ranges::find(c.specs, c.window, &LayerSpec::window);
  const bool from_first = std::all_of(first, c.specs.end(), [&](const LayerSpec& spec) { return spec.window == c.window; });
  if (from_first && c.arch->full_attention_step == 0) {
    json["max_window_layers"] = first - c.specs.begin();
    return;
  }
  Json kinds = Json::array();
  for (const LayerSpec& spec : c.specs) kinds.push_back(std::string(spec.window == 0 ? full_type(*c.arch) : window_type(*c.arch)));
  // GPT-Neo's class reads how often a run of kinds comes.
  if (!c.arch->local_layers_key.empty()) json["attention_types"] = Json::array({Json::array({kinds, Json(1)})});
  json[kinds_key(*c.arch)] = std::move(kinds);
}

/// How rope is stretched over longer texts.
Json scaling_of(const ModelConfig& c) {
  const nn::RopeOptions& r = c.rope;
  Json s;
  if (r.scaling != nn::RopeScaling::longrope) s["factor"] = r.factor;
  s["original_max_position_embeddings"] = r.original_context;
  switch (r.scaling) {
    case nn::RopeScaling::none:
    case nn::RopeScaling::linear: s["rope_type"] = "linear"; break;
    case nn::RopeScaling::dynamic: s["rope_type"] = "dynamic"; break;
    case nn::RopeScaling::llama3:
      s["rope_type"] = "llama3";
      s["low_freq_factor"] = r.low_freq_factor;
      s["high_freq_factor"] = r.high_freq_factor;
      break;
    case nn::RopeScaling::yarn:
      s["rope_type"] = "yarn";
      s["beta_fast"] = r.beta_fast;
      s["beta_slow"] = r.beta_slow;
      s["truncate"] = r.truncate;
      if (r.attention_factor > 0) s["attention_factor"] = r.attention_factor;
      if (r.score_mscale > 0) s["mscale"] = s["mscale_all_dim"] = r.score_mscale;
      break;
    case nn::RopeScaling::longrope:
      s["rope_type"] = "longrope";
      s["short_factor"] = r.divisors;
      s["long_factor"] = r.long_divisors;
      s["attention_factor"] = r.attention_factor;
      break;
  }
  if (c.temperature.scale > 0 && c.arch->temperature.scale == 0) s["llama_4_scaling_beta"] = c.temperature.scale;
  return s;
}

void write_rope(const ModelConfig& c, Json& json) {
  const nn::RopeOptions& r = c.rope;
  if (says_part(c)) json["partial_rotary_factor"] = part_of_heads(r, c);
  if (r.scaling == nn::RopeScaling::longrope) json["original_max_position_embeddings"] = r.original_context;
  if (r.scaling != nn::RopeScaling::none) json["rope_scaling"] = scaling_of(c);
  if (says_ropes_by_kind(*c.arch)) write_ropes_by_kind(c, json);
  // GGUF's own way to say what llama3 scaling does; no key of Hugging Face's holds it.
  const bool said = c.arch->proportional_rope && detail::proportional_pairs(r);
  if (!r.divisors.empty() && !said && r.scaling != nn::RopeScaling::longrope) json["rope_divisors"] = r.divisors;
}

}  // namespace

std::string write_hf_config(const ModelConfig& c, std::string_view torch_dtype) {
  Json json;
  json["architectures"] = {class_of(c)};
  json["model_type"] = std::string(c.arch->name);
  write_numbers(c, json);
  write_class(c, json);
  write_layers(c, json);
  if (c.arch->scales_embedding && c.scales.embedding != std::sqrt(static_cast<double>(c.dim))) json["embedding_scale"] = c.scales.embedding;
  write_full_layers(c, json);
  detail::write_gate_sparsity(c, json);
  write_activation(c, json);
  write_rotated_layers(c, json);
  json["tie_word_embeddings"] = c.tied;
  if (!c.arch->delta_gate_key.empty()) json[c.arch->delta_gate_key] = c.sigmoid_delta ? "sigmoid" : "silu";
  detail::write_ngrams(c, json);
  detail::write_layer_kinds(c, json);
  if (c.arch->says_rope) json["position_embedding_type"] = c.has_rope ? "rope" : "nope";
  write_router(c, json);
  detail::write_shared_choices(c, json);
  if (c.arch->norms_turned) json["use_qk_norm"] = c.norms_turned;
  if (c.arch->temperature.scale > 0) {
    json["attn_temperature_tuning"] = c.temperature.scale > 0;
    json["attn_scale"] = c.temperature.scale;
    json["floor_scale"] = c.temperature.length;
  }
  write_windows(c, json);
  write_rope(c, json);
  if (c.arch->step_words) detail::put_step_words(c, json);
  if (c.has_block_configs()) detail::put_block_configs(c, json);
  if (!torch_dtype.empty()) json["torch_dtype"] = std::string(torch_dtype);
  return json.dump(2);
}

}  // namespace bantam::inline v0
