// What configs say of models that do not attend in every layer: the kind of each layer, and the sizes of recurrent ones.
#pragma once

#include "model/config_source.hpp"
#include "text/json.hpp"

namespace bantam::inline v0::detail {

/// The kinds of the layers as config.json names them (layer_types, hybrid_override_pattern, full_attn_idxs) or has them by steps; empty:
/// all attend, and have a second half. Throws corrupt or unsupported naming the layer.
[[nodiscard]] std::vector<LayerKind> layer_kinds_of(const Json& json, const std::string& place, const ArchSpec& arch, std::int64_t layers);
/// How many of them a config lists that has no number for it (Nemotron-H, as transformers 5 writes it).
[[nodiscard]] std::optional<double> listed_layers(const Json& json, const ArchSpec& arch);
/// The kinds in a GGUF file.
[[nodiscard]] std::vector<LayerKind> layer_kinds_of(const GgufFile& file, const ArchSpec& arch, std::int64_t layers);

/// The kinds of the layers, as config.json has them; nothing where all attend.
void write_layer_kinds(const ModelConfig& c, Json& json);

/// Sizes of recurrent layers, if there are any. Throws corrupt.
void read_recurrent(const Source& source, ModelConfig& c);

}  // namespace bantam::inline v0::detail
