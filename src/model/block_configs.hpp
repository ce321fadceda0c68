// The block_configs of DeciLM's config.json: what a search left of each layer.
#pragma once

#include <string>

#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

/// The same in usual words: key-value heads and the width of the MLP by layer, 0 where a layer has none. Throws corrupt, and unsupported for attention or MLPs
/// with a matrix in their place, and for windows.
[[nodiscard]] Json with_listed_sizes(const Json& json, const std::string& place);

/// Adds block_configs to what is written in usual words, in the place of these. Of a model with ModelConfig::has_block_configs().
void put_block_configs(const ModelConfig& c, Json& json);

}  // namespace bantam::inline v0::detail
