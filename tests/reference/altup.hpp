// Alternating updates of several residual streams, as transformers' Gemma3n computes them (arXiv:2301.13310), in plain double-precision loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace bantam::reference {

using Stream = std::vector<double>;

/// y, as long as x.
inline Stream as_long(const Stream& x, Stream y) {
  const auto mean_square = [](const Stream& v) {
    double sum = 0;
    for (const double value : v) sum += value * value / static_cast<double>(v.size());
    return sum;
  };
  const double factor = std::sqrt(mean_square(x)) / std::sqrt(std::max(mean_square(y), 1e-5));
  for (double& value : y) value *= factor;
  return y;
}

/// w (rows, streams) times tanh(router normed / dim).
inline std::vector<double> stream_coefficients(const Stream& normed, const std::vector<float>& router, const std::vector<float>& w) {
  const std::size_t dim = normed.size(), streams = router.size() / dim;
  std::vector<double> modalities(streams), out(w.size() / streams);
  for (std::size_t i = 0; i < streams; ++i) {
    for (std::size_t c = 0; c < dim; ++c) modalities[i] += static_cast<double>(router[i * dim + c]) * normed[c] / static_cast<double>(dim);
    modalities[i] = std::tanh(modalities[i]);
  }
  for (std::size_t r = 0; r < out.size(); ++r) {
    for (std::size_t i = 0; i < streams; ++i) out[r] += static_cast<double>(w[r * streams + i]) * modalities[i];
  }
  return out;
}

/// Before a layer. coefficients: (streams, streams).
inline std::vector<Stream> predicted(const std::vector<Stream>& h, const std::vector<double>& coefficients) {
  std::vector<Stream> out = h;
  for (std::size_t i = 0; i < h.size(); ++i) {
    for (std::size_t j = 0; j < h.size(); ++j) {
      for (std::size_t c = 0; c < h[i].size(); ++c) out[i][c] += coefficients[i * h.size() + j] * h[j][c];
    }
  }
  return out;
}

/// Behind it, of what it made of the active one.
inline std::vector<Stream> corrected(std::vector<Stream> predictions, std::size_t active, const Stream& made, const std::vector<double>& coefficients) {
  const Stream before = predictions[active];
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    for (std::size_t c = 0; c < made.size(); ++c) predictions[i][c] += (made[c] - before[c]) * (coefficients[i] + 1);
  }
  return predictions;
}

/// max(0, x - (mean + cutoff deviation)).
inline Stream cut_below(Stream x, double cutoff) {
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  for (double& v : x) v = std::max(0.0, v - (mean + cutoff * std::sqrt(variance)));
  return x;
}

}  // namespace bantam::reference
