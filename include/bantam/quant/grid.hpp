// The grid of a group apart from its codes: what quantizers that choose codes one by one need of a format.
#pragma once

#include "bantam/quant/fit.hpp"
#include "bantam/quant/formats/trellis.hpp"
#include "bantam/quant/strip16.hpp"

namespace bantam::inline v0 {

/// How the scale of a group is chosen.
enum class GridSearch : std::uint8_t {
  range,  ///< as the format rounds to nearest: the extremes of the weights decide
  error,  ///< the one of some that clip the extremes which leaves the smallest squared error
  /// The extremes decide the scale, then the minimum moves to where few large errors are left to themselves: HQQ. Formats
  /// with a minimum of its own for each group only; others are fitted as with `error`.
  half_quadratic,
};

namespace detail {

/// Of grids shrunk to 100, 99, ... 20 % of the weights' range, GPTQ's search, the one with the smallest error.
template <class F>
void search_zero_point(std::span<const float> weights, std::span<const float> importance, GroupSide& side) noexcept {
  constexpr int largest = (1 << code_bits<typename F::Plane>) - 1;
  const auto [low_at, high_at] = std::minmax_element(weights.begin(), weights.end());
  const float low = std::min(*low_at, 0.0f);
  const float high = std::max(*high_at, 0.0f);
  double best = -1;
  for (int step = 0; step < 80; ++step) {
    const float shrink = 1.0f - static_cast<float>(step) / 100.0f;
    GroupSide tried;
    tried.scale = float(f16((high - low) * shrink / static_cast<float>(largest)));
    if (!(tried.scale > 0)) break;
    tried.zero = std::clamp(static_cast<int>(nearest_even(-low * shrink / tried.scale)), 0, largest);
    double error = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float q = std::clamp(nearest_even(weights[i] / tried.scale) + static_cast<float>(tried.zero), 0.0f, static_cast<float>(largest));
      const auto d = static_cast<double>(weights[i] - tried.scale * (q - static_cast<float>(tried.zero)));
      error += d * d * (importance.empty() ? 1.0 : static_cast<double>(importance[i]));
    }
    if (best >= 0 && error >= best) continue;
    best = error;
    side = tried;
  }
}

/// HQQ's solver (Badri and Shaji 2023): codes and minimum in turn make sum |w - w'|^0.7 small. Errors are counted in steps
/// of the grid, so the result does not depend on the size of the weights; the authors count them in weights.
template <class F>
void fit_half_quadratic(std::span<const float> weights, GroupSide& side) noexcept {
  constexpr int largest = (1 << code_bits<typename F::Plane>) - 1;
  constexpr float norm = 0.7f;
  constexpr float growth = 1.01f;  // of beta, a round
  constexpr int rounds = 20;
  const auto [low_at, high_at] = std::minmax_element(weights.begin(), weights.end());
  const float low = *low_at;
  const float range = *high_at - low;
  side.scale = range / static_cast<float>(largest);
  side.min = low;
  if (!(range >= 0x1p-100f && range < 0x1p127f)) return;
  const float steps = 1.0f / side.scale;
  float zero = -low * steps;
  float best_zero = zero;
  double best = -1;
  float beta = 10;
  for (int round = 0; round < rounds; ++round, beta *= growth) {
    double error = 0;
    double moved = 0;
    for (const float w : weights) {
      const float x = w * steps;
      const float q = std::clamp(nearest_even(x + zero), 0.0f, static_cast<float>(largest));
      const float e = x - (q - zero);
      const float size = std::fabs(e);
      error += std::pow(static_cast<double>(size), static_cast<double>(norm));
      // What the shrinkage operator leaves of an error is taken to be meant.
      const float kept = size > 0 ? std::max(size - std::pow(size, norm - 1) / beta, 0.0f) : 0.0f;
      moved += static_cast<double>(q - (x - std::copysign(kept, e)));
    }
    if (best >= 0 && !(error < best)) break;
    best = error;
    best_zero = zero;
    zero = static_cast<float>(moved / static_cast<double>(weights.size()));
  }
  side.min = -best_zero * side.scale;
}

}  // namespace detail

/// Columns that share what `fit_grid` decides: a group, the 256 of a scale::Super or plane::Trellis block, or 0, the whole row.
template <QuantFormat F>
inline constexpr int grid_columns = Strip16<F>::super_scales || Strip16<F>::trellis ? block_columns : F::group;

/// w = scale q + min, both of the group alone.
template <QuantFormat F>
inline constexpr bool has_minimums = !is_float_format<F> && Strip16<F>::minimums && !Strip16<F>::super_scales;

/// Fits the groups of grid_columns weights (fewer at the end of a row) to them, as they will be stored. `importance` has
/// the weights' length, or is empty: all alike.
template <QuantFormat F>
void fit_grid(std::span<const float> weights, std::span<const float> importance, GridSearch search, std::span<GroupSide> sides) {
  using L = Strip16<F>;
  if constexpr (L::trellis) {
    fit_trellis<F>(weights, importance, sides);
  } else if constexpr (L::super_scales) {
    fit_super<F>(weights, importance, sides);
  } else {
    std::vector<std::int8_t> codes(weights.size());
    F::encode(weights, codes.data(), sides[0]);
    if constexpr (L::group_scales) {
      if (search != GridSearch::range) {
        if constexpr (L::zero_points) {
          detail::search_zero_point<F>(weights, importance, sides[0]);
        } else if constexpr (L::minimums) {
          if (search == GridSearch::half_quadratic) {
            detail::fit_half_quadratic<F>(weights, sides[0]);
          } else {
            fit_scale_and_minimum<F>(weights, importance, sides[0]);
          }
        } else if constexpr (L::bits != 0) {
          sides[0].scale = fit_scale<F>(weights, importance);
        }
      }
      if constexpr (L::f16_scales) sides[0].scale = float(f16(sides[0].scale));
      sides[0].min = float(f16(sides[0].min));
    }
  }
}

/// The code that is nearest to w on a group's grid.
template <QuantFormat F>
[[nodiscard]] int round_to_grid(float w, const GroupSide& side) noexcept {
  if constexpr (Strip16<F>::bits == 0) {
    return static_cast<int>(std::clamp(nearest_even(w * inverse_scale(side.scale)), -127.0f, 127.0f));
  } else if constexpr (Strip16<F>::zero_points) {
    const float q = nearest_even(w * inverse_scale(side.scale)) + static_cast<float>(side.zero);
    return static_cast<int>(std::clamp(q, 0.0f, static_cast<float>((1 << Strip16<F>::bits) - 1)));
  } else {
    return nearest_code<F>((w - side.min) * inverse_scale(side.scale));
  }
}

}  // namespace bantam::inline v0
