// Normalizations in double precision.
#pragma once

#include <cmath>
#include <vector>

namespace bantam::reference {

/// x / sqrt(mean(x^2) + eps) * g (Zhang and Sennrich, arXiv:1910.07467, eq. 4, with the eps of every implementation).
inline std::vector<double> rms_norm(const std::vector<float>& x, const std::vector<float>& g, double eps) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double rms = std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] / rms * g[i];
  return y;
}

/// (x - mean) / sqrt(variance + eps) * g + b, the variance over n (Ba et al., arXiv:1607.06450, eq. 3). b may be empty.
inline std::vector<double> layer_norm(const std::vector<float>& x, const std::vector<float>& g, const std::vector<float>& b,
                                      double eps) {
  const auto n = static_cast<double>(x.size());
  double sum = 0;
  for (const double v : x) sum += v;
  const double mean = sum / n;
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / n + eps);
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - mean) / deviation * g[i] + (b.empty() ? 0.0 : b[i]);
  return y;
}

}  // namespace bantam::reference
