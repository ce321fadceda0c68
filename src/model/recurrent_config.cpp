// Kinds of layers and sizes of recurrent ones, from both containers.
#include "model/recurrent_config.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/kernels/arguments.hpp"
#include "model/config_json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// By steps: each layer that is a multiple of one attends.
std::vector<LayerKind> by_steps(const ArchSpec& arch, std::int64_t step, std::int64_t layers) {
  std::vector<LayerKind> kinds;
  for (std::int64_t i = 0; i < layers; ++i) kinds.push_back({step > 0 && (i + 1) % step == 0 ? MixerKind::attention : arch.recurrent});
  return kinds;
}

/// The last of each group attends, and so do those behind the last whole group.
std::vector<LayerKind> by_groups(const ArchSpec& arch, std::int64_t group, std::int64_t layers) {
  std::vector<LayerKind> kinds = by_steps(arch, group, layers);
  std::fill(kinds.begin() + layers / group * group, kinds.end(), LayerKind{});
  return kinds;
}

/// By sizes, of which a half that a layer lacks has 0. Empty lists: no layer lacks one.
template <class Sizes>
std::vector<LayerKind> by_sizes(const Sizes& kv_heads, const Sizes& ffn, std::int64_t layers) {
  std::vector<LayerKind> kinds(static_cast<std::size_t>(layers));
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i < kv_heads.size() && kv_heads[i] == 0) kinds[i].mixer = MixerKind::none;
    if (i < ffn.size() && ffn[i] == 0) kinds[i].feed_forward = FeedForward::none;
  }
  return kinds;
}

std::int64_t step_of(std::optional<double> said, const ArchSpec& arch, const std::string& place) {
  if (!said) return arch.attention_step;
  if (!(*said >= 1) || *said > static_cast<double>(largest_extent)) fail(Errc::corrupt, place, ": expected at least 1, found ", *said);
  return static_cast<std::int64_t>(*said);
}

/// layer_types by name; windows are read_layer_types()'s. transformers 5 calls whatever recurs linear_attention, and has called what has an indexer by several names.
std::vector<LayerKind> by_names(const Json& types, const std::string& place, const ArchSpec& arch, std::int64_t layers) {
  const std::pair<std::string_view, LayerKind> names[] = {
      {"full_attention", {}}, {"sliding_attention", {}}, {"attention", {}}, {"linear_attention", {arch.recurrent}},
      {"qwen_sparse_attention", {}}, {"indexed_attention", {}}, {"deepseek_sparse_attention", {}},
      {"conv", {MixerKind::short_convolution}}, {"mamba", {MixerKind::state_space}}};
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != layers) {
    fail(Errc::corrupt, place, ": layer_types: expected a list of ", layers, " kinds, found ", types.is_array() ? message(types.size()) : std::string(types.type_name()));
  }
  std::vector<LayerKind> kinds;
  for (std::int64_t i = 0; i < layers; ++i) {
    const Json& type = types[static_cast<std::size_t>(i)];
    const auto* found = std::ranges::find_if(names, [&](const auto& name) { return type.is_string() && type.string() == name.first; });
    if (found == std::end(names)) {
      fail(Errc::unsupported, place, ": layer_types[", i, "]: expected full_attention, sliding_attention, linear_attention, conv or mamba, found ", printable(type.dump()));
    }
    kinds.push_back(found->second);
  }
  return kinds;
}

/// By a list of the layers that attend, the first of which is number `first`.
std::vector<LayerKind> by_numbers(const Json& attend, const std::string& place, const ArchSpec& arch, std::uint64_t first, std::int64_t layers) {
  if (!attend.is_array()) fail(Errc::corrupt, place, ": expected a list, found ", attend.type_name());
  std::vector<LayerKind> kinds(static_cast<std::size_t>(layers), LayerKind{arch.recurrent});
  for (const Json& number : attend) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() - first >= static_cast<std::uint64_t>(layers)) {
      fail(Errc::corrupt, place, ": expected layers from ", first, " to ", first + static_cast<std::uint64_t>(layers) - 1, ", found ", printable(number.dump()));
    }
    kinds[static_cast<std::size_t>(number.get<std::uint64_t>() - first)] = {};
  }
  return kinds;
}

/// Nemotron-H's letters, or the names that stand for them.
LayerKind kind_of(std::string_view name, const std::string& place, std::int64_t layer) {
  constexpr std::pair<std::string_view, LayerKind> names[] = {
      {"M", {MixerKind::state_space, FeedForward::none}}, {"*", {MixerKind::attention, FeedForward::none}}, {"-", {MixerKind::none, FeedForward::dense}},
      {"E", {MixerKind::none, FeedForward::sparse}},      {"mamba", {MixerKind::state_space, FeedForward::none}},
      {"linear_attention", {MixerKind::state_space, FeedForward::none}}, {"full_attention", {MixerKind::attention, FeedForward::none}},
      {"attention", {MixerKind::attention, FeedForward::none}}, {"mlp", {MixerKind::none, FeedForward::dense}}, {"moe", {MixerKind::none, FeedForward::sparse}}};
  const auto* found = std::ranges::find(names, name, &std::pair<std::string_view, LayerKind>::first);
  if (found == std::end(names)) fail(Errc::unsupported, place, "[", layer, "]: expected M, E, * or -, found ", printable(std::string(name)));
  return found->second;
}

}  // namespace

std::optional<double> listed_layers(const Json& json, const ArchSpec& arch) {
  const Json* list = arch.single_halves ? member(json, "layers_block_type") : nullptr;
  return list != nullptr && list->is_array() && !list->empty() ? std::optional(static_cast<double>(list->size())) : std::nullopt;
}

std::vector<LayerKind> layer_kinds_of(const Json& json, const std::string& place, const ArchSpec& arch, std::int64_t layers) {
  if (arch.drops_halves) return by_sizes(list_at(json, "num_key_value_heads", place), list_at(json, "intermediate_size", place), layers);
  if (arch.recurrent == MixerKind::none) return {};
  if (!arch.feeds) return std::vector<LayerKind>(static_cast<std::size_t>(layers), LayerKind{arch.recurrent, FeedForward::none});
  if (attends(arch.recurrent)) return std::vector<LayerKind>(static_cast<std::size_t>(layers), LayerKind{arch.recurrent});
  if (arch.single_halves) {
    std::vector<LayerKind> kinds;
    if (const Json* list = member(json, "layers_block_type"); list != nullptr && list->is_array()) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        kinds.push_back(kind_of((*list)[i].is_string() ? (*list)[i].string() : std::string_view(), place + ": layers_block_type", static_cast<std::int64_t>(i)));
      }
    } else if (const Json* pattern = member(json, "hybrid_override_pattern"); pattern != nullptr && pattern->is_string()) {
      for (std::size_t i = 0; i < pattern->string().size(); ++i) {
        kinds.push_back(kind_of(std::string_view(pattern->string()).substr(i, 1), place + ": hybrid_override_pattern", static_cast<std::int64_t>(i)));
      }
    }
    if (static_cast<std::int64_t>(kinds.size()) != layers) fail(Errc::corrupt, place, ": hybrid_override_pattern: expected the kinds of ", layers, " layers, found ", kinds.size());
    return kinds;
  }
  if (const Json* types = member(json, "layer_types")) return by_names(*types, place, arch, layers);
  if (!arch.group_key.empty()) {
    const double group = number_at(json, arch.group_key, place).value_or(0);
    if (!(group >= 1) || group > static_cast<double>(largest_extent)) fail(Errc::corrupt, place, ": ", arch.group_key, ": expected at least 1, found ", group);
    return by_groups(arch, static_cast<std::int64_t>(group), layers);
  }
  if (const Json* attend = member(json, "full_attn_idxs"); attend != nullptr && attend->is_array()) return by_numbers(*attend, place + ": full_attn_idxs", arch, 0, layers);
  if (const Json* linear = member(json, "linear_attn_config"); linear != nullptr && linear->is_object()) {
    return by_numbers(need(*linear, "full_attn_layers", place + ": linear_attn_config"), place + ": linear_attn_config: full_attn_layers", arch, 1, layers);
  }
  const Json* step = member(json, "full_attention_interval");
  return by_steps(arch, step_of(step != nullptr && step->is_number() ? std::optional(step->get<double>()) : std::nullopt, arch, place + ": full_attention_interval"), layers);
}

std::vector<LayerKind> layer_kinds_of(const GgufFile& file, const ArchSpec& arch, std::int64_t layers) {
  if (arch.recurrent == MixerKind::none && !arch.drops_halves) return {};
  if (!arch.feeds) return std::vector<LayerKind>(static_cast<std::size_t>(layers), LayerKind{arch.recurrent, FeedForward::none});
  if (attends(arch.recurrent)) return std::vector<LayerKind>(static_cast<std::size_t>(layers), LayerKind{arch.recurrent});
  const std::string place = file.path().string(), prefix = message(arch.gguf_name(), ".");
  const auto list_of = [&](std::string_view key) -> std::vector<std::int64_t> {
    const std::string name = prefix + std::string(key);
    const GgufValue* value = file.value(name);
    if (value == nullptr) return {};
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) {
      // Behind the layers those that draft may be counted, too.
      if (static_cast<std::int64_t>(list->size()) >= layers) return {list->begin(), list->begin() + layers};
      fail(Errc::corrupt, place, ": ", name, ": expected one number or ", layers, ", found ", list->size());
    }
    return std::vector<std::int64_t>(static_cast<std::size_t>(layers), file.integer(name).value_or(0));
  };
  if (arch.drops_halves) {
    const std::vector<std::int64_t> heads = list_of("attention.head_count"), kv_heads = list_of("attention.head_count_kv");
    for (std::size_t i = 0; i < std::min(heads.size(), kv_heads.size()); ++i) {
      if (heads[i] > 0 && kv_heads[i] == 0) fail(Errc::unsupported, place, ": ", prefix, "attention.head_count_kv[", i, "]: expected attention, found a matrix in its place");
    }
    return by_sizes(kv_heads, list_of("feed_forward_length"), layers);
  }
  if (!arch.zero_heads) {
    const std::vector<std::int64_t> recurrent = list_of("attention.recurrent_layers");
    if (recurrent.empty()) return by_steps(arch, step_of(file.number(prefix + "full_attention_interval"), arch, place + ": full_attention_interval"), layers);
    std::vector<LayerKind> kinds;
    for (const std::int64_t recurs : recurrent) kinds.push_back({recurs != 0 ? arch.recurrent : MixerKind::attention});
    return kinds;
  }
  std::vector<std::int64_t> heads = list_of("attention.head_count_kv"), ffn = list_of("feed_forward_length");
  heads.resize(static_cast<std::size_t>(layers));
  ffn.resize(static_cast<std::size_t>(layers));
  std::vector<LayerKind> kinds;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    LayerKind kind{heads[at] > 0 ? MixerKind::attention : arch.recurrent};
    // Layers of one half: what has an MLP has nothing else; which of them has experts, their tensors say.
    if (arch.single_halves) kind = ffn[at] > 0 ? LayerKind{MixerKind::none, FeedForward::any} : LayerKind{kind.mixer, FeedForward::none};
    kinds.push_back(kind);
  }
  return kinds;
}

void write_layer_kinds(const ModelConfig& c, Json& json) {
  if (c.arch->recurrent == MixerKind::none || attends(c.arch->recurrent) || !c.arch->feeds) return;
  if (c.arch->single_halves) {
    std::string pattern;
    for (const LayerSpec& spec : c.specs) pattern += attends(spec.mixer) ? '*' : spec.mixer != MixerKind::none ? 'M' : spec.is_sparse() ? 'E' : '-';
    json["hybrid_override_pattern"] = pattern;
    return;
  }
  if (!c.arch->group_key.empty()) {
    const auto first = std::ranges::find_if(c.specs, [](const LayerSpec& spec) { return attends(spec.mixer); });
    const std::int64_t group = first - c.specs.begin() + 1;
    if (group <= c.layers && std::ranges::equal(by_groups(*c.arch, group, c.layers), c.specs, {}, &LayerKind::mixer, &LayerSpec::mixer)) {
      json[c.arch->group_key] = group;
      return;
    }
  } else if (c.arch->recurrent == MixerKind::channel_delta) {
    Json& linear = json["linear_attn_config"];
    for (const char* kind : {"full_attn_layers", "kda_layers"}) linear[kind] = Json::array();
    for (std::int64_t i = 0; i < c.layers; ++i) linear[attends(c.layer(i).mixer) ? "full_attn_layers" : "kda_layers"].push_back(i + 1);
    return;
  }
  json["layer_types"] = Json::array();
  const bool steps = c.arch->attention_step > 0;  // whose models call it full attention, as LFM2's do
  for (const LayerSpec& spec : c.specs) {
    switch (spec.mixer) {
      case MixerKind::gated_delta:
      case MixerKind::channel_delta: json["layer_types"].push_back("linear_attention"); break;
      case MixerKind::short_convolution: json["layer_types"].push_back("conv"); break;
      case MixerKind::state_space: json["layer_types"].push_back("mamba"); break;
      default: json["layer_types"].push_back(steps || c.arch->recurrent == MixerKind::short_convolution ? "full_attention" : "attention");
    }
  }
}

void read_recurrent(const Source& source, ModelConfig& c) {
  const auto first = std::ranges::find_if(c.specs, [](const LayerSpec& spec) { return recurs(spec.mixer); });
  if (first == c.specs.end()) return;
  const auto expect = [&](bool holds, Field field, auto&&... words) {
    if (!holds) fail(Errc::corrupt, source.place, ": ", source.key(field), ": expected ", words...);
  };
  nn::RecurrentLayer& r = c.recurrent;
  r.taps = require_extent(source, Field::convolution_taps);
  expect(r.taps >= 2 && r.taps <= Convolution::most_taps, Field::convolution_taps, "2 to ", Convolution::most_taps, " tokens, found ", r.taps);
  if (first->mixer == MixerKind::short_convolution) {
    r.channels = c.dim;
    return;
  }
  r.channel_decays = first->mixer == MixerKind::channel_delta;
  if (c.arch->find(Field::decay_bound) != nullptr) {
    c.decay_bound = source.number(Field::decay_bound).value_or(0);
    expect(c.decay_bound < 0 && std::isfinite(c.decay_bound), Field::decay_bound, "a number below 0, found ", c.decay_bound);
  }
  // GGUF files of Kimi Linear have as many as of attention.
  r.value_heads = r.channel_decays ? extent_or(source, Field::recurrent_heads, c.heads) : require_extent(source, Field::recurrent_heads);
  r.key_heads = r.channel_decays ? r.value_heads : extent_or(source, Field::recurrent_key_heads, 1);
  r.key_dim = require_extent(source, Field::recurrent_key_dim);
  // Folders name a head's width, GGUF files that of all of them.
  if (r.channel_decays) {
    r.value_dim = r.key_dim;
  } else if (source.number(Field::recurrent_value_dim)) {
    r.value_dim = require_extent(source, Field::recurrent_value_dim);
  } else {
    const std::int64_t inner = require_extent(source, Field::recurrent_inner);
    expect(inner % r.value_heads == 0, Field::recurrent_inner, "a multiple of the ", r.value_heads, " heads, found ", inner);
    r.value_dim = inner / r.value_heads;
  }
  if (c.arch->single_group && r.key_heads != 1) fail(Errc::unsupported, source.place, ": ", source.key(Field::recurrent_key_heads), ": expected 1 group of a model of type ", c.arch->name, ", found ", r.key_heads);
  expect(r.value_heads % r.key_heads == 0, Field::recurrent_heads, "a multiple of the ", r.key_heads, " key heads or groups, found ", r.value_heads);
  constexpr std::int64_t most = 1 << 24;  // numbers of a row; more than any model has by far
  expect(r.key_dim <= 4096 && r.key_heads * r.key_dim <= most, Field::recurrent_key_dim, "at most 4096, and ", most, " of all heads, found ", r.key_dim);
  expect(r.value_dim <= 4096 && r.value_heads * r.value_dim <= most, Field::recurrent_heads, "at most ", most, " values in heads of up to 4096, found ", r.value_heads, " heads of ", r.value_dim);
  r.channels = 2 * r.key_heads * r.key_dim + r.value_heads * r.value_dim;
}

}  // namespace bantam::inline v0::detail
