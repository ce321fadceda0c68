// Activation functions in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bantam::reference {

/// x times the logistic function (Elfwing et al., arXiv:1702.03118).
inline double silu(double x) { return x / (1 + std::exp(-x)); }

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// x times the normal distribution function (Hendrycks and Gimpel, arXiv:1606.08415, section 2).
inline double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// The paper's approximation of it.
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

/// xIELU (Huang and Schlag, arXiv:2411.13010, eq. 11), as transformers' XIELUActivation has it: curves are positive by softplus.
inline double xielu(double x, double positive, double negative, double slope, double limit) {
  const auto softplus = [](double a) { return std::log(1 + std::exp(a)); };
  return x > 0 ? softplus(positive) * x * x + slope * x : (std::expm1(std::min(x, limit)) - x) * (slope + softplus(negative)) + slope * x;
}

}  // namespace bantam::reference
