// AWQ's search in double precision: every candidate's loss from the outputs themselves (arXiv:2306.00978, section 3.2).
#pragma once

#include <cmath>
#include <functional>
#include <vector>

namespace bantam::reference {

using Rows = std::vector<std::vector<double>>;

struct AwqChoice {
  std::vector<double> scales;
  double loss = 0;
};

/// W s rounded, divided by s again.
using AwqRound = std::function<Rows(const Rows& weights)>;

/// Mean over tokens of the squared error of all outputs.
inline double awq_loss(const std::vector<Rows>& matrices, const Rows& inputs, const std::vector<double>& s, const AwqRound& round) {
  double loss = 0;
  for (const Rows& w : matrices) {
    Rows scaled = w;
    for (auto& row : scaled) {
      for (std::size_t c = 0; c < row.size(); ++c) row[c] *= s[c];
    }
    const Rows rounded = round(scaled);
    for (const auto& x : inputs) {
      for (std::size_t r = 0; r < w.size(); ++r) {
        double error = 0;
        for (std::size_t c = 0; c < x.size(); ++c) error += (w[r][c] - rounded[r][c] / s[c]) * x[c];
        loss += error * error / static_cast<double>(inputs.size());
      }
    }
  }
  return loss;
}

/// The best of 2 * ratios - 1 candidates and of plain rounding. `group`: weights per scale.
inline AwqChoice awq_search(const std::vector<Rows>& matrices, const Rows& inputs, std::size_t group, int ratios, const AwqRound& round) {
  const std::size_t n = inputs[0].size();
  std::vector<double> size(n, 0.0), share(n, 0.0);
  for (const auto& x : inputs) {
    for (std::size_t c = 0; c < n; ++c) size[c] += x[c] * x[c] / static_cast<double>(inputs.size());
  }
  std::size_t rows = 0;
  for (const Rows& w : matrices) rows += w.size();
  for (const Rows& w : matrices) {
    for (const auto& row : w) {
      for (std::size_t c = 0; c < n; ++c) {
        double largest = 0;
        for (std::size_t k = c / group * group; k < std::min(n, (c / group + 1) * group); ++k) largest = std::max(largest, std::fabs(row[k]));
        share[c] += std::fabs(row[c]) / (largest + 1e-6) / static_cast<double>(rows);
      }
    }
  }
  AwqChoice best{std::vector<double>(n, 1.0), 0};
  best.loss = awq_loss(matrices, inputs, best.scales, round);
  for (int k = 0; k < ratios; ++k) {
    const double ratio = static_cast<double>(k) / ratios;
    for (const bool weighed : {false, true}) {
      std::vector<double> s(n);
      for (std::size_t c = 0; c < n; ++c) {
        s[c] = std::pow(std::sqrt(size[c]), ratio);
        if (weighed) s[c] /= std::pow(share[c], 1 - ratio) + 1e-4;
        s[c] = std::max(s[c], 1e-4);
      }
      const auto [low, high] = std::minmax_element(s.begin(), s.end());
      const double center = std::sqrt(*low * *high);
      for (double& v : s) v /= center;
      const double loss = awq_loss(matrices, inputs, s, round);
      if (loss < best.loss) best = {s, loss};
    }
  }
  return best;
}

}  // namespace bantam::reference
