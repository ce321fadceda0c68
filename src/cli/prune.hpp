// Pruning on the command line.
#pragma once

#include "bantam/prune/pruning.hpp"
#include "bantam/prune/structure.hpp"
#include "output.hpp"

namespace bantam::cli {

/// What --prune asks for: parts that go before anything else, and weights that become 0 as they are rounded.
struct PruneArguments {
  std::vector<Removal> removals;
  std::optional<Pruning> weights;
};
/// "channels:0.3", "wanda:0.5", "sparsegpt:2:4" and the like. UsageError for anything else, and for two ways to prune weights.
[[nodiscard]] PruneArguments parse_prune(const std::vector<std::string>& texts);

/// Removes parts; a bar shows how far it is, warnings go to standard error.
[[nodiscard]] PrunedStructure prune(const Checkpoint& checkpoint, const std::vector<Removal>& removals, const Calibration& calibration,
                                    bool compensate, bool json);

/// "pruned          30 -> 26 layers, ...", a few lines.
[[nodiscard]] std::string pruned_text(const PrunedStructure& pruned);
/// {layers, influence, before, after}, of these {parameters, flops_per_token, bytes}: of all tensors, before rounding.
[[nodiscard]] Json pruned_json(const PrunedStructure& pruned);

}  // namespace bantam::cli
