// What reading a ModelConfig takes from a container: numbers by field name, and the checks that all containers share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

// Larger than any model to come, small enough that products of two fit 64 bits.
inline constexpr std::int64_t largest_extent = std::int64_t{1} << 30;

/// More than any head has.
inline constexpr std::int64_t most_head_dim = 4096;

/// Numbers of a model, wherever they come from.
struct Source {
  std::string place;
  std::function<std::optional<double>(Field)> number;
  std::function<std::vector<double>(Field)> list;  ///< empty where there is none
  std::function<std::string(Field)> key;
  bool layers_have_drafting = false;  ///< whether the number of layers counts drafting_layers
  /// Layers that a model of experts has none in, beside the first dense_layers.
  std::function<bool(std::int64_t layer)> is_dense = [](std::int64_t) { return false; };
  /// Of each layer; empty where all attend.
  std::function<std::vector<LayerKind>(std::int64_t layers)> kinds = [](std::int64_t) { return std::vector<LayerKind>(); };
};

/// Numbers that may differ from layer to layer: one for all, or a list.
[[nodiscard]] constexpr bool may_differ(Field field) noexcept { return field == Field::heads || field == Field::kv_heads || field == Field::ffn; }

/// Whether a layer has the window, where each that is a multiple of `step` has none, 0: all have it; or as the architecture says.
[[nodiscard]] constexpr bool has_window(const ArchSpec& arch, std::int64_t layer, std::int64_t step) noexcept {
  return step == 0 || (layer + (arch.full_layers_lead ? 0 : 1)) % step != 0;
}
[[nodiscard]] constexpr bool has_window(const ArchSpec& arch, std::int64_t layer) noexcept { return has_window(arch, layer, arch.full_attention_step); }
/// The same of a model of which it is known which layers are sparse.
[[nodiscard]] inline bool has_window(const ModelConfig& c, std::int64_t layer, std::int64_t step) noexcept {
  const std::int64_t lead = c.arch->dense_see_all ? c.dense_layers() : 0;
  return layer >= lead && has_window(*c.arch, layer - lead, step);
}

/// What turns a layer of a model, whose windows are known, where a config does not say.
[[nodiscard]] constexpr nn::LayerRope rope_of(const ModelConfig& c, std::int64_t layer) noexcept {
  if (!c.has_rope) return nn::LayerRope::none;
  if (c.arch->dense_see_all && !c.layer(layer).is_sparse()) return nn::LayerRope::model;
  if (c.arch->no_rope_step > 0 && (layer + 1) % c.arch->no_rope_step == 0) return nn::LayerRope::none;
  return c.window == 0 ? nn::LayerRope::model : c.window_of(layer) > 0 ? c.arch->window_rope : c.arch->full_rope;
}

/// Which layers see what the indexer of a layer before them chose, as config.json says it. Throws corrupt and unsupported.
void read_shared_choices(const Json& json, const std::string& place, ModelConfig& c);
void write_shared_choices(const ModelConfig& c, Json& json);
/// Throws where heads of an indexer are shorter than what rope turns of them, for blocks that pages would cut, where there is nothing that makes its queries, and
/// where there is no choice to be shared.
void check_index(const ModelConfig& c, const std::string& place);
/// A number that gates of a layer stay below (nn::MlpWeights::limit); 0: there is none. Throws corrupt.
[[nodiscard]] float checked_limit(double limit, const std::string& place);

/// The scale of scores that a GGUF file means; 0: 1 / sqrt(head_dim).
[[nodiscard]] double unsaid_attention_scale(const ModelConfig& c) noexcept;
/// Whether queries and keys are normed behind rope: no GGUF file says it, and llama.cpp knows Maverick by its experts.
[[nodiscard]] inline bool gguf_norms_turned(const ModelConfig& c) noexcept { return c.router.experts != 128; }
/// Ropes of all layers, whose windows are known. Of those with a window: `local_base` 0: the architecture's, or the model's own; `local_dim`: how
/// many numbers of a head are turned.
void set_ropes(ModelConfig& c, double local_base, std::int64_t local_dim);

/// A whole number from 1 to largest_extent. Throws corrupt when it is another, or absent.
[[nodiscard]] std::int64_t require_extent(const Source& source, Field field);
/// The same, where absence gives `otherwise`, unchecked.
[[nodiscard]] std::int64_t extent_or(const Source& source, Field field, std::int64_t otherwise);

/// What containers say in ways of their own of layers without a window that differ from the others in sizes.
struct FullLayers {
  std::int64_t kv_heads = 0;  ///< 0: as the file lists them
  std::function<bool(std::int64_t layer)> shares_values = [](std::int64_t) { return false; };
  bool doubles_ffn = false;   ///< of layers that read the keys of others
};
/// Their sizes, and whose keys and values the last layers read. Windows are known. Nothing where the architecture has no such layers.
void read_full_layers(const Source& source, const FullLayers& said, ModelConfig& c);
/// What frequencies are divided by where some of a head's pairs turn, of a rope over all of them.
[[nodiscard]] std::vector<float> proportional_divisors(std::int64_t pairs, std::int64_t turned, double factor = 1);
/// How many turn; none where divisors are others.
[[nodiscard]] std::optional<std::int64_t> proportional_pairs(const nn::RopeOptions& rope);

/// What both containers share: sizes, then what follows from them. Throws corrupt.
[[nodiscard]] ModelConfig read_sizes(const ArchSpec& arch, const Source& source);
/// What a router asks of its options, with the file's name. Throws corrupt.
void check_router(const nn::RouterOptions& router, const std::string& place);
/// What Rope asks of its options, with the file's name. Throws corrupt.
void check_rope(const nn::RopeOptions& rope, const std::string& place);

}  // namespace bantam::inline v0::detail
