// Rows that stand for a whole matrix where rounding takes its time.
#pragma once

#include <optional>

#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

/// Whether codes are searched for, which takes microseconds a weight.
[[nodiscard]] inline bool is_searched(const FormatInfo& format) noexcept { return format.step_bits != 0 || format.vectors != nullptr; }

/// Every how manieth row stands for the others: 64 or more are left, or all. Rows are rounded apart from each other.
[[nodiscard]] constexpr std::int64_t sample_step(std::int64_t rows) noexcept { return rows < 128 ? 1 : rows / 64; }

/// A matrix, or rows that stand for all of it.
struct MatrixPart {
  WeightMatrix original;
  Tensor<float, 2> weights;  ///< the same as floats
  double size = 0;           ///< ||W X||^2; 0 where X is not known
};

/// What formats are tried on.
class MatrixParts {
 public:
  /// `moments`: of X, which outlive this; empty where they are not known.
  MatrixParts(WeightMatrix original, const Tensor<float, 2>& moments);

  [[nodiscard]] const MatrixPart& whole() const noexcept { return whole_; }
  /// Of a format whose codes are searched for, and which is not run (`runs`), some rows are enough.
  [[nodiscard]] const MatrixPart& part_for(const FormatInfo& format, bool runs);

 private:
  [[nodiscard]] MatrixPart measured(WeightMatrix original, Tensor<float, 2> weights) const;

  const Tensor<float, 2>& moments_;
  MatrixPart whole_;
  std::optional<MatrixPart> some_;
};

}  // namespace bantam::inline v0
