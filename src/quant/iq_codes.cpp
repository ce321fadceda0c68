// Choosing entries of the grids of GGUF's iq types, and scales to choose them under.
#include "iq_codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "bantam/quant/vector_metric.hpp"
#include "iq_grids.hpp"

namespace bantam::inline v0::iq {

namespace {

using simd::NearestPoint, simd::PointSearch;

constexpr float shift_of(bool less) noexcept { return less ? -0.125f : 0.125f; }

float sign(unsigned negative, int i) noexcept { return (negative >> i & 1u) != 0 ? -1.0f : 1.0f; }

/// The signs of x, made even, where they have to be, by the one that costs least.
unsigned signs_of(const Type& type, const float* x, const float* moments, int step) noexcept {
  unsigned negative = 0;
  for (int i = 0; i < type.columns; ++i) negative |= static_cast<unsigned>(x[i] < 0) << i;
  if (type.signs == Signs::free || std::popcount(negative) % 2 == 0) return negative;
  int cheapest = 0;
  const auto cost = [&](int i) { return moments[i * step] * x[i] * x[i]; };
  for (int i = 1; i < type.columns; ++i) {
    if (cost(i) < cost(cheapest)) cheapest = i;
  }
  return negative ^ 1u << cheapest;
}

/// Weights one after the other to the nearest level, whatever the grid, the error of each made good by those after it: what signs to begin
/// with where inputs are alike.
void round_one_by_one(const Type& type, const float* x, const VectorMetric& metric, float* rounded) noexcept {
  const int n = type.columns;
  float errors[VectorMetric::most_columns];
  for (int i = 0; i < n; ++i) {
    float rest = 0;
    for (int j = 0; j < i; ++j) rest += metric.factor[static_cast<std::size_t>(i * n + j)] * errors[j];
    const float target = x[i] + rest / metric.factor[static_cast<std::size_t>(i * n + i)];
    float size = 0;
    for (int level = 0; level < type.levels; ++level) {
      if (std::fabs(std::fabs(target) - type.level[level]) < std::fabs(std::fabs(target) - size) || level == 0) size = type.level[level];
    }
    rounded[i] = std::copysign(size, target);
    errors[i] = x[i] - rounded[i];
  }
}

void set_levels(const Type& type, Vector& v) noexcept {
  for (int i = 0; i < type.columns; ++i) {
    const float point = type.points[i % type.dims * type.count + v.entries[i / type.dims]];
    v.levels[i] = type.signs == Signs::grid ? point + (type.shift == Shift::nobody ? 0.0f : shift_of(v.less)) : sign(v.negative, i) * point;
  }
}

/// eT M e of what x is more than the vector.
float cost_of(const Type& type, const float* x, const VectorMetric& metric, const Vector& v) noexcept {
  const int n = type.columns;
  float cost = 0;
  for (int i = 0; i < n; ++i) {
    float y = 0;
    for (int j = 0; j <= i; ++j) y += metric.factor[static_cast<std::size_t>(i * n + j)] * (x[j] - v.levels[j]);
    cost += y * y;
  }
  return cost;
}

/// The nearest entry of a part, whose weights are those from `from` on, to a target, in the metric of a factor with rows of `stride`.
int nearest_entry(const Type& type, NearestPoint nearest_point, const float* target, const float* factor, int stride, unsigned negative, int from) noexcept {
  const int d = type.dims;
  float turned[8], turned_factor[64];  // so that the entry's signs are all positive
  for (int i = 0; i < d; ++i) {
    turned[i] = target[i] * sign(negative, from + i);
    for (int j = 0; j <= i; ++j) turned_factor[i * d + j] = factor[i * stride + j] * sign(negative, from + j);
  }
  return nearest_point({.points = type.points, .dims = d, .count = type.count, .target = turned, .factor = turned_factor});
}

/// The nearest entry with the vector's signs.
void choose_entry(const Type& type, NearestPoint nearest_point, const float* x, const VectorMetric& metric, Vector& v) noexcept {
  v.entries[0] = nearest_entry(type, nearest_point, x, metric.factor.data(), type.columns, v.negative, 0);
  set_levels(type, v);
}

/// The same of two entries of four weights: the first as if the second could make up for all of its errors, the second for what is left, as
/// GPTQ has it; then each again for the other as it is, while that is nearer.
void choose_two_entries(const Type& type, NearestPoint nearest_point, const float* x, const VectorMetric& metric, Vector& v) noexcept {
  constexpr int n = 8, d = 4;
  const auto f = [&](int i, int j) { return metric.factor[static_cast<std::size_t>(i * n + j)]; };
  const auto m = [&](int i, int j) { return metric.moments[static_cast<std::size_t>(i * n + j)]; };
  const auto choose_second = [&] {
    float target[d];
    for (int i = 0; i < d; ++i) {  // F22 (target - x2) = F21 e1
      float rest = 0;
      for (int j = 0; j < d; ++j) rest += f(d + i, j) * (x[j] - v.levels[j]);
      for (int j = 0; j < i; ++j) rest -= f(d + i, d + j) * (target[j] - x[d + j]);
      target[i] = x[d + i] + rest / f(d + i, d + i);
    }
    v.entries[1] = nearest_entry(type, nearest_point, target, &metric.factor[d * n + d], n, v.negative, d);
    set_levels(type, v);
  };
  v.entries[0] = nearest_entry(type, nearest_point, x, metric.factor.data(), n, v.negative, 0);
  set_levels(type, v);
  choose_second();
  std::array<double, d * d> moments;
  for (int i = 0; i < d * d; ++i) moments[static_cast<std::size_t>(i)] = static_cast<double>(m(i / d, i % d));
  const VectorMetric first = metric_of_moments(moments, d);
  for (int again = 0; again < 3; ++again) {
    const Vector before = v;
    float target[d];
    for (int i = 0; i < d; ++i) {
      target[i] = 0;
      for (int j = d; j < n; ++j) target[i] += m(i, j) * (x[j] - v.levels[j]);
    }
    solve(first, target, d);
    for (int i = 0; i < d; ++i) target[i] += x[i];
    v.entries[0] = nearest_entry(type, nearest_point, target, first.factor.data(), d, v.negative, 0);
    set_levels(type, v);
    choose_second();
    if (cost_of(type, x, metric, v) < cost_of(type, x, metric, before)) continue;
    v = before;
    return;
  }
}

void choose_entries(const Type& type, NearestPoint nearest_point, const float* x, const VectorMetric& metric, Vector& v) noexcept {
  if (type.columns == type.dims) return choose_entry(type, nearest_point, x, metric, v);
  choose_two_entries(type, nearest_point, x, metric, v);
}

/// Other signs of one weight, or of two where their number stays even, that lower the cost most; whether there are any.
bool turn_signs(const Type& type, const float* x, const VectorMetric& metric, Vector& v) noexcept {
  const int n = type.columns;
  const auto m = [&](int i, int j) { return metric.moments[static_cast<std::size_t>(i * n + j)]; };
  float steps[8], alone[8];  // what a turn adds to the error; what it costs
  for (int i = 0; i < n; ++i) {
    float slope = 0;
    for (int j = 0; j < n; ++j) slope += m(i, j) * (x[j] - v.levels[j]);
    steps[i] = 2 * v.levels[i];
    alone[i] = steps[i] * (2 * slope + steps[i] * m(i, i));
  }
  float best = 0;
  unsigned turned = 0;
  for (int i = 0; i < n; ++i) {
    if (type.signs == Signs::free) {
      if (alone[i] < best) best = alone[i], turned = 1u << i;
      continue;
    }
    for (int j = i + 1; j < n; ++j) {
      const float both = alone[i] + alone[j] + 2 * steps[i] * steps[j] * m(i, j);
      if (both < best) best = both, turned = 1u << i | 1u << j;
    }
  }
  v.negative ^= turned;
  return turned != 0;
}

Vector nearest_unsigned(const Type& type, NearestPoint nearest_point, const float* x, PointSearch search, bool less) noexcept {
  Vector v;
  float target[8];
  v.less = less;
  for (int i = 0; i < type.columns; ++i) target[i] = x[i] - (type.shift == Shift::nobody ? 0.0f : shift_of(less));
  search.target = target;
  v.entries[0] = nearest_point(search);
  set_levels(type, v);
  return v;
}

/// Where errors cost their weighted squares.
Vector nearest_weighted(const Type& type, NearestPoint nearest_point, const float* x, const float* weights, bool less) noexcept {
  PointSearch search{.points = type.points, .dims = type.dims, .count = type.count, .weights = weights};
  const auto cost = [&](const Vector& v) {
    float sum = 0;
    for (int i = 0; i < type.columns; ++i) sum += weights[i] * (x[i] - v.levels[i]) * (x[i] - v.levels[i]);
    return sum;
  };
  if (type.signs == Signs::grid) {
    const Vector v = nearest_unsigned(type, nearest_point, x, search, less);
    if (type.shift != Shift::vector) return v;
    const Vector other = nearest_unsigned(type, nearest_point, x, search, !less);
    return cost(other) < cost(v) ? other : v;
  }
  Vector v;
  v.negative = signs_of(type, x, weights, 1);
  float target[8];
  for (int i = 0; i < type.columns; ++i) target[i] = x[i] * sign(v.negative, i);
  for (int from = 0; from < type.columns; from += type.dims) {
    search.target = target + from;
    search.weights = weights + from;
    v.entries[from / type.dims] = nearest_point(search);
  }
  set_levels(type, v);
  return v;
}

/// What a scale makes of a group: sums of w x, x^2 and of importance besides, x the levels.
struct Trial {
  double products = 0, squares = 0;
};

Trial try_scale(const Type& type, NearestPoint nearest_point, std::span<const float> weights, std::span<const float> importance, float scale, bool less) noexcept {
  const float inverse = inverse_scale(scale);
  Trial trial;
  for (std::size_t first = 0; first < weights.size(); first += static_cast<std::size_t>(type.columns)) {
    float x[8];
    for (int i = 0; i < type.columns; ++i) x[i] = weights[first + static_cast<std::size_t>(i)] * inverse;
    const Vector v = nearest_weighted(type, nearest_point, x, &importance[first], less);
    for (int i = 0; i < type.columns; ++i) {
      const std::size_t c = first + static_cast<std::size_t>(i);
      const auto level = static_cast<double>(v.levels[i]), share = static_cast<double>(importance[c]);
      trial.products += share * level * static_cast<double>(weights[c]);
      trial.squares += share * level * level;
    }
  }
  return trial;
}

/// The scale of a group for itself, and its shift: what is tried, and the least-squares solution for what it chose.
float scale_of_group(const Type& type, NearestPoint nearest_point, std::span<const float> weights, std::span<const float> importance, bool& less) noexcept {
  float largest = 0;
  for (const float w : weights) largest = std::max(largest, std::fabs(w));
  if (!(largest >= 0x1p-100f)) return 0;
  double best = 0;  // what the square of the error is less than that of the weights
  float scale = 0;
  const auto attempt = [&](float tried, bool shifted_down) {
    const Trial t = try_scale(type, nearest_point, weights, importance, tried, shifted_down);
    if (!(t.products > 0) || !(t.products * t.products > best * t.squares)) return false;
    best = t.products * t.products / t.squares;
    scale = static_cast<float>(t.products / t.squares);
    less = shifted_down;
    return true;
  };
  for (int i = 0; i < type.tries; ++i) {
    const float tried = largest * (type.least + (type.most - type.least) * static_cast<float>(i) / static_cast<float>(type.tries - 1));
    attempt(tried, false);
    if (type.shift == Shift::group) attempt(tried, true);
  }
  attempt(scale, less);
  return scale;
}

}  // namespace

void set_number(const Type& type, GroupSide& side, float multiple) noexcept {
  // NaN, of a unit that overflowed, becomes 0: it shows in the weights.
  const float steps = nearest_even((multiple - 1) / 2), n = steps > 0 ? std::min(steps, static_cast<float>(type.scales - 1)) : 0.0f;
  side.number = static_cast<std::int16_t>(2 * static_cast<int>(n) + 1);
  side.scale = side.unit * static_cast<float>(side.number);
}

Vector nearest_vector(const Type& type, NearestPoint nearest_point, const float* x, const VectorMetric& metric, bool less) noexcept {
  if (type.signs == Signs::grid) {
    const PointSearch search{.points = type.points, .dims = type.dims, .count = type.count, .factor = metric.factor.data()};
    const Vector v = nearest_unsigned(type, nearest_point, x, search, less);
    if (type.shift != Shift::vector) return v;
    const Vector other = nearest_unsigned(type, nearest_point, x, search, !less);
    return cost_of(type, x, metric, other) < cost_of(type, x, metric, v) ? other : v;
  }
  const float* const weights = metric.moments.data();
  const unsigned plain = signs_of(type, x, weights, type.columns + 1);
  float rounded[VectorMetric::most_columns];
  round_one_by_one(type, x, metric, rounded);
  const unsigned fed = signs_of(type, rounded, weights, type.columns + 1);
  Vector best;
  float least = std::numeric_limits<float>::infinity();
  for (const unsigned start : {plain, fed}) {
    if (start == plain && least < std::numeric_limits<float>::infinity()) break;  // both are the same
    Vector v;
    v.negative = start;
    choose_entries(type, nearest_point, x, metric, v);
    float cost = cost_of(type, x, metric, v);
    for (Vector next = v; turn_signs(type, x, metric, next);) {
      set_levels(type, next);
      const float turned = cost_of(type, x, metric, next);
      Vector chosen = next;
      choose_entries(type, nearest_point, x, metric, chosen);
      const float after = cost_of(type, x, metric, chosen);
      if (!(std::min(after, turned) < cost)) break;
      cost = std::min(after, turned);
      v = next = after < turned ? chosen : next;
    }
    if (!(cost < least)) continue;
    least = cost;
    best = v;
  }
  return best;
}

void fit_block(const Type& type, NearestPoint nearest_point, std::span<const float> weights, std::span<const float> importance, std::span<GroupSide> sides) noexcept {
  std::array<float, 256> ones;
  if (importance.empty()) {
    ones.fill(1);
    importance = std::span(ones).first(weights.size());
  }
  const auto part = [&](std::span<const float> all, std::size_t g) {
    const std::size_t group = static_cast<std::size_t>(type.group), first = std::min(all.size(), g * group);
    return all.subspan(first, std::min(group, all.size() - first));
  };
  float largest = 0;
  for (std::size_t g = 0; g < sides.size(); ++g) {
    bool less = false;
    sides[g] = {};
    sides[g].scale = scale_of_group(type, nearest_point, part(weights, g), part(importance, g), less);
    sides[g].zero = less;
    largest = std::max(largest, sides[g].scale);
  }
  const float unit = float(f16(largest / static_cast<float>(2 * type.scales - 1)));
  Trial all;
  for (std::size_t g = 0; g < sides.size(); ++g) {
    GroupSide& side = sides[g];
    side.unit = unit;
    set_number(type, side, side.scale * inverse_scale(unit));
    const Trial t = try_scale(type, nearest_point, part(weights, g), part(importance, g), side.scale, side.zero != 0);
    all.products += t.products * side.number;
    all.squares += t.squares * side.number * side.number;
  }
  const auto solved = all.squares > 0 ? float(f16(static_cast<float>(all.products / all.squares))) : 0.0f;
  if (!(solved > 0) || !std::isfinite(solved)) return;
  for (GroupSide& side : sides) {
    side.unit = solved;
    side.scale = solved * static_cast<float>(side.number);
  }
}

void put_codes(const Type& type, const Vector& vector, std::int8_t* codes) noexcept {
  for (int i = 0; i < type.columns; ++i) {
    const unsigned digit = type.entries[vector.entries[i / type.dims]] >> i % type.dims * type.bits & ((1u << type.bits) - 1);
    codes[i] = type.signs == Signs::grid ? gguf::grid::ternary_codes[vector.less][digit] : static_cast<std::int8_t>(digit | (vector.negative >> i & 1u) << 3);
  }
}

}  // namespace bantam::inline v0::iq
