// Structured pruning on the command line.
#pragma once

#include "bantam/prune/structure.hpp"
#include "output.hpp"

namespace bantam::cli {

/// "channels:0.3" and the like. UsageError for anything else.
[[nodiscard]] std::vector<Removal> parse_removals(const std::vector<std::string>& texts);

/// Prunes; a bar shows how far it is, warnings go to standard error.
[[nodiscard]] PrunedStructure prune(const Checkpoint& checkpoint, const std::vector<Removal>& removals, const Calibration& calibration,
                                    bool compensate, bool json);

/// "pruned          30 -> 26 layers, ...", a few lines.
[[nodiscard]] std::string pruned_text(const PrunedStructure& pruned);
/// {layers, influence, before, after}, of these {parameters, flops_per_token, bytes}: of all tensors, before rounding.
[[nodiscard]] Json pruned_json(const PrunedStructure& pruned);

}  // namespace bantam::cli
