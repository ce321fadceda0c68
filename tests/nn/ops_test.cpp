// The public operations against the references, and what they refuse.
#include "bantam/nn/ops.hpp"

#include <cmath>

#include "bantam/tensor/random.hpp"
#include "limits.hpp"
#include "reference/activations.hpp"
#include "reference/attention.hpp"
#include "reference/matmul.hpp"
#include "reference/norm.hpp"
#include "support.hpp"

namespace ops = bantam::ops;
namespace reference = bantam::reference;
using bantam::Tensor;
using bantam::TensorView;
using bantam::WeightMatrix;
using bantam::random::normal;
using bantam::test::error_of;

namespace {

std::vector<float> copy_of(std::span<const float> x) { return {x.begin(), x.end()}; }
std::vector<double> doubles_of(std::span<const float> x) { return {x.begin(), x.end()}; }

double largest_difference(std::span<const float> a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts as well
  }
  return largest;
}

}  // namespace

TEST_CASE("matmul multiplies by every format's own weights, exactly or fast") {
  const auto x = normal<float>({5, 172}, 1);
  const auto weights = normal<float>({50, 172}, 2, {.deviation = 0.1});
  for (const bantam::FormatInfo& format : bantam::formats()) {
    CAPTURE(std::string(format.name));
    const WeightMatrix w = WeightMatrix::quantize(weights, format);
    const auto expected = reference::matmul(doubles_of(x.span()), doubles_of(w.dequantize().span()), 5, 50, 172);
    const auto exact = ops::matmul(x, w);
    CHECK(exact.shape() == bantam::Shape<2>{5, 50});
    CHECK(largest_difference(exact.span(), expected) < 1e-5);
    // Rounding activations to 127ths of about 3 sigma: errors of 172 products add up like noise; codebook levels to
    // 127ths likewise. Six sigma of 3/127/sqrt(12) * 0.1 * sqrt(172).
    const auto fast = ops::matmul(x, w, ops::Precision::fast);
    CHECK(largest_difference(fast.span(), expected) < 0.08);
    Tensor<float, 2> out({5, 50});
    ops::matmul(x, w, out, ops::Precision::fast);
    CHECK(std::equal(out.span().begin(), out.span().end(), fast.span().begin()));
  }
}

TEST_CASE("matmul takes one token of a larger tensor, and a row of a slice") {
  const auto x = normal<float>({5, 64}, 1);
  const WeightMatrix w = bantam::quantize<bantam::Int8<32>>(normal<float>({20, 64}, 2));
  const auto all = ops::matmul(x, w);
  const auto one = ops::matmul(x.view().slice(0, 3, 4), w);
  for (int r = 0; r < 20; ++r) CHECK(one(0, r) == all(3, r));
}

TEST_CASE("matmul refuses shapes that do not fit") {
  const auto x = normal<float>({5, 64}, 1);
  const WeightMatrix w = bantam::quantize<bantam::Int8<32>>(normal<float>({20, 60}, 2));
  CHECK(error_of([&] { (void)ops::matmul(x, w); }) == "matmul: x: expected shape (5, 60), found (5, 64)");
  CHECK(error_of([&] { (void)ops::matmul(x, WeightMatrix()); }) == "matmul: expected weights, found an empty matrix");
  CHECK(error_of([&] { (void)ops::matmul(x.view().slice(1, 2, 62), w); }) == "matmul: x: expected a contiguous view");
  Tensor<float, 2> narrow({5, 19});
  CHECK(error_of([&] { ops::matmul(x.view().transposed().slice(0, 0, 60).slice(1, 0, 5).transposed(), w, narrow); })
            .starts_with("matmul: "));
}

TEST_CASE("norms agree with double precision row by row, in place too") {
  auto x = normal<float>({7, 100}, 3);
  const auto weight = normal<float>({100}, 4);
  const auto bias = normal<float>({100}, 5);
  Tensor<float, 2> rms({7, 100});
  Tensor<float, 2> layer({7, 100});
  ops::rms_norm(x, weight, rms, {.eps = 1e-6f});
  ops::layer_norm(x, weight, bias, layer, {.eps = 1e-6f});
  for (int t = 0; t < 7; ++t) {
    const std::vector<float> row = copy_of(x[t].span());
    // Numbers up to 4, a hundred of them, single precision.
    CHECK(largest_difference(rms[t].span(), reference::rms_norm(row, copy_of(weight.span()), 1e-6)) < 1e-5);
    CHECK(largest_difference(layer[t].span(), reference::layer_norm(row, copy_of(weight.span()), copy_of(bias.span()), 1e-6)) < 1e-5);
  }
  ops::rms_norm(x, weight, x, {.eps = 1e-6f});
  CHECK(std::equal(x.span().begin(), x.span().end(), rms.span().begin()));
  const auto short_weight = normal<float>({99}, 4);
  CHECK(error_of([&] { ops::rms_norm(x, short_weight, x); }) == "rms_norm: weight: expected shape (100), found (99)");
  CHECK(error_of([&] { ops::layer_norm(x, weight, short_weight, layer); }) == "layer_norm: bias: expected shape (100), found (99)");
}

TEST_CASE("a layer norm without bias adds none") {
  const auto x = normal<float>({2, 33}, 6);
  const auto weight = normal<float>({33}, 7);
  Tensor<float, 2> out({2, 33});
  ops::layer_norm(x, weight, TensorView<const float, 1>(), out);
  CHECK(largest_difference(out[1].span(), reference::layer_norm(copy_of(x[1].span()), copy_of(weight.span()), {}, 1e-5)) < 1e-5);
}

TEST_CASE("gated activations agree with double precision") {
  const auto gate = normal<float>({3, 43}, 8, {.deviation = 3});
  const auto up = normal<float>({3, 43}, 9);
  Tensor<float, 2> out({3, 43});
  const auto check = [&](ops::Gate kind, double (*f)(double)) {
    std::vector<double> expected;
    for (std::size_t i = 0; i < gate.span().size(); ++i) expected.push_back(f(gate.span()[i]) * static_cast<double>(up.span()[i]));
    ops::gated_activation(gate, up, out, kind);
    // Numbers up to 12 times 3; the stated errors are below 3e-7 of them.
    CHECK(largest_difference(out.span(), expected) < 1e-5);
  };
  check(ops::Gate::silu, reference::silu);
  check(ops::Gate::gelu_tanh, reference::gelu_tanh);
  check(ops::Gate::gelu_erf, reference::gelu);
  CHECK(error_of([&] { ops::gated_activation(gate, up, out, ops::Gate::xielu); }) == "gated_activation: expected an activation without numbers of its own, found xielu");
}

TEST_CASE("an mlp is its three products and the activation between, gated or not") {
  const auto x = normal<float>({4, 64}, 10);
  const auto gate = normal<float>({172, 64}, 11, {.deviation = 0.1});
  const auto up = normal<float>({172, 64}, 12, {.deviation = 0.1});
  const auto down = normal<float>({64, 172}, 13, {.deviation = 0.1});
  const bantam::FormatInfo& f32 = bantam::find_format("f32");
  const WeightMatrix g = WeightMatrix::quantize(gate, f32);
  const WeightMatrix u = WeightMatrix::quantize(up, f32);
  const WeightMatrix d = WeightMatrix::quantize(down, f32);
  for (const bool gated : {true, false}) {
    std::vector<double> hidden = reference::matmul(doubles_of(x.span()), doubles_of(gate.span()), 4, 172, 64);
    const std::vector<double> factor = reference::matmul(doubles_of(x.span()), doubles_of(up.span()), 4, 172, 64);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = reference::silu(hidden[i]) * (gated ? factor[i] : 1);
    const auto expected = reference::matmul(hidden, doubles_of(down.span()), 4, 64, 172);
    CHECK(largest_difference(ops::mlp(x, g, gated ? u : WeightMatrix(), d, ops::Gate::silu).span(), expected) < 1e-5);
  }
}

TEST_CASE("attention agrees with the whole softmax: grouped heads, windows, page borders") {
  struct Heads {
    std::int64_t heads, kv_heads, dim;
  };
  std::uint64_t seed = 20;
  for (const auto& [heads, kv_heads, dim] : {Heads{4, 4, 16}, {4, 2, 8}, {6, 1, 20}, {8, 2, 80}}) {
    for (const std::int64_t tokens : {1, 15, 16, 17, 63, 64, 65, 128, 200}) {
      if (bantam::test::quick() && tokens > 65 && dim > 20) continue;
      for (const std::int64_t window : {0, 1, 7, 64, 100}) {
        CAPTURE(heads);
        CAPTURE(dim);
        CAPTURE(tokens);
        CAPTURE(window);
        const auto q = normal<float>({tokens, heads, dim}, ++seed);
        const auto k = normal<float>({tokens, kv_heads, dim}, ++seed);
        const auto v = normal<float>({tokens, kv_heads, dim}, ++seed);
        const auto expected = reference::attention(copy_of(q.span()), copy_of(k.span()), copy_of(v.span()), {tokens, heads, kv_heads, dim, window});
        // Scores and values of a few units, in single precision.
        CHECK(largest_difference(ops::attention(q, k, v, window).span(), expected) < 2e-5);
      }
    }
  }
}

TEST_CASE("slopes of ALiBi are the paper's, and take their part from scores, in pages of any kind") {
  CHECK(bantam::nn::alibi_slopes(8, 8) == std::vector<float>{0.5F, 0.25F, 0.125F, 0.0625F, 0.03125F, 0.015625F, 0.0078125F, 0.00390625F});
  // The paper's get_slopes(12).
  const std::vector<float> twelve = bantam::nn::alibi_slopes(12, 8);
  for (std::size_t i = 0; i < 12; ++i) CHECK(std::fabs(std::log2(static_cast<double>(twelve[i])) + (i < 8 ? static_cast<double>(i + 1) : static_cast<double>(i) - 8 + 0.5)) < 1e-6);
  std::uint64_t seed = 90;
  for (const std::int64_t tokens : {1, 17, 65, 200}) {
    for (const std::int64_t window : {0, 7, 100}) {
      for (const auto& [heads, kv_heads] : {std::pair{4, 4}, {6, 2}}) {
        CAPTURE(tokens);
        CAPTURE(window);
        CAPTURE(heads);
        const std::int64_t dim = 16;
        const auto q = normal<float>({tokens, heads, dim}, ++seed);
        const auto k = normal<float>({tokens, kv_heads, dim}, ++seed);
        const auto v = normal<float>({tokens, kv_heads, dim}, ++seed);
        const std::vector<float> slopes = bantam::nn::alibi_slopes(heads, 8);
        const auto expected = reference::attention(copy_of(q.span()), copy_of(k.span()), copy_of(v.span()), {tokens, heads, kv_heads, dim, window, slopes});
        for (const auto& [kind, allowed] : {std::pair<const char*, double>{"f32", 2e-5}, {"f16", 1e-2}, {"q8", 6e-2}}) {
          CHECK(largest_difference(ops::attention(q, k, v, window, kind, slopes).span(), expected) < allowed);
        }
        if (tokens > 1) CHECK(largest_difference(ops::attention(q, k, v, window).span(), expected) > 1e-2);
      }
    }
  }
}

TEST_CASE("attention over pages of fewer bits stays within what rounding explains") {
  const std::int64_t tokens = 150;
  for (const std::int64_t dim : {8, 20, 64}) {
    CAPTURE(dim);
    const auto q = normal<float>({tokens, 4, dim}, 50);
    const auto k = normal<float>({tokens, 2, dim}, 51);
    const auto v = normal<float>({tokens, 2, dim}, 52);
    const auto expected = reference::attention(copy_of(q.span()), copy_of(k.span()), copy_of(v.span()), {tokens, 4, 2, dim, 0});
    // A step e of keys and values, of about 3 sigma: f16 2^-11, q8 1/127/2, q4 6/15/2, of q3 half of its widest gap. The first token returns its
    // value alone: error e. Later ones: scores off by e sqrt(1/3), probabilities in proportion, times values of 3.
    for (const auto& [kind, step] : {std::pair<const char*, double>{"f16", 0x1p-11 * 3}, {"q8", 3.5 / 127 / 2}, {"q4", 6.5 / 15 / 2}, {"q3", 0.5}}) {
      CAPTURE(std::string(kind));
      CHECK(largest_difference(ops::attention(q, k, v, 0, kind).span(), expected) < 4 * step);
    }
  }
}

TEST_CASE("attention refuses what cannot be") {
  const auto q = normal<float>({3, 4, 8}, 1);
  const auto k = normal<float>({3, 3, 8}, 2);
  const auto short_k = normal<float>({2, 2, 8}, 2);
  const auto good = normal<float>({3, 2, 8}, 2);
  CHECK(error_of([&] { (void)ops::attention(q, k, k); }) == "attention: expected heads to be a multiple of kv heads, found 4 and 3");
  CHECK(error_of([&] { (void)ops::attention(q, short_k, short_k); }) == "attention: k: expected shape (3, 2, 8), found (2, 2, 8)");
  CHECK(error_of([&] { (void)ops::attention(q, good, good, -1); }) == "attention: expected a window of 0 (none) or more, found -1");
  CHECK(error_of([&] { (void)ops::attention(q, good, good, 0, "f32", std::vector<float>(3)); }) == "attention: slopes: expected one for each of 4 heads, found 3");
  CHECK(error_of([&] { (void)ops::attention(q, good, good, 0, "f8"); }) == "kv cache: expected f32, f16, q8, q4 or q3, found f8");
  const Tensor<float, 3> none({0, 2, 8});
  CHECK(ops::attention(none, none, none).size() == 0);
}

TEST_CASE("an embedding row is the decoded row, ids outside are refused") {
  const auto weights = normal<float>({10, 40}, 3);
  const WeightMatrix table = bantam::quantize<bantam::Int8<32>>(weights);
  const auto decoded = table.dequantize();
  std::vector<float> out(40);
  bantam::RowCodes scratch;
  bantam::nn::embedding(table, 9, out, scratch);
  CHECK(std::equal(out.begin(), out.end(), &decoded(9, 0)));
  CHECK(error_of([&] { bantam::nn::embedding(table, 10, out, scratch); }) == "token id: expected 0 to 9, found 10");
  CHECK(error_of([&] { bantam::nn::embedding(table, -1, out, scratch); }) == "token id: expected 0 to 9, found -1");
  out.resize(39);
  CHECK(error_of([&] { bantam::nn::embedding(table, 1, out, scratch); }) == "embedding: expected room for 40 numbers, found 39");
}

TEST_CASE("linear gives the same bits for any number of workers, with and without bias") {
  const auto weights = normal<float>({130, 100}, 4);
  const auto bias = normal<float>({130}, 5);
  bantam::nn::Activations x;
  for (const char* format : {"f16", "i4.g32", "nf4"}) {
    x.serve(bantam::kernels_in_use(), WeightMatrix::quantize(weights, bantam::find_format(format)));
  }
  x.resize(6, 100);
  const auto values = normal<float>({6, 100}, 6);
  for (int t = 0; t < 6; ++t) {
    std::copy_n(&values(t, 0), 100, x.row(t));
    x.quantize_row(bantam::kernels_in_use(), t);
  }
  for (const char* format : {"f16", "i4.g32", "nf4"}) {
    const WeightMatrix w = WeightMatrix::quantize(weights, bantam::find_format(format));
    for (const float* b : {static_cast<const float*>(nullptr), bias.data()}) {
      std::vector<float> alone(6 * 130);
      bantam::Team one(1);
      bantam::nn::linear(bantam::kernels_in_use(), one, x, {{w, b, {alone.data(), 130}}});
      for (const int threads : {2, 3, 7}) {
        bantam::Team team(threads);
        team.set_active(threads);
        std::vector<float> together(6 * 130), twice(6 * 130);
        bantam::nn::linear(bantam::kernels_in_use(), team, x, {{w, b, {together.data(), 130}}, {w, b, {twice.data(), 130}}});
        CHECK(together == alone);
        CHECK(twice == alone);
      }
    }
  }
}
