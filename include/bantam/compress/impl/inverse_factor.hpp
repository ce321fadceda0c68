// The factor of the inverse Hessian that GPTQ goes by, in the memory of the Hessian.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "bantam/calibrate/cholesky.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0::detail::gptq {

/// Rows and columns of a symmetric matrix, both halves of it, put into the given order.
BANTAM_ONCE void permute(TensorView<float, 2> a, std::span<const std::int64_t> order) {
  const std::int64_t n = a.extent(0);
  std::vector<std::int64_t> from(order.begin(), order.end());
  std::vector<float> first(static_cast<std::size_t>(n));
  for (std::int64_t start = 0; start < n; ++start) {  // rows, cycle by cycle
    if (from[static_cast<std::size_t>(start)] == start) continue;
    std::copy_n(&a(start, 0), n, first.data());
    for (std::int64_t row = start; row >= 0;) {
      const std::int64_t source = std::exchange(from[static_cast<std::size_t>(row)], row);
      std::copy_n(source == start ? first.data() : &a(source, 0), n, &a(row, 0));
      row = source == start ? -1 : source;
    }
  }
  parallel_for(n, 32, [&](Range rows) {
    std::vector<float> row(static_cast<std::size_t>(n));
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      std::copy_n(&a(r, 0), n, row.data());
      for (std::int64_t c = 0; c < n; ++c) a(r, c) = row[static_cast<std::size_t>(order[static_cast<std::size_t>(c)])];
    }
  });
}

/// Turns H into U with H^-1 = UT U, U upper triangular, for H in the given order of columns and damped; returns the damping
/// that it took. With J the reversal, J H J = VT V gives H = R RT, R = J VT J upper, and U = R^-1: one factorization
/// instead of three. All in the memory of H, whose lower half stays what it was, for restore(); `diagonal` gets the damped
/// one of H.
BANTAM_ONCE double inverse_factor(TensorView<float, 2> h, std::span<const std::int64_t> order, double damping, std::vector<float>& diagonal) {
  const std::int64_t n = h.extent(0);
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += static_cast<double>(h(i, i)) / static_cast<double>(n);
  permute(h, std::vector<std::int64_t>(order.rbegin(), order.rend()));
  diagonal.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    // Inputs that were always zero have no say.
    diagonal[static_cast<std::size_t>(i)] = h(i, i) != 0 ? h(i, i) : mean > 0 ? static_cast<float>(mean) : 1.0f;
  }
  for (; damping < 1; damping += 0.05) {
    for (std::int64_t i = 0; i < n; ++i) h(i, i) = diagonal[static_cast<std::size_t>(i)] + static_cast<float>(damping * mean);
    if (factorize(h)) break;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + 1; j < n; ++j) h(i, j) = h(j, i);
    }
  }
  if (!(damping < 1)) fail(Errc::corrupt, "gptq: expected inputs whose second moments can be factorized, found none even with damping of 1");
  for (float& x : diagonal) x += static_cast<float>(damping * mean);
  invert_upper(h);
  parallel_for(n, 32, [&](Range rows) {  // J VT^-1 J
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t j = i; i + j < n - 1; ++j) std::swap(h(i, j), h(n - 1 - j, n - 1 - i));
    }
  });
  return damping;
}

/// The H that inverse_factor was given, damped, in the columns' own order.
BANTAM_ONCE void restore(TensorView<float, 2> h, std::span<const std::int64_t> order, std::span<const float> diagonal) {
  const std::int64_t n = h.extent(0);
  parallel_for(n, 64, [&](Range columns) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = std::max(columns.begin, i + 1); j < columns.end; ++j) h(i, j) = h(j, i);
    }
  });
  for (std::int64_t i = 0; i < n; ++i) h(i, i) = diagonal[static_cast<std::size_t>(i)];
  std::vector<std::int64_t> place(order.size());
  for (std::int64_t i = 0; i < n; ++i) place[static_cast<std::size_t>(order[static_cast<std::size_t>(n - 1 - i)])] = i;
  permute(h, place);
}

}  // namespace bantam::inline v0::detail::gptq
