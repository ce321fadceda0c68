// What config.json says of single layers: windows, widths, and which have experts.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/config_source.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

/// Layers without experts: Qwen's list of their numbers, a flag for each layer, or the kinds of all by name.
[[nodiscard]] std::function<bool(std::int64_t)> dense_layers_of(const Json& json, const std::string& place, const ArchSpec& arch);
/// What transformers 5 writes of Gemma 4's layers without a window, by their numbers: their head size and key-value heads.
[[nodiscard]] std::optional<double> of_full_layers(const Json& json, Field field, const std::string& file);
/// The width that LFM2's MLPs have of what its config says (Lfm2MLP of transformers). Configs that do not know of it say the width.
[[nodiscard]] double trimmed_ffn(const Json& json, double said, const std::string& place);
/// The window of each layer. Returns the one that layers with a window have, 0: none has.
std::int64_t read_windows(const Json& json, const Source& source, ModelConfig& c);
/// What gates of each layer stay below, where the architecture's configs say it; those of layers that draft may follow.
void read_limits(const Json& json, const std::string& place, ModelConfig& c);
/// Layers with experts by number, where a config lists them: those of its step.
void check_sparse_layers(const Json& json, const std::string& place, const ModelConfig& c);

}  // namespace bantam::inline v0::detail
