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
  /// The same with a decay of each key channel (arXiv:2510.26692, eq. 1).
  Doubles channel_step(const Doubles& log_decays, double beta, const double* query, const double* key, const double* value) {
    for (std::size_t i = 0; i < state.size(); ++i) state[i] *= std::exp(log_decays[i / value_dim]);
    return delta_step(0, beta, query, key, value);
  }
  /// A state space's (arXiv:2405.21060): S <- e^g S + k u^T; S^T q.
  Doubles step(double log_decay, const Doubles& update, const double* query, const double* key) {
    decay(log_decay);
    add(key, update);
    return read(query);
  }
};

/// As nn::RecurrentLayer, with groups and the state's size of a state space as key heads and key_dim.
struct RecurrentSizes {
  std::size_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t taps = 0;
};

inline void make_unit(double* x, std::size_t n) {
  double squares = 1e-6;
  for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  for (std::size_t i = 0; i < n; ++i) x[i] /= std::sqrt(squares);
}

/// What the output projection of a gated delta net reads; value heads of a key head are side by side (Hugging Face's Qwen3-Next).
inline std::vector<Doubles> gated_delta(const RecurrentSizes& s, const std::vector<Doubles>& qkv, const std::vector<Doubles>& z, const std::vector<Doubles>& a,
                                        const std::vector<Doubles>& b, const std::vector<float>& convolution, const std::vector<float>& a_log,
                                        const std::vector<float>& dt_bias, const std::vector<float>& norm, double eps, bool sigmoid_gate = false) {
  std::vector<Doubles> mixed = causal_convolution(qkv, convolution, {}, s.taps), out;
  std::vector<RecurrentHead> heads(s.value_heads, {s.key_dim, s.value_dim});
  const std::size_t keys = s.key_heads * s.key_dim;
  for (std::size_t t = 0; t < qkv.size(); ++t) {
    for (double& v : mixed[t]) v = silu(v);
    for (std::size_t h = 0; h < 2 * s.key_heads; ++h) make_unit(&mixed[t][h * s.key_dim], s.key_dim);
    for (std::size_t i = 0; i < keys; ++i) mixed[t][i] /= std::sqrt(static_cast<double>(s.key_dim));
    Doubles& row = out.emplace_back();
    for (std::size_t h = 0; h < s.value_heads; ++h) {
      const double g = -std::exp(static_cast<double>(a_log[h])) * softplus(a[t][h] + static_cast<double>(dt_bias[h]));
      const double beta = 1 / (1 + std::exp(-b[t][h]));
      const std::size_t key = h / (s.value_heads / s.key_heads);
      const Doubles o = heads[h].delta_step(g, beta, &mixed[t][key * s.key_dim], &mixed[t][keys + key * s.key_dim], &mixed[t][2 * keys + h * s.value_dim]);
      double squares = 0;
      for (const double v : o) squares += v * v;
      for (std::size_t i = 0; i < o.size(); ++i) {
        row.push_back(o[i] / std::sqrt(squares / static_cast<double>(o.size()) + eps) * static_cast<double>(norm[i]) * (sigmoid_gate ? sigmoid(z[t][h * s.value_dim + i]) : silu(z[t][h * s.value_dim + i])));
      }
    }
  }
  return out;
}

/// What a delta net with a decay of each channel reads, (tokens, heads * head_dim) but for betas, (tokens, heads).
struct ChannelDeltaInputs {
  std::vector<Doubles> q, k, v;  ///< after their convolutions, before silu
  std::vector<Doubles> f, g, b;  ///< f_b f_a x and g_b g_a x; what beta is the sigmoid of
};

/// What its output projection reads (Kimi Delta Attention). `bound`: what log decays stay above (Ling 3); 0: nothing.
inline std::vector<Doubles> channel_delta(std::size_t heads, std::size_t dim, ChannelDeltaInputs in, const std::vector<float>& a_log, const std::vector<float>& dt_bias,
                                          const std::vector<float>& norm, double eps, double bound = 0) {
  std::vector<Doubles> out;
  std::vector<RecurrentHead> states(heads, {dim, dim});
  for (std::size_t t = 0; t < in.q.size(); ++t) {
    Doubles& row = out.emplace_back();
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t first = h * dim;
      double *q = &in.q[t][first], *k = &in.k[t][first], *v = &in.v[t][first];
      Doubles decays;
      for (std::size_t i = 0; i < dim; ++i) {
        q[i] = silu(q[i]), k[i] = silu(k[i]), v[i] = silu(v[i]);
        const double a = std::exp(static_cast<double>(a_log[h])), dt = in.f[t][first + i] + static_cast<double>(dt_bias[first + i]);
        decays.push_back(bound == 0 ? -a * softplus(dt) : bound * sigmoid(a * dt));
      }
      make_unit(q, dim);
      make_unit(k, dim);
      for (std::size_t i = 0; i < dim; ++i) q[i] /= std::sqrt(static_cast<double>(dim));
      const Doubles o = states[h].channel_step(decays, sigmoid(in.b[t][h]), q, k, v);
      double squares = 0;
      for (const double x : o) squares += x * x;
      for (std::size_t i = 0; i < dim; ++i) {
        row.push_back(o[i] / std::sqrt(squares / static_cast<double>(dim) + eps) * static_cast<double>(norm[i]) * sigmoid(in.g[t][first + i]));
      }
    }
  }
  return out;
}

/// What the output projection of a state space reads. in: z; x, B and C; dt. An empty norm: none.
inline std::vector<Doubles> state_space(const RecurrentSizes& s, const std::vector<Doubles>& in, const std::vector<float>& convolution, const std::vector<float>& bias,
                                        const std::vector<float>& a_log, const std::vector<float>& dt_bias, const std::vector<float>& skip, const std::vector<float>& norm, double eps) {
  const std::size_t inner = s.value_heads * s.value_dim, keys = s.key_heads * s.key_dim, channels = inner + 2 * keys;
  std::vector<Doubles> convolved, out;
  for (const Doubles& row : in) convolved.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(inner), row.begin() + static_cast<std::ptrdiff_t>(inner + channels));
  convolved = causal_convolution(convolved, convolution, bias, s.taps);
  std::vector<RecurrentHead> heads(s.value_heads, {s.key_dim, s.value_dim});
  for (std::size_t t = 0; t < in.size(); ++t) {
    for (double& v : convolved[t]) v = silu(v);
    Doubles& row = out.emplace_back();
    for (std::size_t h = 0; h < s.value_heads; ++h) {
      const double dt = softplus(in[t][inner + channels + h] + static_cast<double>(dt_bias[h]));
      const double* x = &convolved[t][h * s.value_dim];
      Doubles update(x, x + s.value_dim);
      for (double& v : update) v *= dt;
      const std::size_t group = h / (s.value_heads / s.key_heads);
      const Doubles y = heads[h].step(-dt * std::exp(static_cast<double>(a_log[h])), update, &convolved[t][inner + keys + group * s.key_dim], &convolved[t][inner + group * s.key_dim]);
      for (std::size_t i = 0; i < y.size(); ++i) row.push_back((y[i] + static_cast<double>(skip[h]) * x[i]) * silu(in[t][h * s.value_dim + i]));
    }
    const std::size_t each = inner / s.key_heads;
    for (std::size_t group = 0; !norm.empty() && group < s.key_heads; ++group) {
      double squares = 0;
      for (std::size_t i = group * each; i < (group + 1) * each; ++i) squares += row[i] * row[i];
      for (std::size_t i = group * each; i < (group + 1) * each; ++i) row[i] *= static_cast<double>(norm[i]) / std::sqrt(squares / static_cast<double>(each) + eps);
    }
  }
  return out;
}

/// What the output projection of a gated short convolution reads. in: B, C, x.
inline std::vector<Doubles> short_convolution(const RecurrentSizes& s, const std::vector<Doubles>& in, const std::vector<float>& convolution) {
  const std::size_t dim = in[0].size() / 3;
  std::vector<Doubles> gated;
  for (const Doubles& row : in) {
    gated.emplace_back();
    for (std::size_t c = 0; c < dim; ++c) gated.back().push_back(row[c] * row[2 * dim + c]);
  }
  gated = causal_convolution(gated, convolution, {}, s.taps);
  for (std::size_t t = 0; t < in.size(); ++t) {
    for (std::size_t c = 0; c < dim; ++c) gated[t][c] *= in[t][dim + c];
  }
  return gated;
}

}  // namespace bantam::reference
