// SmoothQuant's scales: definitions of compress/smooth.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "bantam/compress/smooth.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/once.hpp"

namespace bantam::inline v0 {

BANTAM_ONCE std::vector<float> smooth_scales(std::span<const TensorView<const float, 2>> readers, std::span<const float> largest_inputs, double alpha) {
  if (!(alpha >= 0 && alpha <= 1)) fail(Errc::invalid_argument, "smooth: expected an exponent from 0 to 1, found ", alpha);
  constexpr float smallest = 1e-5f;  // the authors' bound, of weights, inputs and scales
  std::vector<float> largest(largest_inputs.size(), smallest);
  for (const TensorView<const float, 2>& w : readers) {
    if (w.extent(1) != static_cast<std::int64_t>(largest.size())) {
      fail(Errc::invalid_argument, "smooth: expected weights of ", largest.size(), " columns, found ", w.extent(1));
    }
    for (std::int64_t r = 0; r < w.extent(0); ++r) {
      for (std::size_t c = 0; c < largest.size(); ++c) largest[c] = std::max(largest[c], std::fabs(w(r, static_cast<std::int64_t>(c))));
    }
  }
  std::vector<float> scales;
  for (std::size_t c = 0; c < largest.size(); ++c) {
    const double input = std::pow(static_cast<double>(std::max(largest_inputs[c], smallest)), alpha);
    scales.push_back(std::max(static_cast<float>(input / std::pow(static_cast<double>(largest[c]), 1 - alpha)), smallest));
  }
  return scales;
}

}  // namespace bantam::inline v0
