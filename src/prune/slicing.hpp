// Slicing: a model with a narrower residual stream, after SliceGPT (arXiv:2401.15024).
#pragma once

#include "bantam/prune/structure.hpp"
#include "steps.hpp"

namespace bantam::inline v0 {

/// The model of some layers, ascending, whose residual stream lies along the first `dim` of its principal axes on the
/// calibration text. With StructureOptions::compensate every matrix is then refitted by least squares, in the order in which they
/// run: what reads the stream to what it reads of the original's, what adds to it to what the original's has after that.
/// Two steps a layer. Matrices of the result are f32. Throws unsupported where check_rotatable does, corrupt where weights or
/// states are not finite.
[[nodiscard]] Checkpoint slice(const Checkpoint& checkpoint, std::span<const std::int64_t> layers, std::int64_t dim,
                               const Calibration& calibration, const StructureOptions& options, Steps& steps);

}  // namespace bantam::inline v0
