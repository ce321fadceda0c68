// What the norms of a model put out, and which directions of it are read.
#pragma once

#include "bantam/calibrate/calibration.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/tensor/tensor.hpp"
#include "steps.hpp"

namespace bantam::inline v0 {

/// Second moments over the dimensions of the residual stream, (dim, dim), every norm and its readers counting alike.
struct StreamMoments {
  Tensor<double, 2> outputs;    ///< of what the norms put out, their weights aside
  Tensor<double, 2> responses;  ///< of the rows of what reads that, norms' weights included: the directions that it answers to
};
/// Of some layers, ascending, and the head. A step for each. Throws corrupt where weights or states are not finite.
[[nodiscard]] StreamMoments stream_moments(const Checkpoint& checkpoint, std::span<const std::int64_t> layers, const Calibration& calibration,
                                           Steps& steps);

/// The share of the outputs' mean square that lies along the first `dim` of orthogonal axes, (dim, dim) rows.
[[nodiscard]] double share_along(const Tensor<double, 2>& outputs, const Tensor<float, 2>& axes, std::int64_t dim);

/// The only tensor of a role that belongs to no layer.
[[nodiscard]] const CheckpointTensor& tensor_of(const Checkpoint& checkpoint, Role role);

}  // namespace bantam::inline v0
