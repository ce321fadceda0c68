// Moving a scale of a block's inside from what makes an input into what reads it: the block's outputs stay.
#pragma once

#include <span>

#include "bantam/compress/hessian.hpp"
#include "bantam/core/team.hpp"
#include "bantam/model/weights.hpp"

namespace bantam::inline v0 {

/// Changes the weights of a matrix, which becomes f32.
void change(WeightMatrix& matrix, FunctionRef<void(Tensor<float, 2>&)> f);
void scale_columns(Tensor<float, 2>& weights, std::span<const float> factors);

/// Linear layers of a block that read the same.
struct Readers {
  std::vector<Role> roles;
  Role source;  ///< makes what they read, value by value: a norm's weight, or the rows of a matrix
};
/// In the order in which a block runs them.
[[nodiscard]] std::span<const Readers> readers() noexcept;

/// Whether the source has a value for each input of the readers. Not so for o where heads share keys and values: each
/// value is read by several columns.
[[nodiscard]] bool can_fold(ModelWeights& block, const Readers& readers);
/// Divides what the source makes by `scales` and multiplies the readers' columns: exact but for the rounding of f32.
/// Matrices that change become f32. `block` holds one layer.
void fold(ModelWeights& block, const Readers& readers, std::span<const float> scales);

}  // namespace bantam::inline v0
