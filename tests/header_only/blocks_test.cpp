// Blocks of transformers with headers alone, on threads.
#include "bantam/header_only.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "reference/activations.hpp"
#include "reference/matmul.hpp"

namespace bantam::test {
namespace {

std::vector<double> doubles(const WeightMatrix& w) {
  const Tensor<float, 2> values = w.dequantize();
  return {values.span().begin(), values.span().end()};
}

}  // namespace

TEST_CASE_TEMPLATE("experts add what each makes, weighed, as in double precision", F, F32Format, Int<4, 32>) {
  constexpr std::int64_t dim = 96, ffn = 64, tokens = 50, count = 6;
  const nn::RouterOptions options{.experts = count, .used = 2, .renormalize = true};
  const auto matrix = [](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return random::normal<float>({rows, columns}, seed, {.deviation = 1 / std::sqrt(static_cast<double>(columns))});
  };
  nn::ExpertsWeights weights{.router = quantize<F32Format>(matrix(count, dim, 1)), .router_bias = {}, .selection_bias = {}, .shared_gate = {}, .experts = {}};
  for (std::uint64_t e = 0; e < count; ++e) {
    weights.experts.push_back({quantize<F>(matrix(ffn, dim, 10 + e)), quantize<F>(matrix(ffn, dim, 20 + e)), quantize<F>(matrix(dim, ffn, 30 + e))});
  }
  Team team(3);
  nn::Experts experts(kernels_in_use(), options, ops::Gate::silu, team.size());
  experts.serve(weights);
  experts.resize(tokens, dim, ffn);
  nn::Activations x;
  x.resize(tokens, dim);
  const auto inputs = random::normal<float>({tokens, dim}, 99);
  for (std::int64_t t = 0; t < tokens; ++t) std::copy_n(&inputs(t, 0), dim, x.row(t));
  Tensor<float, 2> found({tokens, dim});
  experts.run({kernels_in_use(), team, {}}, weights, x, false, {found.data(), dim});

  double difference = 0, size = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::vector<double> row(&inputs(t, 0), &inputs(t, 0) + dim);
    std::vector<double> expected(dim);
    for (const nn::RoutedExpert& one : experts.routed(tokens).subspan(static_cast<std::size_t>(t * options.used), static_cast<std::size_t>(options.used))) {
      const nn::MlpWeights& e = weights.experts[static_cast<std::size_t>(one.expert)];
      std::vector<double> gate = reference::matmul(row, doubles(e.gate), 1, ffn, dim);
      const std::vector<double> up = reference::matmul(row, doubles(e.up), 1, ffn, dim);
      for (std::size_t c = 0; c < gate.size(); ++c) gate[c] = reference::silu(gate[c]) * up[c];
      const std::vector<double> down = reference::matmul(gate, doubles(e.down), 1, dim, ffn);
      for (std::size_t c = 0; c < down.size(); ++c) expected[c] += static_cast<double>(one.weight) * down[c];
    }
    for (std::int64_t c = 0; c < dim; ++c) {
      const double d = static_cast<double>(found(t, c)) - expected[static_cast<std::size_t>(c)];
      difference += d * d;
      size += expected[static_cast<std::size_t>(c)] * expected[static_cast<std::size_t>(c)];
    }
  }
  // Quantized matrices read activations of 8 bits, twice: 1 / 127 of the largest of 32, a third of that on average.
  CHECK(std::sqrt(difference / size) < (is_float_format<F> ? 1e-6 : 0.02));
}

TEST_CASE("an MLP run as a block is the operation of its name") {
  constexpr std::int64_t dim = 64, ffn = 96, tokens = 11;
  const auto matrix = [](std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    return quantize<Int<4, 32>>(random::normal<float>({rows, columns}, seed, {.deviation = 1 / std::sqrt(static_cast<double>(columns))}));
  };
  const nn::MlpWeights weights{.gate = matrix(ffn, dim, 1), .up = matrix(ffn, dim, 2), .down = matrix(dim, ffn, 3)};
  const auto inputs = random::normal<float>({tokens, dim}, 4);
  const KernelTable& kernels = kernels_in_use();
  Team team(2);
  nn::Mlp mlp(kernels, ops::Gate::silu);
  nn::Activations x;
  mlp.serve(weights, x);
  mlp.resize(tokens, ffn);
  x.resize(tokens, dim);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::copy_n(&inputs(t, 0), dim, x.row(t));
    x.quantize_row(kernels, t);
  }
  const std::vector<nn::PassRow> rows(tokens);
  const nn::Pass pass{kernels, team, rows};
  Tensor<float, 2> out({tokens, dim});
  mlp.hide(pass, weights, x);
  mlp.project(pass, weights, {out.data(), dim});
  CHECK(std::ranges::equal(out.span(), ops::mlp(inputs, weights.gate, weights.up, weights.down, ops::Gate::silu, ops::Precision::fast).span()));
}

TEST_CASE("attention without the library is that of one key where all are alike") {
  const std::int64_t tokens = 9, heads = 4, kv_heads = 2, d = 32;
  const auto q = random::normal<float>({tokens, heads, d}, 1);
  Tensor<float, 3> k({tokens, kv_heads, d}), v({tokens, kv_heads, d});
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      for (std::int64_t i = 0; i < d; ++i) {
        k(t, h, i) = static_cast<float>(i);
        v(t, h, i) = static_cast<float>(h + 1);
      }
    }
  }
  const Tensor<float, 3> out = ops::attention(q, k, v);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) CHECK(out(t, h, 5) == doctest::Approx(static_cast<double>(h / 2 + 1)));
  }
}

}  // namespace bantam::test
