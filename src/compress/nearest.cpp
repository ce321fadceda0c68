// Rounding to nearest on fitted grids.
#include "bantam/compress/nearest.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

WeightMatrix nearest(TensorView<const float, 2> weights, const FormatInfo& format, const NearestOptions& options) {
  const std::int64_t rows = weights.extent(0), columns = weights.extent(1);
  if (format.is_float) fail(Errc::invalid_argument, "nearest: expected a format of integers or levels, found ", format.name);
  const std::span<const float> importance = options.importance;
  if (!importance.empty() && static_cast<std::int64_t>(importance.size()) != columns) {
    fail(Errc::invalid_argument, "nearest: expected the importance of ", columns, " columns, found ", importance.size());
  }
  const std::int64_t unit = format.grid_columns == 0 ? columns : format.grid_columns;
  const std::int64_t group = format.group == 0 ? columns : format.group;
  const std::int64_t padded = round_up<std::int64_t>(columns, std::max<std::int64_t>(32, format.group));
  const auto data = allocate_storage(static_cast<std::size_t>(format.matrix_bytes(rows, columns)));
  parallel_for(div_up<std::int64_t>(rows, panel_rows), 1, [&](Range panels) {
    std::vector<float> row(static_cast<std::size_t>(columns));
    RowCodes codes;
    for (std::int64_t r = panels.begin * panel_rows; r < std::min(panels.end * panel_rows, rows); ++r) {
      codes.codes.assign(static_cast<std::size_t>(padded), 0);
      codes.sides.assign(static_cast<std::size_t>(format.group == 0 ? 1 : padded / format.group), {});
      for (std::int64_t c = 0; c < columns; ++c) {
        const float w = weights(r, c);
        if (!std::isfinite(w)) fail(Errc::invalid_argument, "nearest: expected finite weights, found ", w, " at (", r, ", ", c, ")");
        row[static_cast<std::size_t>(c)] = w;
      }
      for (std::int64_t first = 0; first < columns; first += unit) {
        const auto begin = static_cast<std::size_t>(first);
        const auto count = static_cast<std::size_t>(std::min(unit, columns - first));
        const auto side = static_cast<std::size_t>(first / group);
        // All of them, groups of padding too: what a block shares is written with each of its groups.
        const auto sides = std::min(static_cast<std::size_t>(unit / group), codes.sides.size() - side);
        format.fit_grid(std::span(row).subspan(begin, count), importance.empty() ? importance : importance.subspan(begin, count),
                        options.search, std::span(codes.sides).subspan(side, sides));
      }
      for (std::size_t c = 0; c < row.size(); ++c) {
        codes.codes[c] = static_cast<std::int8_t>(format.round_to_grid(row[c], codes.sides[c / static_cast<std::size_t>(group)]));
      }
      format.store_codes(data.get() + r / panel_rows * format.panel_bytes(columns), static_cast<int>(r % panel_rows), columns, codes);
    }
  });
  return {format, rows, columns, data};
}

void check_hqq(const FormatInfo& format) {
  if (format.has_minimums) return;
  std::string names;
  for (const FormatInfo& other : formats()) {
    if (other.has_minimums) names += message(names.empty() ? "" : ", ", other.name);
  }
  fail(Errc::invalid_argument, "hqq: expected a format with a minimum a group (", names, "), found ", format.name);
}

WeightMatrix hqq(TensorView<const float, 2> weights, const FormatInfo& format) {
  check_hqq(format);
  return nearest(weights, format, {.search = GridSearch::half_quadratic});
}

}  // namespace bantam::inline v0
