// Blocks of the diagonal of a Cholesky factorization by plain loops, for programs that have headers alone and no Eigen.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/calibrate/cholesky.hpp"

namespace bantam::inline v0::detail {

/// Row by row: v_k = a_k / sqrt(a_kk), and what is below loses v_kT v_k.
inline bool factorize_block(TensorView<float, 2> a) {
  const std::int64_t n = a.extent(0);
  for (std::int64_t k = 0; k < n; ++k) {
    const float root = std::sqrt(a(k, k));
    if (!(root > 0) || !std::isfinite(root)) return false;
    float* const row = &a(k, 0);
    for (std::int64_t c = k; c < n; ++c) row[c] /= root;
    for (std::int64_t r = k + 1; r < n; ++r) {
      float* const below = &a(r, 0);
      const float factor = row[r];
      for (std::int64_t c = r; c < n; ++c) below[c] -= factor * row[c];
    }
  }
  return true;
}

/// From the last row up: of V W = I, w_r = (e_r - sum over k > r of v_rk w_k) / v_rr.
inline Tensor<float, 2> inverse_of(TensorView<const float, 2> v) {
  const std::int64_t n = v.extent(0);
  Tensor<float, 2> inverse({n, n});
  for (std::int64_t r = n; r-- > 0;) {
    float* const row = &inverse(r, 0);
    row[r] = 1;
    for (std::int64_t k = r + 1; k < n; ++k) {
      const float factor = v(r, k), *below = &inverse(k, 0);
      for (std::int64_t c = k; c < n; ++c) row[c] -= factor * below[c];
    }
    for (std::int64_t c = r; c < n; ++c) row[c] /= v(r, r);
  }
  return inverse;
}

}  // namespace bantam::inline v0::detail
