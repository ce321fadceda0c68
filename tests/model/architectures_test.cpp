// Every architecture, from every container, against double precision.
#include "bantam/compress/footprint.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "limits.hpp"
#include "reference/rope.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// Rounding of f32 products and sums in two layers of tiny matrices; logits are of size 1.
constexpr double tolerance = 1e-4;

TEST_CASE("every architecture computes the reference's logits, the same from every container") {
  std::size_t turn = 0;
  for (const ArchSpec* arch : architectures_by_parts()) {
    ++turn;
    for (const bool tied : {false, true}) {
      if (quick() && tied != (turn % 2 == 0)) continue;
      CAPTURE(std::string(arch->name));
      CAPTURE(tied);
      TinyModel tiny{.arch = arch, .tied = tied};
      tiny.make();
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      tiny.write_gguf(folder / "m.gguf");
      const Model hf = Model::load(folder / "hf");
      hf.save(folder / "m.bantam");
      const auto tokens = some_tokens();
      const std::vector<float> logits = logits_of(hf, tokens);
      CHECK(distance(logits, tiny.reference().logits(tokens)) < tolerance);
      CHECK(hf.config().tied == tied);
      CHECK(distance(logits_of(Model::load(folder / "m.gguf"), tokens), tiny.reference().logits(tokens)) < tolerance);
      CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
      CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
      for (const WeightMemory memory : {WeightMemory::mapped, WeightMemory::huge_pages, WeightMemory::direct}) {
        CHECK(logits_of(Model::load(folder / "m.bantam", {.memory = memory}), tokens) == logits);
      }
    }
  }
}

TEST_CASE("an outline has the matrices of every architecture, from its config alone") {
  for (const ArchSpec* arch : architectures) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Checkpoint whole = Checkpoint::open(folder / "hf");
    // Routers stay in the type that they have.
    write_file(folder / "config.json", "{\"torch_dtype\": \"float32\", " + read_text_file(folder / "hf/config.json").substr(1));
    const Checkpoint outline = Checkpoint::outline(folder / "config.json");
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes;
    for (const CheckpointTensor& tensor : whole.tensors()) shapes[tensor.tensor_name()] = {tensor.rows, tensor.columns};
    for (const CheckpointTensor& tensor : outline.tensors()) {
      CAPTURE(tensor.name);
      REQUIRE(shapes.contains(tensor.tensor_name()));
      CHECK(shapes.at(tensor.tensor_name()) == std::pair(tensor.rows, tensor.columns));
    }
    // What is optional in files may be missing of it, but no matrix.
    CHECK(footprint_of(outline).matrix_parameters == footprint_of(whole).matrix_parameters);
    CHECK(footprint_of(outline_of(outline, recipe::rtn("i4"))).matrix_bytes == footprint_of(outline_of(whole, recipe::rtn("i4"))).matrix_bytes);
  }
}

TEST_CASE("biases of llama count, and are unpermuted as their matrices") {
  TinyModel tiny{.biases = true, .seed = 7};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  const auto tokens = some_tokens();
  const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  CHECK(distance(logits, tiny.reference().logits(tokens)) < tolerance);
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
  reference::Transformer without = tiny.reference();
  std::erase_if(without.weights, [](const auto& weight) { return weight.first.ends_with(".bias"); });
  CHECK(distance(logits, without.logits(tokens)) > 100 * tolerance);
}

TEST_CASE("odd sizes compute the reference's logits") {
  struct Sizes {
    std::int64_t dim, heads, kv_heads, head_dim, ffn, vocab;
  };
  for (const Sizes& s : {Sizes{5, 1, 1, 2, 1, 30}, Sizes{7, 3, 1, 2, 5, 31}, Sizes{33, 4, 4, 18, 17, 65}, Sizes{130, 2, 1, 66, 129, 47}}) {
    CAPTURE(s.dim);
    TinyModel tiny{.arch = &archs::qwen3, .dim = s.dim, .layers = 3, .heads = s.heads, .kv_heads = s.kv_heads, .head_dim = s.head_dim, .ffn = s.ffn, .vocab = s.vocab};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const auto tokens = some_tokens(20);
    CHECK(distance(logits_of(Model::load(folder / "hf"), tokens), tiny.reference().logits(tokens)) < tolerance);
  }
}

TEST_CASE("halves hold the same numbers as floats made of them") {
  for (const std::string type : {"F16", "BF16"}) {
    CAPTURE(type);
    TinyModel tiny;
    tiny.make();
    for (TinyTensor& t : tiny.tensors) {
      for (float& v : t.values) v = type == "F16" ? float(f16(v)) : float(bf16(v));
    }
    const TemporaryFolder folder;
    tiny.write_folder(folder / "half", type);
    const auto tokens = some_tokens();
    CHECK(distance(logits_of(Model::load(folder / "half"), tokens), tiny.reference().logits(tokens)) < 2e-2);
    CHECK(Model::load(folder / "half").weights().layers[0].attention.q.format().name == (type == "F16" ? "f16" : "bf16"));
  }
}

TEST_CASE("a sliding window hides what lies before it") {
  TinyModel tiny{.arch = &archs::mistral};
  tiny.make();
  tiny.config["sliding_window"] = 5;
  const TemporaryFolder folder;
  const auto tokens = some_tokens(20);
  tiny.write_folder(folder / "hf");
  const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  reference::Transformer reference = tiny.reference();
  CHECK(distance(logits, reference.logits(tokens)) > 100 * tolerance);
  reference.windows.assign(static_cast<std::size_t>(tiny.layers), 5);
  CHECK(distance(logits, reference.logits(tokens)) < tolerance);

  tiny.more_keys = [](GgufBuilder& b) { b.key("llama.attention.sliding_window", std::uint32_t{5}); };
  tiny.write_gguf(folder / "m.gguf");
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
  Model::load(folder / "hf").save(folder / "m.bantam");
  CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
}

TEST_CASE("a window that use_sliding_window turns off hides nothing; max_window_layers says where it begins") {
  TinyModel tiny{.arch = &archs::qwen2, .layers = 3};
  tiny.make();
  tiny.config["sliding_window"] = 4;
  tiny.config["use_sliding_window"] = false;
  tiny.config["max_window_layers"] = 1;
  const TemporaryFolder folder;
  const auto tokens = some_tokens(16);
  tiny.write_folder(folder / "off");
  reference::Transformer reference = tiny.reference();
  CHECK(distance(logits_of(Model::load(folder / "off"), tokens), reference.logits(tokens)) < tolerance);

  reference.windows = {0, 4, 4};
  tiny.config["use_sliding_window"] = true;
  tiny.write_folder(folder / "on");
  CHECK(distance(logits_of(Model::load(folder / "on"), tokens), reference.logits(tokens)) < tolerance);

  // A size alone is none that Qwen2's class reads.
  tiny.config["use_sliding_window"] = tiny.config["max_window_layers"] = nullptr;
  CHECK(parse_hf_config(tiny.config.dump(), "config.json").window == 0);

  // Newer configs name each layer's kind instead.
  tiny.config["use_sliding_window"] = nullptr;
  tiny.config["max_window_layers"] = nullptr;
  tiny.config["layer_types"] = {"full_attention", "sliding_attention", "sliding_attention"};
  tiny.write_folder(folder / "types");
  CHECK(distance(logits_of(Model::load(folder / "types"), tokens), reference.logits(tokens)) < tolerance);

  // In any pattern, which native files keep and GGUF has no words for.
  reference.windows = {4, 0, 4};
  tiny.config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  tiny.write_folder(folder / "pattern");
  const Model pattern = Model::load(folder / "pattern");
  const std::vector<float> logits = logits_of(pattern, tokens);
  CHECK(distance(logits, reference.logits(tokens)) < tolerance);
  pattern.save(folder / "m.bantam");
  CHECK(Model::load(folder / "m.bantam").config().specs == pattern.config().specs);
  CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
  GgufWriter gguf(folder / "m.gguf");
  has(error_of([&] { write_gguf_config(gguf, pattern.config()); }), "a sliding window of other layers than the architecture has it in: GGUF has no words for it");
}

TEST_CASE("rope_freqs.weight divides frequencies, and native files keep that") {
  TinyModel tiny;
  tiny.make();
  tiny.tensors.push_back({"rope_divisors", "rope_freqs.weight", {5}, {1, 1, 2, 4, 8}});
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const Model model = Model::load(folder / "m.gguf");
  CHECK(model.config().rope.divisors == std::vector<float>{1, 1, 2, 4, 8});
  reference::Transformer reference = tiny.reference();
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = logits_of(model, tokens);
  CHECK(distance(logits, reference.logits(tokens)) > 10 * tolerance);
  for (std::size_t i = 0; i < 5; ++i) reference.frequencies[i] /= static_cast<double>(model.config().rope.divisors[i]);
  CHECK(distance(logits, reference.logits(tokens)) < tolerance);
  model.save(folder / "m.bantam");
  CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY}) {
    tiny.tensors.back().values[2] = bad;
    tiny.write_gguf(folder / "bad.gguf");
    CHECK(error_of([&] { (void)Checkpoint::open(folder / "bad.gguf"); }).find("bad.gguf: rope_freqs.weight: expected divisors above 0") != std::string::npos);
  }
}

TEST_CASE("only a part of each head turns where the file says so") {
  TinyModel tiny;
  tiny.make();
  tiny.more_keys = [](GgufBuilder& b) { b.key("llama.rope.dimension_count", std::uint32_t{6}); };
  tiny.config["partial_rotary_factor"] = 0.6;
  // Pairs of the part, not of the head: the permutation of GGUF is left out.
  for (TinyTensor& t : tiny.tensors) t.permuted_heads = 0;
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  reference::Transformer reference = tiny.reference();
  reference.frequencies.clear();
  for (int i = 0; i < 3; ++i) reference.frequencies.push_back(std::pow(5000.0, -2.0 * i / 6));
  const auto tokens = some_tokens();
  const Model model = Model::load(folder / "hf");
  CHECK(model.config().rope.dim == 6);
  const std::vector<float> logits = logits_of(model, tokens);
  CHECK(distance(logits, reference.logits(tokens)) < tolerance);
  model.save(folder / "m.bantam");
  CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
}

TEST_CASE("scaled rope reaches the logits") {
  TinyModel tiny;
  tiny.make();
  const auto tokens = some_tokens(24);
  const TemporaryFolder folder;
  const auto check = [&](const char* name, const char* json, std::vector<double> frequencies, double magnitude) {
    CAPTURE(name);
    tiny.config["rope_scaling"] = Json::parse(json, "test");
    tiny.write_folder(folder / name);
    reference::Transformer reference = tiny.reference();
    reference.frequencies = std::move(frequencies);
    reference.magnitude = magnitude;
    CHECK(distance(logits_of(Model::load(folder / name), tokens), reference.logits(tokens)) < tolerance);
  };
  check("linear", R"({"type":"linear","factor":4})", reference::rope_linear(10, 5000, 4), 1);
  check("llama3", R"({"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":64})",
        reference::rope_llama3(10, 5000, 8, 1, 4, 64), 1);
  check("yarn", R"({"rope_type":"yarn","factor":4,"original_max_position_embeddings":32})", reference::rope_yarn(10, 5000, 4, 32, 1, 32),
        reference::yarn_magnitude(4));
}

}  // namespace
}  // namespace bantam::test
