// Experts side by side: against double precision, and the same bits in any company.
#include "bantam/nn/blocks/experts.hpp"

#include <set>

#include "bantam/quant/formats.hpp"
#include "bantam/tensor/random.hpp"
#include "kernels/cases.hpp"
#include "limits.hpp"
#include "reference/activations.hpp"
#include "reference/matmul.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

constexpr std::int64_t dim = 96, ffn = 80, latent = 48, most_tokens = 70;

/// What experts may do without, or have between.
struct Kind {
  bool gated = true, is_latent = false;
  [[nodiscard]] std::int64_t inner() const noexcept { return is_latent ? latent : dim; }
};
constexpr Kind kinds[] = {{}, {.gated = false}, {.is_latent = true}, {.gated = false, .is_latent = true}};
constexpr nn::RouterOptions options{.score = nn::RouterScore::sigmoid, .experts = 9, .used = 3, .renormalize = true, .scale = 1.5f};

WeightMatrix matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed, std::string_view format) {
  const FormatInfo& info = find_format(format);
  if (info.step_bits != 0) return random_paths(info, rows, columns, seed);  // to look for paths would take most of the time
  return WeightMatrix::quantize(random::normal<float>({rows, columns}, seed, {.deviation = 1 / std::sqrt(static_cast<double>(columns))}), info);
}

/// The biases send most tokens to the first expert, and few to the others.
nn::ExpertsWeights weights_in(std::string_view format, const Kind& kind = {}) {
  nn::ExpertsWeights weights{matrix(options.experts, dim, 1, "f32"), std::vector<float>(9, 0.1f), std::vector<float>(9), {}, {}};
  weights.selection_bias[0] = 0.4f;
  for (std::uint64_t e = 0; e < 9; ++e) {
    const std::int64_t inner = kind.inner();
    weights.experts.push_back({kind.gated ? matrix(ffn, inner, 10 + e, format) : WeightMatrix(), matrix(ffn, inner, 30 + e, format), matrix(inner, ffn, 50 + e, format)});
  }
  if (kind.is_latent) weights.latent_down = matrix(latent, dim, 70, format);
  if (kind.is_latent) weights.latent_up = matrix(dim, latent, 71, format);
  return weights;
}

Tensor<float, 2> inputs() { return random::normal<float>({most_tokens, dim}, 99); }

/// What the block makes of tokens first .. last of x, with their experts.
std::vector<float> outputs(const nn::ExpertsWeights& weights, std::int64_t first, std::int64_t last, int threads, std::vector<nn::RoutedExpert>* routed = nullptr) {
  const KernelTable& kernels = kernels_in_use();
  Team team(threads);
  nn::Experts experts(kernels, options, ops::Gate::silu, threads);
  experts.serve(weights);
  experts.resize(last - first, dim, ffn, weights.latent_down.rows());
  nn::Activations x;
  x.resize(last - first, dim);
  const Tensor<float, 2> all = inputs();
  for (std::int64_t t = first; t < last; ++t) std::copy_n(&all(t, 0), dim, x.row(t - first));
  std::vector<float> out(static_cast<std::size_t>((last - first) * dim));
  experts.run({kernels_in_use(), team, {}}, weights, x, false, {out.data(), dim});
  if (routed != nullptr) routed->assign(experts.routed(last - first).begin(), experts.routed(last - first).end());
  return out;
}

std::vector<double> doubles(const WeightMatrix& w) {
  const Tensor<float, 2> values = w.dequantize();
  return {values.span().begin(), values.span().end()};
}

TEST_CASE("experts of every kind add what each makes, weighed, as in double precision") {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.gated);
    CAPTURE(kind.is_latent);
    const nn::ExpertsWeights weights = weights_in("f32", kind);
    const std::int64_t inner = kind.inner();
    std::vector<nn::RoutedExpert> routed;
    const std::vector<float> found = outputs(weights, 0, most_tokens, 2, &routed);
    const Tensor<float, 2> x = inputs();
    std::size_t of_first = 0;
    for (std::int64_t t = 0; t < most_tokens; ++t) {
      std::vector<double> row(&x(t, 0), &x(t, 0) + dim);
      if (kind.is_latent) row = reference::matmul(row, doubles(weights.latent_down), 1, latent, dim);
      std::vector<double> expected(static_cast<std::size_t>(inner));
      for (std::int64_t i = 0; i < options.used; ++i) {
        const nn::RoutedExpert& one = routed[static_cast<std::size_t>(t * options.used + i)];
        const nn::MlpWeights& e = weights.experts[static_cast<std::size_t>(one.expert)];
        of_first += one.expert == 0;
        std::vector<double> hidden = reference::matmul(row, doubles(e.up), 1, ffn, inner);
        const std::vector<double> gate = kind.gated ? reference::matmul(row, doubles(e.gate), 1, ffn, inner) : std::vector<double>();
        for (std::size_t c = 0; c < hidden.size(); ++c) hidden[c] = kind.gated ? reference::silu(gate[c]) * hidden[c] : reference::silu(hidden[c]);
        const std::vector<double> down = reference::matmul(hidden, doubles(e.down), 1, inner, ffn);
        for (std::size_t c = 0; c < down.size(); ++c) expected[c] += static_cast<double>(one.weight) * down[c];
      }
      if (kind.is_latent) expected = reference::matmul(expected, doubles(weights.latent_up), 1, dim, latent);
      // Sums of at most 96 products of numbers about 1, in floats.
      for (std::int64_t c = 0; c < dim; ++c) CHECK(std::fabs(found[static_cast<std::size_t>(t * dim + c)] - expected[static_cast<std::size_t>(c)]) < 1e-5);
    }
    CHECK(of_first > 40);  // one long run of rows beside short ones
  }
}

TEST_CASE("an expert's outputs are those of its matrices alone, bit for bit, in every format") {
  const KernelTable& kernels = kernels_in_use();
  const Tensor<float, 2> x = inputs();
  std::set<std::tuple<bool, bool, int, int>> seen;
  for (const FormatInfo& info : formats()) {
    const std::string_view format = info.name;
    CAPTURE(std::string(format));
    // Experts round what formats read in as many ways as there are of these; tests of kernels go through all formats.
    if (!seen.emplace(info.is_float, info.has_minimums, info.activation_block, info.step_bits).second && quick()) continue;
    const nn::ExpertsWeights weights = weights_in(format);
    std::vector<nn::RoutedExpert> routed;
    const std::vector<float> found = outputs(weights, 0, most_tokens, 2, &routed);
    Team team(1);
    for (std::int64_t t = 0; t < most_tokens; t += quick() ? 5 : 1) {
      std::vector<float> expected(dim);
      for (std::int64_t i = 0; i < options.used; ++i) {
        const nn::RoutedExpert& one = routed[static_cast<std::size_t>(t * options.used + i)];
        const nn::MlpWeights& e = weights.experts[static_cast<std::size_t>(one.expert)];
        nn::Activations input, hidden;
        for (const WeightMatrix* w : {&e.gate, &e.up}) input.serve(kernels, *w);
        hidden.serve(kernels, e.down);
        input.resize(1, dim);
        hidden.resize(1, ffn);
        std::copy_n(&x(t, 0), dim, input.row(0));
        input.quantize_row(kernels, 0);
        std::vector<float> up(ffn), down(dim);
        nn::linear(kernels, team, input, {{e.gate, nullptr, hidden.output()}, {e.up, nullptr, {up.data(), ffn}}});
        kernels.silu_mul(hidden.row(0), up.data(), hidden.row(0), ffn);
        hidden.quantize_row(kernels, 0);
        nn::linear(kernels, team, hidden, {{e.down, nullptr, {down.data(), dim}}});
        for (std::size_t c = 0; c < down.size(); ++c) expected[c] += one.weight * down[c];
      }
      CHECK(std::equal(expected.begin(), expected.end(), found.begin() + t * dim));
    }
  }
}

TEST_CASE("a token's output depends neither on the others nor on the threads") {
  for (const auto& [format, kind] : {std::pair{"f32", kinds[0]}, {"i4.g32", kinds[0]}, {"i8.row", kinds[1]}, {"i4.g32", kinds[2]}, {"f32", kinds[3]}}) {
    CAPTURE(std::string(format));
    const nn::ExpertsWeights weights = weights_in(format, kind);
    const std::vector<float> together = outputs(weights, 0, most_tokens, 1);
    CHECK(outputs(weights, 0, most_tokens, 3) == together);
    for (const std::int64_t step : {1, 7, 33}) {
      std::vector<float> parts;
      for (std::int64_t first = 0; first < most_tokens; first += step) {
        const std::vector<float> part = outputs(weights, first, std::min(first + step, most_tokens), 2);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      CHECK(parts == together);
    }
  }
}

TEST_CASE("weights that do not go together are refused") {
  const auto refusal = [](const nn::ExpertsWeights& weights, const nn::RouterOptions& asked = options) {
    return error_of([&] { nn::Experts(kernels_in_use(), asked, ops::Gate::silu, 1).serve(weights); });
  };
  nn::ExpertsWeights weights = weights_in("f32");
  has(refusal(weights, {.experts = 8, .used = 1}), "expected 1 to 8 in 1 groups, found 9");
  has(refusal(weights, {.experts = 16, .used = 1, .groups = 2, .group_best = 1}), "in 2 groups, found 9");
  weights.experts[4].down = matrix(dim, ffn + 1, 1, "f32");
  has(refusal(weights), "downs the other way round");
  weights = weights_in("f32");
  weights.experts[4].gate = {};
  has(refusal(weights), "expected gates and ups of (80, 96) and downs");
  weights = weights_in("f32", kinds[1]);
  weights.experts[4].gate = matrix(ffn, dim, 1, "f32");
  has(refusal(weights), "expected no gates, ups of (80, 96) and downs");
  weights = weights_in("f32", kinds[2]);
  weights.latent_up = {};
  has(refusal(weights), "expected projections to and from 48 numbers");
  weights = weights_in("f32");
  weights.router = matrix(options.experts, dim, 1, "i8.row");
  has(refusal(weights), "expected a router of floats");
  weights = weights_in("f32");
  weights.router_bias.pop_back();
  has(refusal(weights), "router bias: expected 9 numbers, found 8");
  weights = weights_in("f32");
  weights.selection_bias.pop_back();
  has(refusal(weights), "selection bias: expected 9 numbers, found 8");
  weights = weights_in("f32");
  weights.shared_gate.assign(dim + 1, 0);
  has(refusal(weights), "shared gate: expected 96 numbers, found 97");
}

}  // namespace
}  // namespace bantam::test
