// What a linear layer's remaining columns take over from those that are removed.
#pragma once

#include <span>

#include "bantam/compress/hessian.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// W_kept + W_removed H_rk (H_kk + damping mean(diagonal of H_kk) I)^-1, (rows, kept): the weights whose outputs differ least
/// from those of all columns, squared and summed over the tokens of H. Damping is raised where that cannot be factorized;
/// the damping that it took is in `damping`. Throws corrupt where none will do.
[[nodiscard]] Tensor<float, 2> compensate(const Tensor<float, 2>& weights, const Hessian& hessian, std::span<const std::int64_t> kept,
                                          std::span<const std::int64_t> removed, double& damping);

}  // namespace bantam::inline v0
