// Eigenvectors of symmetric matrices.
#include "principal_axes.hpp"

#include <Eigen/Eigenvalues>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

using Matrix = Eigen::MatrixXd;

Eigen::SelfAdjointEigenSolver<Matrix> solve(const Matrix& moments) {
  if (!moments.allFinite()) fail(Errc::corrupt, "principal axes: expected finite second moments, found others");
  Eigen::SelfAdjointEigenSolver<Matrix> solver(moments);
  if (solver.info() != Eigen::Success) fail(Errc::corrupt, "principal axes: expected eigenvectors of the second moments, found none");
  return solver;
}

/// Symmetric, so either order of storage will do.
Eigen::Map<const Matrix> map_of(const Tensor<double, 2>& moments) { return {moments.data(), moments.extent(0), moments.extent(1)}; }

/// M^1/2, where rounding may have left moments below 0.
Matrix root_of(const Matrix& moments) {
  const auto solver = solve(moments);
  return solver.eigenvectors() * solver.eigenvalues().cwiseMax(0).cwiseSqrt().asDiagonal() * solver.eigenvectors().transpose();
}

}  // namespace

Tensor<float, 2> principal_axes(const Tensor<double, 2>& vectors, const Tensor<double, 2>& responses) {
  const Matrix root = root_of(map_of(vectors));
  const auto solver = solve(root * map_of(responses) * root);
  const std::int64_t n = vectors.extent(0);
  Tensor<float, 2> axes({n, n});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) axes(i, j) = static_cast<float>(solver.eigenvectors()(j, n - 1 - i));  // they come in rising order
  }
  return axes;
}

}  // namespace bantam::inline v0
