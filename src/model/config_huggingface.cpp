// Reading config.json.
#include "bantam/model/config.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "bantam/core/error.hpp"
#include "bantam/io/file.hpp"
#include "bantam/model/archs.hpp"
#include "io/config_text.hpp"
#include "model/config_words.hpp"
#include "model/recurrent_config.hpp"
#include "model/sentence_modules.hpp"
#include "text/json.hpp"

namespace bantam::inline v0 {

namespace {

const Json& parse_object(const Json& json, const std::string& place) {
  if (!json.is_object()) fail(Errc::corrupt, place, ": expected a JSON object, found ", json.type_name());
  return json;
}

/// A member of members, or of lists by number, whose names stand in `key` with dots between; null where there is none.
const Json* find_at(const Json& json, std::string_view key) {
  const Json* at = key.empty() ? nullptr : &json;
  while (at != nullptr && !key.empty()) {
    const std::string_view name = key.substr(0, key.find('.'));
    const std::optional<std::size_t> place = at->is_array() ? place_in_list(name) : std::nullopt;
    at = at->is_array() ? (place && *place < at->size() ? &(*at)[*place] : nullptr) : at->find(name);
    key.remove_prefix(std::min(key.size(), name.size() + 1));
  }
  return at;
}

std::optional<double> number_at(const Json& json, std::string_view key, const std::string& place) {
  const Json* it = find_at(json, key);
  if (it != nullptr && it->is_null()) it = nullptr;
  if (it == nullptr) return std::nullopt;
  if (!it->is_number()) fail(Errc::corrupt, place, ": ", key, ": expected a number, found ", printable(it->dump()));
  return it->get<double>();
}

/// One number a layer, where the model was pruned so; native files alone say it.
std::vector<double> list_at(const Json& json, std::string_view key, const std::string& place) {
  const Json* it = find_at(json, key);
  if (it == nullptr || !it->is_array()) return {};
  std::vector<double> numbers;
  for (const Json& number : *it) {
    if (!number.is_number()) fail(Errc::corrupt, place, ": ", key, ": expected numbers, found ", printable(number.dump()));
    numbers.push_back(number.get<double>());
  }
  if (numbers.empty()) fail(Errc::corrupt, place, ": ", key, ": expected numbers, found none");
  return numbers;
}

std::string text_at(const Json& json, std::string_view key, const std::string& place, std::string_view otherwise) {
  const Json* it = member(json, key);
  if (it == nullptr) return std::string(otherwise);
  if (!it->is_string()) fail(Errc::corrupt, place, ": ", key, ": expected text, found ", printable(it->dump()));
  return std::string(it->string());
}

bool flag_at(const Json& json, std::string_view key, const std::string& place, bool otherwise) {
  const Json* it = member(json, key);
  if (it == nullptr) return otherwise;
  if (!it->is_boolean()) fail(Errc::corrupt, place, ": ", key, ": expected true or false, found ", printable(it->dump()));
  return it->get<bool>();
}

ops::Gate gate_of(const std::string& name, std::string_view key, const std::string& place) {
  const auto* found = std::ranges::find(activations, std::string_view(name), &std::pair<std::string_view, ops::Gate>::first);
  if (found != std::end(activations)) return found->second;
  fail(Errc::unsupported, place, ": ", key, ": expected silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu or relu2, found ", printable(name));
}

/// A list of which layers have something, 1 for those; empty where there is none.
std::vector<bool> layout_at(const Json& json, std::string_view key, const std::string& place, std::int64_t layers) {
  const Json* list = member(json, key);
  if (list == nullptr || (list->is_array() && list->empty())) return {};
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) != layers) {
    fail(Errc::corrupt, place, ": ", key, ": expected a list of ", layers, " numbers, found ", list->is_array() ? message(list->size()) : std::string(list->type_name()));
  }
  std::vector<bool> layout;
  for (std::int64_t i = 0; i < layers; ++i) {
    const Json& has = (*list)[static_cast<std::size_t>(i)];
    if (has != 0 && has != 1) fail(Errc::corrupt, place, ": ", key, "[", i, "]: expected 0 or 1, found ", printable(has.dump()));
    layout.push_back(has == 1);
  }
  return layout;
}

/// The layers that rope turns: SmolLM3's and Llama 4's list, or SmallThinker's.
void read_rotated_layers(const Json& json, const std::string& place, ModelConfig& c) {
  const std::vector<bool> turned = layout_at(json, c.arch->rope_layers_key, place, c.layers);
  for (std::size_t i = 0; i < turned.size(); ++i) {
    if (!turned[i]) c.specs[i].rope = nn::LayerRope::none;
    if (turned[i] && c.specs[i].rope == nn::LayerRope::none) c.specs[i].rope = nn::LayerRope::model;
  }
}

/// Divisors of frequencies, one a rotated pair.
std::vector<float> divisors_at(const Json& json, std::string_view key, const std::string& place, const ModelConfig& c) {
  const Json& list = need(json, key, place);
  if (!list.is_array() || !std::ranges::all_of(list, [](const Json& value) { return value.is_number(); })) {
    fail(Errc::corrupt, place, ": ", key, ": expected numbers, found ", list.type_name());
  }
  if (static_cast<std::int64_t>(list.size()) != c.rope.dim / 2) fail(Errc::corrupt, place, ": ", key, ": expected ", c.rope.dim / 2, " numbers, found ", list.size());
  return list.get<std::vector<float>>();
}

/// Phi's (arXiv:2402.13753). `c` has the original context, where the file says it outside; its own is the longer one.
void read_longrope(const Json& json, const std::string& place, ModelConfig& c) {
  nn::RopeOptions& rope = c.rope;
  rope.scaling = nn::RopeScaling::longrope;
  rope.divisors = divisors_at(json, "short_factor", place, c);
  rope.long_divisors = divisors_at(json, "long_factor", place, c);
  if (const auto original = number_at(json, "original_max_position_embeddings", place)) {
    if (!(*original >= 2) || *original > static_cast<double>(detail::largest_extent)) {
      fail(Errc::corrupt, place, ": original_max_position_embeddings: expected at least 2, found ", *original);
    }
    rope.original_context = static_cast<std::int64_t>(*original);
  }
  const double factor = static_cast<double>(c.context) / static_cast<double>(rope.original_context);
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(rope.original_context)));
  rope.attention_factor = number_at(json, "attention_factor", place).value_or(usual);
  // Phi-3.5-MoE's, in the place of the usual one.
  const auto near = number_at(json, "short_mscale", place), far = number_at(json, "long_mscale", place);
  if (!near && !far) return;
  if (near != far) fail(Errc::unsupported, place, ": long_mscale: expected that of short_mscale, found another");
  rope.attention_factor = *far;
}

void read_rope_scaling(const Json& json, const std::string& file, std::string_view name, ModelConfig& c) {
  const std::string place = message(file, ": ", name);
  parse_object(json, place);
  nn::RopeOptions& rope = c.rope;
  const auto required = [&](std::string_view key) {
    const std::optional<double> value = number_at(json, key, place);
    if (!value) fail(Errc::corrupt, place, ": ", key, ": expected a number, found nothing");
    return *value;
  };
  const std::string old_type = text_at(json, "type", place, "");
  const std::string type = text_at(json, "rope_type", place, old_type);
  if (!old_type.empty() && type != old_type) {
    fail(Errc::corrupt, place, ": expected type and rope_type to agree, found ", printable(old_type), " and ", printable(type));
  }
  if (type.empty() || type == "default" || type == "none") return;
  if (type == "linear") {
    rope.scaling = nn::RopeScaling::linear;
  } else if (const auto alpha = number_at(json, "alpha", place); type == "dynamic" && alpha) {
    // Hunyuan's: another base from the beginning on.
    if (!(*alpha > 0) || !std::isfinite(*alpha)) fail(Errc::corrupt, place, ": alpha: expected a number above 0, found ", *alpha);
    const auto dim = static_cast<double>(rope.dim);
    rope.base *= std::pow(*alpha, dim / std::max(1.0, dim - 2));
    return;
  } else if (type == "dynamic") {
    rope.scaling = nn::RopeScaling::dynamic;
  } else if (type == "llama3") {
    rope.scaling = nn::RopeScaling::llama3;
    rope.low_freq_factor = required("low_freq_factor");
    rope.high_freq_factor = required("high_freq_factor");
    if (!(rope.high_freq_factor > rope.low_freq_factor) || !(rope.low_freq_factor > 0)) {
      fail(Errc::corrupt, place, ": expected 0 < low_freq_factor < high_freq_factor, found ", rope.low_freq_factor, " and ", rope.high_freq_factor);
    }
    required("original_max_position_embeddings");
  } else if (type == "yarn") {
    rope.scaling = nn::RopeScaling::yarn;
    rope.beta_fast = number_at(json, "beta_fast", place).value_or(32);
    rope.beta_slow = number_at(json, "beta_slow", place).value_or(1);
    rope.truncate = flag_at(json, "truncate", place, true);
  } else if (type == "longrope" || type == "su") {
    return read_longrope(json, place, c);
  } else {
    fail(Errc::unsupported, place, ": expected linear, dynamic, llama3, yarn or longrope, found ", printable(type));
  }
  rope.factor = required("factor");
  if (!(rope.factor >= 1) || !std::isfinite(rope.factor)) {
    fail(Errc::corrupt, place, ": factor: expected at least 1, found ", rope.factor);
  }
  if (const auto original = number_at(json, "original_max_position_embeddings", place)) {
    if (!(*original >= 1) || *original > static_cast<double>(detail::largest_extent)) {
      fail(Errc::corrupt, place, ": original_max_position_embeddings: expected at least 1, found ", *original);
    }
    rope.original_context = static_cast<std::int64_t>(*original);
  }
  if (rope.scaling == nn::RopeScaling::yarn) {
    // DeepSeek's pair of scales; transformers' _compute_yarn_parameters.
    const auto mscale = [&](double m) { return rope.factor <= 1 ? 1.0 : 0.1 * m * std::log(rope.factor) + 1; };
    const double a = number_at(json, "mscale", place).value_or(0);
    const double b = number_at(json, "mscale_all_dim", place).value_or(0);
    rope.attention_factor = number_at(json, "attention_factor", place).value_or(a > 0 && b > 0 ? mscale(a) / mscale(b) : 0);
    if (c.arch->latent && b > 0) rope.score_mscale = b;
  }
  if (const auto beta = number_at(json, "llama_4_scaling_beta", place)) {
    if (!(*beta >= 0) || !std::isfinite(*beta)) fail(Errc::corrupt, place, ": llama_4_scaling_beta: expected at least 0, found ", *beta);
    c.temperature = {.scale = *beta, .length = static_cast<double>(rope.original_context)};
  }
}

/// Of each head only a part may be rotated.
void read_rotated_part(const Json& json, const Json* rope_parameters, const std::string& place, ModelConfig& c) {
  std::optional<double> part;
  if (rope_parameters != nullptr) part = number_at(*rope_parameters, "partial_rotary_factor", place);
  for (const char* key : {"partial_rotary_factor", "rotary_pct", "rope_pct"}) {
    if (!part) part = number_at(json, key, place);
  }
  if (!part && c.arch->default_rope_part < 1) part = c.arch->default_rope_part;
  if (!part) return;
  // Halves up: the factor is what writers made of a whole number.
  const double dim = std::floor(static_cast<double>(c.head_dim) * *part + 0.5);
  if (!(*part > 0 && *part <= 1) || dim < 2 || static_cast<std::int64_t>(dim) % 2 != 0) {
    fail(Errc::corrupt, place, ": partial_rotary_factor: expected a part that leaves an even size of the head's ", c.head_dim, ", found ", *part);
  }
  c.rope.dim = static_cast<std::int64_t>(dim);
}

/// What transformers 5 writes of Gemma 4's layers without a window, by their numbers: their head size and key-value heads.
std::optional<double> of_full_layers(const Json& json, Field field, const std::string& file) {
  const std::string_view key = field == Field::full_head_dim ? "head_dim" : field == Field::full_kv_heads ? "num_key_value_heads" : "";
  const Json* layers = key.empty() ? nullptr : member(json, "per_layer_config");
  if (layers == nullptr || !layers->is_object()) return std::nullopt;
  std::optional<double> all;
  for (const auto& [layer, own] : layers->items()) {
    const std::string place = message(file, ": per_layer_config: ", printable(std::string(layer)));
    const std::optional<double> one = own.is_object() ? number_at(own, key, place) : std::nullopt;
    if (all && one && *all != *one) fail(Errc::unsupported, place, ": ", key, ": expected the ", *all, " of the layer before, found ", *one);
    if (one) all = one;
  }
  return all;
}

/// The width that LFM2's MLPs have of what its config says (Lfm2MLP of transformers). Configs that do not know of it say the width.
double trimmed_ffn(const Json& json, double said, const std::string& place) {
  if (!flag_at(json, "block_auto_adjust_ff_dim", place, json.contains("block_ff_dim"))) return said;
  const double blocks = number_at(json, "block_multiple_of", place).value_or(256), factor = number_at(json, "block_ffn_dim_multiplier", place).value_or(1);
  if (!(blocks >= 1) || blocks != std::floor(blocks)) fail(Errc::corrupt, place, ": block_multiple_of: expected a whole number above 0, found ", blocks);
  if (!(factor > 0) || !std::isfinite(factor)) fail(Errc::corrupt, place, ": block_ffn_dim_multiplier: expected a number above 0, found ", factor);
  return std::ceil(std::floor(factor * std::floor(said * 2 / 3)) / blocks) * blocks;
}

/// Gemma 4's rope of layers without a window, over whole heads, of which some pairs turn.
void read_proportional(const Json* rope_parameters, const std::string& file, ModelConfig& c) {
  const std::string place = message(file, ": rope_parameters");
  const Json none = Json::object();
  const Json& json = rope_parameters != nullptr ? *rope_parameters : none;
  const std::string type = text_at(json, "rope_type", place, "proportional");
  const double part = number_at(json, "partial_rotary_factor", place).value_or(type == "default" ? 1 : 0.25), factor = number_at(json, "factor", place).value_or(1);
  if (type != "proportional" && !(type == "default" && part == 1)) fail(Errc::unsupported, place, ": rope_type: expected proportional, found ", printable(type));
  const double turned = std::floor(static_cast<double>(c.rope.dim) * part / 2 + 1e-9);
  if (!(part > 0 && part <= 1) || turned < 1) fail(Errc::corrupt, place, ": partial_rotary_factor: expected a part that turns some of the head's ", c.rope.dim / 2, " pairs, found ", part);
  if (!(factor > 0) || !std::isfinite(factor)) fail(Errc::corrupt, place, ": factor: expected a number above 0, found ", factor);
  c.rope.divisors = detail::proportional_divisors(c.rope.dim / 2, static_cast<std::int64_t>(turned), factor);
}

/// The same of layers with a window: all pairs turn.
void check_local_rope(const Json* parameters, const std::string& file) {
  const std::string place = message(file, ": rope_parameters: sliding_attention");
  if (parameters == nullptr || !parameters->is_object()) return;
  const std::string type = text_at(*parameters, "rope_type", place, "default");
  const double part = number_at(*parameters, "partial_rotary_factor", place).value_or(1);
  if (type != "default" || part != 1) fail(Errc::unsupported, place, ": expected rope_type default over whole heads, found ", printable(type), " over a part of ", part);
}

/// Layers with experts by number, where a config lists them: those of its step.
void check_sparse_layers(const Json& json, const std::string& place, const ModelConfig& c) {
  const std::string_view key = c.arch->sparse_layers_key;
  const Json* list = key.empty() ? nullptr : member(json, key);
  if (list == nullptr) return;
  std::set<double> listed, sparse;
  for (const Json& layer : *list) listed.insert(layer.is_number() ? layer.get<double>() : -1);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    if (c.layer(i).is_sparse()) sparse.insert(static_cast<double>(i));
  }
  if (listed != sparse) fail(Errc::unsupported, place, ": ", key, ": expected each layer that is a multiple of ", c.sparse_step(), ", found ", printable(list->dump()));
}

/// The temperature of queries, where a config has it by itself.
nn::Temperature read_temperature(const Json& json, const std::string& place, nn::Temperature t) {
  // Some say it by a number.
  const Json* tuned = member(json, "attn_temperature_tuning");
  if (tuned != nullptr && (*tuned == Json(false) || *tuned == Json(0))) t.scale = 0;
  const double scale = number_at(json, "attn_scale", place).value_or(t.scale), length = number_at(json, "floor_scale", place).value_or(t.length);
  if (!(scale >= 0) || !std::isfinite(scale)) fail(Errc::corrupt, place, ": attn_scale: expected at least 0, found ", scale);
  if (!(length >= 1) || !std::isfinite(length)) fail(Errc::corrupt, place, ": floor_scale: expected at least 1, found ", length);
  if (t.scale > 0) t.scale = scale;
  t.length = length;
  return t;
}

/// Newer configs name the kind of each layer. What they say goes before the keys that models had for it.
void read_layer_types(const Json& json, const std::string& place, std::int64_t window, ModelConfig& c) {
  const Json* types = member(json, "layer_types");
  if (types == nullptr || c.arch->recurrent != MixerKind::none) return;  // which were read before
  if (!types->is_array() || static_cast<std::int64_t>(types->size()) != c.layers) {
    fail(Errc::corrupt, place, ": layer_types: expected a list of ", c.layers, " kinds, found ",
         types->is_array() ? message(types->size()) : std::string(types->type_name()));
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const Json& type = (*types)[static_cast<std::size_t>(i)];
    const bool sliding = type == window_type(*c.arch);
    const bool indexed = c.index.used > 0 && type == "deepseek_sparse_attention";
    if (!sliding && !indexed && type != "full_attention") {
      fail(Errc::unsupported, place, ": layer_types[", i, "]: expected full_attention or sliding_attention, found ", printable(type.dump()));
    }
    if (sliding && window == 0) fail(Errc::corrupt, place, ": layer_types[", i, "]: sliding_attention, expected sliding_window, found none");
    c.specs[static_cast<std::size_t>(i)].window = sliding ? window : 0;
  }
}

/// Whether config.json says what an architecture has no number for.
bool is_chosen(const Json& json, const ConfigChoice& choice) {
  const Json* it = find_at(json, choice.key);
  if (!choice.text.empty()) return it == nullptr || it->is_null() ? choice.otherwise != 0 : *it == Json(choice.text);
  if (it == nullptr || it->is_null()) return choice.value == choice.otherwise;
  if (it->is_boolean()) return !choice.is_number && it->get<bool>() == (choice.value != 0);
  return it->is_number() && it->get<double>() == choice.value;
}

/// Those of some architectures, all of a class or a type, that the config's choices are of.
std::vector<const ArchSpec*> chosen(const std::vector<const ArchSpec*>& archs, const Json& json, const std::string& place) {
  const auto first_other = [&](const ArchSpec* arch) { return std::ranges::find_if(arch->choices, [&](const ConfigChoice& choice) { return !is_chosen(json, choice); }); };
  std::vector<const ArchSpec*> fitting;
  std::ranges::copy_if(archs, std::back_inserter(fitting), [&](const ArchSpec* arch) { return first_other(arch) == arch->choices.end(); });
  if (!fitting.empty() || archs.empty()) return fitting;
  // The one that most was said of.
  const ArchSpec* near = *std::ranges::max_element(archs, {}, [&](const ArchSpec* arch) { return first_other(arch) - arch->choices.begin(); });
  const ConfigChoice& choice = *first_other(near);
  const Json* found = find_at(json, choice.key);
  fail(Errc::unsupported, place, ": ", choice.key, ": expected ", !choice.text.empty() ? std::string(choice.text) : choice.is_number ? message(choice.value) : choice.value != 0 ? "true" : "false", " of a model of type ", near->name,
       ", found ", found == nullptr ? std::string("nothing") : printable(found->dump()));
}

/// Whether a class is an architecture's model without its own head.
bool is_without_head(const ArchSpec& arch, std::string_view name) {
  if (std::ranges::find(arch.more_classes, name) != arch.more_classes.end()) return true;
  const std::string_view stem = arch.class_stem();
  return !stem.empty() && name != arch.older_class && name.starts_with(stem) && (name == arch.class_of_classifier() || name == arch.class_without_head());
}

/// Whether a class is one of an architecture's.
bool is_class_of(const ArchSpec& arch, std::string_view name) {
  return arch.hf_class == name || (arch.older_class == name && !name.empty()) || is_without_head(arch, name);
}

const ArchSpec& find_hf_arch(const Json& json, const std::string& place) {
  // With and without experts some share a class and a type: Nemotron-H, Gemma 4.
  const bool turned_off = !flag_at(json, "enable_moe_block", place, true);
  const auto the_better = [&](const ArchSpec* found, const ArchSpec* arch) {
    const ConfigKey* experts = arch->find(Field::experts);
    const bool fits = experts != nullptr && !turned_off && number_at(json, experts->hf, place).value_or(0) > 0;
    return found == nullptr || fits ? arch : found;
  };
  const auto the_best = [&](auto&& is_named) {
    std::vector<const ArchSpec*> named;
    std::ranges::copy_if(architectures, std::back_inserter(named), is_named);
    const ArchSpec* found = nullptr;
    for (const ArchSpec* arch : chosen(named, json, place)) found = the_better(found, arch);
    return found;
  };
  const Json* it = json.find("architectures");
  if (it != nullptr && it->is_array() && !it->empty() && (*it)[0].is_string()) {
    const std::string_view name = (*it)[0].string();
    if (const ArchSpec* found = the_best([&](const ArchSpec* arch) { return is_class_of(*arch, name); })) return *found;
    fail(Errc::unsupported, place, ": architectures: expected one that `bantam formats` lists, found ", printable(name));
  }
  const std::string type = text_at(json, "model_type", place, "");
  // The text of a model that sees has a type of its own: qwen3_5_text.
  const std::string_view text = "_text", alone = type.ends_with(text) ? std::string_view(type).substr(0, type.size() - text.size()) : type;
  for (const std::string_view name : {std::string_view(type), alone}) {
    if (const ArchSpec* found = the_best([&](const ArchSpec* arch) { return arch->name == name; })) return *found;
  }
  fail(Errc::unsupported, place, ": model_type: expected one that `bantam formats` lists, found ", printable(type));
}

/// Layers without experts: Qwen's list of their numbers, or the kinds of all by name.
std::function<bool(std::int64_t)> dense_layers_of(const Json& json, const std::string& place) {
  std::set<double> dense;
  if (const Json* kinds = member(json, "mlp_layer_types"); kinds != nullptr && kinds->is_array()) {
    for (std::size_t i = 0; i < kinds->size(); ++i) {
      const Json& kind = (*kinds)[i];
      if (kind != "dense" && kind != "sparse") fail(Errc::unsupported, place, ": mlp_layer_types[", i, "]: expected dense or sparse, found ", printable(kind.dump()));
      if (kind == "dense") dense.insert(static_cast<double>(i));
    }
  }
  if (const Json* only = member(json, "mlp_only_layers"); only != nullptr && !(only->is_array() && only->empty())) {
    if (!only->is_array()) fail(Errc::corrupt, place, ": mlp_only_layers: expected a list, found ", only->type_name());
    const std::vector<double> numbers = list_at(json, "mlp_only_layers", place);
    dense.insert(numbers.begin(), numbers.end());
  }
  return [dense = std::move(dense)](std::int64_t layer) { return dense.contains(static_cast<double>(layer)); };
}

/// The language model's part of a config: all of it, but for models of several parts, whose class none here has.
const Json& text_part(const Json& json, std::string& place) {
  const Json* text = member(json, "text_config");
  if (text == nullptr || !text->is_object()) return json;
  const Json* classes = member(json, "architectures");
  const bool is_known = classes != nullptr && classes->is_array() && !classes->empty() && std::ranges::any_of(architectures, [&](const ArchSpec* arch) { return (*classes)[0] == Json(arch->hf_class); });
  if (is_known) return json;
  place += ": text_config";
  return *text;
}

/// What a model is for, as far as its config says: a classifier, or embeddings.
void read_class(const Json& json, const std::string& place, ModelConfig& c) {
  const Json* classes = member(json, "architectures");
  const bool named = classes != nullptr && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  const std::string_view name = named ? (*classes)[0].string() : std::string_view();
  if (named && is_without_head(*c.arch, name)) c.has_head = false;
  if (name.ends_with("ForSequenceClassification")) {
    // Tensors say how many, where there are some.
    const Json* labels = member(json, "id2label");
    c.labels = labels != nullptr && labels->is_object() ? std::clamp<std::int64_t>(static_cast<std::int64_t>(labels->size()), 1, 1 << 16) : 1;
    if (const std::string pooling = text_at(json, "classifier_pooling", place, ""); !pooling.empty()) {
      if (pooling != "cls" && pooling != "mean") fail(Errc::unsupported, place, ": classifier_pooling: expected cls or mean, found ", printable(pooling));
      c.pooling = find_pooling(pooling);
    }
  }
  if (c.arch->find(Role::token_type_embedding) != nullptr) {
    const double types = number_at(json, "type_vocab_size", place).value_or(2);
    c.token_types = types >= 1 && types <= 256 ? static_cast<std::int64_t>(types) : 1;
  }
  // Ours, in native files; folders of sentence-transformers have files of their own for it.
  if (const std::string pooling = text_at(json, "bantam_pooling", place, ""); !pooling.empty()) {
    try {
      c.pooling = find_pooling(pooling);
    } catch (const Error& error) {
      fail(Errc::corrupt, place, ": bantam_pooling: ", error.what());
    }
  }
  read_pooled_layers(json, place, c);
  if (member(json, "bantam_normalize") != nullptr) c.normalizes = flag_at(json, "bantam_normalize", place, true);
}

ModelConfig from_json(const Json& whole, const std::string& file) {
  std::string place = file;
  const Json& json = text_part(parse_object(whole, file), place);
  const ArchSpec& arch = find_hf_arch(json, place);
  const Json* rope_parameters = json.find("rope_parameters");
  // Newer configs give them by kind of layer, where kinds differ.
  const Json* local_parameters = nullptr;
  if (rope_parameters != nullptr && rope_parameters->is_object() && member(*rope_parameters, "full_attention") != nullptr) {
    local_parameters = member(*rope_parameters, "sliding_attention");
    rope_parameters = member(*rope_parameters, "full_attention");
  }
  const bool new_rope = rope_parameters != nullptr && rope_parameters->is_object();
  const auto key_of = [&](Field field) {
    const ConfigKey* key = arch.find(field);
    return key == nullptr ? std::string_view() : key->hf;
  };
  // A list is read as a list alone, where there may be one.
  const auto is_list = [&](Field field) {
    const Json* it = detail::may_differ(field) ? find_at(json, list_key(arch, field)) : nullptr;
    return it != nullptr && it->is_array();
  };
  const detail::Source source{
      place,
      [&](Field field) -> std::optional<double> {
        if (is_list(field) || (field == Field::dense_layers && member(json, "mlp_layer_types") != nullptr)) return std::nullopt;
        if (new_rope && field == Field::rope_base) {
          for (const std::string_view key : {key_of(field), std::string_view("rope_theta")}) {
            if (const auto base = number_at(*rope_parameters, key, place)) return base;
          }
        }
        // Of experts one number a layer may be given, all equal.
        if (const auto numbers = field < Field::experts ? std::vector<double>() : list_at(json, key_of(field), place); !numbers.empty()) {
          if (std::ranges::all_of(numbers, [&](double number) { return number == numbers[0]; })) return numbers[0];
          fail(Errc::unsupported, place, ": ", key_of(field), ": expected one number for all layers, found several");
        }
        const ConfigKey* key = arch.find(field);
        std::optional<double> number = number_at(json, key_of(field), place);
        if (!number && key != nullptr) number = number_at(json, key->other, place);
        if (!number && field == Field::layers) number = detail::listed_layers(json, arch);
        if (number && field == Field::ffn && arch.trims_ffn) number = trimmed_ffn(json, *number, place);
        if (!number && arch.full_layers_differ()) number = of_full_layers(json, field, place);
        // null says that there is none.
        if (const Json* it = find_at(json, key_of(field)); it != nullptr && it->is_null()) return std::nullopt;
        return !number && key != nullptr && key->otherwise != 0 ? key->otherwise : number;
      },
      [&](Field field) { return is_list(field) ? list_at(json, list_key(arch, field), place) : std::vector<double>(); },
      [&](Field field) { return std::string(key_of(field)); }, false, dense_layers_of(json, place),
      [&](std::int64_t layers) { return detail::layer_kinds_of(json, place, arch, layers); }};
  ModelConfig c = detail::read_sizes(arch, source);
  c.vocab = detail::require_extent(source, Field::vocab);
  if (arch.pads_positions) {
    if (c.context <= arch.position_offset) fail(Errc::corrupt, place, ": ", key_of(Field::context), ": expected more than ", arch.position_offset, ", found ", c.context);
    c.context -= arch.position_offset;
  }
  if (const std::string kind = text_at(json, "position_embedding_type", place, "absolute"); arch.learns_positions() && kind != "absolute") {
    fail(Errc::unsupported, place, ": position_embedding_type: expected absolute, found ", printable(kind));
  }
  read_class(json, place, c);
  // Of models whose dim was made smaller: it stays that of the original.
  if (const auto scale = arch.scales_embedding ? number_at(json, "embedding_scale", place) : std::nullopt) {
    if (!(*scale > 0) || !std::isfinite(*scale)) fail(Errc::corrupt, place, ": embedding_scale: expected a number above 0, found ", *scale);
    c.scales.embedding = *scale;
  }
  c.router.renormalize = flag_at(json, "norm_topk_prob", place, c.router.renormalize);
  // DeepSeek V2's plain choice beside the one by groups.
  if (c.has_experts() && text_at(json, "topk_method", place, "") == "greedy") c.router.groups = c.router.groups_used = 1;
  const std::string activation = text_at(json, arch.activation_key, place, "");
  const bool own_name = activation.empty() || activation == arch.activation_name;
  c.gate = own_name ? arch.gate : gate_of(activation, arch.activation_key, place);
  // Which no name stands for.
  if (c.gate == ops::Gate::silu && arch.gate == ops::Gate::clamped_silu) c.gate = arch.gate;
  if (const auto limit = number_at(json, "swiglu_limit", place); limit && c.gate == ops::Gate::clamped_silu && *limit != 7) {
    fail(Errc::unsupported, place, ": swiglu_limit: expected 7, found ", *limit);
  }
  if (arch.says_rope) {
    const std::string positions = text_at(json, "position_embedding_type", place, "nope");
    if (positions != "rope" && positions != "nope") fail(Errc::unsupported, place, ": position_embedding_type: expected rope or nope, found ", printable(positions));
    c.has_rope = positions == "rope";
  }
  if (arch.output_gate == nn::OutputGate::beside_queries && !flag_at(json, "attn_output_gate", place, true)) fail(Errc::unsupported, place, ": attn_output_gate: expected true, found false");
  c.tied = flag_at(json, "tie_word_embeddings", place, flag_at(whole, "tie_word_embeddings", file, arch.default_tied));
  c.scales_tied_logits = flag_at(json, "scale_decoder_outputs", place, arch.scales_tied_logits);
  if (flag_at(json, "attention_bias", place, false) && arch.proportional_rope) fail(Errc::unsupported, place, ": attention_bias: expected false, found true");
  // A text, or a truth value.
  if (const Json* both = member(json, "use_bidirectional_attention"); arch.causal && both != nullptr && (*both == Json("all") || *both == Json(true))) {
    fail(Errc::unsupported, place, ": use_bidirectional_attention: expected a causal model, found ", both->is_string() ? "all" : "true");
  }
  if (const auto own = number_at(json, "vocab_size_per_layer_input", place); own && c.per_layer_dim > 0 && *own != static_cast<double>(c.vocab)) {
    fail(Errc::unsupported, place, ": vocab_size_per_layer_input: expected the ", c.vocab, " of vocab_size, found ", *own);
  }
  if (!arch.latent && !arch.proportional_rope) read_rotated_part(json, new_rope ? rope_parameters : nullptr, place, c);
  if (const auto original = number_at(json, "original_max_position_embeddings", place); original && *original >= 2 && *original <= static_cast<double>(detail::largest_extent)) {
    c.rope.original_context = static_cast<std::int64_t>(*original);
  }
  if (arch.proportional_rope) {
    check_local_rope(local_parameters, place);  // the other is read when heads are known
  } else if (new_rope) {
    read_rope_scaling(*rope_parameters, place, "rope_parameters", c);
  } else if (const Json* scaling = member(json, "rope_scaling")) {
    read_rope_scaling(*scaling, place, "rope_scaling", c);
  }
  // OPT's, and ELECTRA's.
  for (const char* key : {"word_embed_proj_dim", "embedding_size"}) {
    const auto width = number_at(json, key, place);
    if (width && *width != static_cast<double>(c.dim)) fail(Errc::unsupported, place, ": ", key, ": expected the ", c.dim, " of hidden_size, found ", *width);
  }
  if (arch.latent && !flag_at(json, "rope_interleave", place, true)) fail(Errc::unsupported, place, ": rope_interleave: expected true, found false");
  if (json.find("rope_divisors") != nullptr && !arch.proportional_rope) c.rope.divisors = divisors_at(json, "rope_divisors", place, c);
  std::int64_t window = 0, first = 0;  // layers before that one see everything
  // Qwen2 carries a window that is off unless this says otherwise.
  if (flag_at(json, "use_sliding_window", place, true)) {
    window = detail::extent_or(source, Field::window, 0);
    if (const auto from = number_at(json, "max_window_layers", place)) {
      if (!(*from >= 0)) fail(Errc::corrupt, place, ": max_window_layers: expected at least 0, found ", *from);
      if (json.contains("use_sliding_window")) first = static_cast<std::int64_t>(std::min(*from, 1e9));
    }
  }
  std::optional<double> step;
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"}) {
    // EXAONE has letters for it, and layer_types besides.
    const Json* said = member(json, key);
    if (!step && said != nullptr && !said->is_string()) step = number_at(json, key, place);
    if (step == 0.0) step.reset();  // transformers 5's way to say that there is none
    if (step && (!(*step >= 1) || *step > static_cast<double>(detail::largest_extent))) fail(Errc::corrupt, place, ": ", key, ": expected at least 1, found ", *step);
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const bool has_window = step && arch.full_attention_step > 0 ? detail::has_window(arch, i, static_cast<std::int64_t>(*step)) : detail::has_window(arch, i);
    c.specs[static_cast<std::size_t>(i)].window = i < first || !has_window ? 0 : window;
  }
  const std::vector<bool> windows = arch.window_layers_key.empty() ? std::vector<bool>() : layout_at(json, arch.window_layers_key, place, c.layers);
  for (std::size_t i = 0; i < windows.size(); ++i) c.specs[i].window = windows[i] ? window : 0;
  read_layer_types(json, place, window, c);
  c.set_layers(std::move(c.specs));
  const bool shares_values = arch.may_share_values && flag_at(json, "attention_k_eq_v", place, false);
  detail::read_full_layers(source, {.kv_heads = detail::extent_or(source, Field::full_kv_heads, 0), .shares_values = [&](std::int64_t) { return shares_values; },
                                    .doubles_ffn = flag_at(json, "use_double_wide_mlp", place, false)}, c);
  if (arch.proportional_rope) {
    read_proportional(new_rope ? rope_parameters : nullptr, place, c);
    if (json.find("rope_divisors") != nullptr) c.rope.divisors = divisors_at(json, "rope_divisors", place, c);
  }
  double local_base = source.number(Field::local_rope_base).value_or(0);
  // ModernBERT's way to say that there is one base.
  if (const Json* it = arch.full_layers_lead ? json.find(key_of(Field::local_rope_base)) : nullptr; it != nullptr && it->is_null()) local_base = c.rope.base;
  if (local_parameters != nullptr && local_parameters->is_object()) local_base = number_at(*local_parameters, "rope_theta", place).value_or(local_base);
  if (!(local_base >= 0) || !std::isfinite(local_base)) fail(Errc::corrupt, place, ": ", key_of(Field::local_rope_base), ": expected a number above 0, found ", local_base);
  detail::set_ropes(c, local_base);
  read_rotated_layers(json, place, c);
  if (arch.chunks_windows && member(json, "layer_types") == nullptr) {
    for (LayerSpec& spec : c.specs) spec.window = spec.rope == nn::LayerRope::none ? 0 : window;
    c.set_layers(std::move(c.specs));
  }
  if (!arch.softmax_key.empty()) c.router.score = flag_at(json, arch.softmax_key, place, false) ? nn::RouterScore::softmax_of_chosen : nn::RouterScore::sigmoid;
  if (arch.norms_turned) c.norms_turned = flag_at(json, "use_qk_norm", place, true);
  if (arch.temperature.scale > 0) c.temperature = read_temperature(json, place, arch.temperature);
  check_sparse_layers(json, place, c);
  detail::check_router(c.router, place);
  detail::check_rope(c.rope, place);
  return c;
}

}  // namespace

ModelConfig parse_hf_config(std::string_view text, const std::string& place) {
  return from_json(Json::parse(text, place), place);
}

ModelConfig read_hf_config(const std::filesystem::path& file) {
  return parse_hf_config(detail::read_config_text(file), file.string());
}

}  // namespace bantam::inline v0
