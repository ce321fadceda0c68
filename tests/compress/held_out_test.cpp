// What is said of calibrations that have too little text, and how the errors of outputs are measured.
#include "compress/held_out.hpp"

#include "compress/inputs.hpp"
#include "compress/rounding.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

struct HeldOutText {
  explicit HeldOutText(const ArchSpec* arch = &archs::llama) : tiny{.arch = arch} {
    tiny.make();
    tiny.write_folder(folder / "hf");
  }
  Report run(const Recipe& recipe, const Calibration& calibration, const std::string& out = "m.bantam") {
    return compress_file(Checkpoint::open(folder / "hf"), folder / out, recipe, Target::native, {}, calibration);
  }
  TinyModel tiny;
  TemporaryFolder folder;
};

Calibration with_held_out() {
  Calibration calibration = some_calibration();
  for (int seed = 0; seed < 3; ++seed) {
    std::vector<TokenId>& piece = calibration.held_out.emplace_back();
    for (int i = 0; i < 16; ++i) piece.push_back((11 * i + 3 * seed + 1) % 37);
  }
  return calibration;
}

TEST_CASE_FIXTURE(HeldOutText, "held-out text changes no byte of what is written") {
  Calibration without = with_held_out();
  without.held_out.clear();
  for (const Method method : {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq}) {
    for (const bool one_by_one : {true, false}) {
      const Recipe plan = recipe::with(method, "i3.g32", {}, {.true_sequential = one_by_one, .awq = {.ratios = 2}});
      const Report with = run(plan, with_held_out(), "with.bantam");
      const Report plain = run(plan, without, "without.bantam");
      CHECK(read_file(folder / "with.bantam") == read_file(folder / "without.bantam"));
      const bool gptq = method == Method::gptq || method == Method::awq_gptq;
      CHECK(with.held_out.has_value() == gptq);
      CHECK(!plain.held_out);
      for (const Report& report : {with, plain}) {
        for (const LayerReport& layer : report.layers) CHECK(layer.output_error.has_value() == (layer.name.find("_proj") != std::string::npos));
      }
    }
  }
}

TEST_CASE("held-out text is judged by the hidden states of the model as it was, with every architecture's own norms") {
  for (const ArchSpec* arch : dense_architectures()) {
    CAPTURE(std::string(arch->name));
    HeldOutText text(arch);
    const Calibration calibration = with_held_out();
    const auto table = [&](Role role) {
      const std::string_view name = arch->find(role)->hf;
      return std::string(name.substr(0, name.rfind(".weight")));
    };
    const auto with_tables = [&](Recipe recipe) {
      for (const Role role : {Role::embedding, Role::head, Role::per_layer_embedding, Role::per_layer_model_projection}) {
        if (arch->find(role) != nullptr) recipe = recipe.keep(table(role), "f32");
      }
      // Its columns are too few for a group of 32: it would become f16, and floats are not rounded on the way.
      return arch->latent ? recipe.keep("*.k_b_proj", "f32") : recipe;
    };
    const Report report = text.run(with_tables(recipe::gptq("i3.g32")), calibration);
    REQUIRE(report.held_out);
    CHECK(report.held_out->tokens == 48);
    text.run(with_tables(recipe::rtn("i3.g32")), {}, "nearest.bantam");
    const auto states = [&](const char* name) {
      std::vector<double> all;
      const Model model = Model::load(text.folder / name);
      for (const std::vector<TokenId>& piece : calibration.held_out) {
        const std::vector<float> found = states_of(model, piece);
        all.insert(all.end(), found.begin(), found.end());
      }
      return all;
    };
    const std::vector<double> original = states("hf");
    const auto error = [&](const char* name) {
      const std::vector<double> found = states(name);
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < original.size(); ++i) {
        difference += (original[i] - found[i]) * (original[i] - found[i]);
        size += original[i] * original[i];
      }
      return std::sqrt(difference / size);
    };
    CHECK(report.held_out->error == doctest::Approx(error("m.bantam")).epsilon(1e-4));
    CHECK(report.held_out->nearest_error == doctest::Approx(error("nearest.bantam")).epsilon(1e-4));
  }
}

TEST_CASE_FIXTURE(HeldOutText, "gptq with few tokens for its columns says so, and names the matrix") {
  const std::vector<std::vector<TokenId>> samples = some_calibration().samples;
  Calibration few{{samples[0]}}, enough;
  for (int i = 0; i < 3; ++i) enough.samples.insert(enough.samples.end(), samples.begin(), samples.end());
  const std::string line = "calibration: 24 tokens are few for the 60 columns of model.layers.0.self_attn.o_proj: below 3 tokens a column";
  CHECK(run(recipe::gptq("i4.g32"), enough).warnings == std::vector<std::string>());
  for (const Method method : {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq}) {
    const Report report = run(recipe::with(method, "i4.g32", {}, {.awq = {.ratios = 2}}), few);
    const bool said = std::ranges::any_of(report.warnings, [&](const std::string& warning) { return warning.find(line) == 0; });
    CHECK(said == (method == Method::gptq || method == Method::awq_gptq));
    CHECK(report.calibration_tokens == 24);
  }
}

TEST_CASE("the error of outputs is that of plain products") {
  const std::int64_t rows = 1100, columns = 70;  // more rows than are taken at once
  const auto w = random::normal<float>({rows, columns}, 1);
  const auto x = correlated_inputs(9, columns, 2);
  const WeightMatrix original = WeightMatrix::quantize(w, find_format("f32"));
  const WeightMatrix rounded = WeightMatrix::quantize(w, find_format("i3.g32"));
  const double expected = std::sqrt(output_error(w, rounded.dequantize(), x) / output_error(w, Tensor<float, 2>({rows, columns}), x));
  CHECK(bantam::output_error(x, original, rounded) == doctest::Approx(expected).epsilon(1e-5));
  CHECK(bantam::output_error(x, original, original) == 0);
}

TEST_CASE("what lies between samples is held out, and samples are what they were") {
  const Tokenizer tokenizer = Tokenizer::from_folder(std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m");
  std::string text;  // no piece of it stands in two places
  for (int i = 1; i < 700; ++i) text += message(i * 7919 % 10007, ' ');
  const std::vector<TokenId> ids = tokenizer.encode(text);
  const auto place = [&](const std::vector<TokenId>& piece) {
    return std::search(ids.begin(), ids.end(), piece.begin(), piece.end()) - ids.begin();
  };
  for (const auto& [samples, tokens] : {std::pair<std::int64_t, std::int64_t>{1, 500}, {3, 500}, {8, 256}, {100, 10}}) {
    const Calibration found = Calibration::from_text(tokenizer, text, samples, tokens);
    REQUIRE(!found.held_out.empty());
    std::int64_t held = 0;
    for (const std::vector<TokenId>& piece : found.held_out) {
      held += static_cast<std::int64_t>(piece.size());
      const auto begin = place(piece), end = begin + static_cast<std::ptrdiff_t>(piece.size());
      REQUIRE(end <= static_cast<std::ptrdiff_t>(ids.size()));
      for (const std::vector<TokenId>& sample : found.samples) {
        const auto first = place(sample);
        CHECK((end <= first || first + static_cast<std::ptrdiff_t>(sample.size()) <= begin));
      }
    }
    CHECK((held >= 16 && held <= 256));
  }
  const auto all = static_cast<std::int64_t>(ids.size());
  CHECK(Calibration::from_text(tokenizer, text, 1, all).held_out.empty());
  CHECK(Calibration::from_text(tokenizer, text, 1, all - 15).held_out.empty());
  CHECK(Calibration::from_text(tokenizer, text, 1, all - 16).held_out.size() == 1);
}

}  // namespace
}  // namespace bantam::test
