// Gates of MLPs of which most count as 0 (nn::MlpWeights::gate_cutoff), as containers say it.
#pragma once

#include <string>

#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

/// config.json lists the share of each layer's gates that counts as 0, or has one for all layers. Throws corrupt.
void read_gate_sparsity(const Json& json, const std::string& place, ModelConfig& c);
void write_gate_sparsity(const ModelConfig& c, Json& json);
/// GGUF files list how many deviations above the mean that share of a normal distribution is below: -infinity for none. Throws corrupt.
void read_gate_sparsity(const GgufFile& file, const std::string& prefix, ModelConfig& c);
void write_gate_sparsity(const ModelConfig& c, const std::string& prefix, GgufWriter& file);

}  // namespace bantam::inline v0::detail
