// GPTQ on one matrix, against the paper in double precision and against rounding to nearest.
#include "bantam/compress/gptq.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compress/inputs.hpp"
#include "limits.hpp"
#include "reference/gptq.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

reference::Square damped(const Tensor<float, 2>& x, const std::vector<std::size_t>& order, double damping) {
  const std::size_t n = order.size();
  reference::Square h(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::int64_t t = 0; t < x.extent(0); ++t) {
        h[i][j] += static_cast<double>(x(t, static_cast<std::int64_t>(order[i]))) * static_cast<double>(x(t, static_cast<std::int64_t>(order[j])));
      }
    }
  }
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += h[i][i] / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) h[i][i] += damping * mean;
  return h;
}

}  // namespace

TEST_CASE("a Hessian is the sum of products of inputs, added in parts") {
  const auto x = correlated_inputs(300, 70, 1);
  Hessian hessian(70);
  const TensorView<const float, 2> view = x;
  hessian.add(view.slice(0, 0, 7));
  hessian.add(view.slice(0, 7, 300));
  CHECK(hessian.tokens() == 300);
  for (std::int64_t i = 0; i < 70; ++i) {
    for (std::int64_t j = 0; j < 70; ++j) {
      double expected = 0;
      for (std::int64_t t = 0; t < 300; ++t) expected += static_cast<double>(x(t, i)) * static_cast<double>(x(t, j));
      CHECK(hessian(i, j) == doctest::Approx(expected).epsilon(1e-4));
    }
  }
  CHECK(hessian.mean_squares()[3] == doctest::Approx(hessian(3, 3) / 300));
}

TEST_CASE("a Hessian that goes part of the way to another is that of weighted inputs") {
  const auto x = correlated_inputs(40, 20, 3), y = correlated_inputs(30, 20, 4);
  Hessian a(20), b(20), both(20);
  a.add(x);
  b.add(x);
  b.add(y);
  a.blend(b, 0.25f);
  Tensor<float, 2> quarter({30, 20});
  for (std::int64_t i = 0; i < y.size(); ++i) quarter.data()[i] = 0.5f * y.data()[i];
  both.add(x);
  both.add(quarter);
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t j = 0; j < 20; ++j) CHECK(a(i, j) == doctest::Approx(both(i, j)).epsilon(1e-4));
    CHECK(a.largest()[static_cast<std::size_t>(i)] == b.largest()[static_cast<std::size_t>(i)]);
  }
  CHECK(a.tokens() == 47);
}

TEST_CASE("gptq chooses the codes of the paper's recursion, in any order of columns") {
  // 160 columns: more than the block that errors are carried over by.
  const std::int64_t rows = 24, columns = 160;
  const auto w = random::normal<float>({rows, columns}, 5, {.deviation = 0.05});
  const auto x = correlated_inputs(500, columns, 6);
  Hessian hessian(columns);
  hessian.add(x);
  for (const auto& [kind, static_groups] : {std::pair{ColumnOrder::natural, false}, {ColumnOrder::natural, true},
                                            {ColumnOrder::activation, false}, {ColumnOrder::group, false}, {ColumnOrder::group, true}}) {
    CAPTURE(static_cast<int>(kind));
    CAPTURE(static_groups);
    const auto size = [&](std::size_t c) { return hessian(static_cast<std::int64_t>(c), static_cast<std::int64_t>(c)); };
    std::vector<std::size_t> order(columns);
    std::iota(order.begin(), order.end(), 0);
    if (kind == ColumnOrder::activation) std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
    if (kind == ColumnOrder::group) {
      std::vector<std::vector<std::size_t>> groups(columns / 32);
      for (std::size_t c = 0; c < columns; ++c) groups[c / 32].push_back(c);
      for (auto& group : groups) std::ranges::stable_sort(group, [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
      std::ranges::stable_sort(groups, [&](const auto& a, const auto& b) { return size(a[0]) > size(b[0]); });
      order.clear();
      for (const auto& group : groups) order.insert(order.end(), group.begin(), group.end());
    }
    const GptqResult found = gptq(w, hessian, format_info<IntZero<4, 32>>(),
                                  {.damping = 0.01, .order = kind, .static_groups = static_groups, .search = GridSearch::range, .sweeps = 0});
    CHECK(found.damping == 0.01);
    const auto u = reference::upper_cholesky(reference::inverse(damped(x, order, 0.01)));
    int different = 0;
    double loss = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const reference::GptqRow expected = reference::gptq_row({&w(r, 0), &w(r, 0) + columns}, u, order, 32, static_groups || kind == ColumnOrder::activation);
      loss += expected.loss;
      RowCodes codes;
      load_codes<IntZero<4, 32>>(found.weights.view().data, static_cast<int>(r), columns, codes);
      for (std::int64_t c = 0; c < columns; ++c) different += codes.codes[static_cast<std::size_t>(c)] != expected.codes[static_cast<std::size_t>(c)];
    }
    // A value that single precision puts on the other side of a border changes the rest of its row a little.
    CHECK(different <= rows * columns / 100);
    CHECK(found.loss == doctest::Approx(loss).epsilon(0.01));
  }
}

TEST_CASE("gptq leaves less error in the outputs than rounding to nearest, in every format") {
  const std::int64_t rows = quick() ? 12 : 32, columns = 300;  // a block of 256 and a part of one, whose last group of 16 is padding
  const auto w = random::normal<float>({rows, columns}, 7, {.deviation = 0.05});
  const auto x = correlated_inputs(800, columns, 8);
  Hessian hessian(columns);
  hessian.add(x);
  for (const FormatInfo& format : formats()) {
    if (format.is_float || another_has_its_search(format)) continue;
    CAPTURE(std::string(format.name));
    const double nearest = output_error(w, WeightMatrix::quantize(w, format).dequantize(), x);
    const Mask mask = format.kept == Kept::all ? Mask() : magnitude_mask(w, sparsity_of(format));
    for (const ColumnOrder order : {ColumnOrder::natural, ColumnOrder::activation, ColumnOrder::group}) {
      CAPTURE(static_cast<int>(order));
      const GptqResult found = gptq(w, hessian, format, {.order = order}, {}, {.mask = format.kept == Kept::all ? nullptr : &mask});
      const double error = output_error(w, found.weights.dequantize(), x);
      CHECK(error < 0.8 * nearest);
      // The recursion counts the error of the damped problem.
      CHECK(2 * found.loss >= 0.7 * error);
    }
  }
}

TEST_CASE("sweeps after the recursion leave less error in the outputs, in any order of columns") {
  const std::int64_t rows = 24, columns = 200;
  const auto w = random::normal<float>({rows, columns}, 13, {.deviation = 0.05});
  const auto x = correlated_inputs(600, columns, 14);
  Hessian hessian(columns);
  hessian.add(x);
  for (const auto& [name, share] : {std::pair{"i2z.g32", 0.95}, {"i3.g64", 0.985}, {"i4m.g32", 1.0}, {"q2k", 0.97}, {"i8.row", 1.0}}) {
    for (const ColumnOrder order : {ColumnOrder::natural, ColumnOrder::activation, ColumnOrder::group}) {
      CAPTURE(std::string(name));
      CAPTURE(static_cast<int>(order));
      const auto with = [&](int sweeps) { return gptq(w, hessian, find_format(name), {.order = order, .sweeps = sweeps}); };
      const GptqResult recursion = with(0), swept = with(4);
      CHECK(output_error(w, swept.weights.dequantize(), x) < share * output_error(w, recursion.weights.dequantize(), x));
      CHECK(swept.loss < share * recursion.loss);
    }
  }
}

TEST_CASE("a residual makes gptq round what gives the outputs that are wanted") {
  // More columns than are multiplied at once.
  const std::int64_t rows = 12, columns = quick() ? 130 : 600;
  const auto w = random::normal<float>({rows, columns}, 15, {.deviation = 0.05});
  const auto change = random::normal<float>({rows, columns}, 16, {.deviation = 0.02});
  const auto x = correlated_inputs(2 * columns, columns, 17);
  Hessian hessian(columns);
  hessian.add(x);
  Tensor<float, 2> wanted({rows, columns}), residual({rows, columns});
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      wanted(r, c) = w(r, c) + change(r, c);
      double sum = 0;
      for (std::int64_t k = 0; k < columns; ++k) sum += static_cast<double>(change(r, k)) * static_cast<double>(hessian(k, c));
      residual(r, c) = static_cast<float>(sum);
    }
  }
  const FormatInfo& format = format_info<Int<3, 32>>();
  const auto error = [&](const GptqResult& found) { return output_error(wanted, found.weights.dequantize(), x); };
  for (const ColumnOrder order : {ColumnOrder::natural, ColumnOrder::activation, ColumnOrder::group}) {
    CAPTURE(static_cast<int>(order));
    const GptqOptions options{.damping = 1e-4, .order = order};
    const double direct = error(gptq(wanted, hessian, format, options));
    CHECK(error(gptq(w, hessian, format, options, residual)) < 1.05 * direct);
    CHECK(error(gptq(w, hessian, format, options)) > 2 * direct);
  }
  CHECK(error_of([&] { (void)gptq(w, hessian, format, {}, Tensor<float, 2>({rows, 5})); }) ==
        message("gptq: expected a residual of (", rows, ", ", columns, "), found (", rows, ", 5)"));
}

TEST_CASE("moments that are singular past the first block of columns take more damping, and leave H to its owner") {
  // Two inputs that always agree, and the damping too small to tell them apart in single precision.
  const std::int64_t columns = 400;
  const auto w = random::normal<float>({8, columns}, 11);
  auto x = random::normal<float>({900, columns}, 12);
  for (std::int64_t t = 0; t < 900; ++t) x(t, 390) = x(t, 391);
  Hessian hessian(columns);
  hessian.add(x);
  const float before = hessian(17, 350);
  const GptqOptions options{.damping = 0, .order = ColumnOrder::natural};
  const GptqResult found = gptq(w, hessian, format_info<Int<4, 32>>(), options);
  CHECK(hessian(17, 350) == before);
  CHECK(hessian.columns() == columns);
  CHECK(found.damping >= 0);
  CHECK(output_error(w, found.weights.dequantize(), x) < output_error(w, WeightMatrix::quantize(w, format_info<Int<4, 32>>()).dequantize(), x));
  const GptqResult again = gptq(w, std::move(hessian), format_info<Int<4, 32>>(), options);
  CHECK(std::ranges::equal(again.weights.dequantize().span(), found.weights.dequantize().span()));
}

TEST_CASE("inputs that are always zero get weights of zero, singular moments more damping") {
  const auto w = random::normal<float>({8, 64}, 9);
  auto x = correlated_inputs(20, 64, 10);  // fewer tokens than columns
  for (std::int64_t t = 0; t < 20; ++t) x(t, 5) = 0;
  Hessian hessian(64);
  hessian.add(x);
  const GptqResult found = gptq(w, hessian, format_info<Int<4, 32>>(), {.damping = 0.01});
  const auto decoded = found.weights.dequantize();
  for (std::int64_t r = 0; r < 8; ++r) CHECK(decoded(r, 5) == 0.0f);
  for (const float v : decoded.span()) CHECK(std::isfinite(v));
  const Hessian nothing(64);
  const auto silent = gptq(w, nothing, format_info<Int<4, 32>>()).weights.dequantize();
  for (const float v : silent.span()) CHECK(v == 0.0f);
}

TEST_CASE("gptq says what does not fit") {
  const auto w = random::normal<float>({8, 64}, 9);
  CHECK(error_of([&] { (void)gptq(w, Hessian(32), format_info<Int<4, 32>>()); }) == "gptq: expected weights of 32 columns, found 64");
  CHECK(error_of([&] { (void)gptq(w, Hessian(64), format_info<F16Format>()); }) == "gptq: expected a format of integers or levels, found f16");
  auto bad = random::normal<float>({8, 64}, 9);
  bad(2, 3) = NAN;
  CHECK(error_of([&] { (void)gptq(bad, Hessian(64), format_info<Int<4, 32>>()); }) == "gptq: expected finite weights, found nan at (2, 3)");
  auto x = correlated_inputs(4, 64, 1);
  x(1, 2) = INFINITY;
  CHECK(error_of([&] { Hessian(64).add(x); }) == "activations: expected finite numbers, found inf in column 2");
  CHECK(error_of([&] { Hessian(64).add(correlated_inputs(4, 32, 1)); }) == "Hessian: expected inputs of 64 columns, found 32");
}

}  // namespace bantam::test
