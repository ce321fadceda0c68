// Recurrent layers, token after token, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "activations.hpp"

namespace bantam::reference {

using Doubles = std::vector<double>;

inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

/// y_t[c] = bias[c] + sum over m of weights[c][m] x_(t - taps + 1 + m)[c], tokens before the first being 0.
inline std::vector<Doubles> causal_convolution(const std::vector<Doubles>& x, const std::vector<float>& weights, const std::vector<float>& bias, std::int64_t taps) {
  std::vector<Doubles> y;
  for (std::int64_t t = 0; t < std::ssize(x); ++t) {
    Doubles& row = y.emplace_back(bias.begin(), bias.end());
    row.resize(x[0].size());
    for (std::size_t c = 0; c < row.size(); ++c) {
      for (std::int64_t m = 0; m < taps; ++m) {
        const std::int64_t from = t - taps + 1 + m;
        if (from >= 0) row[c] += static_cast<double>(weights[c * static_cast<std::size_t>(taps) + static_cast<std::size_t>(m)]) * x[static_cast<std::size_t>(from)][c];
      }
    }
  }
  return y;
}

/// A head's state, (key_dim, value_dim), and its steps.
struct RecurrentHead {
  std::size_t key_dim, value_dim;
  Doubles state = Doubles(key_dim * value_dim);

  void decay(double log_decay) {
    for (double& s : state) s *= std::exp(log_decay);
  }
  /// S^T x
  [[nodiscard]] Doubles read(const double* x) const {
    Doubles out(value_dim);
    for (std::size_t i = 0; i < key_dim; ++i) {
      for (std::size_t j = 0; j < value_dim; ++j) out[j] += x[i] * state[i * value_dim + j];
    }
    return out;
  }
  /// S += k u^T
  void add(const double* key, const Doubles& update) {
    for (std::size_t i = 0; i < key_dim; ++i) {
      for (std::size_t j = 0; j < value_dim; ++j) state[i * value_dim + j] += key[i] * update[j];
    }
  }
  /// The gated delta rule (arXiv:2412.06464, eq. 10): S <- e^g S; u = beta (v - S^T k); S <- S + k u^T; S^T q.
  Doubles delta_step(double log_decay, double beta, const double* query, const double* key, const double* value) {
    decay(log_decay);
    Doubles update = read(key);
    for (std::size_t j = 0; j < value_dim; ++j) update[j] = beta * (value[j] - update[j]);
    add(key, update);
    return read(query);
  }
  /// A state space's (arXiv:2405.21060): S <- e^g S + k u^T; S^T q.
  Doubles step(double log_decay, const Doubles& update, const double* query, const double* key) {
    decay(log_decay);
    add(key, update);
    return read(query);
  }
};

inline void make_unit(double* x, std::size_t n) {
  double squares = 1e-6;
  for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  for (std::size_t i = 0; i < n; ++i) x[i] /= std::sqrt(squares);
}

}  // namespace bantam::reference
