// One bound for the weights of a whole model.
#pragma once

#include "bantam/compress/recipe.hpp"
#include "calibrate/model_source.hpp"

namespace bantam::inline v0 {

/// The recipe with a share for each matrix, where it is to remove the smallest weights of all together (magnitude_model), else
/// as it is. Shares add up to the one asked for; matrices that are exceptions keep theirs and do not count. One pass over the
/// blocks, and 128 KiB for each matrix. Weights are told apart by their upper 16 bits, bf16's: those that share the bound's
/// go in every matrix alike.
[[nodiscard]] Recipe with_shares(const ModelSource& source, const Recipe& recipe);

}  // namespace bantam::inline v0
