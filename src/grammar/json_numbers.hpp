// Numbers between bounds as expressions.
#pragma once

#include <optional>

#include "grammar/rules.hpp"

namespace bantam::inline v0::grammar {

struct Bounds {
  std::optional<std::int64_t> least;
  std::optional<std::int64_t> most;
  bool above_least = false;  ///< of numbers that are no integers: the bound itself is out
  bool below_most = false;

  [[nodiscard]] bool any() const noexcept { return !least && !most; }
};

/// Integers of at most 16 digits, or as many as their bounds have; exclusive bounds have been moved by one.
[[nodiscard]] Expr integers(Rules& rules, const Bounds& bounds);
/// Numbers, with decimals and, where there are no bounds, exponents.
[[nodiscard]] Expr numbers(Rules& rules, const Bounds& bounds);

}  // namespace bantam::inline v0::grammar
