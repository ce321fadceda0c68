// GPTQ: rounding column by column, the error of each made good by those that follow (arXiv:2210.17323).
#pragma once

#include "bantam/calibrate/hessian.hpp"
#include "bantam/prune/mask.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

/// The order in which columns are rounded: what is rounded late makes up for what was rounded early. Groups stay what they
/// are whatever the order, so inference costs nothing.
enum class ColumnOrder : std::uint8_t {
  natural,
  /// Largest inputs first, over all columns (the authors' act-order). Grids have to be fitted before any column is
  /// rounded then (their static groups).
  activation,
  /// Groups by their largest input, and inside each the largest first (GPTQModel's group-aware order): each grid is
  /// fitted to what the columns before its group left.
  group,
};

struct GptqOptions {
  /// Added to the diagonal of H, times its mean. Raised by itself, step by step, as long as H cannot be factorized.
  double damping = 0.01;
  ColumnOrder order = ColumnOrder::group;
  /// Grids are fitted to the weights as they were, not as earlier columns left them. ColumnOrder::activation implies it.
  bool static_groups = false;
  GridSearch search = GridSearch::error;
  /// At most this often codes and scales are moved afterwards, one at a time, to where the outputs change least: what the
  /// recursion decided early it decided knowing least. 0: the paper's result.
  int sweeps = 4;
};

/// Weights that become exactly 0, which the columns after them make up for as they do for errors of rounding. One of the two:
struct GptqZeros {
  const Mask* mask = nullptr;  ///< (rows, columns), chosen before
  /// SparseGPT (arXiv:2301.00774): chosen on the way, by w^2 / U_jj^2. A share is that of every 128 columns, over all rows; a
  /// pattern that of each row; blocks go by their sums of it. Columns are taken in their natural order.
  Sparsity choose = {};
  [[nodiscard]] bool any() const noexcept { return mask != nullptr || choose.any(); }
};

struct GptqResult {
  WeightMatrix weights;
  /// Squared error of the outputs, summed over the tokens of H and the rows, as the paper's recursion counts it.
  double loss = 0;
  /// What was added in the end; more than asked for where H was singular.
  double damping = 0;
};

/// Formats whose codes come in vectors (FormatInfo::vectors) have all codes of one chosen together, in the metric of what they cost when
/// later columns make up for it.
/// Rounds a matrix (rows, columns) to a format so that W x changes least over the inputs of H. On all cores:
/// rows columns^2 (1 + sweeps) + columns^3 / 3 multiply-adds. Inputs that were always zero get weights of zero. Throws
/// invalid_argument when shapes do not fit, the format holds floats, or weights are not finite; corrupt when no damping
/// below 1 makes H regular.
/// `residual`, (rows, columns) or empty, is what the outputs lack beside W x, times x, summed over the tokens of H: with it the
/// outputs approach others than those of the weights, W + residual H^-1 being rounded in the place of W.
/// `zeros`: what is pruned besides. Formats have to hold 0 exactly then (holds_zero), and may be of floats; those that hold only
/// some of the weights need zeros that leave no others (holds_rest).
[[nodiscard]] GptqResult gptq(TensorView<const float, 2> weights, const Hessian& hessian, const FormatInfo& format,
                              const GptqOptions& options = {}, const Tensor<float, 2>& residual = {}, const GptqZeros& zeros = {});
/// The same in the memory of what it is given, which is used up. Besides that one copy of the weights is made, and nothing
/// of the size of H.
[[nodiscard]] GptqResult gptq(Tensor<float, 2>&& weights, Hessian&& hessian, const FormatInfo& format, const GptqOptions& options = {},
                              Tensor<float, 2>&& residual = {}, const GptqZeros& zeros = {});

}  // namespace bantam::inline v0
