// The calibrated pass over a model: what every method writes, and going on where a run was stopped.
#include "bantam/compress/compress.hpp"

#include <cstring>

#include "bantam/core/parallel.hpp"
#include "bantam/model/forward.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

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
  /// To more tokens than a matrix has columns, three times: fewer are worth a warning.
  void lengthen() {
    const auto samples = calibration.samples;
    for (int i = 0; i < 2; ++i) calibration.samples.insert(calibration.samples.end(), samples.begin(), samples.end());
  }
  [[nodiscard]] std::string bytes(const std::string& name) const { return read_file(folder / name); }
  [[nodiscard]] std::filesystem::path journal() const { return folder / "m.journal"; }

  TinyModel tiny{.kv_heads = 6, .biases = true};  // AWQ folds into v, and into its bias
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
};

const MethodOptions few_ratios{.awq = {.ratios = 3, .weigh_weights = false}};
const Method calibrated[] = {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq};

TEST_CASE_FIXTURE(Pass, "every method writes a model of the same matrices, near the one it came from") {
  const auto tokens = some_tokens();
  const std::vector<float> expected = logits_of(Model::load(folder / "hf"), tokens);
  for (const char* name : {"i4z.g32", "q4k", "i8.row"}) {
    for (const Method method : calibrated) {
      CAPTURE(std::string(name));
      CAPTURE(std::string(name_of(method)));
      const Recipe plan = recipe::with(method, name, {}, few_ratios).keep("*.0.*.v_proj", "f16").keep("*.1.mlp.up_proj", "f32");
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
      CHECK(Json::parse(Checkpoint::open(folder / "m.bantam").recipe(), "test")["method"] == name_of(method));
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
    biases += a.attention.v_bias != b.attention.v_bias;
    CHECK(a.attention.q_bias == b.attention.q_bias);
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
    CHECK(std::ranges::equal(source.tensors()[i].source->parts()[0].bytes, after.tensors()[i].source->parts()[0].bytes));
  }
}

TEST_CASE_FIXTURE(Pass, "inputs that are never used and moments that are singular are told, by the name of the matrix") {
  lengthen();
  CHECK(run(recipe::gptq("i4.g32"), "m.bantam").warnings.empty());
  calibration.samples.resize(1);  // fewer tokens than columns
  const Report singular = run(recipe::gptq("i4.g32", {}, {.gptq = {.damping = 0}}), "m.bantam");
  CHECK(!singular.warnings.empty());
  for (const std::string& line : singular.warnings) {
    CHECK((line.find("damping raised from 0 to 0.05") != std::string::npos || line.find("calibration: 24 tokens are few") == 0));
  }
  tiny.tensor("model.layers.1.post_attention_layernorm.weight").values[5] = 0;
  tiny.write_folder(folder / "hf");
  const Report silent = run(recipe::gptq("i4.g32"), "m.bantam");
  REQUIRE(silent.warnings.size() == 3);
  CHECK(silent.warnings[0].find("model.layers.1.mlp.gate_proj: 1 of ") == 0);
  CHECK(silent.warnings[1].find("model.layers.1.mlp.up_proj: 1 of ") == 0);
  CHECK(silent.warnings[2].find("calibration: 24 tokens are few") == 0);
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
    const bool same = std::ranges::equal(a.source->parts()[0].bytes, b.source->parts()[0].bytes);
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
  for (std::size_t i = 0; i < one.tensors().size(); ++i) CHECK(std::ranges::equal(one.tensors()[i].source->parts()[0].bytes, other.tensors()[i].source->parts()[0].bytes));
}

TEST_CASE("following the original does no harm where there is little to make good, whatever the architecture scales") {
  if (skips_figures()) return;
  Random random(7);
  Calibration calibration;
  for (int i = 0; i < 8; ++i) {
    auto& sample = calibration.samples.emplace_back();
    for (int t = 0; t < 24; ++t) sample.push_back(static_cast<TokenId>(random.next() % 30));
  }
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    // All experts are used: a token that changes one for another is farther away than all that is rounded.
    TinyModel tiny{.arch = arch, .experts = 4, .experts_used = 4};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model original = Model::load(folder / "hf");
    const auto distance = [&](double share) {
      const Recipe recipe = recipe::gptq("i8.g32", {}, {.follow_original = share});
      (void)compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe, Target::native, {}, calibration);
      const Model rounded = Model::load(folder / "m.bantam");
      double sum = 0;
      for (const std::vector<TokenId>& sample : calibration.samples) {
        const std::vector<float> expected = logits_of(original, sample), found = logits_of(rounded, sample);
        for (std::size_t i = 0; i < expected.size(); ++i) sum += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
      }
      return std::sqrt(sum);
    };
    CHECK(distance(1) < 2 * distance(0));
  }
}

TEST_CASE_FIXTURE(Pass, "a run that was stopped goes on, and gives the bytes of one that was not") {
  for (const Method method : calibrated) {
    CAPTURE(std::string(name_of(method)));
    const Recipe plan = recipe::with(method, "i3z.g32", {}, few_ratios).keep("*.1.mlp.up_proj", "f16");
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

TEST_CASE_FIXTURE(Pass, "a half that is ended from its last layer's inputs is the half, bit for bit") {
  for (const char* name : {"f32", "i4.g32", "q8"}) {
    CAPTURE(std::string(name));
    const Model model = compress(Model::load(folder / "hf"), recipe::rtn(name)).first;
    const LayerWeights& block = model.weights().layers[1];
    Forward forward(model.config(), model.weights(), 40, 2);
    for (const Half half : halves) {
      if (last_of(block, half) == nullptr) continue;  // Llama has nothing behind its halves
      const InputGroup& last = *last_of(block, half);
      const auto states = random::normal<float>({24, model.config().dim}, 7);
      std::vector<float> whole(states.span().begin(), states.span().end()), ended = whole;
      forward.run_to(block, 1, last, ended);
      const TensorView<const float, 2> x = forward.inputs();
      const std::int64_t columns = x.extent(1);
      std::vector<float> kept;
      for (std::int64_t t = 0; t < x.extent(0); ++t) kept.insert(kept.end(), &x(t, 0), &x(t, 0) + columns);
      forward.run_half(block, 1, half, whole);
      CHECK(whole != ended);
      forward.run_to(block, 0, input_groups()[0], std::span(whole).first(static_cast<std::size_t>(model.config().dim)));
      forward.end_half(block, 1, last, {kept.data(), {24, columns}}, ended);
      CHECK(whole == ended);
    }
  }
}

TEST_CASE("every method rounds layers that read others' keys and per-layer embeddings, near the model that they came from") {
  const auto tokens = some_tokens(30);
  for (const bool shares_values : {false, true}) {
    CAPTURE(shares_values);
    TinyModel tiny{.arch = &archs::gemma4, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 96, .shares_values = shares_values, .per_layer_dim = 32};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Checkpoint source = Checkpoint::open(folder / "hf");
    const std::vector<float> expected = logits_of(Model::load(folder / "hf"), tokens);
    const auto far = [&](const char* name) {
      const std::vector<float> found = logits_of(Model::load(folder / name), tokens);
      double apart = 0, size = 0;
      for (std::size_t i = 0; i < found.size(); ++i) apart += std::pow(double{found[i]} - double{expected[i]}, 2), size += std::pow(double{expected[i]}, 2);
      return std::sqrt(apart / size);
    };
    Calibration calibration = some_calibration();
    for (int i = 0; i < 3; ++i) calibration.samples.push_back(some_tokens(60));
    for (const Method method : calibrated) {
      CAPTURE(std::string(name_of(method)));
      const Report report = compress_file(source, folder / "m.bantam", recipe::with(method, "i8.g32", {}, few_ratios), Target::native, {}, calibration);
      CHECK(std::ssize(report.layers) == std::ranges::count_if(source.tensors(), &CheckpointTensor::is_matrix));
      const Model model = Model::load(folder / "m.bantam", {.memory = WeightMemory::huge_pages});
      CHECK(model.weights().per_layer_embedding.empty() == shares_values);
      if (!shares_values) {
        CHECK(model.weights().per_layer_embedding.format().name == "i8.g32");
        CHECK(model.weights().layers[4].per_layer.projection.format().name == "i8.g32");
        CHECK(model.weights().layers[4].attention.k.empty());
      }
      CHECK(far("m.bantam") < 0.1);
    }
    // Tables keep 8 bits where blocks get 4, as the embedding does.
    compress_file(source, folder / "m.bantam", recipe::gptq("i4.g32"), Target::native, {}, calibration);
    if (!shares_values) CHECK(Model::load(folder / "m.bantam").weights().per_layer_embedding.format().name == "i8.g32");
    const double gptq = far("m.bantam");
    CHECK(gptq < 0.6);
    compress_file(source, folder / "m.bantam", recipe::wanda(0.3) | recipe::rtn("f32"), Target::native, {}, calibration);
    CHECK(std::isfinite(far("m.bantam")));
    CHECK(far("m.bantam") > 1e-3);
  }
}

TEST_CASE("what is behind a layer's halves, ended from its last layer's inputs, is the same bit for bit") {
  TinyModel tiny{.arch = &archs::gemma4};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf", {.memory = WeightMemory::huge_pages});
  const LayerWeights& block = model.weights().layers[1];
  Forward forward(model.config(), model.weights(), 40, 2);
  const auto states = random::normal<float>({24, model.config().dim}, 7), embeddings = random::normal<float>({24, tiny.per_layer_dim}, 8);
  const BesideStates beside{.embeddings = embeddings.span()};
  std::vector<float> whole(states.span().begin(), states.span().end()), ended = whole;
  const InputGroup& last = *last_of(block, Half::end);
  CHECK(last.roles[0] == Role::per_layer_projection);
  forward.run_to(block, 1, last, ended, beside);
  const TensorView<const float, 2> x = forward.inputs();
  std::vector<float> kept;
  for (std::int64_t t = 0; t < x.extent(0); ++t) kept.insert(kept.end(), &x(t, 0), &x(t, 0) + x.extent(1));
  forward.run_half(block, 1, Half::end, whole, beside);
  CHECK(whole != ended);
  forward.end_half(block, 1, last, {kept.data(), {24, tiny.per_layer_dim}}, ended);
  CHECK(whole == ended);
}

/// Every tensor of two checkpoints: names, formats, orders of columns, bytes.
void check_same(const Checkpoint& a, const Checkpoint& b) {
  REQUIRE(a.tensors().size() == b.tensors().size());
  for (std::size_t i = 0; i < a.tensors().size(); ++i) {
    const CheckpointTensor &x = a.tensors()[i], &y = b.tensors()[i];
    CAPTURE(x.name);
    REQUIRE(x.name == y.name);
    if (!x.is_matrix) {
      CHECK(a.load_vector(x) == b.load_vector(y));
      continue;
    }
    REQUIRE(x.format().name == y.format().name);
    CHECK((x.order() == nullptr) == (y.order() == nullptr));
    if (x.order() != nullptr && y.order() != nullptr) CHECK(*x.order() == *y.order());
    const WeightMatrix v = a.load_matrix(x, Reading::mapped), w = b.load_matrix(y, Reading::mapped);
    CHECK(std::memcmp(v.view().data, w.view().data, static_cast<std::size_t>(v.bytes())) == 0);
  }
}

TEST_CASE("a model in memory becomes what its file becomes, by any method, rotated or smoothed, and saves as that") {
  for (const bool tied : {false, true}) {
    Pass pass;
    pass.tiny = {.kv_heads = 6, .tied = tied, .biases = true};
    pass.tiny.make().write_folder(pass.folder / "hf");
    const Model model = Model::load(pass.folder / "hf");
    const std::vector<float> before = logits_of(model, some_tokens());
    for (const Method method : {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq, Method::hqq}) {
      for (const char* change : {"none", "rotate", "smooth", "at once"}) {
        CAPTURE(std::string(name_of(method)));
        CAPTURE(std::string(change));
        MethodOptions options = few_ratios;
        if (change[0] == 'r') options.rotation = 3;
        if (change[0] == 's') options.smooth = 0.5;
        options.true_sequential = change[0] != 'a';
        if (options.smooth && method != Method::rtn && method != Method::gptq) continue;
        const Recipe plan = recipe::with(method, method == Method::hqq ? "i4m.g32" : "i3z.g32", {}, options)
                                .keep("*.0.*.v_proj", "f16").keep("*.1.mlp.up_proj", "i8.row");
        const Report report = pass.run(plan, "m.bantam");
        const auto [small, memory_report] = compress(model, plan, {}, pass.calibration);
        const Checkpoint file = Checkpoint::open(pass.folder / "m.bantam");
        check_same(small.checkpoint(), file);
        CHECK(small.config().tied == file.config().tied);
        CHECK(memory_report.warnings == report.warnings);
        REQUIRE(memory_report.layers.size() == report.layers.size());
        for (std::size_t i = 0; i < report.layers.size(); ++i) {
          CHECK(memory_report.layers[i].name == report.layers[i].name);
          CHECK(memory_report.layers[i].relative_error == report.layers[i].relative_error);
        }
        CHECK(memory_report.bytes_before == report.bytes_before);
        CHECK(memory_report.bytes_after == report.bytes_after);
        CHECK(logits_of(small, some_tokens()) == logits_of(Model::load(pass.folder / "m.bantam"), some_tokens()));
        small.save(pass.folder / "saved.bantam");
        check_same(Checkpoint::open(pass.folder / "saved.bantam"), file);
      }
    }
    CHECK(logits_of(model, some_tokens()) == before);
  }
}

TEST_CASE_FIXTURE(Pass, "in memory a run can be cancelled, and a compressed model compressed again or written to any container") {
  const Model model = Model::load(folder / "hf");
  int calls = 0;
  const std::string text = error_of([&] { (void)compress(model, recipe::gptq("i4.g32"), [&](const Progress&) { return ++calls < 9; }, calibration); });
  CHECK(text.find("compress: cancelled after model.layers.0.") == 0);
  CHECK(calls == 9);
  CHECK(error_of([&] { (void)compress(model, recipe::gptq("i4.g32")); }) == "calibration: expected text, found none");

  const Model first = compress(model, recipe::gptq("i4.g32"), {}, calibration).first;
  run(recipe::gptq("i4.g32"), "first.bantam");
  const Recipe again = recipe::awq("i3.g32", {}, few_ratios).keep("*.q_proj", "i4.g32");
  compress_file(Checkpoint::open(folder / "first.bantam"), folder / "second.bantam", again, Target::native, {}, calibration);
  const Model second = compress(first, again, {}, calibration).first;
  check_same(second.checkpoint(), Checkpoint::open(folder / "second.bantam"));

  const std::vector<float> expected = logits_of(second, some_tokens());
  for (const auto& [name, target] : {std::pair{"m.gguf", Target::gguf}, {"folder", Target::safetensors}, {"m.bantam", Target::native}}) {
    CAPTURE(std::string(name));
    CHECK(plan_file(second.checkpoint(), recipe::rtn("f32"), target).bytes_before == static_cast<std::int64_t>(std::filesystem::file_size(folder / "second.bantam")));
    compress_file(second.checkpoint(), folder / name, recipe::rtn("f32"), target);
    CHECK(logits_of(Model::load(folder / name), some_tokens()).size() == expected.size());
    check_same(Checkpoint::open(folder / name), compress(second, recipe::rtn("f32")).first.checkpoint());
  }
}

TEST_CASE_FIXTURE(Pass, "a journal knows models in memory by their weights") {
  const Model model = Model::load(folder / "hf");
  tiny.tensor("model.layers.1.mlp.up_proj.weight").values[7] += 0.5f;
  tiny.write_folder(folder / "other");
  const auto run_memory = [&](const Model& from, int stop_after) {
    int matrices = 0;
    return compress_file(from.checkpoint(), folder / "m.bantam", recipe::gptq("i4.g32"), Target::native,
                         [&](const Progress&) { return ++matrices < stop_after; }, calibration, journal()).resumed_blocks;
  };
  CHECK_THROWS_AS(run_memory(model, 20), Error);
  CHECK(run_memory(Model::load(folder / "other"), 100) == 0);
  CHECK_THROWS_AS(run_memory(model, 20), Error);
  CHECK(run_memory(model, 100) == 3);
}

TEST_CASE_FIXTURE(Pass, "hqq leaves formats without minimums to rounding") {
  run(recipe::hqq("i4m.g32").keep("*.down_proj", "i8"), "m.bantam");
  compress_file(Checkpoint::open(folder / "hf"), folder / "rtn.bantam", recipe::rtn("i4m.g32").keep("*.down_proj", "i8"));
  const Model fitted = Model::load(folder / "m.bantam"), plain = Model::load(folder / "rtn.bantam");
  CHECK(relative_error(fitted.weights().layers[0].attention.q.dequantize(), plain.weights().layers[0].attention.q.dequantize()) > 0);
  CHECK(relative_error(fitted.weights().layers[0].mlp.down.dequantize(), plain.weights().layers[0].mlp.down.dequantize()) == 0);
}

}  // namespace
}  // namespace bantam::test
