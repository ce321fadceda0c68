// Tensor views as Eigen maps, and Eigen matrices as tensor views, without copies. Whoever includes this opts into Eigen.
#pragma once

#include <Eigen/Core>
#include <type_traits>

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

namespace detail {

template <class T, class Plain>
using EigenPlain = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;

}  // namespace detail

/// What to_eigen() returns: of unaligned data and any strides. Constant elements stay constant.
template <class T>
using EigenVectorMap = Eigen::Map<detail::EigenPlain<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>>, Eigen::Unaligned,
                                  Eigen::InnerStride<>>;
template <class T>
using EigenMatrixMap =
    Eigen::Map<detail::EigenPlain<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>,
               Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

/// A view as a column vector, or as a matrix of (rows, columns). Borrows the view's elements.
template <class T>
[[nodiscard]] EigenVectorMap<T> to_eigen(const TensorView<T, 1>& view) {
  return {view.data(), view.extent(0), Eigen::InnerStride<>(view.stride(0))};
}
template <class T>
[[nodiscard]] EigenMatrixMap<T> to_eigen(const TensorView<T, 2>& view) {
  return {view.data(), view.extent(0), view.extent(1), Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(view.stride(0), view.stride(1))};
}

/// An Eigen vector as a view of rank 1, a matrix of either storage order as one of rank 2: (rows, columns). Borrows the
/// elements; for objects that have a name and memory of their own (matrices, maps, blocks).
template <class M>
  requires requires(M& m) { m.data(), m.rowStride(), m.colStride(); }
[[nodiscard]] auto from_eigen(M& m) noexcept {
  using T = std::remove_pointer_t<decltype(m.data())>;
  if constexpr (M::IsVectorAtCompileTime) {
    return TensorView<T, 1>(m.data(), {m.size()}, {m.innerStride()});
  } else {
    return TensorView<T, 2>(m.data(), {m.rows(), m.cols()}, {m.rowStride(), m.colStride()});
  }
}

}  // namespace bantam::inline v0
