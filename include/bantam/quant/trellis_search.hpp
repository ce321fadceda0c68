// How the codes of plane::Trellis are chosen: the path through the trellis whose weights lie nearest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bantam/quant/format.hpp"
#include "bantam/simd/path_step.hpp"

namespace bantam::inline v0 {

/// Paths that quantizers follow.
inline constexpr int trellis_paths = 256;

/// One block of a row. Places are columns in the order in which steps make them (detail::for_steps), those of padding too.
struct TrellisTask {
  int step_bits = 4;
  std::span<const float> wanted;  ///< (places)
  std::span<const float> scales;  ///< (places): what a level is multiplied by
  /// (places): the root of what a squared error counts; 0 for padding.
  std::span<const float> shares;
  /// F, upper triangular: an error e at place i, times its share, takes F(i, j) e from what is wanted at each place j > i. Null: nothing.
  const float* factor = nullptr;
  std::ptrdiff_t stride = 0;
  /// About as many paths are followed at once: what is left of the best path's error beside what the best of all leaves falls with
  /// them, the time grows. 64: 1.08 of it, 256: 1.03, 1024: 1.00 (4 bits a step, normal weights).
  int paths = trellis_paths;
};

/// For portable code, which has no table of kernels to ask.
[[nodiscard]] const simd::PathKernels& portable_paths() noexcept;

/// The bits of each step, (places / 2). Paths are followed at once and the worst dropped (the M-algorithm, Jelinek and Anderson 1971),
/// the oldest of 32 steps, or of as many as 128 bits hold, being decided by the best path. Time: places paths 2^step_bits.
void find_path(const TrellisTask& task, const simd::PathKernels& kernels, std::span<std::uint8_t> steps);

/// The scale of a group of weights under which a trellis is expected to lose least; 0 for weights that vanish. An empty `importance`
/// is ones.
[[nodiscard]] float fit_trellis_scale(std::span<const float> weights, std::span<const float> importance) noexcept;

/// Columns of a plane's unit.
[[nodiscard]] constexpr int trellis_unit(int step_bits) noexcept { return step_bits % 2 == 0 ? 32 : 64; }
/// The column of each place of a block of `columns`, a multiple of the plane's unit.
[[nodiscard]] std::vector<std::int16_t> trellis_order(int step_bits, int columns);
/// What is stored of steps: the codes of a block's columns, as many as steps make.
void store_steps(int step_bits, std::span<const std::uint8_t> steps, std::int8_t* codes);
/// What steps make, before scales, at each place.
void resolve_steps(int step_bits, std::span<const std::uint8_t> steps, std::span<std::int8_t> weights);

/// Rounds a block, or the rest of a row, whose scales are there: codes of its columns, up to the end of a unit. An empty `importance`
/// is ones.
void round_to_trellis(int step_bits, std::span<const float> weights, std::span<const float> importance, std::span<const GroupSide> sides, int group,
                      const simd::PathKernels& kernels, int paths, std::int8_t* codes);

}  // namespace bantam::inline v0
