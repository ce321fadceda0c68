// AWQ on matrices that read the same inputs: definitions of compress/awq.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/calibrate/product.hpp"
#include "bantam/compress/awq.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace detail::awq {

/// Mean over all rows of |w| / max|w| of its group of columns.
BANTAM_ONCE std::vector<float> mean_shares(std::span<const AwqReader> readers, std::int64_t columns) {
  std::vector<double> sums(static_cast<std::size_t>(columns), 0.0);
  std::int64_t rows = 0;
  for (const AwqReader& reader : readers) {
    if (reader.format->is_float) continue;
    const std::int64_t group = reader.format->group == 0 ? columns : reader.format->group;
    rows += reader.weights.extent(0);
    for (std::int64_t r = 0; r < reader.weights.extent(0); ++r) {
      for (std::int64_t first = 0; first < columns; first += group) {
        const std::int64_t end = std::min(first + group, columns);
        float largest = 0;
        for (std::int64_t c = first; c < end; ++c) largest = std::max(largest, std::fabs(reader.weights(r, c)));
        for (std::int64_t c = first; c < end; ++c) {
          sums[static_cast<std::size_t>(c)] += static_cast<double>(std::fabs(reader.weights(r, c)) / (largest + 1e-6f));
        }
      }
    }
  }
  std::vector<float> means;
  for (const double sum : sums) means.push_back(static_cast<float>(sum / static_cast<double>(std::max<std::int64_t>(1, rows))));
  return means;
}

/// inputs^ratio / weights^(1 - ratio), without the latter where `weights` is empty, scaled so that the largest and the
/// smallest are each other's inverse.
BANTAM_ONCE std::vector<float> scales_of(std::span<const float> inputs, std::span<const float> weights, double ratio) {
  constexpr double smallest = 1e-4;  // the authors' bound; silent inputs have no magnitude to go by
  std::vector<float> scales;
  double low = 0, high = 0;
  for (std::size_t c = 0; c < inputs.size(); ++c) {
    double s = std::pow(static_cast<double>(inputs[c]), ratio);
    if (!weights.empty()) s /= std::pow(static_cast<double>(weights[c]), 1 - ratio) + smallest;
    s = std::max(s, smallest);
    scales.push_back(static_cast<float>(s));
    low = c == 0 ? s : std::min(low, s);
    high = std::max(high, s);
  }
  const auto center = static_cast<float>(1 / std::sqrt(low * high));
  for (float& s : scales) s *= center;
  return scales;
}

/// What rounding W s loses, summed over the readers.
BANTAM_ONCE double loss_of(std::span<const AwqReader> readers, std::span<const float> scales, const Tensor<float, 2>& moments) {
  const std::int64_t columns = moments.extent(0);
  double loss = 0;
  for (const AwqReader& reader : readers) {
    if (reader.format->is_float) continue;
    const std::int64_t rows = reader.weights.extent(0);
    Tensor<float, 2> differences({rows, columns});
    const std::int64_t panel_bytes = reader.format->panel_bytes(columns);
    parallel_for(div_up<std::int64_t>(rows, panel_rows), 1, [&](Range panels) {
      AlignedBuffer<std::byte> panel;
      panel.ensure(static_cast<std::size_t>(panel_bytes));
      std::vector<float> scaled, rounded(scales.size());
      RowCodes scratch;
      for (std::int64_t p = panels.begin; p < panels.end; ++p) {
        const std::int64_t first = p * panel_rows, count = std::min<std::int64_t>(panel_rows, rows - first);
        const auto scale = [&](std::int64_t i, std::size_t c) { return reader.weights(first + i, static_cast<std::int64_t>(c)) * scales[c]; };
        scaled.clear();
        for (std::int64_t i = 0; i < count; ++i) {
          for (std::size_t c = 0; c < scales.size(); ++c) scaled.push_back(scale(i, c));
        }
        if (reader.format->keep_part != nullptr) reader.format->keep_part(panel.data(), columns, scaled);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::span<const float> row = std::span(scaled).subspan(static_cast<std::size_t>(i) * scales.size(), scales.size());
          store_row(*reader.format, panel.data(), static_cast<int>(i), row, scratch);
          reader.format->decode_row(panel.data(), static_cast<int>(i), rounded, scratch);
          float* d = &differences(first + i, 0);
          for (std::size_t c = 0; c < scales.size(); ++c) d[c] = (scale(i, c) - rounded[c]) / scales[c];
        }
      }
    });
    loss += squared_outputs(differences, moments);
  }
  return loss;
}

}  // namespace detail::awq

BANTAM_ONCE AwqScales awq_scales(std::span<const AwqReader> readers, const Hessian& hessian, const AwqOptions& options) {
  using namespace detail::awq;
  const std::int64_t columns = hessian.columns();
  if (readers.empty()) fail(Errc::invalid_argument, "awq: expected matrices, found none");
  if (options.ratios < 1) fail(Errc::invalid_argument, "awq: expected at least one ratio, found ", options.ratios);
  for (const AwqReader& reader : readers) {
    if (reader.weights.extent(1) != columns) {
      fail(Errc::invalid_argument, "awq: expected weights of ", columns, " columns, found ", reader.weights.extent(1));
    }
    for (std::int64_t r = 0; r < reader.weights.extent(0); ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const float w = reader.weights(r, c);
        if (!std::isfinite(w)) fail(Errc::invalid_argument, "awq: expected finite weights, found ", w, " at (", r, ", ", c, ")");
      }
    }
  }
  const Tensor<float, 2> moments = moments_of(hessian, 0, columns);
  std::vector<float> inputs = hessian.mean_squares();
  for (float& x : inputs) x = std::sqrt(x);
  const std::vector<float> weights = options.weigh_weights ? mean_shares(readers, columns) : std::vector<float>();

  AwqScales best{.scales = std::vector<float>(static_cast<std::size_t>(columns), 1.0f)};
  best.loss = best.unscaled_loss = loss_of(readers, best.scales, moments);
  for (int k = 0; k < options.ratios; ++k) {
    const double ratio = static_cast<double>(k) / options.ratios;
    for (const bool weighed : {false, true}) {
      // The plain scales of ratio 0 are those of 1.
      if (weighed ? weights.empty() : k == 0) continue;
      std::vector<float> scales = scales_of(inputs, weighed ? weights : std::vector<float>(), ratio);
      const double loss = loss_of(readers, scales, moments);
      // Not a number where a scaled weight left the format's range.
      if (!(loss < best.loss)) continue;
      best.scales = std::move(scales);
      best.ratio = ratio;
      best.loss = loss;
    }
  }
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, hessian.tokens()));
  best.loss /= tokens;
  best.unscaled_loss /= tokens;
  return best;
}

BANTAM_ONCE Tensor<float, 2> awq_clip(TensorView<const float, 2> weights, const Hessian& hessian, const FormatInfo& format) {
  const std::int64_t rows = weights.extent(0), columns = weights.extent(1);
  if (columns != hessian.columns()) fail(Errc::invalid_argument, "awq: expected weights of ", hessian.columns(), " columns, found ", columns);
  Tensor<float, 2> clipped({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) clipped(r, c) = weights(r, c);
  }
  if (!can_clip(format)) return clipped;
  for (std::int64_t first = 0; first < columns; first += format.group) {
    const std::int64_t size = std::min<std::int64_t>(format.group, columns - first);
    const Tensor<float, 2> moments = moments_of(hessian, first, size);
    parallel_for(rows, 16, [&](Range range) {
      std::vector<float> tried(static_cast<std::size_t>(size)), difference(tried.size());
      for (std::int64_t row = range.begin; row < range.end; ++row) {
        const std::span<float> group(&clipped(row, first), tried.size());
        float largest = 0;
        for (const float w : group) largest = std::max(largest, std::fabs(w));
        double best = -1;
        float best_bound = largest;
        for (int step = 0; step < 10; ++step) {
          const float bound = largest * (1.0f - static_cast<float>(step) / 20.0f);
          for (std::size_t i = 0; i < tried.size(); ++i) tried[i] = std::clamp(group[i], -bound, bound);
          GroupSide side;
          format.fit_grid(tried, {}, GridSearch::range, {&side, 1});
          for (std::size_t i = 0; i < tried.size(); ++i) {
            difference[i] = group[i] - format.decode_code(format.round_to_grid(tried[i], side), side);
          }
          double error = 0;
          for (std::int64_t i = 0; i < size; ++i) {
            float sum = 0;
            for (std::int64_t j = 0; j < size; ++j) sum += moments(i, j) * difference[static_cast<std::size_t>(j)];
            error += static_cast<double>(sum) * static_cast<double>(difference[static_cast<std::size_t>(i)]);
          }
          if (best >= 0 && !(error < best)) continue;
          best = error;
          best_bound = bound;
        }
        for (float& w : group) w = std::clamp(w, -best_bound, best_bound);
      }
    });
  }
  return clipped;
}

}  // namespace bantam::inline v0
