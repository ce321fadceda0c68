// Which weights of a matrix to remove: the smallest ones, or those that the outputs miss least.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// How many weights to remove: a share of them, or so many of every few.
struct Sparsity {
  double share = 0;  ///< above 0 and below 1, where `of` is 0
  int zeros = 0;     ///< of each `of` weights of a row that meet consecutive inputs, counted from its first
  int of = 0;
  /// Half of the blocks of 16 rows by 4 inputs in each 128 inputs, each block as a whole; of a rest of fewer inputs, those
  /// beyond 64.
  bool blocks = false;

  constexpr Sparsity() = default;
  constexpr Sparsity(double removed) noexcept : share(removed) {}
  constexpr Sparsity(int removed, int of_each) noexcept : zeros(removed), of(of_each) {}
  [[nodiscard]] static constexpr Sparsity of_blocks() noexcept {
    Sparsity sparsity;
    sparsity.blocks = true;
    return sparsity;
  }
  [[nodiscard]] constexpr bool any() const noexcept { return of > 0 || share > 0 || blocks; }
};

/// "0.5", "2:4", two of each four, or "16x4", blocks. Throws invalid_argument for what cannot be removed.
[[nodiscard]] Sparsity parse_sparsity(std::string_view text);
/// As parse_sparsity reads it.
[[nodiscard]] std::string to_string(const Sparsity& sparsity);
/// Throws invalid_argument unless so much can be removed from rows of so many weights.
void check(const Sparsity& sparsity);
void check(const Sparsity& sparsity, std::int64_t columns);

/// (rows, columns): 1 where a weight is removed.
using Mask = Tensor<std::uint8_t, 2>;

/// The weights among which the smallest are looked for.
enum class MaskScope : std::uint8_t {
  matrix,  ///< as in the papers that compare with it
  row,     ///< every row loses alike
};

/// The smallest weights of a matrix (rows, columns); of equal ones the first, so that never more are removed than asked for:
/// floor(share size), or floor(share columns) of each row; of blocks those whose sizes have the smallest sum. Throws
/// invalid_argument where weights are not finite or check() does.
[[nodiscard]] Mask magnitude_mask(TensorView<const float, 2> weights, const Sparsity& sparsity, MaskScope scope = MaskScope::matrix);

/// Wanda (arXiv:2306.11695): of each row the weights whose |w| sqrt(mean x^2) is smallest, `mean_squares` being those of the
/// inputs (columns), as of Hessian::mean_squares; blocks go by their sums. Throws as magnitude_mask does.
[[nodiscard]] Mask wanda_mask(TensorView<const float, 2> weights, std::span<const float> mean_squares, const Sparsity& sparsity);

/// The weights that a mask leaves, and zeros. Throws invalid_argument where shapes differ.
[[nodiscard]] Tensor<float, 2> masked(TensorView<const float, 2> weights, const Mask& mask);

}  // namespace bantam::inline v0
