// What a search for paths through a trellis asks of an instruction set (simd/paths.hpp).
#pragma once

#include <cstdint>

namespace bantam::inline v0::simd {

/// Columns to come whose part of earlier errors each path knows by itself.
inline constexpr int path_horizon = 64;
/// Numbers of a path's row of them, zeros after the horizon.
inline constexpr int path_row = path_horizon + 16;

/// One step of all paths: the two columns that it makes.
struct PathStep {
  int children;                 ///< of a path, 8 or more
  const std::int8_t* first;     ///< what the first column's weight is for each state (65536, and 16 more that mean nothing)
  const std::int8_t* second;
  float wanted[2];              ///< weights, as those before the paths' own part left them
  float scale[2];               ///< what their levels are multiplied by
  float share[2];               ///< the root of what a squared error counts
  float between = 0;            ///< what the first column's error takes from the second one
  /// (path_horizon): the same of the columns behind them, of either error; null: errors take nothing from others.
  const float* take[2] = {nullptr, nullptr};
};

/// The two of paths.hpp for one instruction set.
struct PathKernels {
  void (*costs)(const PathStep& step, const float* before, const std::uint16_t* states, const float* taken, std::int64_t count, float* costs) noexcept;
  void (*takes)(const PathStep& step, const float* taken, float first, float second, float* out) noexcept;
};

}  // namespace bantam::inline v0::simd
