// Inputs of layers as they are found in models, and the error that rounded weights make of them.
#pragma once

#include <vector>

#include "bantam/tensor/random.hpp"

namespace bantam::test {

/// Inputs whose columns depend on each other and differ in size, as those of real layers do.
inline Tensor<float, 2> correlated_inputs(std::int64_t tokens, std::int64_t columns, std::uint64_t seed) {
  const auto noise = random::normal<float>({tokens, columns}, seed);
  const auto shared = random::normal<float>({tokens, 8}, seed + 1);
  const auto mixing = random::normal<float>({8, columns}, seed + 2);
  Tensor<float, 2> x({tokens, columns});
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 0; c < columns; ++c) {
      float sum = noise(t, c);
      for (std::int64_t k = 0; k < 8; ++k) sum += shared(t, k) * mixing(k, c);
      x(t, c) = sum * (c % 7 == 0 ? 4.0f : 1.0f);
    }
  }
  return x;
}

/// ||(W - W') XT||^2 in double precision.
inline double output_error(const Tensor<float, 2>& w, const Tensor<float, 2>& rounded, const Tensor<float, 2>& x) {
  const std::vector<float> before(w.span().begin(), w.span().end()), after(rounded.span().begin(), rounded.span().end());
  const auto columns = static_cast<std::size_t>(w.extent(1));
  double sum = 0;
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    const float* inputs = &x(t, 0);
    for (std::size_t first = 0; first < before.size(); first += columns) {
      double y = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        y += (static_cast<double>(before[first + c]) - static_cast<double>(after[first + c])) * static_cast<double>(inputs[c]);
      }
      sum += y * y;
    }
  }
  return sum;
}

}  // namespace bantam::test
