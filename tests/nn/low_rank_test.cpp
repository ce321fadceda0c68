// Low-rank terms of products against double precision, whatever else is in the pass.
#include <array>
#include <cmath>

#include "bantam/nn/blocks/pass.hpp"
#include "bantam/quant/formats.hpp"
#include "bantam/tensor/random.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

// More rows and columns than are worked on at a time.
constexpr std::int64_t low_rank_tokens = 100, low_rank_columns = 130;

WeightMatrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed, const FormatInfo& format = format_info<F32Format>()) {
  const Tensor<float, 2> values = random::normal<float>({rows, columns}, seed);
  return WeightMatrix::quantize(values, format);
}

/// Two products of one x, with terms, by `threads`.
std::array<Tensor<float, 2>, 2> products_with(const std::vector<nn::LowRankTerm>& terms, const WeightMatrix& v, const WeightMatrix& w, const Tensor<float, 2>& x, int threads) {
  const KernelTable& kernels = kernels_in_use();
  Team team(threads);
  nn::Activations in;
  in.resize(x.extent(0), x.extent(1));
  for (std::int64_t t = 0; t < x.extent(0); ++t) std::copy_n(&x(t, 0), x.extent(1), in.row(t));
  nn::LowRankTerms all;
  std::int64_t ranks = 0;
  for (const nn::LowRankTerm& term : terms) ranks += round_up<std::int64_t>(term.update->rank(), 16);
  all.resize(x.extent(0), std::max<std::int64_t>(ranks, 1), team.size());
  for (const nn::LowRankTerm& term : terms) all.add(term);
  const std::vector<nn::PassRow> rows(static_cast<std::size_t>(x.extent(0)));
  nn::Pass pass{kernels, team, rows};
  pass.adapters = &all;
  std::array out{Tensor<float, 2>({x.extent(0), v.rows()}), Tensor<float, 2>({x.extent(0), w.rows()})};
  nn::linear(pass, in, {{v, nullptr, {out[0].data(), v.rows()}}, {w, nullptr, {out[1].data(), w.rows()}}});
  return out;
}

double exact(const WeightMatrix& w, const std::vector<nn::LowRankTerm>& terms, const Tensor<float, 2>& x, std::int64_t token, std::int64_t row) {
  RowCodes scratch;
  const auto dot = [&](const WeightMatrix& matrix, std::int64_t of_row, auto&& at) {
    std::vector<float> values(static_cast<std::size_t>(matrix.columns()));
    matrix.read_row(of_row, values, scratch);
    double sum = 0;
    for (std::int64_t c = 0; c < matrix.columns(); ++c) sum += static_cast<double>(values[static_cast<std::size_t>(c)]) * at(c);
    return sum;
  };
  const auto input = [&](std::int64_t c) { return static_cast<double>(x(token, c)); };
  double sum = dot(w, row, input);
  for (const nn::LowRankTerm& term : terms) {
    if (term.matrix != &w || token < term.rows.begin || token >= term.rows.end) continue;
    const nn::LowRank& update = *term.update;
    sum += static_cast<double>(update.scale) * static_cast<double>(term.scale) * dot(update.b, row, [&](std::int64_t r) { return dot(update.a, r, input); });
  }
  return sum;
}

TEST_CASE("low-rank terms are added to the rows that have them, in every format of floats") {
  const WeightMatrix v = random_matrix(700, low_rank_columns, 1), w = random_matrix(45, low_rank_columns, 2);
  const Tensor<float, 2> x = random::normal<float>({low_rank_tokens, low_rank_columns}, 3);
  for (const FormatInfo* format : {&format_info<F32Format>(), &format_info<F16Format>(), &format_info<BF16Format>()}) {
    CAPTURE(std::string(format->name));
    std::vector<nn::LowRank> updates;
    for (const std::int64_t rank : {1, 7, 33, 64}) updates.push_back({random_matrix(rank, low_rank_columns, 10, *format), random_matrix(rank == 7 ? 45 : 700, rank, 11, *format), 0.5F});
    const std::vector<nn::LowRankTerm> terms{{&v, &updates[0], {0, 40}, 1}, {&w, &updates[1], {0, 40}, -2}, {&v, &updates[2], {40, 41}, 0.25F}, {&v, &updates[3], {0, 40}, 0.5F}, {&v, &updates[3], {60, 100}, 1}};
    const auto found = products_with(terms, v, w, x, 1);
    for (const auto& [matrix, out] : {std::pair{&v, &found[0]}, std::pair{&w, &found[1]}}) {
      double largest = 0;
      for (std::int64_t t = 0; t < low_rank_tokens; t += 3) {
        for (std::int64_t r = 0; r < matrix->rows(); r += 5) largest = std::max(largest, std::fabs(static_cast<double>((*out)(t, r)) - exact(*matrix, terms, x, t, r)));
      }
      // Sums of 130 and 64 products of numbers around 1, some of which come to 1000.
      CHECK(largest < 2e-3);
    }
    for (const int threads : {2, 5}) {
      const auto again = products_with(terms, v, w, x, threads);
      CHECK(std::ranges::equal(again[0].span(), found[0].span()));
      CHECK(std::ranges::equal(again[1].span(), found[1].span()));
    }
    // A row alone.
    Tensor<float, 2> last({1, low_rank_columns});
    std::copy_n(&x(99, 0), low_rank_columns, last.data());
    const auto alone = products_with({{&v, &updates[3], {0, 1}, 1}}, v, w, last, 2);
    CHECK(std::equal(alone[0].span().begin(), alone[0].span().end(), &found[0](99, 0)));
    CHECK(std::equal(alone[1].span().begin(), alone[1].span().end(), &found[1](99, 0)));
  }
}

}  // namespace
}  // namespace bantam::test
