// Moving a scale of a block's inside from what makes an input into what reads it: the block's outputs stay.
#pragma once

#include <span>

#include "bantam/calibrate/hessian.hpp"
#include "bantam/core/team.hpp"
#include "bantam/model/roles.hpp"

namespace bantam::inline v0 {

/// Changes the weights of a matrix, which becomes f32.
void change(WeightMatrix& matrix, FunctionRef<void(Tensor<float, 2>&)> f);
void scale_columns(Tensor<float, 2>& weights, std::span<const float> factors);

/// Whether the source has a value for each input of the group, which nothing else reads. Not so for o where heads share keys and
/// values: each value is read by several columns; nor for an MLP beside experts, which read the same norm.
[[nodiscard]] bool can_fold(const LayerWeights& block, const InputGroup& group, const ArchSpec& arch);
/// Divides what the source makes by `scales` and multiplies the group's columns: exact but for the rounding of f32.
/// Matrices that change become f32.
void fold(LayerWeights& block, const InputGroup& group, std::span<const float> scales);

}  // namespace bantam::inline v0
