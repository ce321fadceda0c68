// Accumulating second moments of activations: definitions of calibrate/hessian.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/calibrate/hessian.hpp"
#include "bantam/calibrate/product.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

BANTAM_ONCE Hessian::Hessian(std::int64_t columns) : columns_(columns), largest_(static_cast<std::size_t>(columns), 0.0f), sums_({columns, columns}) {}

BANTAM_ONCE void Hessian::add(TensorView<const float, 2> x) {
  if (x.extent(1) != columns_) fail(Errc::invalid_argument, "Hessian: expected inputs of ", columns_, " columns, found ", x.extent(1));
  // Tokens at once: their transposed inputs are copied, and a panel's share of them stays in the first-level cache.
  constexpr std::int64_t chunk = 512;
  Tensor<float, 2> transposed({columns_, std::min(chunk, x.extent(0))});
  for (std::int64_t first = 0; first < x.extent(0); first += chunk) {
    const std::int64_t count = std::min(chunk, x.extent(0) - first);
    if (count < transposed.extent(1)) transposed = Tensor<float, 2>({columns_, count});
    parallel_for(columns_, 256, [&](Range columns) {
      for (std::int64_t t = 0; t < count; ++t) {
        for (std::int64_t c = columns.begin; c < columns.end; ++c) {
          const float value = x(first + t, c);
          if (!std::isfinite(value)) fail(Errc::corrupt, "activations: expected finite numbers, found ", value, " in column ", c);
          transposed(c, t) = value;
          float& largest = largest_[static_cast<std::size_t>(c)];
          largest = std::max(largest, std::fabs(value));
        }
      }
    });
    const TensorView<const float, 2> view = transposed;
    for_products(view, view, true, [&](std::int64_t row, std::int64_t column, std::span<const float> values) {
      float* sums = &sums_(row, 0) + column;
      for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
    });
  }
  tokens_ += x.extent(0);
}

BANTAM_ONCE void Hessian::blend(const Hessian& other, float share) noexcept {
  parallel_for(columns_, 64, [&](Range rows) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t j = i; j < columns_; ++j) sums_(i, j) += share * (other.sums_(i, j) - sums_(i, j));
    }
  });
  for (std::size_t c = 0; c < largest_.size(); ++c) largest_[c] = std::max(largest_[c], other.largest_[c]);
  tokens_ += static_cast<std::int64_t>(share * static_cast<float>(other.tokens_ - tokens_));
}

BANTAM_ONCE void Hessian::divide_inputs(std::span<const float> scales) noexcept {
  for (std::int64_t i = 0; i < columns_; ++i) {
    float* row = &sums_(i, 0);
    for (std::size_t j = 0; j < scales.size(); ++j) row[j] /= scales[static_cast<std::size_t>(i)] * scales[j];
    largest_[static_cast<std::size_t>(i)] /= scales[static_cast<std::size_t>(i)];
  }
}

BANTAM_ONCE Hessian Hessian::clone() const {
  Hessian copy(0);
  copy.columns_ = columns_;
  copy.tokens_ = tokens_;
  copy.largest_ = largest_;
  copy.sums_ = sums_.clone();
  return copy;
}

BANTAM_ONCE Tensor<float, 2> Hessian::release() && {
  parallel_for(columns_, 64, [&](Range columns) {
    for (std::int64_t i = 0; i < columns_; ++i) {
      for (std::int64_t j = columns.begin; j < std::min(columns.end, i); ++j) sums_(i, j) = sums_(j, i);
    }
  });
  columns_ = tokens_ = 0;
  return std::move(sums_);
}

BANTAM_ONCE std::vector<float> Hessian::mean_squares() const {
  std::vector<float> squares(static_cast<std::size_t>(columns_));
  for (std::int64_t c = 0; c < columns_; ++c) {
    squares[static_cast<std::size_t>(c)] = (*this)(c, c) / static_cast<float>(std::max<std::int64_t>(1, tokens_));
  }
  return squares;
}

}  // namespace bantam::inline v0
