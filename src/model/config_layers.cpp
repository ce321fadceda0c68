// Single layers in config.json.
#include "model/config_layers.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "bantam/core/error.hpp"
#include "model/config_json.hpp"
#include "model/config_words.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

namespace {

/// Of how many layers one has no window; 0: a config does not say it.
std::int64_t full_step_of(const Json& json, const std::string& place) {
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"}) {
    // EXAONE has letters for it, and layer_types besides.
    const Json* said = member(json, key);
    if (said == nullptr || said->is_string()) continue;
    const double step = number_at(json, key, place).value_or(0);
    if (step == 0) continue;  // transformers 5's way to say that there is none
    if (!(step >= 1) || step > static_cast<double>(largest_extent)) fail(Errc::corrupt, place, ": ", key, ": expected at least 1, found ", step);
    return static_cast<std::int64_t>(step);
  }
  return 0;
}

/// Newer configs name the kind of each layer. What they say goes before the keys that models had for it.
void read_layer_types(const Json& json, const std::string& place, std::int64_t window, ModelConfig& c) {
  const std::string_view key = kinds_key(*c.arch), windowed = window_type(*c.arch), full = full_type(*c.arch);
  const Json* types = member(json, key);
  if (types == nullptr || c.arch->recurrent != MixerKind::none) return;  // which were read before
  if (!types->is_array() || static_cast<std::int64_t>(types->size()) != c.layers) {
    fail(Errc::corrupt, place, ": ", key, ": expected a list of ", c.layers, " kinds, found ",
         types->is_array() ? message(types->size()) : std::string(types->type_name()));
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const Json& type = (*types)[static_cast<std::size_t>(i)];
    const bool sliding = type == windowed;
    const bool indexed = c.index.used > 0 && type == "deepseek_sparse_attention";
    if (!sliding && !indexed && type != full) fail(Errc::unsupported, place, ": ", key, "[", i, "]: expected ", full, " or ", windowed, ", found ", printable(type.dump()));
    if (sliding && window == 0) fail(Errc::corrupt, place, ": ", key, "[", i, "]: ", windowed, ", expected ", window_key(*c.arch), ", found none");
    c.specs[static_cast<std::size_t>(i)].window = sliding ? window : 0;
  }
}

}  // namespace

std::function<bool(std::int64_t)> dense_layers_of(const Json& json, const std::string& place, const ArchSpec& arch) {
  std::set<double> dense;
  if (const Json* flags = arch.sparse_flags_key.empty() ? nullptr : member(json, arch.sparse_flags_key); flags != nullptr && flags->is_array()) {
    const std::vector<bool> sparse = layout_at(json, arch.sparse_flags_key, place, std::ssize(*flags));
    for (std::size_t i = 0; i < sparse.size(); ++i) {
      if (!sparse[i]) dense.insert(static_cast<double>(i));
    }
  }
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

double trimmed_ffn(const Json& json, double said, const std::string& place) {
  if (!flag_at(json, "block_auto_adjust_ff_dim", place, json.contains("block_ff_dim"))) return said;
  const double blocks = number_at(json, "block_multiple_of", place).value_or(256), factor = number_at(json, "block_ffn_dim_multiplier", place).value_or(1);
  if (!(blocks >= 1) || blocks != std::floor(blocks)) fail(Errc::corrupt, place, ": block_multiple_of: expected a whole number above 0, found ", blocks);
  if (!(factor > 0) || !std::isfinite(factor)) fail(Errc::corrupt, place, ": block_ffn_dim_multiplier: expected a number above 0, found ", factor);
  return std::ceil(std::floor(factor * std::floor(said * 2 / 3)) / blocks) * blocks;
}

std::int64_t read_windows(const Json& json, const Source& source, ModelConfig& c) {
  const ArchSpec& arch = *c.arch;
  const std::string& place = source.place;
  // Qwen2 carries a window that is off unless this says otherwise; kinds of layers say so, too.
  const bool refused = !flag_at(json, "use_sliding_window", place, true), asked = flag_at(json, "use_sliding_window", place, !arch.asks_for_windows);
  const std::int64_t window = refused ? 0 : extent_or(source, Field::window, 0);
  std::int64_t first = asked ? 0 : c.layers;  // layers before that one see everything
  if (const auto from = asked ? number_at(json, "max_window_layers", place) : std::nullopt) {
    if (!(*from >= 0)) fail(Errc::corrupt, place, ": max_window_layers: expected at least 0, found ", *from);
    if (json.contains("use_sliding_window")) first = static_cast<std::int64_t>(std::min(*from, 1e9));
  }
  const std::int64_t step = full_step_of(json, place);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const bool windowed = step > 0 && arch.full_attention_step > 0 ? has_window(c, i, step) : has_window(c, i, arch.full_attention_step);
    c.specs[static_cast<std::size_t>(i)].window = i < first || !windowed ? 0 : window;
  }
  const std::vector<bool> windows = arch.window_layers_key.empty() ? std::vector<bool>() : layout_at(json, arch.window_layers_key, place, c.layers);
  for (std::size_t i = 0; i < windows.size(); ++i) c.specs[i].window = windows[i] ? window : 0;
  read_layer_types(json, place, window, c);
  c.set_layers(std::move(c.specs));
  return window;
}

void read_limits(const Json& json, const std::string& place, ModelConfig& c) {
  for (std::size_t number = 0; number < c.arch->limit_keys.size(); ++number) {
    const std::string_view key = c.arch->limit_keys[number];
    const auto limit = gate_limits[number].first;
    const Json* list = member(json, key);
    if (list == nullptr) continue;
    if (!list->is_array() || std::ssize(*list) < c.layers) fail(Errc::corrupt, place, ": ", key, ": expected a list of ", c.layers, " numbers, found ", list->is_array() ? message(list->size()) : std::string(list->type_name()));
    for (std::size_t i = 0; i < c.specs.size(); ++i) {
      const Json& said = (*list)[i];
      if (!said.is_null() && !said.is_number()) fail(Errc::corrupt, place, ": ", key, "[", i, "]: expected a number or null, found ", printable(said.dump()));
      c.specs[i].*limit = checked_limit(said.is_null() ? 0 : said.get<double>(), message(place, ": ", key, "[", i, "]"));
    }
  }
}

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

}  // namespace bantam::inline v0::detail
