// What comes before rounding: pruning as it is asked for in words, on the command line, in C and in Python, and text to calibrate with.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/calibrate/importance.hpp"
#include "bantam/compress/cost_target.hpp"
#include "bantam/prune/pruning.hpp"

namespace bantam::inline v0 {

/// Parts that go before anything else, and weights that become 0 as they are rounded.
struct PruneRequest {
  std::vector<Removal> removals;
  std::vector<Part> parts;  ///< without an amount: as much of them goes as `goal` wants
  std::optional<CostTarget> goal;
  std::optional<Pruning> weights;  ///< for MethodOptions::pruning

  [[nodiscard]] bool removes_parts() const noexcept { return !removals.empty() || !parts.empty(); }
};
/// Of "channels:0.3", of "channels" where there is a goal, like "bytes:600MB" (parse_cost_target()), and of one of "wanda:0.5",
/// "sparsegpt:2:4" and the like (find_pruning()). Throws invalid_argument for anything else.
[[nodiscard]] PruneRequest parse_prune(std::span<const std::string> texts, std::string_view goal = {});

/// The amounts of what is asked for, and the costs with and without; the latency where that is the goal. No weight is read: what
/// is impossible is said here. Throws what plan_structure() and removals_to_reach() throw.
[[nodiscard]] PruneReport plan_parts(const PruneRequest& request, const Checkpoint& checkpoint, const Recipe& recipe, Target target = Target::native);
/// The same with latencies, measured now.
[[nodiscard]] PruneReport time_parts(PruneReport planned, const Checkpoint& checkpoint, const Recipe& recipe, Target target = Target::native);

struct PrunedModel {
  Checkpoint checkpoint;  ///< in memory
  PruneReport report;     ///< for Report::follow()
};
/// prune_structure() of what was planned for `checkpoint`.
[[nodiscard]] PrunedModel remove_parts(PruneReport planned, const Checkpoint& checkpoint, const Calibration& calibration,
                                       const StructureOptions& options = {}, const ProgressFn& progress = {});

/// What to calibrate with.
struct CalibrationText {
  std::optional<std::string> text;  ///< none: a bundled one, for what cannot do without
  std::int64_t samples = 128;
  std::int64_t tokens = 2048;  ///< of a sample; no more than the model's context
};
/// Samples of it, or of the bundled text, no longer than the model's context. Throws invalid_argument for less than a sample of a token.
[[nodiscard]] Calibration samples_of(const CalibrationText& text, const Checkpoint& checkpoint);
/// Measures what the matrices of a model read, and writes it for llama-quantize and MethodOptions::importance. `text`: the name of what was
/// calibrated on; empty: the bundled text. Throws what measure_importance() and write_importance() throw.
ImportanceMatrix save_importance(const Checkpoint& checkpoint, const Calibration& calibration, std::string_view text, const std::filesystem::path& to);
/// Whether compressing so needs a text to calibrate with.
[[nodiscard]] bool needs_calibration(const PruneRequest& request, const Recipe& recipe) noexcept;

/// A model before its weights are rounded.
struct PreparedModel {
  std::optional<PrunedModel> pruned;  ///< what is left, where parts went
  Calibration calibration;            ///< of what is left
};
/// All that comes before: plan_parts(), the text made to samples, remove_parts(), where these are asked for. Throws what they throw.
[[nodiscard]] PreparedModel prepare_model(const PruneRequest& request, const Checkpoint& checkpoint, const Recipe& recipe, Target target,
                                          const CalibrationText& text, const StructureOptions& options = {}, const ProgressFn& progress = {});

}  // namespace bantam::inline v0
