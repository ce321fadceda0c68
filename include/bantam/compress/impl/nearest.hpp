// Rounding to nearest on fitted grids: definitions of compress/nearest.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/compress/nearest.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/quant/formats.hpp"
#include "bantam/quant/trellis_search.hpp"
#include "bantam/quant/vector_metric.hpp"

namespace bantam::inline v0 {

namespace detail {

/// Of sorted numbers; between two of them, their linear mean.
BANTAM_ONCE float percentile_of(std::span<const float> sorted, double percent) noexcept {
  const double rank = static_cast<double>(sorted.size() - 1) * percent / 100;
  const auto below = static_cast<std::size_t>(rank);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return static_cast<float>(std::lerp(static_cast<double>(sorted[below]), static_cast<double>(sorted[above]), rank - static_cast<double>(below)));
}

/// What is out of the percentiles of its group is moved to them.
BANTAM_ONCE void clamp_groups(std::span<float> row, std::size_t group, double percentile) {
  std::vector<float> sorted;
  for (std::size_t first = 0; first < row.size(); first += group) {
    const std::span<float> weights = row.subspan(first, std::min(group, row.size() - first));
    sorted.assign(weights.begin(), weights.end());
    std::ranges::sort(sorted);
    const float low = percentile_of(sorted, 100 - percentile), high = percentile_of(sorted, percentile);
    for (float& w : weights) w = std::clamp(w, low, high);
  }
}

}  // namespace detail

BANTAM_ONCE void fit_sides(const FormatInfo& format, std::span<const float> weights, std::span<const float> importance, GridSearch search, std::span<GroupSide> sides) {
  if (format.vectors != nullptr) return format.vectors->fit(weights, importance, sides, kernels_in_use().nearest_point);
  format.fit_grid(weights, importance, search, sides);
}

BANTAM_ONCE void round_row(std::span<const float> row, const FormatInfo& format, const NearestOptions& options, RowCodes& codes) {
  const std::size_t columns = row.size();
  const std::size_t unit = format.grid_columns == 0 ? columns : static_cast<std::size_t>(format.grid_columns);
  const std::size_t group = format.group == 0 ? columns : static_cast<std::size_t>(format.group);
  const std::size_t padded = round_up<std::size_t>(columns, std::max<std::size_t>(32, static_cast<std::size_t>(format.group)));
  codes.codes.assign(padded, 0);
  codes.sides.assign(format.group == 0 ? 1 : padded / group, {});
  std::vector<float> clamped;
  std::span<const float> fitted = row;
  if (options.percentile < 100) {
    clamped.assign(row.begin(), row.end());
    detail::clamp_groups(clamped, group, options.percentile);
    fitted = clamped;
  }
  for (std::size_t first = 0; first < columns; first += unit) {
    const std::size_t count = std::min(unit, columns - first);
    const std::size_t side = first / group;
    // All of them, groups of padding too: what a block shares is written with each of its groups.
    const std::size_t sides = std::min(unit / group, codes.sides.size() - side);
    fit_sides(format, fitted.subspan(first, count), options.importance.empty() ? options.importance : options.importance.subspan(first, count),
              options.search, std::span(codes.sides).subspan(side, sides));
  }
  if (format.vectors != nullptr) {
    return round_vectors(*format.vectors, row, options.importance, codes.sides, format.group, kernels_in_use().nearest_point, codes.codes.data());
  }
  if (format.step_bits != 0) {
    for (std::size_t first = 0; first < columns; first += unit) {
      const std::size_t count = std::min(unit, columns - first);
      round_to_trellis(format.step_bits, row.subspan(first, count), options.importance.empty() ? options.importance : options.importance.subspan(first, count),
                       std::span<const GroupSide>(codes.sides).subspan(first / group), format.group, kernels_in_use().paths, trellis_paths, &codes.codes[first]);
    }
    return;
  }
  for (std::size_t c = 0; c < columns; ++c) {
    codes.codes[c] = static_cast<std::int8_t>(format.round_to_grid(row[c], codes.sides[c / group]));
  }
}

BANTAM_ONCE void store_row(const FormatInfo& format, std::byte* panel, int row, std::span<const float> weights, RowCodes& scratch) {
  if (format.vectors == nullptr) return format.encode_row(panel, row, weights, scratch);
  round_row(weights, format, {}, scratch);
  format.store_codes(panel, row, static_cast<std::int64_t>(weights.size()), scratch);
}

BANTAM_ONCE WeightMatrix nearest(TensorView<const float, 2> weights, const FormatInfo& format, const NearestOptions& options) {
  const std::int64_t rows = weights.extent(0), columns = weights.extent(1);
  if (format.is_float) fail(Errc::invalid_argument, "nearest: expected a format of integers or levels, found ", format.name);
  const std::span<const float> importance = options.importance;
  if (!importance.empty() && static_cast<std::int64_t>(importance.size()) != columns) {
    fail(Errc::invalid_argument, "nearest: expected the importance of ", columns, " columns, found ", importance.size());
  }
  check_vectors(format, columns);
  check_percentile(options.percentile);
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(rows, columns)));
  parallel_for(div_up<std::int64_t>(rows, panel_rows), 1, [&](Range panels) {
    const auto width = static_cast<std::size_t>(columns);
    std::vector<float> of_panel;
    RowCodes codes;
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      const std::int64_t first = p * panel_rows;
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(panel_rows, rows - first));
      std::byte* panel = data.get() + p * format.panel_bytes(columns);
      of_panel.resize(count * width);
      for (std::size_t i = 0; i < of_panel.size(); ++i) {
        const std::int64_t r = first + static_cast<std::int64_t>(i / width), c = static_cast<std::int64_t>(i % width);
        const float w = weights(r, c);
        if (!std::isfinite(w)) fail(Errc::invalid_argument, "nearest: expected finite weights, found ", w, " at (", r, ", ", c, ")");
        of_panel[i] = w;
      }
      if (format.keep_part != nullptr) format.keep_part(panel, columns, of_panel);
      for (std::size_t i = 0; i < count; ++i) {
        round_row(std::span(of_panel).subspan(i * width, width), format, options, codes);
        format.store_codes(panel, static_cast<int>(i), columns, codes);
      }
    }
  });
  return {format, rows, columns, data};
}

BANTAM_ONCE void check_vectors(const FormatInfo& format, std::int64_t columns) {
  if (format.vectors == nullptr || columns % format.vectors->columns == 0) return;
  fail(Errc::invalid_argument, format.name, ": expected rows of whole vectors of ", format.vectors->columns, " columns, found ", columns);
}

BANTAM_ONCE void check_percentile(double percentile) {
  if (!(percentile > 50 && percentile <= 100)) {
    fail(Errc::invalid_argument, "nearest: expected a percentile above 50 and at most 100, found ", percentile);
  }
}

BANTAM_ONCE void check_hqq(const FormatInfo& format) {
  if (format.has_minimums) return;
  std::string names;
  for_each_format([&](auto other) {
    using Other = typename decltype(other)::type;
    if constexpr (has_minimums<Other>) names += message(names.empty() ? "" : ", ", Other::name);
  });
  fail(Errc::invalid_argument, "hqq: expected a format with a minimum a group (", names, "), found ", format.name);
}

BANTAM_ONCE WeightMatrix hqq(TensorView<const float, 2> weights, const FormatInfo& format) {
  check_hqq(format);
  return nearest(weights, format, {.search = GridSearch::half_quadratic});
}

}  // namespace bantam::inline v0
