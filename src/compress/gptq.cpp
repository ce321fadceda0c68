// GPTQ on one matrix.
#include "bantam/compress/gptq.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "bantam/core/parallel.hpp"
#include "product.hpp"

namespace bantam::inline v0 {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Columns rounded before what they did to the rest is carried over, as in the authors' code.
constexpr std::int64_t block = 128;

/// U with H^-1 = UT U, U upper triangular, for H in the given order of columns and damped. With J the reversal,
/// J H J = L LT gives H = R RT, R = J L J upper, and U = R^-1: one factorization instead of three. Empty when H is not
/// positive definite.
Matrix inverse_factor(const Hessian& hessian, std::span<const std::int64_t> order, double damping) {
  const std::int64_t n = hessian.columns();
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += static_cast<double>(hessian(i, i)) / static_cast<double>(n);
  const auto added = static_cast<float>(damping * mean);
  Matrix reversed(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = order[static_cast<std::size_t>(n - 1 - i)];
    for (std::int64_t j = 0; j <= i; ++j) reversed(i, j) = hessian(row, order[static_cast<std::size_t>(n - 1 - j)]);
    // Inputs that were always zero have no say.
    reversed(i, i) = (reversed(i, i) == 0 ? (mean > 0 ? static_cast<float>(mean) : 1.0f) : reversed(i, i)) + added;
  }
  const Eigen::LLT<Eigen::Ref<Matrix>> llt(reversed);  // in place
  if (llt.info() != Eigen::Success) return {};
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(reversed(i, i) > 0) || !std::isfinite(reversed(i, i))) return {};
  }
  // U's columns in parts, the same whatever the threads: U(0..end, part) = R(0..end, 0..end)^-1 (0; I).
  Matrix r(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i; j < n; ++j) r(i, j) = reversed(n - 1 - i, n - 1 - j);
  }
  Matrix u = Matrix::Zero(n, n);
  constexpr std::int64_t width = 64;
  parallel_for(div_up(n, width), 1, [&](Range parts) {
    for (std::int64_t part = parts.begin; part < parts.end; ++part) {
      const std::int64_t begin = part * width;
      const std::int64_t end = std::min(begin + width, n);
      Matrix columns = Matrix::Zero(end, end - begin);
      columns.bottomRows(end - begin).setIdentity();
      r.topLeftCorner(end, end).triangularView<Eigen::Upper>().solveInPlace(columns);
      u.block(0, begin, end, end - begin) = columns;
    }
  });
  return u;
}

class Run {
 public:
  Run(TensorView<const float, 2> weights, const Hessian& hessian, const FormatInfo& format, const GptqOptions& options)
      : hessian_(hessian), format_(format), options_(options), rows_(weights.extent(0)), columns_(weights.extent(1)),
        order_(static_cast<std::size_t>(columns_)), work_({rows_, columns_}) {
    group_ = format.group == 0 ? columns_ : format.group;
    unit_ = format.grid_columns == 0 ? columns_ : format.grid_columns;
    const std::int64_t padded = round_up<std::int64_t>(columns_, std::max<std::int64_t>(32, format.group));
    results_.resize(static_cast<std::size_t>(rows_));
    for (RowCodes& row : results_) {
      row.codes.assign(static_cast<std::size_t>(padded), 0);
      row.sides.assign(static_cast<std::size_t>(format.group == 0 ? 1 : padded / format.group), {});
    }
    importance_ = hessian.mean_squares();
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) {
        const float w = weights(r, c);
        if (!std::isfinite(w)) fail(Errc::invalid_argument, "gptq: expected finite weights, found ", w, " at (", r, ", ", c, ")");
        work_(r, c) = hessian(c, c) == 0 ? 0.0f : w;
      }
    }
    std::iota(order_.begin(), order_.end(), 0);
    const auto larger = [&](std::int64_t a, std::int64_t b) { return hessian(a, a) > hessian(b, b); };
    if (options.order == ColumnOrder::activation) std::ranges::stable_sort(order_, larger);
    if (options.order == ColumnOrder::group) {
      std::vector<float> largest(static_cast<std::size_t>(div_up(columns_, unit_)), 0.0f);
      for (std::int64_t c = 0; c < columns_; ++c) {
        float& of_unit = largest[static_cast<std::size_t>(c / unit_)];
        of_unit = std::max(of_unit, hessian(c, c));
      }
      std::ranges::stable_sort(order_, [&](std::int64_t a, std::int64_t b) {
        const float x = largest[static_cast<std::size_t>(a / unit_)];
        const float y = largest[static_cast<std::size_t>(b / unit_)];
        return x != y ? x > y : a / unit_ != b / unit_ ? a < b : larger(a, b);
      });
    }
  }

  GptqResult result() {
    factorize();
    const bool ahead = options_.static_groups || options_.order == ColumnOrder::activation;
    if (ahead) {
      parallel_for(rows_, 16, [&](Range rows) {
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
          for (std::int64_t first = 0; first < columns_; first += unit_) fit(row, first);
        }
      });
    }
    losses_.assign(static_cast<std::size_t>(rows_), 0.0);
    for (std::int64_t begin = 0; begin < columns_; begin += block) {
      const std::int64_t end = std::min(begin + block, columns_);
      Tensor<float, 2> errors({rows_, end - begin});
      parallel_for(rows_, 16, [&](Range rows) {
        for (std::int64_t row = rows.begin; row < rows.end; ++row) round(row, begin, end, !ahead, &errors(row, 0));
      });
      if (end < columns_) carry_over(errors, begin, end);
    }
    return {pack(), std::accumulate(losses_.begin(), losses_.end(), 0.0), damping_};
  }

 private:
  void factorize() {
    for (damping_ = options_.damping; damping_ < 1; damping_ += 0.05) {
      u_ = inverse_factor(hessian_, order_, damping_);
      if (u_.size() != 0) return;
    }
    fail(Errc::corrupt, "gptq: expected inputs whose second moments can be factorized, found none even with damping of 1");
  }

  /// The weight at place `at` of the order.
  float& weight(std::int64_t row, std::int64_t at) { return work_(row, order_[static_cast<std::size_t>(at)]); }

  /// Decides the grids of the columns from `first` on that are decided together.
  void fit(std::int64_t row, std::int64_t first) {
    const std::int64_t count = std::min(unit_, columns_ - first);
    RowCodes& result = results_[static_cast<std::size_t>(row)];
    const auto side = static_cast<std::size_t>(first / group_);
    // All of them, groups of padding too: what a block shares is written with each of its groups.
    const std::size_t sides = std::min(static_cast<std::size_t>(unit_ / group_), result.sides.size() - side);
    format_.fit_grid({&work_(row, first), static_cast<std::size_t>(count)},
                     std::span<const float>(importance_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                     options_.search, std::span(result.sides).subspan(side, sides));
  }

  /// One row's columns begin .. end of the order: rounds each, and moves those after it in the block by its error.
  void round(std::int64_t row, std::int64_t begin, std::int64_t end, bool fit_now, float* errors) {
    RowCodes& result = results_[static_cast<std::size_t>(row)];
    double loss = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = order_[static_cast<std::size_t>(i)];
      // In the orders that fit now, a unit's columns follow each other.
      const bool first = i == 0 || order_[static_cast<std::size_t>(i - 1)] / unit_ != column / unit_;
      if (fit_now && first) fit(row, column / unit_ * unit_);
      const GroupSide& side = result.sides[static_cast<std::size_t>(format_.group == 0 ? 0 : column / group_)];
      const float w = work_(row, column);
      const int code = format_.round_to_grid(w, side);
      result.codes[static_cast<std::size_t>(column)] = static_cast<std::int8_t>(code);
      const float* u = &u_(i, 0);
      const float error = (w - format_.decode_code(code, side)) / u[i];
      loss += static_cast<double>(error) * static_cast<double>(error) / 2;
      errors[i - begin] = error;
      if (options_.order != ColumnOrder::natural) {
        for (std::int64_t j = i + 1; j < end; ++j) weight(row, j) -= error * u[j];
      } else {
        float* rest = &work_(row, 0);
        for (std::int64_t j = i + 1; j < end; ++j) rest[j] -= error * u[j];
      }
    }
    losses_[static_cast<std::size_t>(row)] += loss;
  }

  /// work(:, end..) -= errors U(begin..end, end..), in the order of columns.
  void carry_over(const Tensor<float, 2>& errors, std::int64_t begin, std::int64_t end) {
    const TensorView<const float, 2> rest(u_.data() + begin * columns_ + end, {columns_ - end, end - begin}, {1, columns_});
    for_products(errors, rest, false, [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
      for (std::size_t i = 0; i < values.size(); ++i) weight(row, end + first + static_cast<std::int64_t>(i)) -= values[i];
    });
  }

  WeightMatrix pack() const {
    const auto data = allocate_storage(static_cast<std::size_t>(format_.matrix_bytes(rows_, columns_)));
    const std::int64_t panel_bytes = format_.panel_bytes(columns_);
    parallel_for(div_up<std::int64_t>(rows_, panel_rows), 1, [&](Range panels) {
      for (std::int64_t row = panels.begin * panel_rows; row < std::min(panels.end * panel_rows, rows_); ++row) {
        format_.store_codes(data.get() + row / panel_rows * panel_bytes, static_cast<int>(row % panel_rows), columns_,
                            results_[static_cast<std::size_t>(row)]);
      }
    });
    return {format_, rows_, columns_, data};
  }

  const Hessian& hessian_;
  const FormatInfo& format_;
  const GptqOptions& options_;
  std::int64_t rows_, columns_, group_ = 0, unit_ = 0;
  std::vector<std::int64_t> order_;  ///< column at each place
  Tensor<float, 2> work_;            ///< (rows, columns), by column, not by place
  Matrix u_;                         ///< by place
  std::vector<float> importance_;
  std::vector<RowCodes> results_;
  std::vector<double> losses_;
  double damping_ = 0;
};

}  // namespace

GptqResult gptq(TensorView<const float, 2> weights, const Hessian& hessian, const FormatInfo& format, const GptqOptions& options) {
  if (format.is_float) fail(Errc::invalid_argument, "gptq: expected a format of integers or levels, found ", format.name);
  if (weights.extent(1) != hessian.columns()) {
    fail(Errc::invalid_argument, "gptq: expected weights of ", hessian.columns(), " columns, found ", weights.extent(1));
  }
  return Run(weights, hessian, format, options).result();
}

}  // namespace bantam::inline v0
