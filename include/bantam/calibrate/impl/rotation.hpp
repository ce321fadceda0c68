// Randomized Hadamard matrices and their like for other sizes, applied; and products with those that are given: definitions of
// calibrate/rotation.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "bantam/calibrate/product.hpp"
#include "bantam/calibrate/rotation.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/core/random.hpp"

namespace bantam::inline v0 {

namespace detail {

/// x becomes x H, H the Hadamard matrix of Sylvester; the size is a power of two.
BANTAM_ONCE void multiply_by_hadamard(std::span<double> x) noexcept {
  for (std::size_t half = 1; half < x.size(); half *= 2) {
    for (std::size_t first = 0; first < x.size(); first += 2 * half) {
      for (std::size_t i = first; i < first + half; ++i) {
        const double a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

}  // namespace detail

BANTAM_ONCE Rotation::Rotation(std::int64_t size, std::uint64_t seed) : size_(size) {
  if (size < 1) fail(Errc::invalid_argument, "rotation: expected a size of at least 1, found ", size);
  Random random(seed);
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  for (std::int64_t i = 0; i < size; ++i) signs_.push_back(random.next() >> 63 == 0 ? scale : -scale);
  const std::int64_t m = size >> std::countr_zero(static_cast<std::uint64_t>(size));
  for (std::int64_t i = 0; i < m; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(m);
    hartley_.push_back(std::cos(angle) + std::sin(angle));
  }
}

BANTAM_ONCE Rotation::Rotation(Tensor<float, 2> axes) : size_(axes.extent(0)), axes_(std::move(axes)) {
  if (size_ > 0 && axes_.extent(1) == size_) return;
  fail(Errc::invalid_argument, "rotation: expected as many axes as numbers, found (", size_, ", ", axes_.extent(1), ')');
}

BANTAM_ONCE void Rotation::apply(std::span<double> x) const {
  if (axes_.size() > 0) {
    const std::vector<double> from(x.begin(), x.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float* axis = &axes_(static_cast<std::int64_t>(i), 0);
      x[i] = 0;
      for (std::size_t j = 0; j < from.size(); ++j) x[i] += from[j] * static_cast<double>(axis[j]);
    }
    return;
  }
  const std::size_t m = hartley_.size();
  const std::size_t power = signs_.size() / m;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= signs_[i];
  for (std::size_t first = 0; first < x.size(); first += power) detail::multiply_by_hadamard(x.subspan(first, power));
  if (m == 1) return;
  std::vector<double> sums(x.size(), 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < m; ++j) {
      const double factor = hartley_[i * j % m];
      for (std::size_t c = 0; c < power; ++c) sums[i * power + c] += factor * x[j * power + c];
    }
  }
  std::ranges::copy(sums, x.begin());
}

BANTAM_ONCE void Rotation::apply(std::span<float> x) const {
  std::vector<double> wide(x.begin(), x.end());
  apply(wide);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(wide[i]);
}

BANTAM_ONCE void Rotation::rotate_columns(Tensor<float, 2>& w) const {
  if (w.extent(1) % size() != 0) fail(Errc::invalid_argument, "rotation: expected a multiple of ", size(), " columns, found ", w.extent(1));
  if (axes_.size() > 0) {
    // Rows that are several times as long as the axes lie like as many rows.
    const TensorView<const float, 2> pieces(w.data(), {w.size() / size(), size()});
    const Tensor<float, 2> rotated = times_transposed(pieces, axes_);
    std::ranges::copy(rotated.span(), w.span().begin());
    return;
  }
  parallel_for(w.extent(0), 16, [&](Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::int64_t first = 0; first < w.extent(1); first += size()) apply(std::span(&w(row, first), signs_.size()));
    }
  });
}

BANTAM_ONCE void Rotation::rotate_rows(Tensor<float, 2>& w) const {
  if (w.extent(0) % size() != 0) fail(Errc::invalid_argument, "rotation: expected a multiple of ", size(), " rows, found ", w.extent(0));
  if (axes_.size() > 0) {
    for (std::int64_t first = 0; first < w.extent(0); first += size()) {
      const Tensor<float, 2> rotated = times_transposed(axes_, w.view().slice(0, first, first + size()).transposed());
      std::ranges::copy(rotated.span(), w.span().subspan(static_cast<std::size_t>(first * w.extent(1))).begin());
    }
    return;
  }
  // Columns at once: a cache line of each row.
  constexpr std::int64_t width = 16;
  parallel_for(div_up(w.extent(1), width), 1, [&](Range parts) {
    std::vector<double> columns(static_cast<std::size_t>(width) * signs_.size());
    for (std::int64_t part = parts.begin; part < parts.end; ++part) {
      const std::int64_t begin = part * width;
      const std::int64_t count = std::min(width, w.extent(1) - begin);
      for (std::int64_t first = 0; first < w.extent(0); first += size()) {
        const auto column = [&](std::int64_t c) { return std::span(columns).subspan(static_cast<std::size_t>(c * size()), signs_.size()); };
        for (std::int64_t r = 0; r < size(); ++r) {
          for (std::int64_t c = 0; c < count; ++c) column(c)[static_cast<std::size_t>(r)] = static_cast<double>(w(first + r, begin + c));
        }
        for (std::int64_t c = 0; c < count; ++c) apply(column(c));
        for (std::int64_t r = 0; r < size(); ++r) {
          for (std::int64_t c = 0; c < count; ++c) w(first + r, begin + c) = static_cast<float>(column(c)[static_cast<std::size_t>(r)]);
        }
      }
    }
  });
}

}  // namespace bantam::inline v0
