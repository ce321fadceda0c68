// Activation functions in double precision.
#pragma once

#include <cmath>
#include <numbers>

namespace bantam::reference {

/// x times the logistic function (Elfwing et al., arXiv:1702.03118).
inline double silu(double x) { return x / (1 + std::exp(-x)); }

/// x times the normal distribution function (Hendrycks and Gimpel, arXiv:1606.08415, section 2).
inline double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// The paper's approximation of it.
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

}  // namespace bantam::reference
