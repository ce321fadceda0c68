// GPTQ and SparseGPT on one matrix: definitions of compress/gptq.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bantam/calibrate/product.hpp"
#include "bantam/compress/descent.hpp"
#include "bantam/compress/gptq.hpp"
#include "bantam/compress/impl/inverse_factor.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/kernels/of_format.hpp"
#include "bantam/prune/smallest.hpp"
#include "bantam/prune/sparse_format.hpp"
#include "bantam/quant/trellis_search.hpp"
#include "bantam/quant/vector_metric.hpp"

namespace bantam::inline v0 {

namespace detail::gptq {

/// Columns rounded before what they did to the rest is carried over, as in the authors' code.
inline constexpr std::int64_t block = 128;

class Run {
 public:
  Run(Tensor<float, 2> weights, Hessian hessian, const FormatInfo& format, const GptqOptions& options, const GptqZeros& zeros)
      : format_(format), options_(options), zeros_(zeros), rows_(weights.extent(0)), columns_(weights.extent(1)),
        // Sorted, a block of columns would hold the inputs that matter most, and lose as large a share as any other.
        kind_(zeros.choose.any() ? ColumnOrder::natural : options.order), order_(static_cast<std::size_t>(columns_)), work_(std::move(weights)) {
    if (zeros.choose.any()) chosen_ = Mask({rows_, columns_});
    group_ = format.group == 0 ? columns_ : format.group;
    unit_ = format.grid_columns == 0 ? columns_ : format.grid_columns;
    const std::int64_t padded = round_up<std::int64_t>(columns_, std::max<std::int64_t>(32, format.group));
    if (!format.is_float) results_.resize(static_cast<std::size_t>(rows_));
    for (RowCodes& row : results_) {
      row.codes.assign(static_cast<std::size_t>(padded), 0);
      row.sides.assign(static_cast<std::size_t>(format.group == 0 ? 1 : padded / format.group), {});
    }
    importance_.resize(static_cast<std::size_t>(columns_));
    std::iota(order_.begin(), order_.end(), 0);
    const auto largest_in = [&](std::int64_t first, std::int64_t width) {
      float found = 0;
      for (std::int64_t c = first; c < std::min(first + width, columns_); ++c) found = std::max(found, hessian(c, c));
      return found;
    };
    // Columns of a vector stay together.
    vector_ = format.vectors != nullptr ? format.vectors->columns : 1;
    const auto larger = [&](std::int64_t a, std::int64_t b) { return largest_in(a / vector_ * vector_, vector_) > largest_in(b / vector_ * vector_, vector_); };
    if (format.step_bits != 0) {
      // Codes follow each other in blocks: these can change places, columns cannot.
      if (kind_ == ColumnOrder::activation) kind_ = ColumnOrder::group;
      const std::vector<std::int16_t> steps = trellis_order(format.step_bits, block_columns);
      for (std::int64_t first = 0, at = 0; first < columns_; first += block_columns) {
        for (const std::int64_t column : steps) {
          if (first + column < columns_) order_[static_cast<std::size_t>(at++)] = first + column;
        }
      }
    }
    if (kind_ == ColumnOrder::activation) std::ranges::stable_sort(order_, larger);
    if (kind_ == ColumnOrder::group) {
      std::vector<float> largest;
      for (std::int64_t c = 0; c < columns_; c += unit_) largest.push_back(largest_in(c, unit_));
      std::ranges::stable_sort(order_, [&](std::int64_t a, std::int64_t b) {
        const float x = largest[static_cast<std::size_t>(a / unit_)];
        const float y = largest[static_cast<std::size_t>(b / unit_)];
        return x != y ? x > y : a / unit_ != b / unit_ ? a < b : format.step_bits == 0 && larger(a, b);
      });
    }
    put_in_order(hessian);
    u_ = std::move(hessian).release();
  }

  GptqResult result(Tensor<float, 2> residual) {
    std::vector<float> diagonal;
    const double damping = inverse_factor(u_, order_, options_.damping, diagonal);
    // What an error of a column costs when those after it make up for it.
    for (std::int64_t i = 0; i < columns_; ++i) importance_[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])] = 1 / (u_(i, i) * u_(i, i));
    if (residual.size() > 0) follow(std::move(residual));
    Tensor<float, 2> target;
    const bool sweeps = options_.sweeps > 0 && !format_.is_float && format_.step_bits == 0;
    if (sweeps) target = work_.clone();
    const bool ahead = options_.static_groups || kind_ == ColumnOrder::activation;
    if (ahead && !format_.is_float) {
      parallel_for(rows_, 16, [&](Range rows) {
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          for (std::int64_t first = 0; first < columns_; first += unit_) fit(row, first);
        }
      });
    }
    losses_.assign(static_cast<std::size_t>(rows_), 0.0);
    const std::int64_t pattern = zeros_.choose.of, width = pattern > 0 ? block / pattern * pattern : block;
    for (std::int64_t begin = 0, end = 0; begin < columns_; begin = end) {
      end = std::min(begin + width, columns_);
      if (format_.step_bits != 0) {
        const std::int64_t first = order_[static_cast<std::size_t>(begin)] / unit_ * unit_;
        end = begin + std::min(unit_, columns_ - first);
        set_out(begin, first);
      }
      if (zeros_.choose.any() && pattern == 0) choose_block(begin, end);
      metrics_.clear();
      for (std::int64_t i = begin; vector_ > 1 && i < end; i += vector_) {
        metrics_.push_back(metric_of_inverse_factor(static_cast<int>(vector_), [&](int r, int c) { return u_(i + r, i + c); }));
      }
      Tensor<float, 2> errors({rows_, end - begin});
      parallel_for(rows_, 16, [&](Range rows) {
        for (std::int64_t row = rows.begin; row < rows.end; ++row) round(row, begin, end, !ahead && !format_.is_float, &errors(row, 0));
      });
      if (end < columns_) carry_over(errors, begin, end);
    }
    double loss = std::accumulate(losses_.begin(), losses_.end(), 0.0);
    if (sweeps) {
      work_ = {};
      restore(u_, order_, diagonal);
      loss -= sweep(target) / 2;
    }
    return {format_.is_float ? pack_floats() : pack(), loss, damping};
  }

 private:
  /// Puts the weights into the order, in place.
  void put_in_order(const Hessian& hessian) {
    place_.resize(order_.size());
    std::vector<char> silent;
    for (std::int64_t at = 0; at < columns_; ++at) {
      const std::int64_t column = order_[static_cast<std::size_t>(at)];
      place_[static_cast<std::size_t>(column)] = at;
      silent.push_back(hessian(column, column) == 0);
    }
    parallel_for(rows_, 16, [&](Range rows) {
      std::vector<float> weights(order_.size());
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        std::copy_n(&work_(r, 0), columns_, weights.data());
        for (std::int64_t at = 0; at < columns_; ++at) {
          const std::int64_t c = order_[static_cast<std::size_t>(at)];
          const float w = weights[static_cast<std::size_t>(c)];
          if (!std::isfinite(w)) fail(Errc::invalid_argument, "gptq: expected finite weights, found ", w, " at (", r, ", ", c, ")");
          work_(r, at) = silent[static_cast<std::size_t>(at)] ? 0.0f : w;
        }
      }
    });
  }

  /// What becomes 0, as far as is known; null for nothing.
  [[nodiscard]] const Mask* mask() const noexcept { return zeros_.mask != nullptr ? zeros_.mask : chosen_.size() > 0 ? &chosen_ : nullptr; }
  [[nodiscard]] bool removed(std::int64_t row, std::int64_t column) const noexcept { return mask() != nullptr && (*mask())(row, column) != 0; }
  /// What removing the weight at a place costs when those after it make up for it.
  [[nodiscard]] float cost(std::int64_t row, std::int64_t place) const noexcept {
    constexpr float most = std::numeric_limits<float>::infinity();
    const float error = work_(row, place) / u_(place, place), square = error * error;
    return square < most ? square : most;  // of what overflowed on the way, too
  }

  /// Removes the cheapest weights of a block of columns, over all rows.
  void choose_block(std::int64_t begin, std::int64_t end) {
    static_assert(block == blocks_columns);
    if (zeros_.choose.blocks) return mark_blocks(chosen_, begin, end, [&](std::int64_t row, std::int64_t i) { return cost(row, i); });
    const std::int64_t size = end - begin;
    std::vector<float> costs(static_cast<std::size_t>(rows_ * size));
    parallel_for(rows_, 16, [&](Range rows) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t i = 0; i < size; ++i) costs[static_cast<std::size_t>(row * size + i)] = cost(row, begin + i);
      }
    });
    std::vector<std::uint8_t> marks(costs.size());
    mark_smallest(std::span<const float>(costs), static_cast<std::size_t>(zeros_.choose.share * static_cast<double>(costs.size())), marks);
    for (std::int64_t row = 0; row < rows_; ++row) std::copy_n(&marks[static_cast<std::size_t>(row * size)], size, &chosen_(row, begin));
  }

  /// The same for the columns of a pattern in one row, as those before have left them.
  void choose_few(std::int64_t row, std::int64_t begin) {
    thread_local std::vector<float> costs;
    costs.clear();
    for (std::int64_t i = begin; i < begin + zeros_.choose.of; ++i) costs.push_back(cost(row, i));
    mark_smallest_of_few(std::span<const float>(costs), zeros_.choose.zeros, {&chosen_(row, begin), costs.size()});
  }

  /// Decides the grids of the columns from `first` on that are decided together.
  void fit(std::int64_t row, std::int64_t first) {
    const auto count = static_cast<std::size_t>(std::min(unit_, columns_ - first));
    thread_local std::vector<float> weights;
    weights.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t column = first + static_cast<std::int64_t>(i);
      weights[i] = removed(row, column) ? 0.0f : work_(row, place_[static_cast<std::size_t>(column)]);
    }
    RowCodes& result = results_[static_cast<std::size_t>(row)];
    const auto side = static_cast<std::size_t>(first / group_);
    // All of them, groups of padding too: what a block shares is written with each of its groups.
    const std::size_t sides = std::min(static_cast<std::size_t>(unit_ / group_), result.sides.size() - side);
    fit_sides(format_, weights, std::span<const float>(importance_).subspan(static_cast<std::size_t>(first), count), options_.search,
              std::span(result.sides).subspan(side, sides));
  }

  /// What all rows share when paths are searched in the block of a trellis whose columns, from `first` on, begin at a place of the order.
  void set_out(std::int64_t begin, std::int64_t first) {
    const std::int64_t count = std::min(unit_, columns_ - first);
    columns_of_steps_ = trellis_order(format_.step_bits, static_cast<int>(round_up<std::int64_t>(count, trellis_unit(format_.step_bits))));
    places_of_steps_.clear();
    for (const std::int64_t column : columns_of_steps_) places_of_steps_.push_back(column < count ? begin++ : -1);
    const auto size = static_cast<std::int64_t>(columns_of_steps_.size());
    factor_ = Tensor<float, 2>({size, size});
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = i + 1; j < size; ++j) {
        const std::int64_t from = places_of_steps_[static_cast<std::size_t>(i)], to = places_of_steps_[static_cast<std::size_t>(j)];
        factor_(i, j) = from < 0 || to < 0 ? 0.0f : u_(from, to);
      }
    }
  }

  /// Notes the codes of a block, chosen together and each in knowledge of what the errors of those before it left; what they stand for,
  /// before scales, by the place in the block.
  void search(std::int64_t row, std::int64_t first, std::vector<std::int8_t>& levels) {
    thread_local std::vector<float> wanted, scales, shares;
    thread_local std::vector<std::uint8_t> steps;
    thread_local std::vector<std::int8_t> all;
    RowCodes& result = results_[static_cast<std::size_t>(row)];
    wanted.clear();
    scales.clear();
    shares.clear();
    for (std::size_t i = 0; i < columns_of_steps_.size(); ++i) {
      const std::int64_t place = places_of_steps_[i];
      wanted.push_back(place < 0 ? 0.0f : work_(row, place));
      shares.push_back(place < 0 ? 0.0f : 1 / u_(place, place));
      scales.push_back(result.sides[static_cast<std::size_t>((first + columns_of_steps_[i]) / group_)].scale);
    }
    steps.resize(wanted.size() / 2);
    all.resize(wanted.size());
    const std::span<const float> factor = factor_.span();
    find_path({.step_bits = format_.step_bits, .wanted = wanted, .scales = scales, .shares = shares, .factor = factor.data(), .stride = factor_.extent(1)},
              kernels_in_use().paths, steps);
    store_steps(format_.step_bits, steps, &result.codes[static_cast<std::size_t>(first)]);
    resolve_steps(format_.step_bits, steps, all);
    levels.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (places_of_steps_[i] >= 0) levels.push_back(all[i]);
    }
  }

  /// One row's columns begin .. end of the order: rounds each, and moves those after it in the block by its error.
  void round(std::int64_t row, std::int64_t begin, std::int64_t end, bool fit_now, float* errors) {
    float* weights = &work_(row, 0);
    double loss = 0;
    thread_local std::vector<std::int8_t> levels;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = order_[static_cast<std::size_t>(i)];
      // In the orders that fit now, a unit's columns follow each other.
      const bool first = i == 0 || order_[static_cast<std::size_t>(i - 1)] / unit_ != column / unit_;
      if (fit_now && first) fit(row, column / unit_ * unit_);
      if (zeros_.choose.of > 0 && i % zeros_.choose.of == 0) choose_few(row, i);
      if (vector_ > 1 && (i - begin) % vector_ == 0) round_vector(row, column, weights + i, metrics_[static_cast<std::size_t>((i - begin) / vector_)]);
      if (format_.step_bits != 0 && i == begin) search(row, column / unit_ * unit_, levels);
      const float wanted = removed(row, column) ? 0.0f : weights[i];
      const float value = format_.is_float ? wanted : format_.step_bits != 0 ? chosen(row, column, levels[static_cast<std::size_t>(i - begin)]) : nearest(row, column, wanted);
      const float* u = &u_(i, 0);
      const float error = (weights[i] - value) / u[i];
      loss += static_cast<double>(error) * static_cast<double>(error) / 2;
      errors[i - begin] = error;
      weights[i] = value;
      for (std::int64_t j = i + 1; j < end; ++j) weights[j] -= error * u[j];
    }
    losses_[static_cast<std::size_t>(row)] += loss;
  }

  /// Notes the codes of a vector: the one that costs least when the columns after it make up for all of its errors.
  void round_vector(std::int64_t row, std::int64_t column, const float* weights, const VectorMetric& metric) {
    RowCodes& result = results_[static_cast<std::size_t>(row)];
    format_.vectors->round(weights, metric, result.sides[static_cast<std::size_t>(column / group_)], &result.codes[static_cast<std::size_t>(column)],
                            kernels_in_use().nearest_point);
  }

  /// Notes the code of a weight, if that is not done; what it stands for.
  float nearest(std::int64_t row, std::int64_t column, float weight) {
    if (vector_ > 1) return decoded(row, column);
    RowCodes& result = results_[static_cast<std::size_t>(row)];
    const GroupSide& side = result.sides[static_cast<std::size_t>(format_.group == 0 ? 0 : column / group_)];
    const int code = format_.round_to_grid(weight, side);
    result.codes[static_cast<std::size_t>(column)] = static_cast<std::int8_t>(code);
    return format_.decode_code(code, side);
  }

  /// What a level that was chosen stands for.
  [[nodiscard]] float chosen(std::int64_t row, std::int64_t column, std::int8_t level) const noexcept {
    return format_.decode_code(level, results_[static_cast<std::size_t>(row)].sides[static_cast<std::size_t>(column / group_)]);
  }

  /// work(:, end..) -= errors U(begin..end, end..).
  void carry_over(const Tensor<float, 2>& errors, std::int64_t begin, std::int64_t end) {
    const TensorView<const float, 2> rest(&u_(begin, end), {columns_ - end, end - begin}, {1, columns_});
    for_products(errors, rest, false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
      float* weights = &work_(row, end + first);
      for (std::size_t i = 0; i < values.size(); ++i) weights[i] -= values[i];
    });
  }

  /// Moves the weights to P H^-1 = P UT U further on.
  void follow(Tensor<float, 2> residual) {
    constexpr std::int64_t rows_at_once = 1024, columns_at_once = 512;
    for (std::int64_t first = 0; first < rows_; first += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, rows_ - first);
      Tensor<float, 2> ordered({count, columns_});
      parallel_for(count, 16, [&](Range rows) {
        for (std::int64_t r = rows.begin; r < rows.end; ++r) {
          for (std::int64_t at = 0; at < columns_; ++at) ordered(r, at) = residual(first + r, order_[static_cast<std::size_t>(at)]);
        }
      });
      for (std::int64_t begin = 0; begin < columns_; begin += columns_at_once) {
        const std::int64_t size = std::min(columns_at_once, columns_ - begin), rest = columns_ - begin;
        Tensor<float, 2> upper({size, rest}), product({count, size});
        for (std::int64_t i = 0; i < size; ++i) std::copy_n(&u_(begin + i, begin + i), rest - i, &upper(i, i));
        for_products(ordered.view().slice(1, begin, columns_), upper, false, [&](std::int64_t row, std::int64_t at, std::span<const float> values) {
          std::ranges::copy(values, &product(row, at));
        });
        const TensorView<const float, 2> turned = upper;
        for_products(product, turned.transposed(), false, [&](std::int64_t row, std::int64_t at, std::span<const float> values) {
          float* weights = &work_(first + row, begin + at);
          for (std::size_t i = 0; i < values.size(); ++i) weights[i] += values[i];
        });
      }
    }
  }

  /// What the code of a weight stands for.
  [[nodiscard]] float decoded(std::int64_t row, std::int64_t column) const noexcept {
    const RowCodes& result = results_[static_cast<std::size_t>(row)];
    const GroupSide& side = result.sides[static_cast<std::size_t>(format_.group == 0 ? 0 : column / group_)];
    return format_.decode_code(result.codes[static_cast<std::size_t>(column)], side);
  }

  /// Moves codes and scales to where they lose less, given where the weights, (rows, places), were to be. Rows by rows, as many
  /// as the last-level cache holds the slopes of.
  double sweep(const Tensor<float, 2>& target) {
    const std::int64_t rows_at_once = std::max<std::int64_t>(256, (std::int64_t{1} << 21) / columns_ / 16 * 16);
    double gain = 0;
    for (std::int64_t first = 0; first < rows_; first += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, rows_ - first);
      const TensorView<const std::uint8_t, 2> removed = mask() != nullptr ? mask()->view().slice(0, first, first + count) : TensorView<const std::uint8_t, 2>();
      const auto rows = std::span(results_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      gain += descend(errors(target, first, count), u_, format_, options_.sweeps, rows, removed);
    }
    return gain;
  }
  /// What the weights of some rows, (rows, places), were to be, less what they are: (rows, columns).
  Tensor<float, 2> errors(const Tensor<float, 2>& target, std::int64_t first, std::int64_t count) const {
    Tensor<float, 2> errors({count, columns_});
    parallel_for(count, 16, [&](Range rows) {
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        for (std::int64_t c = 0; c < columns_; ++c) errors(r, c) = target(first + r, place_[static_cast<std::size_t>(c)]) - decoded(first + r, c);
      }
    });
    return errors;
  }

  WeightMatrix pack() const {
    const auto data = allocate_storage(static_cast<std::size_t>(format_.matrix_bytes(rows_, columns_)));
    const std::int64_t panel_bytes = format_.panel_bytes(columns_);
    parallel_for(div_up<std::int64_t>(rows_, panel_rows), 1, [&](Range panels) {
      for (std::int64_t p = panels.begin; format_.keep_part != nullptr && p < panels.end; ++p) {
        std::vector<float> values;  // of the codes: no more than the format holds of them are other than 0
        for (std::int64_t row = p * panel_rows; row < std::min((p + 1) * panel_rows, rows_); ++row) {
          for (std::int64_t c = 0; c < columns_; ++c) values.push_back(decoded(row, c));
        }
        format_.keep_part(data.get() + p * panel_bytes, columns_, values);
      }
      for (std::int64_t row = panels.begin * panel_rows; row < std::min(panels.end * panel_rows, rows_); ++row) {
        format_.store_codes(data.get() + row / panel_rows * panel_bytes, static_cast<int>(row % panel_rows), columns_,
                            results_[static_cast<std::size_t>(row)]);
      }
    });
    return {format_, rows_, columns_, data};
  }

  WeightMatrix pack_floats() const {
    Tensor<float, 2> weights({rows_, columns_});
    parallel_for(rows_, 16, [&](Range rows) {
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        for (std::int64_t c = 0; c < columns_; ++c) weights(r, c) = work_(r, place_[static_cast<std::size_t>(c)]);
      }
    });
    return WeightMatrix::quantize(weights, format_);
  }

  const FormatInfo& format_;
  const GptqOptions& options_;
  const GptqZeros& zeros_;
  Mask chosen_;  ///< (rows, columns), where zeros are chosen here
  std::int64_t rows_, columns_, group_ = 0, unit_ = 0;
  std::int64_t vector_ = 1;  ///< columns whose codes are chosen together
  ColumnOrder kind_;
  std::vector<std::int64_t> order_;  ///< column at each place
  std::vector<std::int64_t> place_;  ///< of each column
  Tensor<float, 2> work_;            ///< (rows, places)
  Tensor<float, 2> u_;               ///< (places, places)
  std::vector<float> importance_;    ///< by column
  std::vector<VectorMetric> metrics_;  ///< of the vectors of a block of columns
  std::vector<RowCodes> results_;    ///< by column
  std::vector<double> losses_;
  // Of the block of a trellis that is rounded: the column of each step's places and where it stands in the order, -1 for padding, and
  // what errors take from each other, (places, places).
  std::vector<std::int16_t> columns_of_steps_;
  std::vector<std::int64_t> places_of_steps_;
  Tensor<float, 2> factor_;
};

BANTAM_ONCE Tensor<float, 2> copy_of(TensorView<const float, 2> weights) {
  Tensor<float, 2> copy({weights.extent(0), weights.extent(1)});
  for (std::int64_t r = 0; r < weights.extent(0); ++r) {
    for (std::int64_t c = 0; c < weights.extent(1); ++c) copy(r, c) = weights(r, c);
  }
  return copy;
}

BANTAM_ONCE void check_zeros(TensorView<const float, 2> weights, const FormatInfo& format, const GptqZeros& zeros) {
  if (!holds_zero(format)) fail(Errc::invalid_argument, "gptq: expected a format that holds 0 exactly, to prune, found ", format.name);
  if (zeros.mask == nullptr) return check(zeros.choose, weights.extent(1));
  if (zeros.choose.any()) fail(Errc::invalid_argument, "gptq: expected zeros that are given or chosen, found both");
  if (zeros.mask->shape() != weights.shape()) {
    fail(Errc::invalid_argument, "gptq: expected a mask of (", weights.extent(0), ", ", weights.extent(1), "), found (", zeros.mask->extent(0), ", ",
         zeros.mask->extent(1), ")");
  }
}

}  // namespace detail::gptq

BANTAM_ONCE GptqResult gptq(TensorView<const float, 2> weights, const Hessian& hessian, const FormatInfo& format, const GptqOptions& options,
                const Tensor<float, 2>& residual, const GptqZeros& zeros) {
  return gptq(detail::gptq::copy_of(weights), hessian.clone(), format, options, residual.clone(), zeros);
}

BANTAM_ONCE GptqResult gptq(Tensor<float, 2>&& weights, Hessian&& hessian, const FormatInfo& format, const GptqOptions& options, Tensor<float, 2>&& residual,
                const GptqZeros& zeros) {
  if (format.is_float && !zeros.any()) fail(Errc::invalid_argument, "gptq: expected a format of integers or levels, found ", format.name);
  if (weights.extent(1) != hessian.columns()) {
    fail(Errc::invalid_argument, "gptq: expected weights of ", hessian.columns(), " columns, found ", weights.extent(1));
  }
  check_vectors(format, weights.extent(1));
  if (residual.size() > 0 && residual.shape() != weights.shape()) {
    fail(Errc::invalid_argument, "gptq: expected a residual of (", weights.extent(0), ", ", weights.extent(1), "), found (", residual.extent(0), ", ", residual.extent(1), ")");
  }
  if (zeros.any()) detail::gptq::check_zeros(weights, format, zeros);
  if (!(zeros.mask != nullptr ? holds_rest(format, *zeros.mask) : holds_rest(format, zeros.choose))) {
    fail(Errc::invalid_argument, "gptq: expected zeros of the pattern ", to_string(sparsity_of(format)), ", of what ", format.name, " holds, found others");
  }
  return detail::gptq::Run(std::move(weights), std::move(hessian), format, options, zeros).result(std::move(residual));
}

}  // namespace bantam::inline v0
