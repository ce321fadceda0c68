// Kernels of recurrent layers: sums of rows of floats, decays, and short causal convolutions.
#pragma once

#include "bantam/kernels/arguments.hpp"
#include "bantam/kernels/math.hpp"

namespace bantam::inline v0::kernels {

namespace detail {

/// MR rows and NV vectors of columns of sum_rows(): held in registers over all of the inner extent.
template <class A, int MR, int NV>
BANTAM_INLINE void sum_tile(const RowSums& s, std::int64_t row, std::int64_t column) {
  using V = vec<A>;
  typename V::F sums[MR][NV];
  for (int r = 0; r < MR; ++r) {
    for (int v = 0; v < NV; ++v) {
      sums[r][v] = s.base == nullptr ? V::splat(0.0f)
                                     : V::splat(s.factor) * V::load(s.base + (row + r) * s.base_stride + column + v * V::lanes);
    }
  }
  for (std::int64_t i = 0; i < s.inner; ++i) {
    typename V::F m[NV];
    for (int v = 0; v < NV; ++v) m[v] = V::load(s.m + i * s.m_stride + column + v * V::lanes);
    for (int r = 0; r < MR; ++r) {
      const auto x = V::splat(s.x[(row + r) * s.x_stride + i]);
      for (int v = 0; v < NV; ++v) sums[r][v] = V::fma(x, m[v], sums[r][v]);
    }
  }
  for (int r = 0; r < MR; ++r) {
    for (int v = 0; v < NV; ++v) V::store(s.out + (row + r) * s.out_stride + column + v * V::lanes, sums[r][v]);
  }
}

template <class A, int NV>
BANTAM_INLINE void sum_columns(const RowSums& s, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + 4 <= s.rows; row += 4) sum_tile<A, 4, NV>(s, row, column);
  for (; row < s.rows; ++row) sum_tile<A, 1, NV>(s, row, column);
}

}  // namespace detail

/// out[t] = factor base[t] + sum over i of x[t][i] m[i], i ascending, each product fused: the same bits whatever rows are summed
/// together. `out` may be `base`.
template <class A>
void sum_rows(const RowSums& sums) noexcept {
  constexpr int lanes = vec<A>::lanes, NV = lanes >= 16 ? 4 : 2;
  const RowSums s = sums;
  std::int64_t column = 0;
  for (; column + NV * lanes <= s.columns; column += NV * lanes) detail::sum_columns<A, NV>(s, column);
  for (; column < s.columns; column += lanes) detail::sum_columns<A, 1>(s, column);
}

/// out[i] = x[i] e^(at - decays[i]), n a multiple of 16.
template <class A>
void decay_row(const float* x, const float* decays, float at, float* out, std::int64_t n) noexcept {
  using V = vec<A>;
  for (std::int64_t i = 0; i < n; i += V::lanes) V::store(out + i, V::load(x + i) * kernels::exp<A>(V::splat(at) - V::load(decays + i)));
}

/// out[c] = sum over taps m of weights[m][c] rows[m][c], from bias[c] or 0 on, for channels begin .. end; silu of it where asked.
template <class A>
void convolve(const Convolution& convolution, std::int64_t begin, std::int64_t end) noexcept {
  using V = vec<A>;
  const Convolution c = convolution;
  const auto tail = [&](std::int64_t i) {
    float lane[V::lanes] = {}, weight[V::lanes] = {}, bias[V::lanes] = {};
    const std::int64_t n = end - i;
    for (std::int64_t k = 0; k < n; ++k) bias[k] = c.bias != nullptr ? c.bias[i + k] : 0.0f;
    auto sum = V::load(bias);
    for (int m = 0; m < c.taps; ++m) {
      for (std::int64_t k = 0; k < n; ++k) {
        lane[k] = c.rows[m][i + k];
        weight[k] = c.weights[m * c.channels + i + k];
      }
      sum = V::fma(V::load(weight), V::load(lane), sum);
    }
    V::store(lane, c.activates ? silu<A>(sum) : sum);
    for (std::int64_t k = 0; k < n; ++k) c.out[i + k] = lane[k];
  };
  std::int64_t i = begin;
  for (; i + V::lanes <= end; i += V::lanes) {
    auto sum = c.bias != nullptr ? V::load(c.bias + i) : V::splat(0.0f);
    for (int m = 0; m < c.taps; ++m) sum = V::fma(V::load(c.weights + m * c.channels + i), V::load(c.rows[m] + i), sum);
    V::store(c.out + i, c.activates ? silu<A>(sum) : sum);
  }
  if (i < end) tail(i);
}

}  // namespace bantam::inline v0::kernels
