#include "model/step_config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "bantam/core/error.hpp"
#include "model/config_json.hpp"
#include "model/config_source.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

constexpr const char* other_setting = "attention_other_setting";

/// A config with which of its layers have a window.
struct StepConfig {
  const Json& json;
  const std::string& place;
  std::vector<bool> windowed = {};

  [[nodiscard]] std::int64_t layers() const noexcept { return std::ssize(windowed); }

  /// What a list says of the layers with a window, or of the others, all alike; a number says it of all; nothing where there is neither.
  [[nodiscard]] std::optional<double> of_kind(const char* key, bool with_window) const {
    const Json* said = member(json, key);
    if (said == nullptr || !said->is_array()) return number_at(json, key, place);
    const std::vector<double> numbers = list_at(json, key, place);
    if (std::ssize(numbers) < layers()) fail(Errc::corrupt, place, ": ", key, ": expected a number for each of ", layers(), " layers, found ", numbers.size());
    std::optional<double> found;
    for (std::size_t i = 0; i < windowed.size(); ++i) {
      if (windowed[i] != with_window) continue;
      if (found && *found != numbers[i]) fail(Errc::unsupported, place, ": ", key, "[", i, "]: expected the ", *found, " of the layers like it, found ", numbers[i]);
      found = numbers[i];
    }
    return found;
  }
  /// A number of layers with a window, where they have another setting.
  [[nodiscard]] std::optional<double> of_other_setting(const char* key) const {
    const Json* other = member(json, other_setting);
    if (other == nullptr) return std::nullopt;
    const std::string within = message(place, ": ", other_setting);
    const std::string type = text_at(parse_object(*other, within), "attention_type", within, "sliding_attention");
    if (type != "sliding_attention") fail(Errc::unsupported, within, ": attention_type: expected sliding_attention, found ", printable(type));
    return number_at(*other, key, within);
  }
  /// A list of one number or another, by kind of layer.
  [[nodiscard]] Json by_layer(double full, double with_window) const {
    Json list = Json::array();
    for (const bool window : windowed) list.push_back(window ? with_window : full);
    return list;
  }
};

/// Layers with experts: their numbers in a text with commas, or in a list; transformers' class has experts in all but the first three.
std::set<std::int64_t> sparse_layers_of(const StepConfig& step) {
  constexpr const char* key = "moe_layers_enum";
  const Json* said = member(step.json, key);
  std::set<std::int64_t> sparse;
  if (said == nullptr) {
    for (std::int64_t i = 3; i < step.layers(); ++i) sparse.insert(i);
    return sparse;
  }
  if (!said->is_string()) {
    for (const double layer : list_at(step.json, key, step.place)) sparse.insert(layer >= 0 && layer < 1e6 ? static_cast<std::int64_t>(layer) : -1);
  } else {
    const std::string_view text = said->string();
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == ',' || text[at] == ' ') continue;
      std::int64_t layer = -1;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), layer);
      if (error != std::errc()) fail(Errc::corrupt, step.place, ": ", key, ": expected numbers of layers with commas between, found ", printable(std::string(text.substr(at, 40))));
      sparse.insert(layer);
      at = static_cast<std::size_t>(end - text.data());
    }
  }
  if (sparse.contains(-1)) fail(Errc::corrupt, step.place, ": ", key, ": expected numbers of layers, found others");
  return sparse;
}

/// Ropes by kind of layer. What stretches it over longer texts counts for layers without a window alone.
Json ropes_of(const StepConfig& step) {
  const Json* scaling = member(step.json, "rope_scaling");
  if (const Json* only = member(step.json, "yarn_only_types"); scaling != nullptr && only != nullptr && *only != Json::array({"full_attention"})) {
    fail(Errc::unsupported, step.place, ": yarn_only_types: expected [\"full_attention\"], found ", printable(only->dump()));
  }
  Json full = scaling != nullptr ? parse_object(*scaling, message(step.place, ": rope_scaling")) : Json({{"rope_type", "default"}}), local = {{"rope_type", "default"}};
  for (const bool window : {false, true}) {
    Json& rope = window ? local : full;
    if (const auto base = step.of_kind("rope_theta", window)) rope["rope_theta"] = *base;
    rope["partial_rotary_factor"] = step.of_kind("partial_rotary_factors", window).value_or(1);
  }
  return {{"full_attention", full}, {"sliding_attention", local}};
}

}  // namespace

Json in_usual_words(const Json& json, const std::string& place) {
  Json usual = json;
  StepConfig step{json, place};
  const double said = number_at(json, "num_hidden_layers", place).value_or(0);
  if (!(said >= 1 && said <= 100'000)) return usual;  // which is refused where all sizes are read
  const auto layers = static_cast<std::size_t>(said);
  const Json* kinds = member(json, "layer_types");
  Json own_kinds = Json::array();
  for (std::size_t i = 0; i < layers; ++i) {
    // Those of layers that draft follow.
    const bool there = kinds != nullptr && kinds->is_array() && i < kinds->size();
    step.windowed.push_back(there && (*kinds)[i] == "sliding_attention");
    if (there) own_kinds.push_back((*kinds)[i]);
  }
  if (kinds != nullptr && kinds->is_array()) usual["layer_types"] = own_kinds;
  if (const Json* turned = member(json, "use_rope_layers"); turned != nullptr && turned->is_array() && std::ranges::any_of(*turned, [](const Json& turns) { return turns == false || turns == 0; })) {
    fail(Errc::unsupported, place, ": use_rope_layers: expected that rope turns all layers, found ", printable(turned->dump()));
  }
  if (const auto dim = step.of_other_setting("head_dim"), own = number_at(json, "head_dim", place); dim && own && *dim != *own) {
    fail(Errc::unsupported, place, ": ", other_setting, ": head_dim: expected that of the other layers, found ", *dim);
  }
  if (const auto heads = number_at(json, "num_attention_heads", place); heads && member(json, "num_attention_heads_per_layer") == nullptr) {
    const auto others = step.of_other_setting("num_attention_heads");
    usual["num_attention_heads_per_layer"] = step.by_layer(*heads, others ? *others : number_at(json, "num_sliding_attention_heads", place).value_or(*heads));
  }
  if (const auto groups = number_at(json, "num_attention_groups", place), others = step.of_other_setting("num_attention_groups"); groups && others && *groups != *others) {
    usual["num_attention_groups"] = step.by_layer(*groups, *others);
  }
  if (member(json, "rope_parameters") == nullptr) {
    usual["rope_parameters"] = ropes_of(step);
    usual["rope_scaling"] = nullptr;
  }
  if (member(json, "mlp_layer_types") == nullptr) {
    const std::set<std::int64_t> sparse = sparse_layers_of(step);
    Json& types = usual["mlp_layer_types"] = Json::array();
    for (std::int64_t i = 0; i < step.layers(); ++i) types.push_back(sparse.contains(i) ? "sparse" : "dense");
  }
  return usual;
}

void put_step_words(const ModelConfig& c, Json& json) {
  const auto of = [&](bool window) { return std::ranges::find_if(c.specs, [&](const LayerSpec& spec) { return (spec.window > 0) == window; }); };
  const auto full = of(false), other = of(true);
  const auto heads_of = [&](const LayerSpec& spec) { return spec.kv_heads * c.group_of(spec); };
  const bool by_kind = std::ranges::all_of(c.specs, [&](const LayerSpec& spec) {
    const auto like = spec.window > 0 ? other : full;
    return spec.kv_heads == like->kv_heads && heads_of(spec) == heads_of(*like);
  });
  // Lists of ours stay where layers of a kind differ.
  const LayerSpec& usual = full != c.specs.end() ? *full : *other;
  if (by_kind) {
    json["num_attention_heads"] = heads_of(usual);
    json["num_attention_groups"] = usual.kv_heads;
    json["num_attention_heads_per_layer"] = nullptr;
    if (other != c.specs.end()) {
      json[other_setting] = {{"attention_type", "sliding_attention"}, {"num_attention_heads", heads_of(*other)}, {"num_attention_groups", other->kv_heads}, {"head_dim", c.head_dim}};
    }
  }
  Json bases = Json::array(), parts = Json::array();
  std::string sparse;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const nn::RopeOptions& rope = c.layer(i).rope == nn::LayerRope::local && c.local_rope ? *c.local_rope : c.rope;
    bases.push_back(rope.base);
    parts.push_back(static_cast<double>(rope.dim) / static_cast<double>(c.head_dim));
    if (c.layer(i).is_sparse()) sparse += message(sparse.empty() ? "" : ",", i);
  }
  json["rope_theta"] = std::move(bases);
  json["partial_rotary_factors"] = std::move(parts);
  json["moe_layers_enum"] = sparse;
  json["mlp_layer_types"] = nullptr;
  json["partial_rotary_factor"] = nullptr;
  // What is left of the rope of layers without a window says how it is stretched.
  const Json rope = json["rope_parameters"]["full_attention"];
  json["rope_parameters"] = nullptr;
  if (rope["rope_type"] == "default") return;
  Json& scaling = json["rope_scaling"] = Json::object();
  for (const auto& [key, value] : rope.items()) {
    if (key != "rope_theta" && key != "partial_rotary_factor") scaling[key] = value;
  }
  json["yarn_only_types"] = Json::array({"full_attention"});
}

}  // namespace bantam::inline v0::detail
