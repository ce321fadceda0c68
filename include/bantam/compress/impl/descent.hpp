// Coordinate descent by blocks of columns: inside a block row by row, between blocks by products: definitions of compress/descent.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "bantam/calibrate/product.hpp"
#include "bantam/compress/descent.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/vector_metric.hpp"

namespace bantam::inline v0 {

namespace detail::descent {

/// Columns of a block, which is whole groups: what a row keeps at hand (moments, slopes) fits the first-level caches.
inline constexpr std::size_t block = 128;
/// Over a block before the others hear of it: later rounds change little.
inline constexpr int rounds = 3;

/// Moments of the columns of a block among themselves, zero past the last: close together, and loops over them have a known
/// length.
using Moments = std::array<std::array<float, block>, block>;

/// One row's part of a block of columns.
struct Part {
  const FormatInfo& format;
  const Moments& h;
  std::int64_t first, size;         ///< columns of the row
  RowCodes& row;
  const std::uint8_t* removed;      ///< of each column, or null
  std::span<const VectorMetric> metrics;  ///< of vectors of columns, where codes come in them
  std::array<float, block> slopes;  ///< (E H) of each column, kept up to date
  std::array<float, block> values = {};
  double gain = 0;

  [[nodiscard]] GroupSide& side(std::int64_t i) const noexcept {
    return row.sides[static_cast<std::size_t>(format.group == 0 ? 0 : (first + i) / format.group)];
  }
  [[nodiscard]] std::int8_t& code(std::int64_t i) const noexcept { return row.codes[static_cast<std::size_t>(first + i)]; }
  [[nodiscard]] float decoded(std::int64_t i) const noexcept { return format.decode_code(code(i), side(i)); }

  /// Each code to the nearest of its own optimum; whether one changed.
  bool move_codes() noexcept {
    bool changed = false;
    for (std::int64_t c = 0; c < size; ++c) {
      const auto i = static_cast<std::size_t>(c);
      if (removed != nullptr && removed[c] != 0) continue;
      const float curvature = h[i][i], slope = slopes[i];
      const int next = format.round_to_grid(values[i] + slope / curvature, side(c));
      if (next == code(c)) continue;
      const float value = format.decode_code(next, side(c)), step = value - values[i];
      const double less = static_cast<double>(step) * (2.0 * static_cast<double>(slope) - static_cast<double>(step) * static_cast<double>(curvature));
      if (!(less > 0)) continue;  // as far from both
      gain += less;
      code(c) = static_cast<std::int8_t>(next);
      values[i] = value;
      for (std::size_t k = 0; k < block; ++k) slopes[k] -= step * h[i][k];  // E loses the step
      changed = true;
    }
    return changed;
  }

  /// The same for vectors of codes: where all of one were to be is their values and H^-1 of their slopes further on, H theirs alone.
  bool move_vectors() noexcept {
    constexpr std::size_t most = VectorMetric::most_columns;
    const auto n = static_cast<std::size_t>(format.vectors->columns);
    bool changed = false;
    for (std::size_t first_of = 0; first_of < static_cast<std::size_t>(size); first_of += n) {
      const VectorMetric& metric = metrics[first_of / n];
      std::array<float, most> target, step;
      std::copy_n(&slopes[first_of], n, target.data());
      solve(metric, target.data(), static_cast<int>(n));
      for (std::size_t i = 0; i < n; ++i) target[i] += values[first_of + i];
      const GroupSide& of = side(static_cast<std::int64_t>(first_of));
      std::array<std::int8_t, most> next;
      format.vectors->round(target.data(), metric, of, next.data(), kernels_in_use().nearest_point);
      double less = 0;
      for (std::size_t i = 0; i < n; ++i) step[i] = format.decode_code(next[i], of) - values[first_of + i];
      for (std::size_t i = 0; i < n; ++i) {
        double curvature = 0;
        for (std::size_t k = 0; k < n; ++k) curvature += static_cast<double>(h[first_of + i][first_of + k]) * static_cast<double>(step[k]);
        less += static_cast<double>(step[i]) * (2.0 * static_cast<double>(slopes[first_of + i]) - curvature);
      }
      if (!(less > 0)) continue;  // the same, or as far from both
      gain += less;
      for (std::size_t i = 0; i < n; ++i) {
        if (step[i] == 0) continue;
        code(static_cast<std::int64_t>(first_of + i)) = next[i];
        values[first_of + i] += step[i];
        for (std::size_t k = 0; k < block; ++k) slopes[k] -= step[i] * h[first_of + i][k];
      }
      changed = true;
    }
    return changed;
  }

  /// The scale of the group from `begin` on to its own optimum, as it can be stored.
  void move_scale(std::int64_t begin) noexcept {
    GroupSide& of = side(begin);
    const std::int64_t end = std::min<std::int64_t>(begin + format.group, size);
    GroupSide unit = of;
    unit.scale = 1;
    unit.min = 0;
    std::array<float, block> levels = {}, weighed = {};  // what a scale of 1 makes of the codes; the same times H
    for (std::int64_t c = begin; c < end; ++c) {
      const auto i = static_cast<std::size_t>(c);
      levels[i] = format.decode_code(code(c), unit);
      for (std::size_t k = 0; k < block; ++k) weighed[k] += levels[i] * h[i][k];
    }
    double slope = 0, curvature = 0;
    for (std::size_t k = 0; k < block; ++k) {
      slope += static_cast<double>(levels[k]) * static_cast<double>(slopes[k]);
      curvature += static_cast<double>(levels[k]) * static_cast<double>(weighed[k]);
    }
    if (!(curvature > 0)) return;
    GroupSide next = of;
    const float wanted = of.scale + static_cast<float>(slope / curvature);
    if (format.vectors != nullptr) {
      format.vectors->move_scale(next, wanted);
    } else {
      next.scale = format.stored_scale(wanted);
    }
    const float step = next.scale - of.scale;
    const double less = static_cast<double>(step) * (2 * slope - static_cast<double>(step) * curvature);
    if (!(less > 0) || !(next.scale * of.scale > 0)) return;
    gain += less;
    of = next;
    for (std::size_t k = 0; k < block; ++k) slopes[k] -= step * weighed[k];
    for (std::int64_t c = begin; c < end; ++c) values[static_cast<std::size_t>(c)] = decoded(c);
  }

  /// Whether a code changed; how far the weights went stands in `moved`.
  bool descend(std::span<float> moved) {
    for (std::int64_t c = 0; c < size; ++c) values[static_cast<std::size_t>(c)] = decoded(c);
    const std::array<float, block> before = values;
    bool any = false;
    // A search for a vector takes so long that it waits for what the other blocks have to say: more rounds gained nothing.
    for (int round = 0; round < (format.vectors != nullptr ? 1 : rounds); ++round) {
      const bool changed = format.vectors != nullptr ? move_vectors() : move_codes();
      any |= changed;
      if (round > 0 && !changed) break;
      if (format.stored_scale == nullptr && format.vectors == nullptr) continue;
      for (std::int64_t c = 0; c < size; c += format.group) move_scale(c);
    }
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = values[i] - before[i];
    return any;
  }
};

/// The metric of some columns of a block.
BANTAM_ONCE VectorMetric moments_of(const Moments& h, std::int64_t first, int n) {
  std::array<double, VectorMetric::most_columns * VectorMetric::most_columns> moments{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(n * n); ++i) {
    const auto width = static_cast<std::size_t>(n), from = static_cast<std::size_t>(first);
    moments[i] = static_cast<double>(h[from + i / width][from + i % width]);
  }
  return metric_of_moments(moments, n);
}

}  // namespace detail::descent

BANTAM_ONCE double descend(const Tensor<float, 2>& errors, const Tensor<float, 2>& h, const FormatInfo& format, int sweeps, std::span<RowCodes> rows,
               TensorView<const std::uint8_t, 2> removed) {
  using namespace detail::descent;
  const std::int64_t count = errors.extent(0), columns = errors.extent(1);
  BANTAM_ASSERT(format.step_bits == 0);
  // (panels of columns, rows, columns of a panel): as products write them, one after the other.
  constexpr std::int64_t width = panel_rows;
  static_assert(block % panel_rows == 0);
  Tensor<float, 3> slopes({div_up(columns, width), count, width});
  for_products(errors, h, false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
    std::ranges::copy(values, &slopes(first / width, row, 0));
  });
  std::vector<double> gains(rows.size(), 0.0);
  std::vector<char> changed(rows.size());
  const auto near = std::make_unique<Moments>();
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    std::ranges::fill(changed, 0);
    for (std::int64_t first = 0; first < columns; first += block) {
      const std::int64_t size = std::min<std::int64_t>(block, columns - first);
      *near = {};
      for (std::int64_t i = 0; i < size; ++i) std::copy_n(&h(first + i, first), size, (*near)[static_cast<std::size_t>(i)].data());
      std::vector<VectorMetric> metrics;
      for (std::int64_t i = 0; format.vectors != nullptr && i < size; i += format.vectors->columns) metrics.push_back(moments_of(*near, i, format.vectors->columns));
      Tensor<float, 2> moved({count, size});
      parallel_for(count, 16, [&](Range range) {
        for (std::int64_t row = range.begin; row < range.end; ++row) {
          const auto r = static_cast<std::size_t>(row);
          const std::uint8_t* const of_row = removed.size() > 0 ? &removed(row, first) : nullptr;
          Part part{.format = format, .h = *near, .first = first, .size = size, .row = rows[r], .removed = of_row, .metrics = metrics, .slopes = {}};
          for (std::int64_t i = 0; i < size; i += width) {
            std::copy_n(&slopes((first + i) / width, row, 0), std::min(width, size - i), &part.slopes[static_cast<std::size_t>(i)]);
          }
          if (part.descend({&moved(row, 0), static_cast<std::size_t>(size)})) changed[r] = 1;
          gains[r] += part.gain;
        }
      });
      // Rows of H for the same columns of it: these numbers lie together.
      const TensorView<const float, 2> of_all(&h(first, 0), {columns, size}, {1, columns});
      for_products(moved, of_all, false, [&](std::int64_t row, std::int64_t column, std::span<const float> values) {
        float* to = &slopes(column / width, row, 0);
        for (std::size_t i = 0; i < values.size(); ++i) to[i] -= values[i];
      });
    }
    if (std::ranges::find(changed, 1) == changed.end()) break;
  }
  return std::accumulate(gains.begin(), gains.end(), 0.0);
}

}  // namespace bantam::inline v0
