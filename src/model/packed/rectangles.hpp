// Rectangles of a matrix that share a scale: all of it, rows, groups of columns, blocks.
#pragma once

#include <cstdint>

#include "bantam/core/memory.hpp"

namespace bantam::inline v0 {

/// `rows` by `columns` each; those at the edges may be smaller.
struct Rectangles {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t count_down = 1;
  std::int64_t count_across = 1;

  Rectangles() = default;
  Rectangles(std::int64_t matrix_rows, std::int64_t matrix_columns, std::int64_t rows_each, std::int64_t columns_each)
      : rows(rows_each), columns(columns_each), count_down(div_up(matrix_rows, rows_each)), count_across(div_up(matrix_columns, columns_each)) {}

  [[nodiscard]] std::int64_t index(std::int64_t row, std::int64_t column) const noexcept {
    return row / rows * count_across + column / columns;
  }
};

}  // namespace bantam::inline v0
