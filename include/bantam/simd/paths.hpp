// What a search for paths through a trellis spends its time with, for every instruction set.
#pragma once

#include "bantam/simd/dot.hpp"
#include "bantam/simd/generic.hpp"
#include "bantam/simd/path_step.hpp"

namespace bantam::inline v0::simd {

/// Of `count` paths, what they cost so far, their states before the step and what their errors took from the columns from this one
/// on, (count, path_row) or null: what each child costs, (count, children), whose state is its parent's times `children`, plus
/// its number, modulo 2^16. Then 16 more that mean nothing.
template <class A>
void path_costs(const PathStep& step, const float* before, const std::uint16_t* states, const float* taken, std::int64_t count, float* costs) noexcept {
  using V = vec<A>;
  using S = Strip<A>;
  for (std::int64_t p = 0; p < count; ++p) {
    const auto base = V::splat(before[p]);
    const auto first = V::splat(step.wanted[0] - (taken != nullptr ? taken[p * path_row] : 0.0f));
    const auto second = V::splat(step.wanted[1] - (taken != nullptr ? taken[p * path_row + 1] : 0.0f));
    const int state = states[p] * step.children & 0xffff;
    for (int child = 0; child < step.children; child += 16) {
      const S a = byte_strip<A>::load(step.first + state + child), b = byte_strip<A>::load(step.second + state + child);
      BANTAM_UNROLL for (int i = 0; i < S::parts; ++i) {
        const auto e = (first - a.part[i] * V::splat(step.scale[0])) * V::splat(step.share[0]);
        const auto f = (second - e * V::splat(step.between) - b.part[i] * V::splat(step.scale[1])) * V::splat(step.share[1]);
        V::store(costs + p * step.children + child + i * V::lanes, base + e * e + f * f);
      }
    }
  }
}

/// What the errors of a path took from the columns from the next step on, of its parent's `taken` and its two errors.
template <class A>
void path_takes(const PathStep& step, const float* taken, float first, float second, float* out) noexcept {
  using V = vec<A>;
  for (int i = 0; i < path_horizon; i += V::lanes) {
    const auto more = V::load(step.take[0] + i) * V::splat(first) + V::load(step.take[1] + i) * V::splat(second);
    V::store(out + i, V::load(taken + i + 2) + more);
  }
}

template <class A>
inline constexpr PathKernels path_kernels{path_costs<A>, path_takes<A>};

}  // namespace bantam::inline v0::simd
