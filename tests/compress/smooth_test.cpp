// SmoothQuant: its scales, that folding them changes nothing, and what even inputs are good for.
#include "bantam/compress/smooth.hpp"

#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/nn/ops.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

TEST_CASE("smooth scales are the paper's") {
  const auto a = random::normal<float>({5, 12}, 1, {.deviation = 0.1});
  const auto b = random::normal<float>({3, 12}, 2, {.deviation = 0.3});
  const std::vector<TensorView<const float, 2>> readers{a, b};
  std::vector<float> inputs;
  for (int c = 0; c < 12; ++c) inputs.push_back(c == 4 ? 0.0f : std::exp(0.7f * static_cast<float>(c - 3)));
  for (const double alpha : {0.0, 0.3, 0.5, 0.85, 1.0}) {
    CAPTURE(alpha);
    const std::vector<float> scales = smooth_scales(readers, inputs, alpha);
    REQUIRE(scales.size() == 12);
    for (std::int64_t c = 0; c < 12; ++c) {
      double weight = 0;
      for (std::int64_t r = 0; r < 5; ++r) weight = std::max(weight, std::fabs(static_cast<double>(a(r, c))));
      for (std::int64_t r = 0; r < 3; ++r) weight = std::max(weight, std::fabs(static_cast<double>(b(r, c))));
      const double input = std::max(1e-5, static_cast<double>(inputs[static_cast<std::size_t>(c)]));
      const double expected = std::max(1e-5, std::pow(input, alpha) / std::pow(weight, 1 - alpha));
      CHECK(static_cast<double>(scales[static_cast<std::size_t>(c)]) == doctest::Approx(expected).epsilon(1e-5));
    }
  }
  CHECK(error_of([&] { (void)smooth_scales(readers, inputs, 1.5); }) == "smooth: expected an exponent from 0 to 1, found 1.5");
  CHECK(error_of([&] { (void)smooth_scales(readers, std::vector<float>(11)); }) == "smooth: expected weights of 11 columns, found 12");
}

TEST_CASE("even inputs lose less when they are rounded to 8 bits with their weights") {
  // A few channels of every large model are like this.
  const auto w = random::normal<float>({64, 512}, 3, {.deviation = 0.05});
  auto x = random::normal<float>({80, 512}, 4);
  for (std::int64_t t = 0; t < 80; ++t) {
    for (const std::int64_t c : {7, 200, 390}) x(t, c) *= 60;
  }
  Hessian hessian(512);
  hessian.add(x);
  const std::vector<float> scales = smooth_scales(std::vector<TensorView<const float, 2>>{w}, hessian.largest());
  auto smooth_w = random::normal<float>({64, 512}, 3, {.deviation = 0.05});
  Tensor<float, 2> smooth_x({80, 512});
  for (std::int64_t c = 0; c < 512; ++c) {
    for (std::int64_t r = 0; r < 64; ++r) smooth_w(r, c) *= scales[static_cast<std::size_t>(c)];
    for (std::int64_t t = 0; t < 80; ++t) smooth_x(t, c) = x(t, c) / scales[static_cast<std::size_t>(c)];
  }
  const Tensor<float, 2> exact = ops::matmul(x, WeightMatrix::quantize(w, find_format("f32")));
  const auto error = [&](const Tensor<float, 2>& inputs, const Tensor<float, 2>& weights) {
    return relative_error(exact, ops::matmul(inputs, WeightMatrix::quantize(weights, find_format("i8.row")), ops::Precision::fast));
  };
  CHECK(error(smooth_x, smooth_w) < 0.6 * error(x, w));
}

struct Smooth {
  Smooth() {
    tiny.make();
    tiny.write_folder(folder / "hf");
    for (int i = 0; i < 4; ++i) calibration.samples.push_back(some_tokens(20 + i));
  }
  TinyModel tiny{.kv_heads = 6, .biases = true};
  TemporaryFolder folder;
  Calibration calibration;
};

TEST_CASE_FIXTURE(Smooth, "a smoothed model of floats is the same model, rotated or not, and its inputs are even") {
  const auto expected = logits_of(Model::load(folder / "hf"), some_tokens());
  const Model original = Model::load(folder / "hf");
  for (const bool rotated : {false, true}) {
    CAPTURE(rotated);
    const MethodOptions options{.rotation = rotated ? std::optional<std::uint64_t>(1) : std::nullopt, .smooth = 0.5};
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::with(Method::rtn, "f32", {}, options), Target::native, {}, calibration);
    const Model model = Model::load(folder / "m.bantam");
    CHECK(distance(logits_of(model, some_tokens()), {expected.begin(), expected.end()}) < 5e-5);
    for (std::size_t i = 0; i < model.weights().layers.size(); ++i) {
      const LayerWeights &a = model.weights().layers[i], &b = original.weights().layers[i];
      CHECK(a.attention_norm != b.attention_norm);
      CHECK(a.ffn_norm != b.ffn_norm);
      CHECK(a.attention.v_bias != b.attention.v_bias);
    }
    CHECK(Json::parse(Checkpoint::open(folder / "m.bantam").recipe(), "test")["smooth"] == 0.5);
  }
}

TEST_CASE_FIXTURE(Smooth, "smoothing needs a text, and a method without scales of its own") {
  const auto options = [](double alpha) { return MethodOptions{.smooth = alpha}; };
  CHECK(error_of([&] { compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::with(Method::rtn, "i8", {}, options(0.5))); }) ==
        "smooth: expected calibration text, found none");
  CHECK(error_of([&] { (void)recipe::with(Method::awq, "i8", {}, options(0.5)); }) == "smooth: expected method rtn or gptq, found awq");
  CHECK(error_of([&] { (void)recipe::with(Method::hqq, "i4m", {}, options(0.5)); }) == "smooth: expected method rtn or gptq, found hqq");
  CHECK(error_of([&] { (void)recipe::with(Method::gptq, "i8", {}, options(-0.1)); }) == "smooth: expected an exponent from 0 to 1, found -0.1");
  CHECK(error_of([&] { (void)compress(Model::load(folder / "hf"), recipe::with(Method::rtn, "i8", {}, options(0.5))); }) ==
        "smooth: expected calibration text, found none");
}

}  // namespace
}  // namespace bantam::test
