// Cholesky factors and triangular inverses of large matrices, in place and on all cores.
#pragma once

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// Writes V, upper triangular with A = VT V, over the upper half of a symmetric matrix (n, n); what is below the diagonal is
/// neither read nor written. By blocks of columns, whose updates run at the speed of the inference kernels: n^3 / 6
/// multiply-adds. False when A is not positive definite as far as single precision can tell; the upper half is spoiled then.
[[nodiscard]] bool factorize(TensorView<float, 2> a);

/// Writes V^-1 over V, upper triangular; what is below the diagonal is neither read nor written. n^3 / 6 multiply-adds.
void invert_upper(TensorView<float, 2> v);

namespace detail {

/// The same for a block of the diagonal: by Eigen in the library (src/calibrate/cholesky_blocks.cpp), by loops without it
/// (impl/cholesky_loops.hpp).
[[nodiscard]] bool factorize_block(TensorView<float, 2> a);
/// V^-1, with zeros below the diagonal.
[[nodiscard]] Tensor<float, 2> inverse_of(TensorView<const float, 2> v);

}  // namespace detail

}  // namespace bantam::inline v0
