// Mixtures of experts in files: what breaks their rules is refused in one line, and every special part of a model counts.
#include "bantam/compress/compress.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// Rounding of f32 products and sums; logits are of size 1.
constexpr double experts_tolerance = 1e-4;

std::vector<const ArchSpec*> sparse_architectures() {
  std::vector<const ArchSpec*> sparse;
  std::ranges::copy_if(architectures, std::back_inserter(sparse), &ArchSpec::has_experts);
  return sparse;
}

std::string folder_refusal(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
}

TEST_CASE("counts of experts that cannot be are refused by key") {
  struct Case {
    const char* members;
    const char* words;
  };
  for (const Case& c : {Case{R"({"num_experts":0})", "num_experts: expected a whole number from 1"}, Case{R"({"num_experts":-1})", "num_experts: expected a whole number from 1"},
                        Case{R"({"num_experts":2.5})", "found 2.5"}, Case{R"({"num_experts":1e9})", "num_experts: expected at most 16384"},
                        Case{R"({"num_experts":null})", "num_experts: expected a number, found nothing"},
                        Case{R"({"num_experts_per_tok":7})", "1 to 6 experts a token, found 7"}, Case{R"({"num_experts_per_tok":0})", "found 0"},
                        Case{R"({"moe_intermediate_size":0})", "moe_intermediate_size"}, Case{R"({"moe_intermediate_size":null})", "moe_intermediate_size"},
                        Case{R"({"shared_expert_intermediate_size":-1})", "shared_expert_intermediate_size"},
                        Case{R"({"norm_topk_prob":2})", "norm_topk_prob: expected true or false, found 2"},
                        Case{R"({"decoder_sparse_step":-1})", "decoder_sparse_step"}, Case{R"({"decoder_sparse_step":1e300})", "decoder_sparse_step"},
                        Case{R"({"mlp_only_layers":["a"]})", "mlp_only_layers"}, Case{R"({"num_experts":5})", "mlp.gate.weight: expected shape (5, 36), found (6, 36)"},
                        Case{R"({"num_experts":7})", "mlp.gate.weight: expected shape (7, 36), found (6, 36)"}, Case{R"({"mlp_only_layers":1})", "mlp_only_layers: expected a list"}, Case{R"({"moe_intermediate_size":19})", "expected shape (19, 36), found (20, 36)"}}) {
    CAPTURE(std::string(c.members));
    TinyModel tiny{.arch = &archs::qwen2_moe};
    tiny.make();
    const Json changes = Json::parse(c.members, "test");
    for (const auto& [key, value] : changes.items()) tiny.config[key] = value;
    has(folder_refusal(tiny), c.words);
  }
}

TEST_CASE("an expert that is missing or there twice is refused by name") {
  for (const ArchSpec* arch : sparse_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel whole{.arch = arch, .fuses = false};
    whole.make();
    TinyModel tiny = whole;
    const std::string name = name_from(arch->find(Role::expert_up, true)->hf, {Role::expert_up, 1, 5});
    tiny.remove(name);
    has(folder_refusal(tiny), "expected tensor " + name + ", found none");
    tiny = whole;
    TinyTensor more = tiny.tensor(name);
    more.name = name_from(arch->find(Role::expert_up, true)->hf, {Role::expert_up, 1, 6});
    tiny.tensors.push_back(more);
    has(folder_refusal(tiny), more.name + ": expected no such tensor");
    // One less in GGUF's stack.
    tiny = whole;
    tiny.remove(name);
    const TemporaryFolder folder;
    tiny.write_gguf(folder / "m.gguf");
    const std::int64_t width = whole.sizes.expert_dim();
    has(error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); }), message("blk.1.ffn_up_exps.weight: expected shape (6, 20, ", width, "), found (5, 20, ", width, ")"));
  }
}

TEST_CASE("a GGUF file's experts that cannot be are refused by key") {
  const auto open = [](std::string_view key, std::uint32_t value) {
    TinyModel tiny{.arch = &archs::mixtral};
    tiny.make();
    const TemporaryFolder folder;
    GgufBuilder b;
    b.key("general.architecture", "llama");
    const auto put = [&](const char* name, std::uint32_t usual) { b.key(message("llama.", name), key == name ? value : usual); };
    put("embedding_length", 36);
    put("block_count", 2);
    put("attention.head_count", 6);
    put("attention.head_count_kv", 2);
    put("attention.key_length", 10);
    put("feed_forward_length", 20);
    put("vocab_size", 37);
    put("expert_count", 6);
    put("expert_used_count", 2);
    if (key == "expert_gating_func") put("expert_gating_func", 1);
    tiny.put_vocabulary(b);
    tiny.put_tensors(b);
    write_file(folder / "m.gguf", b.bytes());
    return Checkpoint::open(folder / "m.gguf");
  };
  CHECK(open("", 0).config().arch == &archs::mixtral);
  const auto refusal = [&](std::string_view key, std::uint32_t value) { return error_of([&] { (void)open(key, value); }); };
  has(refusal("expert_count", 1U << 30), "llama.expert_count: expected at most 16384");
  has(refusal("expert_count", 1), "1 to 1 experts a token, found 2");
  has(refusal("expert_count", 5), "expected shape (5, 36), found (6, 36)");
  has(refusal("expert_used_count", 0), "llama.expert_used_count");
  has(refusal("expert_gating_func", 9), "llama.expert_gating_func: expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen), found 9");
}

TEST_CASE("each part of a sparse layer counts") {
  for (const ArchSpec* arch : sparse_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .seed = 5};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const auto tokens = some_tokens(20);
    const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
    const reference::Transformer whole = tiny.reference();
    CHECK(distance(logits, whole.logits(tokens)) < experts_tolerance);
    const auto differs = [&](auto change) {
      reference::Transformer changed = tiny.reference();
      change(changed);
      return distance(logits, changed.logits(tokens)) > 100 * experts_tolerance;
    };
    // A softmax of the chosen has the sum of 1. A norm behind the experts takes what all weights are multiplied by away.
    const bool normed = arch->find(Role::expert_out_norm, true) != nullptr || (arch->find(Role::ffn_out_norm, true) != nullptr && arch->find(Field::shared_experts) == nullptr);
    if (!normed && arch->router.score != nn::RouterScore::softmax_of_chosen) CHECK(differs([](auto& r) { r.router.renormalize = !r.router.renormalize; }));
    CHECK(differs([](auto& r) { r.router.used = 1; }));
    CHECK(differs([](auto& r) { r.router.score = r.router.score == reference::Score::sigmoid ? reference::Score::softmax : reference::Score::sigmoid; }));
    if (!normed) CHECK(differs([](auto& r) { r.router.scale *= 1.5; }));
    for (const char* part : {"mlp.router_scale", "mlp.expert_scale", "mlp_out_norm", "expert_norm", "expert_out_norm", "layer_scale"}) {
      CAPTURE(std::string(part));
      const std::string name = std::string("model.layers.1.") + part;
      if (tiny.reference().weights.contains(name)) CHECK(differs([&](auto& r) { std::ranges::fill(r.weights.at(name), 0.5F); }));
    }
    if (arch->find(Role::shared_gate, true) != nullptr) CHECK(differs([](auto& r) { r.weights.erase("model.layers.1.mlp.shared_expert_gate.weight"); }));
    if (arch->find(Role::up, true) != nullptr && arch->find(Role::up, true)->layers == Layers::sparse) CHECK(differs([](auto& r) { r.weights.erase("model.layers.1.mlp.shared_expert.up_proj.weight"); }));
    if (arch->find(Role::sinks) != nullptr) CHECK(differs([](auto& r) { r.weights.erase("model.layers.1.self_attn.sinks"); }));
    if (arch->full_attention_step > 0) CHECK(differs([](auto& r) { *std::ranges::find_if(r.windows, [](std::int64_t window) { return window > 0; }) = 0; }));
    if (arch->gate == ops::Gate::clamped_silu) CHECK(differs([](auto& r) { r.clamps = false; }));
    for (const Role role : {Role::expert_gate_bias, Role::expert_up_bias, Role::expert_down_bias, Role::router_bias}) {
      const TensorKey* key = arch->find(role, true);
      if (key != nullptr) CHECK(differs([&](auto& r) { for (std::int64_t e = 0; e < 6; ++e) r.weights.erase(name_from(key->hf, {role, 1, e})); }));
    }
    if (arch->head_norm == nn::HeadNorm::each_rotated) CHECK(differs([](auto& r) { r.norms_rotated = false; }));
    if (arch->head_norm == nn::HeadNorm::all) {
      CHECK(differs([](auto& r) {
        for (const char* name : {"q_norm", "k_norm"}) {
          for (float& gain : r.weights.at(std::string("model.layers.0.self_attn.") + name + ".weight")) gain = 1;
        }
      }));
    }
  }
}

TEST_CASE("logits of experts are the same for any threads, chunks and formats' containers") {
  for (const ArchSpec* arch : sparse_architectures()) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .dim = 64, .expert_ffn = 32};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const auto tokens = some_tokens(40);
    for (const char* format : {"f32", "i4.g32", "q8_0"}) {
      CAPTURE(std::string(format));
      compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn(format));
      const Model model = Model::load(folder / "m.bantam");
      const std::vector<float> whole = logits_of(model, tokens);
      for (const int threads : {1, 3}) {
        for (const std::size_t step : {1, 7}) {
          Session session(model, {.threads = threads, .kv = "f32"});
          std::vector<float> parts;
          for (std::size_t first = 0; first < tokens.size(); first += step) {
            session.score(std::span(tokens).subspan(first, std::min(step, tokens.size() - first)),
                          [&](std::int64_t, std::span<const float> logits) { parts.insert(parts.end(), logits.begin(), logits.end()); });
          }
          CHECK(parts == whole);
        }
      }
      CHECK(model.weights().layers.back().experts.router.format().is_float);
    }
  }
}

TEST_CASE("Hunyuan's config gives lists of equal numbers, and alpha scales the base of rope") {
  TinyModel tiny{.arch = &archs::hunyuan_moe};
  tiny.make();
  tiny.config["moe_topk"] = Json::array({2, 2});
  tiny.config["moe_intermediate_size"] = Json::array({20, 20});
  tiny.config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  CHECK(model.config().rope.base == doctest::Approx(5000 * std::pow(1000.0, 10.0 / 8)));
  CHECK(model.config().rope.scaling == nn::RopeScaling::none);
  reference::Transformer reference = tiny.reference();
  for (std::size_t i = 0; i < 5; ++i) reference.frequencies[i] = std::pow(5000 * std::pow(1000.0, 10.0 / 8), -2.0 * static_cast<double>(i) / 10);
  const auto tokens = some_tokens(20);
  CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) < experts_tolerance);
  tiny.config["moe_topk"] = Json::array({2, 3});
  has(folder_refusal(tiny), "moe_topk: expected one number for all layers, found several");
}

TEST_CASE("experts may be left out of layers, as Qwen's configs say") {
  TinyModel tiny{.arch = &archs::qwen3_moe, .layers = 3};
  tiny.make();
  tiny.config["mlp_only_layers"] = Json::array({0});
  has(folder_refusal(tiny), "expected tensor model.layers.0.mlp.gate_proj.weight, found none");
  tiny.config["mlp_only_layers"] = Json::array();
  tiny.config["decoder_sparse_step"] = 2;
  has(folder_refusal(tiny), "expected tensor model.layers.0.mlp.gate_proj.weight, found none");
}

}  // namespace
}  // namespace bantam::test
