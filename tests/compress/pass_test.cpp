// The calibrated pass over a model: what every method writes, and going on where a run was stopped.
#include "bantam/compress/compress.hpp"

#include "bantam/core/parallel.hpp"
#include "compress/inputs.hpp"
#include "model/tiny_model.hpp"

namespace bantam::test {
namespace {

struct Pass {
  Pass() {
    set_parallel_threads(1);  // more would cost these small models more than they save
    tiny.layers = 3;
    tiny.make();
    tiny.write_folder(folder / "hf");
  }
  ~Pass() { set_parallel_threads(0); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  Report run(const Recipe& recipe, const std::string& out, const std::filesystem::path& journal = {}, int stop_after = 1000) {
    int matrices = 0;
    return compress_file(Checkpoint::open(folder / "hf"), folder / out, recipe, Target::native,
                         [&](const Progress&) { return ++matrices < stop_after; }, calibration, journal);
  }
  [[nodiscard]] std::string bytes(const std::string& name) const { return read_file(folder / name); }
  [[nodiscard]] std::filesystem::path journal() const { return folder / "m.journal"; }

  TinyModel tiny{.kv_heads = 6, .biases = true};  // AWQ folds into v, and into its bias
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
};

const MethodOptions quick{.awq = {.ratios = 3, .weigh_weights = false}};
const Method calibrated[] = {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq};

TEST_CASE_FIXTURE(Pass, "every method writes a model of the same matrices, near the one it came from") {
  const auto tokens = some_tokens();
  const std::vector<float> expected = logits_of(Model::load(folder / "hf"), tokens);
  for (const char* name : {"i4z.g32", "q4k", "i8.row"}) {
    for (const Method method : calibrated) {
      CAPTURE(std::string(name));
      CAPTURE(std::string(name_of(method)));
      const Recipe plan = recipe::with(method, name, {}, quick).keep("*.0.*.v_proj", "f16").keep("*.1.mlp.up_proj", "f32");
      const Report report = run(plan, "m.bantam");
      CHECK(report.layers.size() == 2 + 3 * 7);
      for (const LayerReport& layer : report.layers) {
        CHECK(layer.relative_error < 0.45);
        CHECK(layer.format == std::string(plan.format_of(layer.name, layer.name == "lm_head" || layer.name == "model.embed_tokens").name));
      }
      const Model model = Model::load(folder / "m.bantam");
      const std::vector<float> found = logits_of(model, tokens);
      double distance = 0, size = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        distance += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
        size += std::pow(static_cast<double>(expected[i]), 2);
      }
      CHECK(std::sqrt(distance / size) < 0.5);
      CHECK(nlohmann::json::parse(Checkpoint::open(folder / "m.bantam").recipe())["method"] == name_of(method));
    }
  }
}

TEST_CASE_FIXTURE(Pass, "awq moves scales into norms and rows, and writes them") {
  run(recipe::awq("i3.g32"), "awq.bantam");
  run(recipe::rtn("i3.g32"), "rtn.bantam");
  const Model awq = Model::load(folder / "awq.bantam"), rtn = Model::load(folder / "rtn.bantam");
  int norms = 0, biases = 0;
  for (std::size_t i = 0; i < awq.weights().layers.size(); ++i) {
    const LayerWeights &a = awq.weights().layers[i], &b = rtn.weights().layers[i];
    norms += (a.attention_norm != b.attention_norm) + (a.ffn_norm != b.ffn_norm);
    biases += a.v_bias != b.v_bias;
    CHECK(a.q_bias == b.q_bias);
  }
  CHECK(norms == 6);
  CHECK(biases == 3);
}

TEST_CASE_FIXTURE(Pass, "matrices that are copied are neither rounded again nor scaled") {
  run(recipe::rtn("i4.g32"), "source.bantam");
  const Checkpoint source = Checkpoint::open(folder / "source.bantam");
  compress_file(source, folder / "m.bantam", recipe::awq("i4.g32"), Target::native, {}, calibration);
  const Checkpoint after = Checkpoint::open(folder / "m.bantam");
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    CHECK(std::ranges::equal(source.tensors()[i].entry->bytes, after.tensors()[i].entry->bytes));
  }
}

TEST_CASE_FIXTURE(Pass, "inputs that are never used and moments that are singular are told, by the name of the matrix") {
  CHECK(run(recipe::gptq("i4.g32"), "m.bantam").warnings.empty());
  calibration.samples.resize(1);  // fewer tokens than columns
  const Report singular = run(recipe::gptq("i4.g32", {}, {.gptq = {.damping = 0}}), "m.bantam");
  CHECK(!singular.warnings.empty());
  for (const std::string& line : singular.warnings) CHECK(line.find("damping raised from 0 to 0.05") != std::string::npos);
  tiny.tensor("model.layers.1.post_attention_layernorm.weight").values[5] = 0;
  tiny.write_folder(folder / "hf");
  const Report silent = run(recipe::gptq("i4.g32"), "m.bantam");
  REQUIRE(silent.warnings.size() == 2);
  CHECK(silent.warnings[0].find("model.layers.1.mlp.gate_proj: 1 of ") == 0);
  CHECK(silent.warnings[1].find("model.layers.1.mlp.up_proj: 1 of ") == 0);
  CHECK(silent.to_json().find("inputs are always 0 in the calibration text") != std::string::npos);
  CHECK(run(recipe::rtn("i4.g32"), "m.bantam").warnings.empty());
}

TEST_CASE_FIXTURE(Pass, "later groups see what the rounded ones before them make, unless told otherwise") {
  run(recipe::gptq("i3.g32"), "one.bantam");
  run(recipe::gptq("i3.g32", {}, {.true_sequential = false}), "all.bantam");
  const Checkpoint one = Checkpoint::open(folder / "one.bantam"), all = Checkpoint::open(folder / "all.bantam");
  for (std::size_t i = 0; i < one.tensors().size(); ++i) {
    const CheckpointTensor& a = one.tensors()[i];
    const CheckpointTensor& b = all.tensors()[i];
    if (a.layer != 0 || !a.is_matrix) continue;
    const bool same = std::ranges::equal(a.entry->bytes, b.entry->bytes);
    CAPTURE(a.name);
    CHECK(same == (a.role == Role::q || a.role == Role::k || a.role == Role::v));
  }
}

TEST_CASE_FIXTURE(Pass, "following the original makes good what coarse rounding has changed before, in true sequence only") {
  // What adds to the hidden states is fine enough to bring them back.
  const auto recipe_of = [](double share, bool true_sequential) {
    return recipe::gptq("i2z.g32", {}, {.true_sequential = true_sequential, .follow_original = share})
        .keep("*.o_proj", "i8.g32").keep("*.down_proj", "i8.g32").keep("lm_head", "f32").keep("model.embed_tokens", "f32");
  };
  const Model original = Model::load(folder / "hf");
  const auto distance = [&](double share) {
    run(recipe_of(share, true), "m.bantam");
    const Model rounded = Model::load(folder / "m.bantam");
    double sum = 0;
    for (const std::vector<TokenId>& sample : calibration.samples) {
      const std::vector<float> expected = logits_of(original, sample), found = logits_of(rounded, sample);
      for (std::size_t i = 0; i < expected.size(); ++i) sum += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    }
    return sum;
  };
  const double none = distance(0), half = distance(0.5), all = distance(1);
  CHECK(half < 0.7 * none);
  CHECK(all < 0.7 * half);
  run(recipe_of(0, false), "one.bantam");
  run(recipe_of(1, false), "other.bantam");
  const Checkpoint one = Checkpoint::open(folder / "one.bantam"), other = Checkpoint::open(folder / "other.bantam");
  for (std::size_t i = 0; i < one.tensors().size(); ++i) CHECK(std::ranges::equal(one.tensors()[i].entry->bytes, other.tensors()[i].entry->bytes));
}

TEST_CASE_FIXTURE(Pass, "a run that was stopped goes on, and gives the bytes of one that was not") {
  for (const Method method : calibrated) {
    CAPTURE(std::string(name_of(method)));
    const Recipe plan = recipe::with(method, "i3z.g32", {}, quick).keep("*.1.mlp.up_proj", "f16");
    run(plan, "whole.bantam");
    const std::string expected = bytes("whole.bantam");
    // Matrices come as embedding, head, 7 a block; the journal has a block before its first matrix is counted.
    for (const auto& [stop, blocks] : {std::pair{2, 0}, {3, 1}, {9, 1}, {10, 2}, {17, 3}, {23, 3}}) {
      CAPTURE(stop);
      if (method != Method::rtn && blocks != 2) continue;  // the journal is the same for all
      std::filesystem::remove(folder / "m.bantam");
      CHECK_THROWS_AS(run(plan, "m.bantam", journal(), stop), Error);
      CHECK_FALSE(std::filesystem::exists(folder / "m.bantam"));
      CHECK(std::filesystem::exists(journal()) == (blocks > 0));
      CHECK(run(plan, "m.bantam", journal()).resumed_blocks == blocks);
      CHECK((bytes("m.bantam") == expected));
      CHECK_FALSE(std::filesystem::exists(journal()));
    }
  }
}

TEST_CASE_FIXTURE(Pass, "whatever a kill leaves of a journal, the result is right") {
  const Recipe plan = recipe::rtn("i4.g32");
  run(plan, "whole.bantam");
  const std::string expected = bytes("whole.bantam");
  CHECK_THROWS_AS(run(plan, "m.bantam", journal(), 20), Error);
  const std::string complete = read_file(journal());
  Random random(5);
  int partial = 0;
  for (std::size_t cut = 0; cut < complete.size(); cut += complete.size() / 11) {
    CAPTURE(cut);
    write_file(journal(), complete.substr(0, cut));
    const std::int64_t blocks = run(plan, "m.bantam", journal()).resumed_blocks;
    partial += blocks > 0 && blocks < 3;
    CHECK(blocks < 3);
    CHECK((bytes("m.bantam") == expected));
  }
  CHECK(partial > 3);
  for (int i = 0; i < 12; ++i) {
    std::string flipped = complete;
    const auto at = static_cast<std::size_t>(random.uniform() * static_cast<double>(complete.size()));
    CAPTURE(at);
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << i % 8));
    write_file(journal(), flipped);
    CHECK(run(plan, "m.bantam", journal()).resumed_blocks < 3);
    CHECK((bytes("m.bantam") == expected));
  }
  for (const std::string& other : {std::string("\n\n\n"), std::string(100'000, 'x'), std::string("bantam journal 1 0123456789abcdef\n")}) {
    write_file(journal(), other);
    CHECK(run(plan, "m.bantam", journal()).resumed_blocks == 0);
    CHECK((bytes("m.bantam") == expected));
  }
}

TEST_CASE_FIXTURE(Pass, "a journal of another run is not used") {
  const auto leave_journal = [&] { CHECK_THROWS_AS(run(recipe::gptq("i4.g32"), "m.bantam", journal(), 20), Error); };
  leave_journal();
  CHECK(run(recipe::gptq("i4.g64"), "m.bantam", journal()).resumed_blocks == 0);
  leave_journal();
  CHECK(run(recipe::gptq("i4.g32", {}, {.gptq = {.damping = 0.02}}), "m.bantam", journal()).resumed_blocks == 0);
  leave_journal();
  CHECK(run(recipe::gptq("i4.g32").keep("*.q_proj", "q8"), "m.bantam", journal()).resumed_blocks == 0);
  leave_journal();
  calibration.samples[0][3] = 1 + calibration.samples[0][3] % 30;
  CHECK(run(recipe::gptq("i4.g32"), "m.bantam", journal()).resumed_blocks == 0);
  leave_journal();
  tiny.tensor("model.norm.weight").values[0] += 1;
  tiny.write_folder(folder / "hf");
  CHECK(run(recipe::gptq("i4.g32"), "m.bantam", journal()).resumed_blocks == 0);
  leave_journal();
  CHECK(run(recipe::gptq("i4.g32"), "m.bantam", journal()).resumed_blocks == 3);
}

TEST_CASE_FIXTURE(Pass, "hqq works in files and in memory, and leaves formats without minimums to rounding") {
  const Recipe plan = recipe::hqq("i4m.g32").keep("*.down_proj", "i8");
  const Report report = run(plan, "m.bantam");
  const auto [model, memory_report] = compress(Model::load(folder / "hf"), plan);
  const auto tokens = some_tokens();
  CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits_of(model, tokens));
  compress_file(Checkpoint::open(folder / "hf"), folder / "rtn.bantam", recipe::rtn("i4m.g32").keep("*.down_proj", "i8"));
  const Model fitted = Model::load(folder / "m.bantam"), plain = Model::load(folder / "rtn.bantam");
  CHECK(relative_error(fitted.weights().layers[0].q.dequantize(), plain.weights().layers[0].q.dequantize()) > 0);
  CHECK(relative_error(fitted.weights().layers[0].down.dequantize(), plain.weights().layers[0].down.dequantize()) == 0);
  REQUIRE(report.layers.size() == memory_report.layers.size());
  for (std::size_t i = 0; i < report.layers.size(); ++i) CHECK(report.layers[i].relative_error == memory_report.layers[i].relative_error);
}

}  // namespace
}  // namespace bantam::test
