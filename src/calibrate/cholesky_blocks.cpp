// Blocks of the diagonal of a Cholesky factorization, by Eigen.
#include <Eigen/Cholesky>
#include <cmath>

#include "bantam/calibrate/cholesky.hpp"

namespace bantam::inline v0 {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class M>
Eigen::Map<M, 0, Eigen::OuterStride<>> map_of(auto a) {
  return {a.data(), a.extent(0), a.extent(1), Eigen::OuterStride<>(a.stride(0))};
}

}  // namespace

namespace detail {

bool factorize_block(TensorView<float, 2> a) {
  auto upper = map_of<Matrix>(a);
  const Eigen::LLT<Matrix, Eigen::Upper> llt(upper);
  if (llt.info() != Eigen::Success) return false;
  for (std::int64_t i = 0; i < a.extent(0); ++i) {
    if (!(llt.matrixLLT()(i, i) > 0) || !std::isfinite(llt.matrixLLT()(i, i))) return false;
  }
  upper.template triangularView<Eigen::Upper>() = llt.matrixU();
  return true;
}

Tensor<float, 2> inverse_of(TensorView<const float, 2> v) {
  Tensor<float, 2> inverse({v.extent(0), v.extent(0)});
  auto result = map_of<Matrix>(inverse.view());
  result.setIdentity();
  map_of<const Matrix>(v).template triangularView<Eigen::Upper>().solveInPlace(result);
  return inverse;
}

}  // namespace detail

}  // namespace bantam::inline v0
