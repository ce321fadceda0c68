// Formats whose codes are chosen some columns at a time, because not every row of codes can be stored: what quantizers need of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "bantam/quant/format.hpp"
#include "bantam/simd/point_search.hpp"

namespace bantam::inline v0 {

/// What an error e of neighboring columns costs: |F e|^2 = eT M e. Both are (columns, columns), row by row without gaps.
struct VectorMetric {
  static constexpr int most_columns = 8;
  std::array<float, most_columns * most_columns> factor{};   ///< F, lower triangular
  std::array<float, most_columns * most_columns> moments{};  ///< M = FT F
};

struct VectorCodes {
  int columns;  ///< of a vector: 4 or 8, of one group
  /// Chooses the scales of a block, or of the rest of a row: FormatInfo::fit_grid by one instruction set. An empty `importance` is ones.
  void (*fit)(std::span<const float> weights, std::span<const float> importance, std::span<GroupSide> sides, simd::NearestPoint nearest_point) noexcept;
  /// The codes of a vector that is near `weights`, (columns), in the metric.
  void (*round)(const float* weights, const VectorMetric& metric, const GroupSide& side, std::int8_t* codes, simd::NearestPoint nearest_point) noexcept;
  /// Gives a group the scale nearest to `wanted` that its block lets it have.
  void (*move_scale)(GroupSide& side, float wanted) noexcept;
};

/// For portable code, which has no table of kernels to ask. Every instruction set finds the same points.
[[nodiscard]] simd::NearestPoint portable_nearest_point() noexcept;

}  // namespace bantam::inline v0
