// The indexer of sparse attention in plain double-precision loops (arXiv:2512.02556, eq. 1; blocks as transformers' Qwen4Exp has them).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace bantam::reference {

/// As nn::IndexerOptions.
struct Indexer {
  std::size_t heads = 0, dim = 0, used = 0, block = 1;
  bool adjacent = false;  ///< rope turns elements 2 i and 2 i + 1
  double eps = 0;         ///< of the norms of queries and keys
};

/// What each token chooses by: rows of queries, (heads dim), of keys, (dim), before any norm, and of weights, (heads) or nothing.
struct IndexInputs {
  std::vector<std::vector<double>> queries = {}, keys = {}, weights = {};
  std::vector<float> q_norm = {}, k_norm = {}, k_norm_bias = {};  ///< empty: none; keys with a bias have a layer norm
  std::function<void(std::vector<double>&, std::size_t)> turn;  ///< the first numbers, by a position
};

/// Over its root mean square, or its standard deviation around its mean, times weights.
inline std::vector<double> index_norm(std::vector<double> x, const std::vector<float>& weight, const std::vector<float>& bias, double eps) {
  if (weight.empty()) return x;
  const auto n = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  for (const double v : x) mean += bias.empty() ? 0 : v / n;
  for (const double v : x) squares += (v - mean) * (v - mean) / n;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (x[i] - mean) / std::sqrt(squares + eps) * static_cast<double>(weight[i]) + (bias.empty() ? 0 : static_cast<double>(bias[i]));
  return x;
}

/// Which tokens up to its own each token sees.
inline std::vector<std::vector<bool>> chosen(const Indexer& o, const IndexInputs& in) {
  std::vector<std::vector<double>> blocks;  // a key each
  for (std::size_t first = 0; first + o.block <= in.keys.size(); first += o.block) {
    std::vector<double> mean(o.dim);
    for (std::size_t i = first; i < first + o.block; ++i) {
      for (std::size_t c = 0; c < o.dim; ++c) mean[c] += in.keys[i][c] / static_cast<double>(o.block);
    }
    blocks.push_back(index_norm(mean, in.k_norm, in.k_norm_bias, o.eps));
    in.turn(blocks.back(), first);
  }
  std::vector<std::vector<bool>> seen;
  for (std::size_t t = 0; t < in.queries.size(); ++t) {
    const std::size_t whole = (t + 1) / o.block, used = std::min(whole, o.used / o.block);
    std::vector<double> scores(whole);
    for (std::size_t h = 0; h < o.heads; ++h) {
      std::vector<double> query(in.queries[t].begin() + static_cast<std::ptrdiff_t>(h * o.dim), in.queries[t].begin() + static_cast<std::ptrdiff_t>((h + 1) * o.dim));
      query = index_norm(std::move(query), in.q_norm, {}, o.eps);
      in.turn(query, t);
      for (std::size_t b = 0; b < whole; ++b) {
        const double product = std::inner_product(query.begin(), query.end(), blocks[b].begin(), 0.0);
        scores[b] += std::max(product, 0.0) * (in.weights.empty() ? 1 : in.weights[t][h]);
      }
    }
    std::vector<std::size_t> order(whole);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t b) { return scores[b]; });
    seen.emplace_back(t + 1, false);
    for (std::size_t i = 0; i < used; ++i) std::fill_n(seen.back().begin() + static_cast<std::ptrdiff_t>(order[i] * o.block), o.block, true);
    std::fill(seen.back().begin() + static_cast<std::ptrdiff_t>(whole * o.block), seen.back().end(), true);
  }
  return seen;
}

}  // namespace bantam::reference
