// Words of config.json that reading and writing share.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

/// hidden_act by its names; the first of each activation is written.
inline constexpr std::pair<std::string_view, ops::Gate> activations[] = {
    {"silu", ops::Gate::silu}, {"swish", ops::Gate::silu}, {"gelu", ops::Gate::gelu_erf}, {"gelu_pytorch_tanh", ops::Gate::gelu_tanh},
    {"gelu_new", ops::Gate::gelu_tanh}, {"gelu_fast", ops::Gate::gelu_tanh}, {"relu", ops::Gate::relu}, {"relu2", ops::Gate::relu2}};

/// Throws unsupported, with the names there are. `key` is where `place` says it.
[[nodiscard]] inline ops::Gate gate_of(std::string_view name, std::string_view key, const std::string& place) {
  const auto* found = std::ranges::find(activations, name, &std::pair<std::string_view, ops::Gate>::first);
  if (found != std::end(activations)) return found->second;
  fail(Errc::unsupported, place, ": ", key, ": expected silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu or relu2, found ", printable(name));
}
/// Empty for an activation that has no name of its own.
[[nodiscard]] inline std::string_view activation_name_of(ops::Gate gate) noexcept {
  const auto* found = std::ranges::find(activations, gate, &std::pair<std::string_view, ops::Gate>::second);
  return found == std::end(activations) ? std::string_view() : found->first;
}

/// In GGUF files, behind the architecture's name; ours.
inline constexpr std::string_view problem_type_key = "classifier.problem_type";
/// problem_type of classifiers by its names.
inline constexpr std::pair<std::string_view, LabelUse> problem_types[] = {
    {"single_label_classification", LabelUse::one_of}, {"multi_label_classification", LabelUse::any_of}, {"regression", LabelUse::numbers}};

/// Of a name that `key` of `place` says; an empty one is one_of, as nearly all are. Throws unsupported.
[[nodiscard]] inline LabelUse label_use_of(std::string_view name, std::string_view key, const std::string& place) {
  if (name.empty()) return LabelUse::one_of;
  const auto* found = std::ranges::find(problem_types, name, &std::pair<std::string_view, LabelUse>::first);
  if (found != std::end(problem_types)) return found->second;
  fail(Errc::unsupported, place, ": ", key, ": expected single_label_classification, multi_label_classification or regression, found ", printable(name));
}
[[nodiscard]] inline std::string_view problem_type_of(LabelUse use) noexcept { return std::ranges::find(problem_types, use, &std::pair<std::string_view, LabelUse>::second)->first; }

/// The number in a list that a part of a ConfigKey's name stands for, one digit; nothing for the name of a member.
[[nodiscard]] inline std::optional<std::size_t> place_in_list(std::string_view name) noexcept {
  if (name.size() != 1 || name[0] < '0' || name[0] > '9') return {};
  return static_cast<std::size_t>(name[0] - '0');
}

/// Where a ConfigKey's name stands in a config, to be written to.
[[nodiscard]] inline Json& put_at(Json& json, std::string_view key) {
  Json* at = &json;
  while (!key.empty()) {
    const std::string_view name = key.substr(0, key.find('.'));
    key.remove_prefix(std::min(key.size(), name.size() + 1));
    const std::optional<std::size_t> place = place_in_list(name);
    while (place && at->size() <= *place) at->push_back(nullptr);
    at = place ? &(*at)[*place] : &(*at)[name];
  }
  return *at;
}

/// What gates of a layer stay below, in the order of ArchSpec::limit_keys, and where GGUF files list it behind the architecture's name.
inline constexpr std::pair<float LayerSpec::*, std::string_view> gate_limits[] = {{&LayerSpec::expert_limit, "swiglu_clamp_exp"}, {&LayerSpec::mlp_limit, "swiglu_clamp_shexp"}};

/// GGUF's list of how many neighboring tokens an indexer chooses together, behind the architecture's name; 0 of layers without one.
inline constexpr std::string_view indexers_key = "attention.indexer.types";  ///< of each layer, whether it has one
inline constexpr std::string_view index_blocks_key = "attention.compress_ratios";

/// Where config.json says how many tokens a window has.
[[nodiscard]] inline std::string_view window_key(const ArchSpec& arch) noexcept {
  const ConfigKey* key = arch.find(Field::window);
  return key == nullptr || key->hf.empty() ? "sliding_window" : key->hf;
}
/// Where config.json lists the kinds of layers, and what it calls those with a window and those without.
[[nodiscard]] inline std::string_view kinds_key(const ArchSpec& arch) noexcept { return arch.local_layers_key.empty() ? "layer_types" : arch.local_layers_key; }
[[nodiscard]] inline std::string_view window_type(const ArchSpec& arch) noexcept {
  return !arch.local_layers_key.empty() ? "local" : arch.chunks_windows ? "chunked_attention" : "sliding_attention";
}
[[nodiscard]] inline std::string_view full_type(const ArchSpec& arch) noexcept { return arch.local_layers_key.empty() ? "full_attention" : "global"; }

/// Whether config.json says ropes by kind of layer, in rope_parameters.
[[nodiscard]] inline bool says_ropes_by_kind(const ArchSpec& arch) {
  const ConfigKey* local = arch.find(Field::local_rope_base);
  return local != nullptr && local->hf.empty() && !arch.proportional_rope;
}

/// What a list of numbers of each layer is called, which our files alone have: ours where the architecture's folders have no such number.
[[nodiscard]] inline std::string_view list_key(const ArchSpec& arch, Field field) {
  if (field == Field::heads && !arch.heads_key.empty()) return arch.heads_key;
  const ConfigKey* key = arch.find(field);
  if (key != nullptr && !key->hf.empty()) return key->hf;
  return field == Field::heads ? "heads_by_layer" : field == Field::kv_heads ? "kv_heads_by_layer" : "ffn_by_layer";
}

}  // namespace bantam::inline v0
