// Dividing bytes among tensors: one choice for each, so that the sum of costs is small and the sum of bytes within a budget.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bantam::inline v0 {

/// One way to store a tensor.
struct Choice {
  std::int64_t bytes = 0;
  double cost = 0;  ///< any measure of harm that adds up over tensors; finite
};

struct Allocation {
  std::vector<std::size_t> choices;  ///< of each tensor, the index of the one taken
  std::int64_t bytes = 0;
  double cost = 0;
};

/// Takes a choice for each tensor, within `budget` bytes together. Lagrangian (Everett 1963): every tensor takes what is
/// least in cost + price * bytes, for the lowest price that fits; so only the convex hull of its choices counts. What is
/// left of the budget is then filled: choices, off the hull too, are changed singly and in pairs as long as that lowers the
/// cost. Throws invalid_argument when the smallest choices do not fit, a tensor has none, or a number is negative or not
/// finite. Time: choices log choices, for each change.
[[nodiscard]] Allocation allocate(std::span<const std::vector<Choice>> tensors, std::int64_t budget);

/// What every price gives, from the smallest choices to the least costs: (bytes, cost) of the whole. Convex; no choice of
/// any allocation lies below it. Throws like allocate.
[[nodiscard]] std::vector<Choice> trade_off(std::span<const std::vector<Choice>> tensors);

}  // namespace bantam::inline v0
