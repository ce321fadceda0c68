// What config.json says of rotary positions.
#pragma once

#include <string>

#include "model/config_source.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

/// What newer configs call rope_parameters; null where a config has none.
struct RopeParameters {
  const Json* model = nullptr;  ///< of all layers, or of those without a window
  const Json* local = nullptr;  ///< of layers with a window, where kinds differ
};
[[nodiscard]] RopeParameters rope_parameters_of(const Json& json);

/// The rope of the model: how much of each head turns, and the scaling of frequencies. Throws corrupt or unsupported.
void read_rope(const Json& json, const RopeParameters& parameters, const std::string& place, ModelConfig& c);
/// Which rope each layer has. Heads and windows are known. Throws corrupt or unsupported.
void read_layer_ropes(const Json& json, const RopeParameters& parameters, const Source& source, ModelConfig& c);
/// The temperature of queries, where a config has it by itself.
[[nodiscard]] nn::Temperature read_temperature(const Json& json, const std::string& place, nn::Temperature t);

}  // namespace bantam::inline v0::detail
