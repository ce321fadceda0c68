// Least squares on second moments: what remaining columns make up for.
#pragma once

#include <span>
#include <vector>

#include "bantam/calibrate/hessian.hpp"
#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// Some rows and columns of second moments.
[[nodiscard]] Tensor<float, 2> part_of(const Hessian& hessian, std::span<const std::int64_t> rows, std::span<const std::int64_t> columns);
/// Some columns.
[[nodiscard]] Tensor<float, 2> keep_columns(TensorView<const float, 2> weights, std::span<const std::int64_t> kept);

/// H_kk + damping mean(diagonal of H_kk) I of the inputs `kept`, factorized.
class Regression {
 public:
  /// Damping is raised where it does not do. Throws corrupt where none does.
  Regression(const Hessian& hessian, std::span<const std::int64_t> kept, double damping);
  /// What it took.
  [[nodiscard]] double damping() const noexcept { return damping_; }
  /// P (H_kk + ...)^-1 for products of outputs and inputs, summed over tokens, (rows, kept): the weights that come nearest to
  /// such outputs, but for the damping.
  [[nodiscard]] Tensor<float, 2> solve(TensorView<const float, 2> products) const;

 private:
  double damping_;
  Tensor<float, 2> inverse_;  ///< V^-1, upper triangular with zeros below, for H_kk + ... = VT V
};

/// The columns `kept`, ascending, of weights (rows, columns), moved so that without the others the outputs change least over the inputs
/// of H: W_k + W_r H_rk (H_kk + damping mean(diagonal of H_kk) I)^-1, (rows, kept). On all cores: kept^3 / 3 multiply-adds and
/// rows columns kept. Throws invalid_argument where shapes do not fit, corrupt where no damping makes H regular.
[[nodiscard]] Tensor<float, 2> compensate(TensorView<const float, 2> weights, const Hessian& hessian, std::span<const std::int64_t> kept,
                                          double damping = 0.01);

}  // namespace bantam::inline v0
