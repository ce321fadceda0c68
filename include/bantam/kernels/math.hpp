// Elementary functions on vectors, built from operations that every instruction set rounds alike.
#pragma once

#include "bantam/simd/vec.hpp"

namespace bantam::inline v0::kernels {

using simd::vec;

/// e^x within 1 ulp from -87.3 to 88.3, and its value there beyond them: 1e-38 is a zero for every use here. NaN stays NaN.
/// x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial of degree 6: of those that begin 1 + r the one of smallest relative
/// error there, 3.1e-9 (Remez exchange; the Taylor series of this degree is off by 8e-8, more than an ulp).
template <class A>
BANTAM_INLINE typename vec<A>::F exp(typename vec<A>::F x) {
  using V = vec<A>;
  // x stands second: where one operand is NaN, every instruction set's max and min return the second.
  const auto clamped = V::min(V::splat(88.3f), V::max(V::splat(-87.3f), x));
  const auto n = V::to_int(clamped * V::splat(1.44269504f));
  const auto nf = V::to_float(n);
  // ln 2 in two parts (Cody and Waite), so that n ln 2 is exact enough.
  auto r = V::fma(nf, V::splat(-0.693145752f), clamped);
  r = V::fma(nf, V::splat(-1.42860677e-6f), r);
  auto p = V::splat(0.00138146094f);
  p = V::fma(p, r, V::splat(0.00836870975f));
  p = V::fma(p, r, V::splat(0.0416683874f));
  p = V::fma(p, r, V::splat(0.166665207f));
  p = V::fma(p, r, V::splat(0.499999935f));
  p = V::fma(p, r, V::splat(1.0f));
  p = V::fma(p, r, V::splat(1.0f));
  return V::as_float(V::as_int(p) + V::shift_left(n, 23));
}

/// x / (1 + e^-x)
template <class A>
BANTAM_INLINE typename vec<A>::F silu(typename vec<A>::F x) {
  using V = vec<A>;
  return V::divide(x, V::splat(1.0f) + kernels::exp<A>(V::splat(0.0f) - x));
}

/// 1 - 2 / (e^2x + 1)
template <class A>
BANTAM_INLINE typename vec<A>::F tanh(typename vec<A>::F x) {
  using V = vec<A>;
  // Beyond 9.01 tanh is 1 in single precision; the clamp keeps e^2x finite.
  const auto y = V::min(V::splat(9.01f), V::max(V::splat(-9.01f), x));
  return V::splat(1.0f) - V::divide(V::splat(2.0f), kernels::exp<A>(y + y) + V::splat(1.0f));
}

/// The tanh form of GELU (Hendrycks and Gimpel, arXiv:1606.08415): "gelu_new", "gelu_pytorch_tanh".
template <class A>
BANTAM_INLINE typename vec<A>::F gelu_tanh(typename vec<A>::F x) {
  using V = vec<A>;
  const auto inner = V::splat(0.7978845608f) * V::fma(V::splat(0.044715f) * x * x, x, x);
  return V::splat(0.5f) * x * (V::splat(1.0f) + kernels::tanh<A>(inner));
}

/// GELU by the error function. erf to 1.5e-7 (Abramowitz and Stegun 7.1.26).
template <class A>
BANTAM_INLINE typename vec<A>::F gelu_erf(typename vec<A>::F x) {
  using V = vec<A>;
  const auto y = V::abs(x) * V::splat(0.70710678f);
  const auto t = V::divide(V::splat(1.0f), V::fma(V::splat(0.3275911f), y, V::splat(1.0f)));
  auto p = V::splat(1.061405429f);
  p = V::fma(p, t, V::splat(-1.453152027f));
  p = V::fma(p, t, V::splat(1.421413741f));
  p = V::fma(p, t, V::splat(-0.284496736f));
  p = V::fma(p, t, V::splat(0.254829592f));
  const auto tail = p * t * kernels::exp<A>(V::splat(0.0f) - y * y);  // 1 - erf(y)
  // x (1 + erf) / 2 for x >= 0 is x - x tail / 2; for x < 0 it is x tail / 2.
  const auto half = V::splat(0.5f) * V::abs(x) * tail;
  return V::max(x, V::splat(0.0f)) - half;
}

}  // namespace bantam::inline v0::kernels
