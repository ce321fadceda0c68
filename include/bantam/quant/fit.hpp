// Least-squares fits of one group: the scale, or scale and minimum, under which rounding loses least.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/quant/format.hpp"

namespace bantam::inline v0 {

/// What codes stand for before the scale: levels, or integers from -code_offset on.
template <class F>
[[nodiscard]] constexpr float code_level(int code) noexcept {
  if constexpr (has_levels<F>) {
    return F::levels[static_cast<std::size_t>(code)];
  } else {
    return static_cast<float>(code - code_offset<F>);
  }
}

/// The code whose level is nearest to x; of two equally near the first, for integers the even one.
template <class F>
[[nodiscard]] int nearest_code(float x) noexcept {
  constexpr int codes = 1 << code_bits<typename F::Plane>;
  if constexpr (has_levels<F>) {
    int best = 0;
    float distance = std::fabs(x - code_level<F>(0));
    for (int code = 1; code < codes; ++code) {
      const float other = std::fabs(x - code_level<F>(code));
      if (!(other < distance)) continue;
      best = code;
      distance = other;
    }
    return best;
  } else {
    // Clamped before the conversion, which has no answer for large numbers.
    const float q = nearest_even(x) + static_cast<float>(code_offset<F>);
    return static_cast<int>(std::clamp(q, 0.0f, static_cast<float>(codes - 1)));
  }
}

/// The scale s, of either sign, that makes sum importance (w - s level)^2 smallest among those tried: the one that puts
/// the largest weight on the end of the grid, and neighbors that clip it or leave room. An empty `importance` is ones.
/// The best s for given codes is their least-squares solution. O(weights * 19).
template <class F>
[[nodiscard]] float fit_scale(std::span<const float> weights, std::span<const float> importance) noexcept {
  constexpr int codes = 1 << code_bits<typename F::Plane>;
  float lowest = code_level<F>(0);
  for (int code = 1; code < codes; ++code) lowest = std::min(lowest, code_level<F>(code));
  float extreme = 0;
  for (const float w : weights) {
    if (std::fabs(w) > std::fabs(extreme)) extreme = w;
  }
  if (std::fabs(extreme) < 0x1p-100f) return 0;
  float best_scale = extreme / lowest;
  double best_gain = 0;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = lowest / extreme * (1.0f + 0.2f * static_cast<float>(step) / static_cast<float>(codes));
    double products = 0;
    double squares = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto level = static_cast<double>(code_level<F>(nearest_code<F>(weights[i] * inverse)));
      const double share = importance.empty() ? 1.0 : static_cast<double>(importance[i]);
      products += share * static_cast<double>(weights[i]) * level;
      squares += share * level * level;
    }
    if (squares > 0 && products * products > best_gain * squares) {
      best_gain = products * products / squares;
      best_scale = static_cast<float>(products / squares);
    }
  }
  return best_scale;
}

/// Scale s >= 0 and minimum m <= 0 of w = s q + m that lose least, for codes from 0; tried and solved as in fit_scale.
template <class F>
void fit_scale_and_minimum(std::span<const float> weights, std::span<const float> importance, GroupSide& side) noexcept {
  constexpr int largest = (1 << code_bits<typename F::Plane>) - 1;
  const auto [low_at, high_at] = std::minmax_element(weights.begin(), weights.end());
  const float low = std::min(*low_at, 0.0f);
  const float range = *high_at - low;
  side.scale = std::max(range, 0.0f) / static_cast<float>(largest);
  side.min = low;
  if (!(range >= 0x1p-100f && range < 0x1p127f)) return;
  double best_error = -1;
  for (int step = -5; step <= 10; ++step) {
    const float inverse = (static_cast<float>(largest) + 0.1f * static_cast<float>(step)) / range;
    double n = 0, sum_q = 0, sum_qq = 0, sum_w = 0, sum_qw = 0, sum_ww = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto w = static_cast<double>(weights[i]);
      const double q = std::clamp(std::nearbyint((w - static_cast<double>(low)) * static_cast<double>(inverse)), 0.0, static_cast<double>(largest));
      const double share = importance.empty() ? 1.0 : static_cast<double>(importance[i]);
      n += share;
      sum_q += share * q;
      sum_qq += share * q * q;
      sum_w += share * w;
      sum_qw += share * q * w;
      sum_ww += share * w * w;
    }
    const double determinant = n * sum_qq - sum_q * sum_q;
    double scale = determinant > 0 ? (n * sum_qw - sum_q * sum_w) / determinant : 0.0;
    double min = determinant > 0 ? (sum_qq * sum_w - sum_q * sum_qw) / determinant : 0.0;
    if (min > 0 || determinant <= 0) {
      min = 0;
      scale = sum_qq > 0 ? sum_qw / sum_qq : 0.0;
    }
    if (scale < 0) continue;
    const double error = sum_ww - 2 * scale * sum_qw - 2 * min * sum_w + scale * scale * sum_qq + 2 * scale * min * sum_q + min * min * n;
    if (best_error < 0 || error < best_error) {
      best_error = error;
      side.scale = static_cast<float>(scale);
      side.min = static_cast<float>(min);
    }
  }
}

namespace detail {

/// Writes wanted[g] as unit * number[g], the numbers within lowest .. highest; the unit puts the largest on `end`.
template <class Wanted, class Store>
float share_unit(std::span<GroupSide> sides, int lowest, int highest, int end, Wanted&& wanted, Store&& store) noexcept {
  float extreme = 0;
  for (const GroupSide& side : sides) {
    if (std::fabs(wanted(side)) > std::fabs(extreme)) extreme = wanted(side);
  }
  const float unit = float(f16(extreme / static_cast<float>(end)));
  const float inverse = inverse_scale(unit);
  for (GroupSide& side : sides) {
    // A unit that overflowed must show in the weights, so none of its numbers is 0.
    const float number = std::isfinite(unit) ? nearest_even(wanted(side) * inverse) : static_cast<float>(end);
    store(side, static_cast<std::int16_t>(std::clamp(number, static_cast<float>(lowest), static_cast<float>(highest))));
  }
  return unit;
}

}  // namespace detail

/// Rounds the scales (and minimums) of one block to what scale::Super stores, and makes them what that stands for.
template <class F>
void share_units(std::span<GroupSide> sides) noexcept {
  constexpr int bits = F::Scale::bits;
  constexpr bool minimums = std::same_as<typename F::Zero, zero::Min>;
  constexpr int lowest = minimums ? 0 : -(1 << (bits - 1));
  constexpr int highest = minimums ? (1 << bits) - 1 : (1 << (bits - 1)) - 1;
  const float unit = detail::share_unit(
      sides, lowest, highest, minimums ? highest : lowest, [](const GroupSide& s) { return s.scale; },
      [](GroupSide& s, std::int16_t number) { s.number = number; });
  float min_unit = 0;
  if constexpr (minimums) {
    min_unit = detail::share_unit(
        sides, lowest, highest, highest, [](const GroupSide& s) { return -s.min; },
        [](GroupSide& s, std::int16_t number) { s.min_number = number; });
  }
  for (GroupSide& side : sides) {
    side.unit = unit;
    side.min_unit = min_unit;
    apply_units<F>(side);
  }
}

/// Fits the groups of one block of a scale::Super format, and rounds what they share.
template <class F>
void fit_super(std::span<const float> weights, std::span<const float> importance, std::span<GroupSide> sides) noexcept {
  const auto group = static_cast<std::size_t>(F::group);
  const auto part = [&](std::span<const float> all, std::size_t g) {
    const std::size_t first = std::min(all.size(), g * group);
    return all.subspan(first, std::min(group, all.size() - first));
  };
  for (std::size_t g = 0; g < sides.size(); ++g) {
    sides[g] = {};
    if (part(weights, g).empty()) continue;
    if constexpr (std::same_as<typename F::Zero, zero::Min>) {
      fit_scale_and_minimum<F>(part(weights, g), part(importance, g), sides[g]);
    } else {
      sides[g].scale = fit_scale<F>(part(weights, g), part(importance, g));
    }
  }
  share_units<F>(sides);
}

/// Rounds one block of a scale::Super format: fits its groups, then the codes on what is stored.
template <class F>
void encode_super(std::span<const float> weights, std::span<const float> importance, std::int8_t* codes,
                  std::span<GroupSide> sides) noexcept {
  fit_super<F>(weights, importance, sides);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const GroupSide& side = sides[i / static_cast<std::size_t>(F::group)];
    codes[i] = static_cast<std::int8_t>(nearest_code<F>((weights[i] - side.min) * inverse_scale(side.scale)));
  }
}

}  // namespace bantam::inline v0
