// Routers of mixtures of experts in double precision, as the papers have them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "reference/softmax.hpp"

namespace bantam::reference {

enum class Score { softmax, sigmoid, softmax_of_chosen, sqrt_softplus, in_turn };

struct Router {
  Score score;
  std::size_t used, groups, groups_used, group_best;
  bool renormalize;
  double scale;
  double jitter = 0.01;
};

/// The numbers of the n largest, the largest first, of equals the first first.
inline std::vector<std::size_t> largest_of(const std::vector<double>& x, std::size_t n) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  order.resize(n);
  return order;
}

/// SparseMixer (arXiv:2409.12136) at inference, as transformers' Phi-3.5-MoE has it.
inline std::vector<std::pair<std::size_t, double>> route_in_turn(const Router& r, std::vector<double> s) {
  std::vector<std::pair<std::size_t, double>> result;
  const std::vector<double> all = s;
  for (std::size_t turn = 0; turn < r.used; ++turn) {
    const std::size_t best = largest_of(s, 1)[0];
    std::vector<double> near = s;
    for (std::size_t e = 0; e < s.size(); ++e) {
      if ((s[best] - all[e]) / std::max(std::fabs(all[e]), s[best]) > 2 * r.jitter) near[e] = -std::numeric_limits<double>::infinity();
    }
    result.emplace_back(best, softmax(near)[best] * r.scale);
    s[best] = -std::numeric_limits<double>::infinity();
  }
  std::sort(result.begin(), result.end());
  double sum = 0;
  for (const auto& one : result) sum += one.second / r.scale;
  for (auto& one : result) one.second /= r.renormalize ? sum : 1;
  return result;
}

/// (expert, weight) of the chosen, by number. DeepSeek-V3 (arXiv:2412.19437), eq. 12 to 16, with the scores of others.
inline std::vector<std::pair<std::size_t, double>> route(const Router& r, const std::vector<float>& logits, const std::vector<float>& bias) {
  std::vector<double> s(logits.begin(), logits.end());
  if (r.score == Score::in_turn) return route_in_turn(r, s);
  if (r.score == Score::softmax) s = softmax(s);
  for (double& v : s) {
    if (r.score == Score::sigmoid) v = 1 / (1 + std::exp(-v));
    if (r.score == Score::sqrt_softplus) v = std::sqrt(std::log(1 + std::exp(v)));
  }
  std::vector<double> choice = s;
  for (std::size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
  const std::size_t size = s.size() / r.groups;
  std::vector<double> group_scores;
  for (std::size_t g = 0; g < r.groups; ++g) {
    const std::vector<double> group(choice.begin() + static_cast<std::ptrdiff_t>(g * size), choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    double sum = 0;
    if (r.groups > 1) {
      for (const std::size_t e : largest_of(group, r.group_best)) sum += group[e];
    }
    group_scores.push_back(sum);
  }
  const std::vector<std::size_t> kept = largest_of(group_scores, r.groups_used);
  for (std::size_t e = 0; e < s.size(); ++e) {
    if (std::find(kept.begin(), kept.end(), e / size) == kept.end()) choice[e] = -std::numeric_limits<double>::infinity();
  }
  std::vector<std::size_t> chosen = largest_of(choice, r.used);
  std::sort(chosen.begin(), chosen.end());
  std::vector<double> weights;
  for (const std::size_t e : chosen) weights.push_back(s[e]);
  if (r.score == Score::softmax_of_chosen) weights = softmax(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::pair<std::size_t, double>> result;
  for (std::size_t i = 0; i < chosen.size(); ++i) result.emplace_back(chosen[i], weights[i] / (r.renormalize ? sum : 1) * r.scale);
  return result;
}

}  // namespace bantam::reference
