// Pruning on the command line.
#pragma once

#include <array>

#include "bantam/prune/pruning.hpp"
#include "bantam/prune/target.hpp"
#include "output.hpp"

namespace bantam::cli {

/// What --prune asks for: parts that go before anything else, and weights that become 0 as they are rounded.
struct PruneArguments {
  std::vector<Removal> removals;
  std::vector<Part> parts;         ///< without an amount: as much of them goes as `goal` wants
  std::optional<CostTarget> goal;
  std::optional<Pruning> weights;

  [[nodiscard]] bool removes_parts() const noexcept { return !removals.empty() || !parts.empty(); }
};
/// "channels:0.3", "channels" where `goal` is given, like "bytes:600MB", "wanda:0.5", "sparsegpt:2:4" and the like. UsageError for
/// anything else, and for two ways to prune weights.
[[nodiscard]] PruneArguments parse_prune(const std::vector<std::string>& texts, const std::string& goal);

/// Parts that went, and what the model costs with and without them, in the recipe's formats.
struct PrunedParts {
  std::vector<Removal> removals;
  std::array<double, 4> before{}, after{};  ///< by Cost; latency 0: not measured
  std::optional<PrunedStructure> structure;  ///< none in a dry run
};
/// The amounts of what is asked for, and, for a dry run, what will be left.
[[nodiscard]] PrunedParts plan_parts(const PruneArguments& arguments, const Checkpoint& checkpoint, const Recipe& recipe, Target target);
/// Removes them; a bar shows how far it is, warnings go to standard error.
void remove_parts(PrunedParts& parts, const Checkpoint& checkpoint, const Calibration& calibration, bool compensate, bool json);
/// Measures the time of a token with and without them.
void time_parts(PrunedParts& parts, const Checkpoint& checkpoint, const Recipe& recipe, Target target);

/// What went, and a line for each cost that is known.
[[nodiscard]] std::string pruned_text(const PrunedParts& parts);
/// {removals, layers, influence, before, after}, of these {parameters, flops_per_token, bytes, seconds_per_token}.
[[nodiscard]] Json pruned_json(const PrunedParts& parts);

}  // namespace bantam::cli
