// Matrices quantized and pruned with headers alone, against double precision and the laws that hold of them.
#include "bantam/header_only.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "compress/layer_inputs.hpp"
#include "reference/gptq.hpp"
#include "reference/pruning.hpp"

namespace bantam::test {
namespace {

constexpr std::int64_t rows = 40, columns = 320, tokens = 700;

/// One layer: its weights, its inputs, and what they say about each other.
struct Layer {
  Tensor<float, 2> weights = random::normal<float>({rows, columns}, 1, {.deviation = 0.05});
  Tensor<float, 2> inputs = correlated_inputs(tokens, columns, 2);
  Hessian hessian{columns};
  Layer() { hessian.add(inputs); }
  [[nodiscard]] double error(const Tensor<float, 2>& changed) const { return output_error(weights, changed, inputs); }
  [[nodiscard]] double error(const WeightMatrix& changed) const { return error(changed.dequantize()); }
};

reference::Square moments_in_double(const Tensor<float, 2>& x) {
  const auto n = static_cast<std::size_t>(x.extent(1));
  reference::Square h(n, std::vector<double>(n, 0.0));
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) h[i][j] += static_cast<double>(x(t, static_cast<std::int64_t>(i))) * static_cast<double>(x(t, static_cast<std::int64_t>(j)));
    }
  }
  return h;
}

double mean_of_diagonal(const reference::Square& h) {
  double mean = 0;
  for (std::size_t i = 0; i < h.size(); ++i) mean += h[i][i] / static_cast<double>(h.size());
  return mean;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE_TEMPLATE("gptq never loses more than rounding to nearest on the inputs it has seen", F, IntZero<4, 32>, Int<3, 64>, Nf4, Q4K) {
  const Layer layer;
  const FormatInfo& format = format_info<F>();
  const GptqResult found = gptq(layer.weights, layer.hessian, format);
  const double error = layer.error(found.weights);
  CHECK(error < layer.error(nearest(layer.weights, format)));
  // What descent counts on top is half of that, less what damping adds.
  CHECK(error / 2 < found.loss);
  CHECK(error / 2 > 0.8 * found.loss);
}

TEST_CASE("gptq without the library chooses the codes of the paper's recursion") {
  const Layer layer;
  using Format = IntZero<4, 32>;
  const GptqResult found = gptq(layer.weights, layer.hessian, format_info<Format>(), {.order = ColumnOrder::natural, .search = GridSearch::range, .sweeps = 0});
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < columns; ++c) order.push_back(c);
  reference::Square h = moments_in_double(layer.inputs);
  const double mean = mean_of_diagonal(h);
  for (std::size_t i = 0; i < columns; ++i) h[i][i] += 0.01 * mean;
  const auto u = reference::upper_cholesky(reference::inverse(h));
  int different = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto expected = reference::gptq_row({&layer.weights(r, 0), &layer.weights(r, 0) + columns}, u, order, 32, false);
    RowCodes codes;
    load_codes<Format>(found.weights.view().data + r / panel_rows * Strip16<Format>::panel_bytes(columns), static_cast<int>(r % panel_rows), columns, codes);
    for (std::size_t c = 0; c < columns; ++c) different += codes.codes[c] != expected.codes[c];
  }
  // A value that single precision puts on the other side of a border changes the rest of its row a little.
  CHECK(different <= rows * columns / 100);
}

TEST_CASE("the factor of a matrix of several blocks is that of double precision, and its inverse undoes it") {
  const reference::Square h = moments_in_double(correlated_inputs(tokens, columns, 2));  // 320 columns: a block of 256, and a rest
  Tensor<float, 2> factor({columns, columns});
  for (std::int64_t i = 0; i < columns; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) factor(i, j) = static_cast<float>(h[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]);
  }
  REQUIRE(factorize(factor));
  const auto expected = reference::upper_cholesky(h);
  Tensor<float, 2> inverse = factor.clone();
  invert_upper(inverse);
  for (std::int64_t i = 0; i < columns; ++i) {
    for (std::int64_t j = i; j < columns; ++j) {
      const auto row = static_cast<std::size_t>(i), column = static_cast<std::size_t>(j);
      // A column's norm is the root of the diagonal of H; single precision, 320 terms.
      CHECK(static_cast<double>(factor(i, j)) == doctest::Approx(expected[row][column]).scale(std::sqrt(h[column][column])).epsilon(2e-5));
      double product = 0;
      for (std::int64_t k = i; k <= j; ++k) product += static_cast<double>(factor(i, k)) * static_cast<double>(inverse(k, j));
      CHECK(product == doctest::Approx(i == j ? 1 : 0).scale(1).epsilon(1e-3));
    }
  }
  Tensor<float, 2> indefinite({2, 2});
  indefinite(0, 0) = indefinite(0, 1) = 1;
  CHECK_FALSE(factorize(indefinite));
}

TEST_CASE("awq's scales, its clipping and hqq lose no more than plain grids") {
  const Layer layer;
  const FormatInfo& format = format_info<Int<4, 32>>();
  const AwqReader reader{layer.weights, &format};
  const AwqScales scales = awq_scales({&reader, 1}, layer.hessian);
  CHECK(scales.ratio > 0);
  CHECK(scales.loss < scales.unscaled_loss);
  const auto plain = nearest(layer.weights, format, {.search = GridSearch::range});
  CHECK(layer.error(nearest(awq_clip(layer.weights, layer.hessian, format), format, {.search = GridSearch::range})) < layer.error(plain));
  const auto power = [&](const WeightMatrix& rounded) {  // the norm that hqq makes small
    double sum = 0;
    const Tensor<float, 2> values = rounded.dequantize();
    for (std::int64_t i = 0; i < values.size(); ++i) sum += std::pow(std::fabs(static_cast<double>(values.data()[i] - layer.weights.data()[i])), 0.7);
    return sum;
  };
  const FormatInfo& with_minimums = format_info<IntMin<4>>();
  CHECK(power(hqq(layer.weights, with_minimums)) < power(nearest(layer.weights, with_minimums, {.search = GridSearch::range})));
  CHECK(error_of([&] { (void)hqq(layer.weights, format); }).starts_with("hqq: expected a format with a minimum a group (i5m.g32, "));
}

TEST_CASE("wanda removes what the reference does, and sparsegpt loses less by as much") {
  const Layer layer;
  const std::vector<float> squares = layer.hessian.mean_squares();
  const Mask mask = wanda_mask(layer.weights, squares, {2, 4});
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double> scores;
    for (std::int64_t c = 0; c < columns; ++c) {
      scores.push_back(std::fabs(static_cast<double>(layer.weights(r, c))) * std::sqrt(static_cast<double>(squares[static_cast<std::size_t>(c)])));
    }
    CHECK(std::vector<int>(&mask(r, 0), &mask(r, 0) + columns) == reference::smallest_of_each(scores, 2, 4));
  }
  const double wanda = layer.error(masked(layer.weights, mask));
  CHECK(wanda < layer.error(masked(layer.weights, magnitude_mask(layer.weights, {2, 4}))));
  const FormatInfo& floats = format_info<F32Format>();
  CHECK(layer.error(gptq(layer.weights, layer.hessian, floats, {}, {}, {.mask = &mask}).weights) < wanda);
  const Tensor<float, 2> pruned = gptq(layer.weights, layer.hessian, floats, {}, {}, {.choose = {2, 4}}).weights.dequantize();
  CHECK(layer.error(pruned) < wanda);
  CHECK(std::ranges::count(pruned.span(), 0.0f) == rows * columns / 2);
}

TEST_CASE("columns that stay make up for those that go") {
  const Layer layer;
  std::vector<std::int64_t> kept;
  for (std::int64_t c = 0; c < columns; ++c) {
    if (c % 3 != 1) kept.push_back(c);
  }
  const auto put_back = [&](const Tensor<float, 2>& left) {
    Tensor<float, 2> all({rows, columns});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < kept.size(); ++i) all(r, kept[i]) = left(r, static_cast<std::int64_t>(i));
    }
    return all;
  };
  const Tensor<float, 2> fitted = compensate(layer.weights, layer.hessian, kept);
  CHECK(layer.error(put_back(fitted)) < 0.7 * layer.error(put_back(keep_columns(layer.weights, kept))));
}

TEST_CASE("loops without oneTBB do every item once, inside each other too, and throw what an item throws") {
  set_parallel_threads(3);
  std::vector<int> done(1000);
  parallel_for(10, 1, [&](Range tens) {
    for (std::int64_t ten = tens.begin; ten < tens.end; ++ten) {
      parallel_for(100, 7, [&](Range ones) {
        for (std::int64_t one = ones.begin; one < ones.end; ++one) ++done[static_cast<std::size_t>(ten * 100 + one)];
      });
    }
  });
  CHECK(std::ranges::count(done, 1) == 1000);
  CHECK(error_of([] { parallel_for(100, 1, [](Range range) { if (range.begin == 50) fail(Errc::corrupt, "at fifty"); }); }) == "at fifty");
  const CancelScope scope([] { return true; });
  CHECK(error_of([] { parallel_for(100, 1, [](Range) {}); }) == "cancelled");
  set_parallel_threads(0);
}

}  // namespace bantam::test
