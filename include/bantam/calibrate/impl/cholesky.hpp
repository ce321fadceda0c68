// Blocked factorization, with products at the speed of kernels: definitions of calibrate/cholesky.hpp, but for blocks of the diagonal.
#pragma once

#include <algorithm>

#include "bantam/calibrate/cholesky.hpp"
#include "bantam/calibrate/product.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace detail {

/// Small beside the whole, large enough that a product with it is worth more than the reading of what it changes.
inline constexpr std::int64_t cholesky_width = 256;

BANTAM_ONCE TensorView<float, 2> part(TensorView<float, 2> a, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  return {&a(row, column), {rows, columns}, a.strides()};
}

}  // namespace detail

BANTAM_ONCE bool factorize(TensorView<float, 2> a) {
  using namespace detail;
  const std::int64_t n = a.extent(0);
  for (std::int64_t begin = 0; begin < n; begin += cholesky_width) {
    const std::int64_t size = std::min(cholesky_width, n - begin);
    const std::int64_t end = begin + size;
    const TensorView<float, 2> diagonal = part(a, begin, size, begin, size);
    if (!factorize_block(diagonal)) return false;
    if (end == n) break;
    // The rest of these rows becomes XT with X = (A12)T V11^-1, and the rest of the matrix loses X XT.
    const Tensor<float, 2> inverse = inverse_of(diagonal);
    Tensor<float, 2> across({n - end, size}), x({n - end, size});
    parallel_for(n - end, 64, [&](Range columns) {
      for (std::int64_t r = 0; r < size; ++r) {
        for (std::int64_t c = columns.begin; c < columns.end; ++c) across(c, r) = a(begin + r, end + c);
      }
    });
    for_products(across, inverse.view().transposed(), false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
      std::ranges::copy(values, &x(row, first));
    });
    parallel_for(n - end, 64, [&](Range columns) {
      for (std::int64_t r = 0; r < size; ++r) {
        for (std::int64_t c = columns.begin; c < columns.end; ++c) a(begin + r, end + c) = x(c, r);
      }
    });
    for_products(x, x, true, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
      float* to = &a(end + row, end);
      for (std::int64_t i = std::max<std::int64_t>(0, row - first); i < static_cast<std::int64_t>(values.size()); ++i) {
        to[first + i] -= values[static_cast<std::size_t>(i)];
      }
    });
  }
  return true;
}

BANTAM_ONCE void invert_upper(TensorView<float, 2> v) {
  using namespace detail;
  const std::int64_t n = v.extent(0);
  constexpr std::int64_t rows_at_once = 512;
  for (std::int64_t begin = 0; begin < n; begin += cholesky_width) {
    const std::int64_t size = std::min(cholesky_width, n - begin);
    // (V11 V12; 0 V22)^-1 = (W11 -W11 V12 W22; 0 W22), and W11 is there already.
    const Tensor<float, 2> inverse = inverse_of(part(v, begin, size, begin, size));
    for (std::int64_t r = 0; r < size; ++r) std::copy_n(&inverse(r, r), size - r, &v(begin + r, begin + r));
    if (begin == 0) continue;
    Tensor<float, 2> product({begin, size});
    for_products(part(v, 0, begin, begin, size), inverse.view().transposed(), false,
                 [&](std::int64_t row, std::int64_t first, std::span<const float> values) { std::ranges::copy(values, &product(row, first)); });
    for (std::int64_t top = 0; top < begin; top += rows_at_once) {
      const std::int64_t rows = std::min(rows_at_once, begin - top);
      const TensorView<const float, 2> below = product.view().slice(0, top, begin);  // W11 is zero further left
      Tensor<float, 2> upper({rows, begin - top});
      for (std::int64_t r = 0; r < rows; ++r) std::copy_n(&v(top + r, top + r), begin - top - r, &upper(r, r));
      for_products(upper, below.transposed(), false,
                   [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
                     float* to = &v(top + row, begin + first);
                     for (std::size_t i = 0; i < values.size(); ++i) to[i] = -values[i];
                   });
    }
  }
}

}  // namespace bantam::inline v0
