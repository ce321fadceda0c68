// How much to remove for a model of a given size or speed.
#pragma once

#include <array>

#include "bantam/compress/compress.hpp"
#include "bantam/prune/structure.hpp"

namespace bantam::inline v0 {

/// A cost that is not to be exceeded.
struct CostTarget {
  Cost cost = Cost::parameters;
  double amount = 0;         ///< in seconds for latency
  bool of_original = false;  ///< `amount` is a share of what the whole model costs

  /// "bytes:600000000", "latency:0.75x".
  [[nodiscard]] std::string text() const;
};
/// A cost, and an amount with a unit, or "x", times what the whole model costs: "bytes:600MB", "latency:12ms", "parameters:1.1B",
/// "flops:0.7x". Units: k, M, G or B, T; KiB, MiB, GiB; ms, s. Throws invalid_argument saying what there is.
[[nodiscard]] CostTarget parse_cost_target(std::string_view text);

/// A model like `checkpoint` as a plan leaves it, without weights: names, shapes and formats, for size_of() and plan_file().
/// Which layers stay is left open, the first ones stand for them.
[[nodiscard]] Checkpoint outline_of(const Checkpoint& checkpoint, const StructurePlan& plan);

/// What a model of these shapes costs in a recipe's formats.
[[nodiscard]] double measure_cost(Cost cost, const Checkpoint& shapes, const Recipe& recipe, Target target = Target::native);
/// Latencies of two models, by turns: the first one's median, and that times the median quotient, which other work on the
/// machine changes little. Models of zeros run, with 1 GiB of layers each, counted up to all of them, after a first token.
[[nodiscard]] std::array<double, 2> measure_latencies(const Checkpoint& a, const Checkpoint& b, const Recipe& recipe, Target target = Target::native);

/// The smallest share, in thousandths and the same for all `parts`, with which the model costs no more than asked for, beside
/// `fixed` removals. Throws invalid_argument where none is enough, naming what is the least, or none is needed.
[[nodiscard]] std::vector<Removal> removals_to_reach(const CostTarget& goal, const Checkpoint& checkpoint, std::span<const Part> parts,
                                                     std::span<const Removal> fixed, const Recipe& recipe, Target target = Target::native);

}  // namespace bantam::inline v0
