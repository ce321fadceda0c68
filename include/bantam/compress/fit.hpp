// Mixed precision to a budget: formats by what they cost where they are used.
#pragma once

#include "bantam/compress/allocate.hpp"
#include "bantam/compress/sensitivity.hpp"

namespace bantam::inline v0 {

/// One of the two.
struct Budget {
  std::int64_t bytes = 0;      ///< of the output file
  double bits_per_weight = 0;  ///< of all matrices, scales and padding of rows included
};

struct Fit {
  Recipe recipe;  ///< the one given, with a format for every matrix
  Plan plan;
  std::vector<double> kl;         ///< expected of each matrix of the plan, in nats a token; of matrices that were measured together as much of each
  double expected_kl = 0;         ///< their sum: small errors hardly know of each other
  std::vector<Choice> trade_off;  ///< bytes of the file and expected divergence at other budgets
  bool at_best = false;           ///< every matrix has what costs least; more bytes would be of no use
};

/// The formats that are expected to cost least within the budget, which is never exceeded. Throws invalid_argument naming
/// the possible sizes when not even the smallest formats meet it.
[[nodiscard]] Fit fit(const Checkpoint& checkpoint, const Recipe& recipe, std::span<const Sensitivity> sensitivities,
                      const Budget& budget, Target target = Target::native);

}  // namespace bantam::inline v0
