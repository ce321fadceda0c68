// Rotary position embedding and the scalings of its frequencies, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <string_view>
#include <vector>

namespace bantam::reference {

/// theta_i = base^(-2 i / d), i = 0 .. d/2 (Su et al., arXiv:2104.09864, section 3.2.2).
inline std::vector<double> rope_frequencies(int d, double base) {
  std::vector<double> theta;
  for (int i = 0; i < d / 2; ++i) theta.push_back(1 / std::pow(base, 2.0 * i / d));
  return theta;
}

/// Position interpolation (Chen et al., arXiv:2306.15595): positions shrink by the factor.
inline std::vector<double> rope_linear(int d, double base, double factor) {
  std::vector<double> theta = rope_frequencies(d, base);
  for (double& t : theta) t /= factor;
  return theta;
}

/// Dynamic NTK: the base grows with the sequence, b' = b ((f L / L0) - (f - 1))^(d / (d - 2)).
inline std::vector<double> rope_dynamic(int d, double base, double factor, double original, double length) {
  if (length <= original) return rope_frequencies(d, base);
  return rope_frequencies(d, base * std::pow(factor * length / original - (factor - 1), d / (d - 2.0)));
}

/// Llama 3.1: wavelengths above original / low are stretched, those below original / high kept, a ramp between.
inline std::vector<double> rope_llama3(int d, double base, double factor, double low, double high, double original) {
  std::vector<double> theta = rope_frequencies(d, base);
  for (double& t : theta) {
    const double wavelength = 2 * std::numbers::pi / t;
    const double s = (original / wavelength - low) / (high - low);
    if (wavelength > original / low) {
      t = t / factor;
    } else if (!(wavelength < original / high)) {
      t = (1 - s) * t / factor + s * t;
    }
  }
  return theta;
}

/// YaRN, "NTK by parts" (Peng et al., arXiv:2309.00071, section 3.2): gamma is 1 for dimensions that turn more than
/// `fast` times in the original context, 0 for fewer than `slow`, and h(theta) = (1 - gamma) theta / s + gamma theta.
/// The ramp is linear in the dimension, between the dimensions of `fast` and `slow` turns, as the authors' code has it.
inline std::vector<double> rope_yarn(int d, double base, double factor, double fast, double slow, double original,
                                     bool truncate = true) {
  const auto dimension = [&](double turns) { return d * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base)); };
  double first = dimension(fast);
  double last = dimension(slow);
  if (truncate) first = std::floor(first);
  if (truncate) last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, d - 1.0);
  if (first == last) last += 0.001;
  std::vector<double> theta = rope_frequencies(d, base);
  for (int i = 0; i < d / 2; ++i) {
    const double gamma = 1 - std::min(1.0, std::max(0.0, (i - first) / (last - first)));
    double& t = theta[static_cast<std::size_t>(i)];
    t = (1 - gamma) * (t / factor) + gamma * t;
  }
  return theta;
}

/// What YaRN multiplies cosines and sines by: sqrt(1/t) = 0.1 ln(s) + 1 (eq. 22).
inline double yarn_magnitude(double factor) { return 0.1 * std::log(factor) + 1; }

/// Rotates each pair as a complex number by e^(i m theta). Which elements form pair i of d: (2 i, 2 i + 1), the
/// paper's, when `adjacent`; else (i, i + d/2). Elements from d on stay.
inline std::vector<double> rotate(const std::vector<float>& x, const std::vector<double>& theta, double position,
                                  bool adjacent, double magnitude = 1) {
  std::vector<double> y(x.begin(), x.end());
  const std::size_t half = theta.size();
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t a = adjacent ? 2 * i : i;
    const std::size_t b = adjacent ? 2 * i + 1 : i + half;
    const std::complex<double> turned = std::complex<double>(x[a], x[b]) * std::polar(magnitude, position * theta[i]);
    y[a] = turned.real();
    y[b] = turned.imag();
  }
  return y;
}

}  // namespace bantam::reference
