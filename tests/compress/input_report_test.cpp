// What a report says of the inputs of matrices, against the inputs themselves.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/core/parallel.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

const std::vector<std::vector<std::string>> names = {
    {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, {"self_attn.o_proj"}, {"mlp.gate_proj", "mlp.up_proj"}, {"mlp.down_proj"}};

struct Inputs {
  Inputs() {
    tiny.layers = 2;
    tiny.make();
    tiny.write_folder(folder / "hf");
  }
  [[nodiscard]] Report run(const Recipe& recipe, const std::filesystem::path& journal = {}) const {
    return compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe, Target::native, {}, some_calibration(), journal);
  }
  TinyModel tiny;
  TemporaryFolder folder;
};

TEST_CASE_FIXTURE(Inputs, "what the first block reads is what its norm makes of the embeddings") {
  const Model model = Model::load(folder / "hf");
  const auto embedding = model.weights().embedding.dequantize();
  const std::vector<float>& norm = model.weights().layers[0].attention_norm;
  std::vector<double> values;
  for (const auto& sample : some_calibration().samples) {
    for (const TokenId id : sample) {
      double squares = 0;
      for (std::size_t c = 0; c < norm.size(); ++c) squares += std::pow(static_cast<double>(embedding(id, static_cast<std::int64_t>(c))), 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(norm.size()) + 1e-5);
      for (std::size_t c = 0; c < norm.size(); ++c) {
        values.push_back(static_cast<double>(embedding(id, static_cast<std::int64_t>(c))) * scale * static_cast<double>(norm[c]));
      }
    }
  }
  std::ranges::sort(values);
  const auto out = static_cast<std::size_t>(0.001 * static_cast<double>(values.size()));
  for (const Method method : {Method::rtn, Method::gptq}) {
    for (const bool one_by_one : {true, false}) {
      const InputReport found = run(recipe::with(method, "i4z.g32", {}, {.true_sequential = one_by_one})).inputs[0];
      const double largest = std::max(-values.front(), values.back()), bin = 2 * largest / Histogram<float>::half;
      CHECK(found.range.low == doctest::Approx(values.front()).epsilon(1e-5));
      CHECK(found.range.high == doctest::Approx(values.back()).epsilon(1e-5));
      CHECK(std::fabs(found.central.low - values[out]) <= bin);
      CHECK(std::fabs(found.central.high - values[values.size() - 1 - out]) <= bin);
      CHECK(found.outlier_ratio() == doctest::Approx(largest / std::max(-found.central.low, found.central.high)).epsilon(1e-5));
    }
  }
}

TEST_CASE_FIXTURE(Inputs, "every calibrated run reports all groups of matrices, the same for any number of threads") {
  for (const Method method : methods) {
    if (method == Method::hqq) continue;
    for (const bool one_by_one : {true, false}) {
      CAPTURE(std::string(name_of(method)));
      const Recipe plan = recipe::with(method, "i4z.g32", {}, {.true_sequential = one_by_one, .awq = {.ratios = 2}});
      set_parallel_threads(1);
      const Report report = run(plan);
      set_parallel_threads(0);
      const std::vector<InputReport> again = run(plan).inputs;
      REQUIRE(report.inputs.size() == 2 * names.size());
      for (std::size_t i = 0; i < report.inputs.size(); ++i) {
        const InputReport& input = report.inputs[i];
        std::vector<std::string> expected;
        for (const std::string& name : names[i % 4]) expected.push_back(message("model.layers.", i / 4, ".", name));
        CHECK(input.matrices == expected);
        CHECK((input.range.low <= input.central.low && input.central.low < input.central.high && input.central.high <= input.range.high));
        CHECK(input.outlier_ratio() >= 1);
        CHECK((again[i].range.low == input.range.low && again[i].range.high == input.range.high));
        CHECK((again[i].central.low == input.central.low && again[i].central.high == input.central.high));
      }
    }
  }
  CHECK(compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn("i4z.g32")).inputs.empty());
}

TEST_CASE("a large input shows as a ratio, and zeros as one") {
  CHECK(InputReport{{}, {-3, 60}, {-2, 4}}.outlier_ratio() == 15);
  CHECK(InputReport{{}, {-60, 3}, {-2, 4}}.outlier_ratio() == 15);
  CHECK(InputReport{}.outlier_ratio() == 1);
}

}  // namespace
}  // namespace bantam::test
