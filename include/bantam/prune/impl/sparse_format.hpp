// Which formats hold what pruning leaves: definitions of prune/sparse_format.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "bantam/core/once.hpp"
#include "bantam/prune/sparse_format.hpp"
#include "bantam/quant/sparse_codes.hpp"
#include "bantam/tensor/random.hpp"

namespace bantam::inline v0 {

BANTAM_ONCE bool holds_zero(const FormatInfo& format) {
  if (format.is_float) return true;
  if (format.has_minimums || format.vectors != nullptr || format.step_bits != 0) return false;
  // Grids that are symmetric or have whole zero points hit 0 whatever the weights; others miss that of one of these.
  constexpr std::int64_t tries = 8;
  const std::int64_t columns = format.grid_columns == 0 ? 64 : format.grid_columns;
  const auto samples = random::normal<float>({tries, columns}, 1, {.mean = 0.3});
  std::vector<GroupSide> sides(static_cast<std::size_t>(format.group == 0 ? 1 : columns / format.group));
  for (std::int64_t t = 0; t < tries; ++t) {
    format.fit_grid({&samples(t, 0), static_cast<std::size_t>(columns)}, {}, GridSearch::range, sides);
    for (const GroupSide& side : sides) {
      if (format.decode_code(format.round_to_grid(0.0f, side), side) != 0) return false;
    }
  }
  return true;
}

BANTAM_ONCE Sparsity sparsity_of(const FormatInfo& format) noexcept {
  switch (format.kept) {
    case Kept::all: return {};
    case Kept::two_of_four: return {2, 4};
    case Kept::half_of_blocks: return Sparsity::of_blocks();
  }
  return {};
}

BANTAM_ONCE bool holds_rest(const FormatInfo& format, const Sparsity& sparsity) noexcept {
  const Sparsity wanted = sparsity_of(format);
  if (!wanted.any()) return true;
  return sparsity.blocks == wanted.blocks && sparsity.of == wanted.of && sparsity.zeros >= wanted.zeros;
}

BANTAM_ONCE bool holds_rest(const FormatInfo& format, const Mask& mask) noexcept {
  const std::int64_t rows = mask.extent(0), columns = mask.extent(1);
  const auto part = [&](std::int64_t row, std::int64_t row_end, std::int64_t column, std::int64_t column_end) {
    for (std::int64_t r = row; r < std::min(row_end, rows); ++r) {
      if (std::find(&mask(r, 0) + column, &mask(r, 0) + std::min(column_end, columns), 0) != &mask(r, 0) + std::min(column_end, columns)) return true;
    }
    return false;
  };
  if (format.kept == Kept::two_of_four) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; c += 4) {
        if (std::count(&mask(r, 0) + c, &mask(r, 0) + std::min(c + 4, columns), 0) > 2) return false;
      }
    }
  } else if (format.kept == Kept::half_of_blocks) {
    using namespace detail;
    for (std::int64_t r = 0; r < rows; r += block_rows) {
      for (std::int64_t first = 0; first < columns; first += blocks_width) {
        int kept = 0;
        for (std::int64_t c = first; c < std::min(first + blocks_width, columns); c += block_width) kept += part(r, r + block_rows, c, c + block_width);
        if (kept > kept_blocks) return false;
      }
    }
  }
  return true;
}

}  // namespace bantam::inline v0
