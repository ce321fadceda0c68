// Rounding to nearest on grids that are fitted to the weights, or to what is known of their inputs.
#pragma once

#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

struct NearestOptions {
  GridSearch search = GridSearch::error;
  /// What an error of a column counts, for instance the mean square of its input (Hessian::mean_squares): grids are fitted
  /// so that the sum of weighted squared errors is small. (columns), or empty: all alike.
  std::span<const float> importance = {};
  /// Grids are fitted to the weights of each group (of a row, where scales are its own) without the outer (100 - percentile) %
  /// at each end; those are rounded to the ends of the grid. Percentiles lie between weights, linearly. Above 50, to 100.
  double percentile = 100;
};

/// Rounds a matrix (rows, columns) to a format, each weight to the nearest of its group's grid. On all cores. Formats whose
/// scales are shared by a row, powers of two or quantized again have no search: their grids span the range. Throws
/// invalid_argument when shapes do not fit, the format holds floats, or weights are not finite.
[[nodiscard]] WeightMatrix nearest(TensorView<const float, 2> weights, const FormatInfo& format, const NearestOptions& options = {});

/// FormatInfo::fit_grid, with this machine's kernels where the format has use for some.
void fit_sides(const FormatInfo& format, std::span<const float> weights, std::span<const float> importance, GridSearch search, std::span<GroupSide> sides);

/// One row of them, finite and whole vectors, into codes and scales that format.store_codes takes.
void round_row(std::span<const float> row, const FormatInfo& format, const NearestOptions& options, RowCodes& codes);

/// FormatInfo::encode_row, the same faster: with this machine's kernels where a format's codes come in vectors.
void store_row(const FormatInfo& format, std::byte* panel, int row, std::span<const float> weights, RowCodes& scratch);

/// HQQ (Badri and Shaji 2023): scales span the range of each group; the minimum, a number that need not be a code, is fitted
/// by half-quadratic splitting so that the sum of |error|^0.7 is small. No data. For formats with a minimum for each group: a
/// zero point is a whole number of steps, which leaves nothing to fit, and k-quants share the unit of their minimums and are
/// fitted by least squares as they are (with HQQ they lost: docs/numbers.md). Throws as nearest does, and for other formats.
[[nodiscard]] WeightMatrix hqq(TensorView<const float, 2> weights, const FormatInfo& format);
/// Throws invalid_argument where a format's codes come in vectors (FormatInfo::vectors) that such rows end in the midst of.
void check_vectors(const FormatInfo& format, std::int64_t columns);
/// Throws invalid_argument unless above 50 and at most 100.
void check_percentile(double percentile);
/// Throws invalid_argument, naming those that do, where a format does not suit HQQ.
void check_hqq(const FormatInfo& format);

}  // namespace bantam::inline v0
