// Float products at the speed of the inference kernels, for the linear algebra of quantizers.
#pragma once

#include "bantam/calibrate/hessian.hpp"
#include "bantam/core/team.hpp"
#include "bantam/quant/weights.hpp"

namespace bantam::inline v0 {

/// Calls f(row, first, values) with parts of a bT: values[i] = sum over k of a(row, k) b(first + i, k), up to 32 of them.
/// a: (m, k), each row contiguous, b: (n, k) with any strides; rows from 0 to m, or only those below first + 32 if `upper`. On all
/// cores; the order of calls is open, the order of each sum is not.
void for_products(TensorView<const float, 2> a, TensorView<const float, 2> b, bool upper,
                  FunctionRef<void(std::int64_t row, std::int64_t first, std::span<const float> values)> f);

/// a bT, (m, n), of the same a and b.
[[nodiscard]] Tensor<float, 2> times_transposed(TensorView<const float, 2> a, TensorView<const float, 2> b);

/// sum += xT y, (columns of x, columns of y); x turned already: (columns, tokens).
void add_products(Tensor<float, 2>& sum, const Tensor<float, 2>& x, TensorView<const float, 2> y);

/// x WT: (tokens, outputs) for inputs (tokens, columns), each row contiguous, in floats.
[[nodiscard]] Tensor<float, 2> outputs_of(const WeightMatrix& weights, TensorView<const float, 2> x);

/// trace(D H DT): what differences D of weights, (rows, columns), make of the outputs, squared and summed over tokens and
/// rows. `moments`: all of H, (columns, columns).
[[nodiscard]] double squared_outputs(const Tensor<float, 2>& differences, const Tensor<float, 2>& moments);
/// Rows first .. first + size, and the same columns, of H.
[[nodiscard]] Tensor<float, 2> moments_of(const Hessian& hessian, std::int64_t first, std::int64_t size);

}  // namespace bantam::inline v0
