// What a layer's inputs say about its weights: the second moments that GPTQ, pruning and importance weights share.
#pragma once

#include <vector>

#include "bantam/tensor/tensor.hpp"

namespace bantam::inline v0 {

/// H = sum over tokens of x xT, for inputs x of one linear layer (or of several that read the same). Half the Hessian of
/// the squared error of the layer's output in any row of its weights; its scale cancels wherever it is used.
class Hessian {
 public:
  /// Memory: 4 columns^2 bytes.
  explicit Hessian(std::int64_t columns);

  /// Adds inputs (tokens, columns). On all cores: columns^2 tokens multiply-adds. Throws corrupt when one is not finite.
  void add(TensorView<const float, 2> x);

  /// Goes `share` of the way to another: H = (1 - share) H + share other, over as many columns.
  void blend(const Hessian& other, float share) noexcept;

  /// Makes it that of the inputs divided by `scales`, (columns).
  void divide_inputs(std::span<const float> scales) noexcept;

  [[nodiscard]] std::int64_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  /// Largest magnitude of each input.
  [[nodiscard]] std::span<const float> largest() const noexcept { return largest_; }
  /// Mean square of each input.
  [[nodiscard]] std::vector<float> mean_squares() const;
  /// Element (i, j).
  [[nodiscard]] float operator()(std::int64_t i, std::int64_t j) const noexcept {
    return i <= j ? sums_(i, j) : sums_(j, i);
  }
  [[nodiscard]] Hessian clone() const;
  /// The whole matrix (columns, columns), both halves of it, in the memory that held it.
  [[nodiscard]] Tensor<float, 2> release() &&;

 private:
  std::int64_t columns_;
  std::int64_t tokens_ = 0;
  std::vector<float> largest_;
  Tensor<float, 2> sums_;  ///< (columns, columns); the lower half is not kept up
};

}  // namespace bantam::inline v0
