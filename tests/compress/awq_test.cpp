// AWQ: its search against one in double precision, its clipping, and that folding changes nothing.
#include "bantam/compress/awq.hpp"

#include <cmath>

#include "calibrate/fold.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "reference/awq.hpp"
#include "support.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

reference::Rows rows_of(TensorView<const float, 2> w) {
  reference::Rows rows(static_cast<std::size_t>(w.extent(0)));
  for (std::int64_t r = 0; r < w.extent(0); ++r) {
    for (std::int64_t c = 0; c < w.extent(1); ++c) rows[static_cast<std::size_t>(r)].push_back(static_cast<double>(w(r, c)));
  }
  return rows;
}

reference::AwqRound rounding_to(const FormatInfo& format) {
  return [&](const reference::Rows& rows) {
    Tensor<float, 2> w({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())});
    for (std::int64_t r = 0; r < w.extent(0); ++r) {
      for (std::int64_t c = 0; c < w.extent(1); ++c) w(r, c) = static_cast<float>(rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)]);
    }
    return rows_of(WeightMatrix::quantize(w, format).dequantize());
  };
}

TEST_CASE("awq chooses the scales of a search over the outputs themselves") {
  const std::int64_t columns = 96;
  const auto a = random::normal<float>({20, columns}, 11, {.deviation = 0.05});
  const auto b = random::normal<float>({9, columns}, 12, {.deviation = 0.2});
  const auto x = correlated_inputs(120, columns, 13);
  Hessian hessian(columns);
  hessian.add(x);
  for (const char* name : {"i3z.g32", "i4.g32", "q4k", "nf4.g64"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    const std::vector<AwqReader> readers{{a, &format}, {b, &format}};
    const AwqScales found = awq_scales(readers, hessian, {.ratios = 6});
    const auto round = rounding_to(format);
    const auto expected = reference::awq_search({rows_of(a), rows_of(b)}, rows_of(x), static_cast<std::size_t>(format.group), 6, round);
    CHECK(found.loss == doctest::Approx(expected.loss).epsilon(0.002));
    CHECK(found.unscaled_loss == doctest::Approx(reference::awq_loss({rows_of(a), rows_of(b)}, rows_of(x), std::vector<double>(columns, 1.0), round)).epsilon(0.002));
    CHECK(found.loss < found.unscaled_loss);
    for (std::size_t c = 0; c < found.scales.size(); ++c) CHECK(static_cast<double>(found.scales[c]) == doctest::Approx(expected.scales[c]).epsilon(1e-3));
  }
}

TEST_CASE("awq's loss is never above that of rounding to nearest, and well below it where inputs differ in size") {
  const std::int64_t columns = 256;
  const auto w = random::normal<float>({quick() ? 32 : 64, columns}, 21, {.deviation = 0.05});
  auto x = correlated_inputs(600, columns, 22);
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (const std::int64_t c : {3, 77, 140, 250}) x(t, c) *= 20;  // a few channels of every real model are like that
  }
  Hessian hessian(columns);
  hessian.add(x);
  for (const FormatInfo& format : formats()) {
    CAPTURE(std::string(format.name));
    const std::vector<AwqReader> readers{{w, &format}};
    const AwqScales found = awq_scales(readers, hessian, {.ratios = quick() ? 4 : 10});
    CHECK(found.loss <= found.unscaled_loss);
    if (format.is_float) {
      CHECK(found.loss == 0);
      CHECK(std::ranges::all_of(found.scales, [](float s) { return s == 1.0f; }));
    } else if (format.name != "mxfp4.g32") {  // whose powers of two round scales away in part
      // The weights of a trellis end at 2.7 deviations, so that what scales raise is soon cut off.
      CHECK(found.loss < (format.step_bits != 0 ? 0.97 : 0.75) * found.unscaled_loss);
    }
  }
}

TEST_CASE("clipping gives up weights that hardly matter, and never raises a group's error") {
  const std::int64_t columns = 160;
  auto w = random::normal<float>({16, columns}, 31, {.deviation = 0.05});
  w(2, 40) = 0.6f;  // far out, and read with next to no weight below
  auto quiet = correlated_inputs(400, columns, 32);
  for (std::int64_t t = 0; t < quiet.extent(0); ++t) quiet(t, 40) *= 1e-3f;
  Hessian hessian(columns);
  hessian.add(quiet);
  for (const char* name : {"i3z.g32", "i4z.g128", "i3.g64", "nf4.g64", "i4m.g32"}) {
    CAPTURE(std::string(name));
    const FormatInfo& format = find_format(name);
    const Tensor<float, 2> clipped = awq_clip(w, hessian, format);
    CHECK(clipped(2, 40) < w(2, 40));
    const auto plain = WeightMatrix::quantize(w, format).dequantize();
    const auto after = WeightMatrix::quantize(clipped, format).dequantize();
    for (std::int64_t first = 0; first < columns; first += format.group) {
      const std::int64_t end = std::min<std::int64_t>(first + format.group, columns);
      double before_sum = 0, after_sum = 0;
      for (std::int64_t r = 0; r < w.extent(0); ++r) {
        for (std::int64_t i = first; i < end; ++i) {
          for (std::int64_t j = first; j < end; ++j) {
            const auto h = static_cast<double>(hessian(i, j));
            before_sum += static_cast<double>(w(r, i) - plain(r, i)) * h * static_cast<double>(w(r, j) - plain(r, j));
            after_sum += static_cast<double>(w(r, i) - after(r, i)) * h * static_cast<double>(w(r, j) - after(r, j));
          }
        }
      }
      CHECK(after_sum <= before_sum * 1.0001);
    }
  }
  const Tensor<float, 2> untouched = awq_clip(w, hessian, find_format("q4k"));
  CHECK(std::ranges::equal(untouched.span(), w.span()));
}

TEST_CASE("folding scales into a model leaves its logits as they were") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    for (const std::int64_t kv_heads : {2, 6}) {
      CAPTURE(std::string(arch->name));
      CAPTURE(kv_heads);
      TinyModel tiny{.arch = arch, .kv_heads = kv_heads, .biases = arch == &archs::llama};
      tiny.make();
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      const Model model = Model::load(folder / "hf");
      ModelWeights weights = model.weights();
      int folded = 0, expected_groups = 0;
      for (LayerWeights& layer : weights.layers) {
        // Where norms are before blocks, one each: q, k and v, gate and up, down, and o where no heads share a value or it has a norm, or q_b; what experts read is not folded into.
        const bool sparse = !layer.experts.experts.empty(), has_mlp = !layer.mlp.down.empty();
        // Of recurrent layers what reads the stream, what a state space's norm makes, each of its weights being one input's, and what has a low rank.
        const bool attends = !layer.attention.o.empty(), has_space = !layer.state_space.norm.empty(), has_channels = !layer.channel_delta.out.empty();
        const bool beside = attends && !layer.state_space.out.empty();
        const bool mixes = attends || has_space || has_channels || !layer.delta.out.empty() || !layer.convolution.out.empty();
        // LAuReL adds what the norm before attention makes to the stream itself.
        expected_groups += (mixes && !beside && layer.laurel.left.empty() && !layer.ffn_norm.empty() && !layer.attention_norm.empty()) + 2 * !layer.channel_delta.f_b.empty() + (attends && (!layer.attention.o_norm.empty() || (!arch->norms_values && arch->find(Field::qkv_clip) == nullptr && (arch->latent || layer.attention.v.rows() == layer.attention.o.columns())))) + has_space;
        // What a decoder asks an encoder, and what it takes of the answer.
        expected_groups += !layer.cross_norm.empty() + !layer.cross.o.empty();
        expected_groups += (has_mlp && !sparse && !layer.ffn_norm.empty()) + (has_mlp && !layer.mlp.gate.empty() && layer.mlp.limit == 0);
        for (const InputGroup& group : input_groups()) {
          if (!can_fold(layer, group, *arch)) continue;
          const std::int64_t columns = first_of(layer, group)->columns();
          const auto noise = random::normal<float>({1, columns}, static_cast<std::uint64_t>(++folded));
          std::vector<float> scales;
          for (const float v : noise.span()) scales.push_back(std::exp(v));
          fold(layer, group, scales);
        }
      }
      CHECK(folded == expected_groups);
      const Model after = Model::from_weights(model.checkpoint(), std::move(weights), "{}");
      const auto tokens = some_tokens();
      const std::vector<float> expected = logits_of(model, tokens), found = logits_of(after, tokens);
      float largest = 0;
      for (const float v : expected) largest = std::max(largest, std::fabs(v));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        // Some hundred roundings of 6e-8 each, on the way through two blocks.
        CHECK(std::fabs(found[i] - expected[i]) < 2e-5f * largest);
      }
      CHECK((found != expected) == (folded > 0));
    }
  }
}

TEST_CASE("a Hessian of divided inputs is that of the inputs divided") {
  const auto x = correlated_inputs(50, 40, 3);
  auto divided = correlated_inputs(50, 40, 3);
  std::vector<float> scales;
  for (int c = 0; c < 40; ++c) scales.push_back(0.5f + 0.1f * static_cast<float>(c));
  for (std::int64_t t = 0; t < 50; ++t) {
    for (std::int64_t c = 0; c < 40; ++c) divided(t, c) /= scales[static_cast<std::size_t>(c)];
  }
  Hessian a(40), b(40);
  a.add(x);
  a.divide_inputs(scales);
  b.add(divided);
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 40; ++j) CHECK(a(i, j) == doctest::Approx(b(i, j)).epsilon(1e-4).scale(a(i, i)));
  }
}

TEST_CASE("awq says what does not fit") {
  const auto w = random::normal<float>({8, 64}, 9);
  const FormatInfo& format = find_format("i4z.g32");
  const std::vector<AwqReader> one{{w, &format}};
  CHECK(error_of([&] { (void)awq_scales({}, Hessian(64)); }) == "awq: expected matrices, found none");
  CHECK(error_of([&] { (void)awq_scales(one, Hessian(32)); }) == "awq: expected weights of 32 columns, found 64");
  CHECK(error_of([&] { (void)awq_scales(one, Hessian(64), {.ratios = 0}); }) == "awq: expected at least one ratio, found 0");
  CHECK(error_of([&] { (void)awq_clip(w, Hessian(32), format); }) == "awq: expected weights of 32 columns, found 64");
  auto bad = random::normal<float>({8, 64}, 9);
  bad(2, 3) = NAN;
  const std::vector<AwqReader> broken{{bad, &format}};
  CHECK(error_of([&] { (void)awq_scales(broken, Hessian(64)); }) == "awq: expected finite weights, found nan at (2, 3)");
  // Inputs that were always zero: nothing to gain, nothing not finite.
  const AwqScales silent = awq_scales(one, Hessian(64));
  CHECK(silent.loss == 0);
  CHECK(std::ranges::all_of(silent.scales, [](float s) { return s == 1.0f; }));
}

}  // namespace
}  // namespace bantam::test
