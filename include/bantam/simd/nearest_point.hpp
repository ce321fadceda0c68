// The nearest of some hundred points of a few dimensions: what rounding to a codebook of vectors comes down to.
#pragma once

#include "bantam/simd/generic.hpp"
#include "bantam/simd/point_search.hpp"
#include "bantam/simd/vec.hpp"

namespace bantam::inline v0::simd {

/// Points are lanes. With a factor an error costs |F e|^2, else the weighted sum of its squares.
template <class A, int Dims, bool Factored>
BANTAM_INLINE int nearest_of(const PointSearch& search) {
  using V = vec<A>;
  const PointSearch s = search;
  alignas(64) float lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  auto at = V::load(lane), best_at = at;
  auto best = V::splat(__builtin_inff());
  const auto next = V::splat(static_cast<float>(V::lanes));
  for (int first = 0; first < s.count; first += V::lanes) {
    typename V::F error[Dims];
    BANTAM_UNROLL
    for (int i = 0; i < Dims; ++i) error[i] = V::load(s.points + i * s.count + first) - V::splat(s.target[i]);
    auto cost = V::splat(0.0f);
    BANTAM_UNROLL
    for (int i = 0; i < Dims; ++i) {
      if constexpr (Factored) {
        auto y = V::splat(s.factor[i * Dims]) * error[0];
        BANTAM_UNROLL
        for (int j = 1; j <= i; ++j) y = V::fma(V::splat(s.factor[i * Dims + j]), error[j], y);
        cost = V::fma(y, y, cost);
      } else {
        cost = V::fma(V::splat(s.weights[i]) * error[i], error[i], cost);
      }
    }
    best_at = V::pick_less(cost, best, at, best_at);
    best = V::min(cost, best);
    at = at + next;
  }
  alignas(64) float costs[16], places[16];
  V::store(costs, best);
  V::store(places, best_at);
  int nearest = 0;
  for (int i = 1; i < V::lanes; ++i) {
    if (costs[i] < costs[nearest] || (costs[i] == costs[nearest] && places[i] < places[nearest])) nearest = i;
  }
  return static_cast<int>(places[nearest]);
}

/// The point whose error costs least, the first of several: the same on every instruction set.
template <class A>
int nearest_point(const PointSearch& search) noexcept {
  if (search.dims == 4) return search.factor != nullptr ? nearest_of<A, 4, true>(search) : nearest_of<A, 4, false>(search);
  return search.factor != nullptr ? nearest_of<A, 8, true>(search) : nearest_of<A, 8, false>(search);
}

}  // namespace bantam::inline v0::simd
