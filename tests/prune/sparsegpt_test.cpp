// SparseGPT on one matrix, against the paper in double precision; GPTQ with a mask that is given.
#include <cmath>
#include <numeric>

#include "bantam/compress/gptq.hpp"
#include "bantam/compress/nearest.hpp"
#include "bantam/prune/pruning.hpp"
#include "bantam/quant/formats.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "reference/pruning.hpp"
#include "support.hpp"

namespace bantam::test {
namespace {

struct Layer {
  Tensor<float, 2> w, x;
  Hessian hessian;
};

Layer some_layer(std::int64_t rows, std::int64_t columns) {
  Layer layer{random::normal<float>({rows, columns}, 31, {.deviation = 0.05}), correlated_inputs(3 * columns, columns, 32), Hessian(columns)};
  layer.hessian.add(layer.x);
  return layer;
}

/// U of the damped second moments, in double precision.
reference::Square factor_of(const Tensor<float, 2>& x, double damping) {
  const auto n = static_cast<std::size_t>(x.extent(1));
  reference::Square h(n, std::vector<double>(n, 0.0));
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::int64_t t = 0; t < x.extent(0); ++t) {
        h[i][j] += static_cast<double>(x(t, static_cast<std::int64_t>(i))) * static_cast<double>(x(t, static_cast<std::int64_t>(j)));
      }
    }
    mean += h[i][i] / static_cast<double>(n);
  }
  for (std::size_t i = 0; i < n; ++i) h[i][i] += damping * mean;
  return reference::upper_cholesky(reference::inverse(h));
}

reference::Square as_square(const Tensor<float, 2>& w) {
  reference::Square rows;
  for (std::int64_t r = 0; r < w.extent(0); ++r) rows.emplace_back(&w(r, 0), &w(r, 0) + w.extent(1));
  return rows;
}

TEST_CASE("sparsegpt removes and moves what the paper's recursion does, alone and with rounding in the same sweep") {
  const std::int64_t rows = 24, columns = 192;  // more than a block of columns; 128 is no multiple of the pattern 1:3
  const Layer layer = some_layer(rows, columns);
  const reference::Square u = factor_of(layer.x, 0.01);
  for (const Sparsity& amount : std::vector<Sparsity>{0.5, 0.8, {2, 4}, {4, 8}, {1, 3}, Sparsity::of_blocks()}) {
    for (const char* name : {"f32", "i4z.g32"}) {
      CAPTURE(to_string(amount));
      CAPTURE(std::string(name));
      const GptqResult found = gptq(layer.w, layer.hessian, find_format(name), {.damping = 0.01, .search = GridSearch::range, .sweeps = 0}, {},
                                    {.choose = amount});
      const reference::SparseGptResult expected =
          reference::sparsegpt(as_square(layer.w), u, amount.share, amount.zeros, amount.of, name[0] == 'f' ? 0 : 32, amount.blocks);
      const Tensor<float, 2> weights = found.weights.dequantize();
      std::int64_t elsewhere = 0, moved = 0, removed = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto i = static_cast<std::size_t>(r), j = static_cast<std::size_t>(c);
          removed += expected.removed[i][j];
          elsewhere += expected.removed[i][j] != 0 && weights(r, c) != 0;
          moved += std::fabs(static_cast<double>(weights(r, c)) - expected.weights[i][j]) > 1e-4;
        }
      }
      // Of 192 columns 128 have blocks to lose.
      const double share = amount.blocks ? 1.0 / 3 : amount.of > 0 ? static_cast<double>(amount.zeros) / amount.of : amount.share;
      CHECK(static_cast<double>(removed) == doctest::Approx(share * static_cast<double>(rows * columns)).epsilon(1e-3));
      // Costs and values that single precision puts on the other side of a border change the rest of their row a little.
      CHECK(elsewhere <= rows * columns / 100);
      CHECK(moved <= rows * columns / 50);
    }
  }
}

TEST_CASE("patterns hold on every row, whatever the format and the sweeps") {
  const std::int64_t rows = 20, columns = 512;
  const Layer layer = some_layer(rows, columns);
  for (const char* name : {"f16", "i4", "i3z", "nf4", "q3_k", "i8.row"}) {
    for (const Sparsity& amount : {Sparsity(2, 4), Sparsity(4, 8)}) {
      const Tensor<float, 2> found = gptq(layer.w, layer.hessian, find_format(name), {}, {}, {.choose = amount}).weights.dequantize();
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; c += amount.of) {
          CHECK(std::count(&found(r, c), &found(r, c) + amount.of, 0.0f) >= amount.zeros);
        }
      }
    }
  }
}

TEST_CASE("pruning and rounding in one sweep leaves less error in the outputs than one after the other") {
  const Layer layer = some_layer(32, 256);
  for (const char* name : {"i4.g64", "i4z.g32", "nf4"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    const auto pruned = gptq(layer.w, layer.hessian, format_info<F32Format>(), {}, {}, {.choose = 0.5}).weights.dequantize();
    const auto after = nearest(pruned, format, {.importance = layer.hessian.mean_squares()}).dequantize();
    const auto joint = gptq(layer.w, layer.hessian, format, {}, {}, {.choose = 0.5}).weights.dequantize();
    CHECK(output_error(layer.w, joint, layer.x) < 0.95 * output_error(layer.w, after, layer.x));
  }
}

TEST_CASE("sparsegpt leaves less error in the outputs than wanda, and wanda than magnitude; patterns cost more") {
  const Layer layer = some_layer(32, 256);
  double before = 0;
  for (const Sparsity& amount : std::vector<Sparsity>{0.5, {4, 8}, {2, 4}}) {
    CAPTURE(to_string(amount));
    const auto error = [&](const Tensor<float, 2>& left) { return output_error(layer.w, left, layer.x); };
    const double magnitude = error(masked(layer.w, magnitude_mask(layer.w, amount)));
    const double wanda = error(masked(layer.w, wanda_mask(layer.w, layer.hessian.mean_squares(), amount)));
    const double sparse = error(gptq(layer.w, layer.hessian, format_info<F32Format>(), {}, {}, {.choose = amount}).weights.dequantize());
    CHECK(sparse < wanda);
    CHECK(wanda < magnitude);
    CHECK(before < sparse);
    before = sparse;
  }
}

TEST_CASE("what a mask removes stays removed through recursion, targets and sweeps, in every format that holds zero") {
  const std::int64_t rows = quick() ? 8 : 20, columns = 300;
  const Layer layer = some_layer(rows, columns);
  const auto residual = random::normal<float>({rows, columns}, 33);
  for (const FormatInfo& format : formats()) {
    if (another_has_its_search(format)) continue;
    CAPTURE(std::string(format.name));
    const Sparsity fitting = sparsity_of(format);
    const Mask mask = wanda_mask(layer.w, layer.hessian.mean_squares(), fitting.any() ? fitting : Sparsity(0.5));
    if (!holds_zero(format)) {
      CHECK(error_of([&] { (void)gptq(layer.w, layer.hessian, format, {}, {}, {.mask = &mask}); }) ==
            message("gptq: expected a format that holds 0 exactly, to prune, found ", format.name));
      continue;
    }
    for (const ColumnOrder order : {ColumnOrder::natural, ColumnOrder::activation, ColumnOrder::group}) {
      const Tensor<float, 2> found = gptq(layer.w, layer.hessian, format, {.order = order}, residual, {.mask = &mask}).weights.dequantize();
      std::int64_t back = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) back += mask(r, c) != 0 && found(r, c) != 0;
      }
      CHECK(back == 0);
      // The others make up for what went: less error than without, rounded or not.
      const Tensor<float, 2> compensated = gptq(layer.w, layer.hessian, format, {.order = order}, {}, {.mask = &mask}).weights.dequantize();
      const Tensor<float, 2> alone = WeightMatrix::quantize(masked(layer.w, mask), format).dequantize();
      CHECK(output_error(layer.w, compensated, layer.x) < 0.8 * output_error(layer.w, alone, layer.x));
    }
  }
}

TEST_CASE("gptq in a format that holds some of the weights is that in the dense one, on masks that are given and chosen") {
  const Layer layer = some_layer(24, 300);
  for (const auto& [sparse, dense] : {std::pair{"i4s.g64", "i4.g64"}, {"i4b.g128", "i4.g128"}}) {
    CAPTURE(std::string(sparse));
    const FormatInfo& format = find_format(sparse);
    const Mask mask = wanda_mask(layer.w, layer.hessian.mean_squares(), sparsity_of(format));
    for (const GptqZeros& zeros : {GptqZeros{.mask = &mask}, GptqZeros{.choose = sparsity_of(format)}}) {
      const auto expected = gptq(layer.w, layer.hessian, find_format(dense), {}, {}, zeros).weights.dequantize();
      CHECK(std::ranges::equal(gptq(layer.w, layer.hessian, format, {}, {}, zeros).weights.dequantize().span(), expected.span()));
    }
  }
}

TEST_CASE("gptq says which zeros it cannot make") {
  const Layer layer = some_layer(4, 66);
  const FormatInfo& format = find_format("i4.g32");
  const Mask mask({4, 65});
  CHECK(error_of([&] { (void)gptq(layer.w, layer.hessian, format, {}, {}, {.mask = &mask}); }) == "gptq: expected a mask of (4, 66), found (4, 65)");
  CHECK(error_of([&] { (void)gptq(layer.w, layer.hessian, format, {}, {}, {.choose = {2, 4}}); }) ==
        "pruning: expected rows of whole 4s for 2:4, found rows of 66");
  CHECK(error_of([&] { (void)gptq(layer.w, layer.hessian, format, {}, {}, {.mask = &mask, .choose = 0.5}); }) ==
        "gptq: expected zeros that are given or chosen, found both");
  const Mask fewer = magnitude_mask(layer.w, 0.5);
  for (const GptqZeros& zeros : {GptqZeros{}, GptqZeros{.mask = &fewer}, GptqZeros{.choose = 0.5}}) {
    CHECK(error_of([&] { (void)gptq(layer.w, layer.hessian, find_format("i4s"), {}, {}, zeros); }) ==
          "gptq: expected zeros of the pattern 2:4, of what i4s.g64 holds, found others");
  }
  CHECK(error_of([&] { (void)gptq(layer.w, layer.hessian, find_format("f32")); }).find("gptq: expected a format of integers or levels, found f32") == 0);
}

}  // namespace
}  // namespace bantam::test
