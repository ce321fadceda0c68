// Formats whose codes are chosen some columns at a time, because not every row of codes can be stored: what quantizers need of them.
#pragma once

#include <array>
#include <cstdint>

#include "bantam/quant/format.hpp"

namespace bantam::inline v0 {

/// What an error e of neighboring columns costs: |F e|^2 = eT M e. Both are (columns, columns), row by row without gaps.
struct VectorMetric {
  static constexpr int most_columns = 8;
  std::array<float, most_columns * most_columns> factor{};   ///< F, lower triangular
  std::array<float, most_columns * most_columns> moments{};  ///< M = FT F
};

struct VectorCodes {
  int columns;  ///< of a vector: 4 or 8, of one group
  /// The codes of a vector that is near `weights`, (columns), in the metric.
  void (*round)(const float* weights, const VectorMetric& metric, const GroupSide& side, std::int8_t* codes) noexcept;
  /// Gives a group the scale nearest to `wanted` that its block lets it have.
  void (*move_scale)(GroupSide& side, float wanted) noexcept;
};

}  // namespace bantam::inline v0
