// A few products of one row each: in doubles, in order, so that what else is read changes nothing.
#include "bantam/model/classifier.hpp"

#include <algorithm>
#include <cmath>

#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

/// W x + b, W: (rows, x), no b where it is empty.
std::vector<double> product(const std::vector<float>& w, const std::vector<float>& b, std::span<const double> x) {
  std::vector<double> y(w.size() / x.size());
  for (std::size_t r = 0; r < y.size(); ++r) {
    double sum = b.empty() ? 0.0 : static_cast<double>(b[r]);
    for (std::size_t c = 0; c < x.size(); ++c) sum += static_cast<double>(w[r * x.size() + c]) * x[c];
    y[r] = sum;
  }
  return y;
}

void layer_norm(std::vector<double>& x, const std::vector<float>& gains, double eps) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / count;
  for (const double v : x) variance += (v - mean) * (v - mean) / count;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) / std::sqrt(variance + eps) * static_cast<double>(gains[i]);
}

double activated(double x, ClassActivation activation) {
  switch (activation) {
    case ClassActivation::tanh: return std::tanh(x);
    case ClassActivation::relu: return std::max(x, 0.0);
    case ClassActivation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  }
  return x;
}

}  // namespace

std::vector<double> classify(const ModelConfig& config, const ModelWeights& weights, std::span<const double> state) {
  if (config.labels == 0) fail(Errc::unsupported, "classify: expected a model with a classifier, found one of type ", config.arch->name, " without");
  std::vector<double> x(state.begin(), state.end());
  if (!weights.class_dense.empty()) {
    x = product(weights.class_dense, weights.class_dense_bias, x);
    for (double& v : x) v = activated(v, config.arch->class_activation);
    if (!weights.class_norm.empty()) layer_norm(x, weights.class_norm, config.norm_eps);
  }
  return product(weights.class_head, weights.class_head_bias, x);
}

std::vector<double> behind_pooling(const ModelConfig& config, const ModelWeights& weights, std::span<const double> pooled) {
  std::vector<double> x(pooled.begin(), pooled.end());
  for (std::size_t i = 0; i < config.pooled_layers.size(); ++i) {
    x = i == 0 ? product(weights.pooled_dense, weights.pooled_dense_bias, x) : product(weights.pooled_dense_2, weights.pooled_dense_2_bias, x);
    for (double& v : x) v = config.pooled_layers[i].is_tanh ? std::tanh(v) : v;
  }
  return x;
}

}  // namespace bantam::inline v0
