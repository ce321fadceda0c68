// Hyper-connections and embeddings of n-grams, as transformers' Qwen4Exp computes them, in plain double-precision loops.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/recurrence.hpp"

namespace bantam::reference {

/// Each of `count` equal parts over its root mean square, times weights.
inline Doubles norm_parts(const Doubles& x, const std::vector<float>& weights, std::size_t count, double eps) {
  const std::size_t n = x.size() / count;
  Doubles y;
  for (std::size_t part = 0; part < count; ++part) {
    double squares = 0;
    for (std::size_t i = part * n; i < (part + 1) * n; ++i) squares += x[i] * x[i];
    for (std::size_t i = part * n; i < (part + 1) * n; ++i) y.push_back(x[i] / std::sqrt(squares / static_cast<double>(n) + eps) * static_cast<double>(weights[i]));
  }
  return y;
}

/// W x, W: (rows, x's length).
inline Doubles times(const std::vector<float>& w, const Doubles& x) {
  Doubles y(w.size() / x.size());
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c) y[r] += static_cast<double>(w[r * x.size() + c]) * x[c];
  }
  return y;
}

/// The mean of gated streams that a block reads. x: the normed streams.
inline Doubles gated_mean(const Doubles& x, std::size_t streams, const std::vector<float>& down, const std::vector<float>& up) {
  const auto n = static_cast<double>(streams);
  Doubles low = times(down, x);
  for (double& v : low) v = v / n * sigmoid(v / n);
  const Doubles gates = times(up, low);
  Doubles mean(x.size() / streams);
  for (std::size_t i = 0; i < x.size(); ++i) mean[i % mean.size()] += x[i] * sigmoid(gates[i]) / n;
  return mean;
}

/// What each stream gets of what the block makes.
inline Doubles stream_weights(const Doubles& x, std::size_t streams, const std::vector<float>& inject) {
  Doubles weights = times(inject, x);
  for (double& v : weights) v = 2 * sigmoid(v / static_cast<double>(streams));
  return weights;
}

/// As nn::NgramOptions.
struct Ngrams {
  std::size_t tokens = 0, heads = 0;
  std::int64_t taps = 0;
  std::int32_t end = 0;
  std::vector<std::uint64_t> multipliers{};
  std::vector<std::int64_t> offsets{}, sizes{};
};

/// Rows of the table for all n-grams that end in token t, one behind the other.
inline Doubles ngram_rows(const Ngrams& n, const std::vector<std::int32_t>& text, std::size_t t, const std::vector<float>& table, std::size_t width) {
  Doubles rows;
  for (std::size_t length = 2; length <= n.tokens; ++length) {
    std::uint64_t hash = 0;
    for (std::size_t back = 0; back < length; ++back) {
      bool reaches = back <= t;
      for (std::size_t i = 1; reaches && i <= back; ++i) reaches = text[t - i] != n.end;
      hash ^= static_cast<std::uint64_t>(reaches ? text[t - back] : n.end) * n.multipliers[back];
    }
    for (std::size_t head = 0; head < n.heads; ++head) {
      const std::size_t at = (length - 2) * n.heads + head;
      const auto row = static_cast<std::size_t>(hash % static_cast<std::uint64_t>(n.sizes[at]) + static_cast<std::uint64_t>(n.offsets[at]));
      rows.insert(rows.end(), table.begin() + static_cast<std::ptrdiff_t>(row * width), table.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    }
  }
  return rows;
}

/// A row's gated values: value sigmoid(signed root of key . query / sqrt(dim)) for each stream. keys, queries: normed.
inline Doubles gated_values(const Doubles& keys, const Doubles& queries, const Doubles& value) {
  Doubles out;
  for (std::size_t at = 0; at < keys.size(); at += value.size()) {
    double product = 0;
    for (std::size_t c = 0; c < value.size(); ++c) product += keys[at + c] * queries[at + c] / std::sqrt(static_cast<double>(value.size()));
    const double root = std::sqrt(std::max(std::fabs(product), 1e-6));
    for (const double v : value) out.push_back(v * sigmoid(product < 0 ? -root : product > 0 ? root : 0));
  }
  return out;
}

/// silu of a causal convolution whose taps are `step` tokens apart. weights: (channels, taps).
inline std::vector<Doubles> dilated_convolution(const std::vector<Doubles>& x, const std::vector<float>& weights, std::int64_t taps, std::int64_t step) {
  std::vector<Doubles> out;
  for (std::int64_t t = 0; t < std::ssize(x); ++t) {
    Doubles& row = out.emplace_back(x[0].size());
    for (std::size_t c = 0; c < row.size(); ++c) {
      for (std::int64_t m = 0; m < taps; ++m) {
        const std::int64_t from = t - (taps - 1 - m) * step;
        if (from >= 0) row[c] += static_cast<double>(weights[c * static_cast<std::size_t>(taps) + static_cast<std::size_t>(m)]) * x[static_cast<std::size_t>(from)][c];
      }
      row[c] = silu(row[c]);
    }
  }
  return out;
}

}  // namespace bantam::reference
