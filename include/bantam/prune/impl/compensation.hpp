// Least squares by one Cholesky factor and its inverse: definitions of prune/compensation.hpp.
#pragma once

#include <algorithm>

#include "bantam/calibrate/cholesky.hpp"
#include "bantam/calibrate/product.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/prune/compensation.hpp"

namespace bantam::inline v0 {

BANTAM_ONCE Tensor<float, 2> part_of(const Hessian& hessian, std::span<const std::int64_t> rows, std::span<const std::int64_t> columns) {
  Tensor<float, 2> out({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns.size())});
  parallel_for(out.extent(0), 32, [&](Range range) {
    for (std::int64_t r = range.begin; r < range.end; ++r) {
      for (std::int64_t c = 0; c < out.extent(1); ++c) out(r, c) = hessian(rows[static_cast<std::size_t>(r)], columns[static_cast<std::size_t>(c)]);
    }
  });
  return out;
}

BANTAM_ONCE Tensor<float, 2> keep_columns(TensorView<const float, 2> weights, std::span<const std::int64_t> kept) {
  Tensor<float, 2> out({weights.extent(0), static_cast<std::int64_t>(kept.size())});
  for (std::int64_t r = 0; r < out.extent(0); ++r) {
    for (std::int64_t c = 0; c < out.extent(1); ++c) out(r, c) = weights(r, kept[static_cast<std::size_t>(c)]);
  }
  return out;
}

BANTAM_ONCE Regression::Regression(const Hessian& hessian, std::span<const std::int64_t> kept, double damping) : damping_(damping) {
  double mean = 0;
  for (const std::int64_t i : kept) mean += static_cast<double>(hessian(i, i)) / static_cast<double>(kept.size());
  for (; damping_ < 1; damping_ += 0.05) {
    Tensor<float, 2> h = part_of(hessian, kept, kept);
    const std::int64_t n = h.extent(0);
    // Inputs that were always zero take over nothing, whatever stands there.
    for (std::int64_t i = 0; i < n; ++i) {
      h(i, i) = h(i, i) > 0 ? h(i, i) + static_cast<float>(damping_ * mean) : mean > 0 ? static_cast<float>(mean) : 1.0f;
    }
    if (!factorize(h)) continue;
    invert_upper(h);
    for (std::int64_t r = 1; r < n; ++r) std::fill_n(&h(r, 0), r, 0.0f);
    inverse_ = std::move(h);
    return;
  }
  fail(Errc::corrupt, "compensation: expected inputs whose second moments can be factorized, found none even with damping of 1");
}

BANTAM_ONCE Tensor<float, 2> Regression::solve(TensorView<const float, 2> products) const {
  // With H_kk^-1 = V^-1 V^-T.
  return times_transposed(times_transposed(products, inverse_.view().transposed()), inverse_);
}

BANTAM_ONCE Tensor<float, 2> compensate(TensorView<const float, 2> weights, const Hessian& hessian, std::span<const std::int64_t> kept, double damping) {
  const std::int64_t columns = weights.extent(1);
  if (columns != hessian.columns()) fail(Errc::invalid_argument, "compensation: expected weights of ", hessian.columns(), " columns, found ", columns);
  std::vector<std::int64_t> removed;
  auto next = kept.begin();
  for (std::int64_t c = 0; c < columns; ++c) {
    if (next != kept.end() && *next == c) {
      ++next;
    } else {
      removed.push_back(c);
    }
  }
  if (next != kept.end() || kept.empty()) fail(Errc::invalid_argument, "compensation: expected some of ", columns, " columns, ascending, found others");
  Tensor<float, 2> left = keep_columns(weights, kept);
  if (removed.empty()) return left;
  const Tensor<float, 2> lost = times_transposed(keep_columns(weights, removed), part_of(hessian, kept, removed));  // W_r H_rk
  const Tensor<float, 2> more = Regression(hessian, kept, damping).solve(lost);
  for (std::int64_t i = 0; i < left.size(); ++i) left.data()[i] += more.data()[i];
  return left;
}

}  // namespace bantam::inline v0
