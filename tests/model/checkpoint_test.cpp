// Checkpoints whose tensors or GGUF keys do not fit their model.
#include <algorithm>

#include "bantam/io/safetensors.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// The message for opening a folder of this model. It names the folder.
std::string folder_error(const TinyModel& tiny, const std::string& type = "F32") {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf", type);
  const std::string text = error_of([&] { (void)Checkpoint::open(folder / "hf"); });
  CHECK_MESSAGE(text.starts_with((folder / "hf").string()), text);
  return text;
}

std::string gguf_error(const GgufBuilder& builder) {
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", builder.bytes());
  const std::string text = error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); });
  CHECK_MESSAGE(text.starts_with((folder / "m.gguf").string()), text);
  return text;
}

TEST_CASE("each tensor that a model needs is missed by name") {
  std::ptrdiff_t turn = 0;
  for (const ArchSpec* arch : architectures_by_parts()) {
    TinyModel whole{.arch = arch, .fuses = false};
    whole.make();
    const auto& tensors = whole.tensors;
    ++turn;
    for (auto t = tensors.begin(); t != tensors.end(); ++t) {
      // Models have most tensors in common: an eighth of each, another one each time, has all of them.
      if (quick() && (t - tensors.begin() + turn) % 8 != 0) continue;
      // A stack of experts is one tensor of a GGUF file, and its first and its last stand for those between.
      const auto stacked = [&](const TinyTensor& other) { return !t->gguf_name.empty() && other.gguf_name == t->gguf_name; };
      const bool first = std::none_of(tensors.begin(), t, stacked);
      if (!first && std::any_of(t + 1, tensors.end(), stacked)) continue;
      TinyModel tiny = whole;
      tiny.remove(t->name);
      if (!t->name.empty()) has(folder_error(tiny), "expected tensor " + (t->pieces.empty() ? t->name : t->pieces[0]) + ", found none");  // else GGUF's alone
      if (!first || t->gguf_name.empty() || t->gguf_name == "output.weight") continue;
      if (t->gguf_name == arch->gguf_mark) continue;  // a model of another architecture, then
      if (arch->may_share_values && t->gguf_name == "blk.2.attn_v.weight") continue;  // its keys are its values, then
      if (t->own.role == Role::token_type_embedding && arch->find(t->own.role)->presence == Presence::optional) continue;  // a DistilBERT, then
      std::erase_if(tiny.tensors, stacked);
      has(gguf_error(tiny.gguf()), "expected tensor " + t->gguf_name + ", found none");
    }
  }
}

TEST_CASE("each tensor of another shape is refused by name, with both shapes") {
  TinyModel whole{.arch = &archs::qwen3};
  whole.make();
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    TinyModel tiny = whole;
    TinyTensor& t = tiny.tensors[i];
    CAPTURE(t.name);
    const std::vector<std::int64_t> expected = t.shape;
    const std::int64_t columns = static_cast<std::int64_t>(t.values.size()) / t.shape[0];
    ++t.shape[0];
    t.values.resize(t.values.size() + static_cast<std::size_t>(columns));
    t.permuted_heads = 0;
    for (const std::string& text : {folder_error(tiny), gguf_error(tiny.gguf())}) {
      has(text, "expected shape " + to_string(expected) + ", found " + to_string(t.shape));
    }
    // As many numbers, arranged in another way.
    if (t.shape.size() == 2) {
      tiny = whole;
      std::swap(tiny.tensors[i].shape[0], tiny.tensors[i].shape[1]);
      if (tiny.tensors[i].shape != expected) has(folder_error(tiny), t.name);
      tiny.tensors[i].shape = {expected[0] * expected[1]};
      has(folder_error(tiny), "found " + to_string(tiny.tensors[i].shape));
    }
  }
}

TEST_CASE("a tensor that nobody asked for is refused, leftovers of old converters are not") {
  TinyModel tiny{.arch = &archs::mistral};
  tiny.make();
  tiny.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "", {5}, {1, 1, 1, 1, 1}});
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  (void)Checkpoint::open(folder / "hf");
  // Mistral has no biases, and no third layer.
  for (const char* name : {"model.layers.0.self_attn.q_proj.bias", "model.layers.2.input_layernorm.weight", "score.weight"}) {
    TinyModel more = tiny;
    more.tensors.push_back({name, "x.weight", {36}, std::vector<float>(36)});
    has(folder_error(more), std::string(name) + ": expected no such tensor in a model of type mistral");
    has(gguf_error(more.gguf()), "x.weight: expected no such tensor");
  }
}

TEST_CASE("types that nothing here reads are named, with what works") {
  TinyModel tiny{.dim = 64, .heads = 4, .head_dim = 16, .ffn = 256};
  tiny.make();
  GgufBuilder builder;
  {
    // Q8_K is type 15, 292 bytes for 256 weights: activations are of it, never the weights of a file.
    TinyModel rest = tiny;
    rest.remove("model.layers.1.mlp.down_proj.weight");
    builder = rest.gguf();
    builder.tensor("blk.1.ffn_down.weight", {256, 64}, 15, std::string(std::size_t{64} * 292, '\1'));
  }
  const std::string text = gguf_error(builder);
  has(text, "blk.1.ffn_down.weight: type Q8_K: not yet");
  has(text, "what works: F32, F16, BF16, Q8_0, Q5_0, ");

  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  SafetensorsWriter writer(folder / "hf" / "model.safetensors", {{"model.embed_tokens.weight", "I32", {37, 64}}}, {});
  const std::vector<std::byte> zeros(std::size_t{37} * 64 * 4);
  writer.write(zeros);
  writer.commit();
  tiny.config["num_hidden_layers"] = 1;
  write_file(folder / "hf" / "config.json", tiny.config.dump());
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "model.embed_tokens.weight: type I32: not yet");
}

TEST_CASE("a model split over files is the model in one file, wherever its tensors lie") {
  TinyModel whole;
  whole.make();
  const TemporaryFolder folder;
  write_file(folder / "m.gguf", whole.gguf().bytes());
  // The first part holds metadata alone, as llama.cpp's own tool may write it.
  for (std::size_t part = 0; part < 3; ++part) {
    TinyModel shard = whole;
    shard.tensors.clear();
    for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
      if (part > 0 && i % 2 == part - 1) shard.tensors.push_back(whole.tensors[i]);
    }
    shard.more_keys = [&](GgufBuilder& builder) {
      builder.key("split.no", static_cast<std::uint16_t>(part)).key("split.count", std::uint16_t{3});
      builder.key("split.tensors.count", static_cast<std::int32_t>(whole.tensors.size()));
    };
    write_file(folder / ("s-0000" + std::to_string(part + 1) + "-of-00003.gguf"), shard.gguf().bytes());
  }
  const auto tokens = some_tokens();
  CHECK(logits_of(Model::load(folder / "s-00001-of-00003.gguf"), tokens) ==
        logits_of(Model::load(folder / "m.gguf"), tokens));

  std::filesystem::remove(folder / "s-00003-of-00003.gguf");
  const std::string error = error_of([&] { (void)Checkpoint::open(folder / "s-00001-of-00003.gguf"); });
  has(error, "s-00003-of-00003.gguf");
}

TEST_CASE("a vocabulary larger than the embedding is refused, a smaller one is padded") {
  TinyModel tiny{.vocab = 29};
  tiny.make();
  has(folder_error(tiny), "at most 29 tokens (rows of the embedding), the tokenizer has 30");
  tiny.more_keys = {};
  has(gguf_error(tiny.gguf()), "the tokenizer has 30");
}

TEST_CASE("tied configs need no head and take no notice of one that repeats the embedding") {
  TinyModel tiny;
  tiny.make();
  tiny.config["tie_word_embeddings"] = true;
  tiny.tensor("lm_head.weight").values = tiny.tensor("model.embed_tokens.weight").values;
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  CHECK(model.config().tied);
  CHECK(model.weights().head.view().data == model.weights().embedding.view().data);
  tiny.remove("lm_head.weight");
  tiny.config["tie_word_embeddings"] = false;
  has(folder_error(tiny), "expected tensor lm_head.weight");
}

TEST_CASE("configs that promise more than the files hold cost nothing") {
  TinyModel tiny;
  tiny.make();
  tiny.config["num_hidden_layers"] = 100'000;
  has(folder_error(tiny), "expected tensors of 100000 layers, found 21 tensors in all");
  tiny.config["num_hidden_layers"] = 2;
  tiny.config["vocab_size"] = 1 << 30;
  has(folder_error(tiny), "model.embed_tokens.weight: expected shape (1073741824, 36)");
}

TEST_CASE("paths that hold no model are told apart") {
  const TemporaryFolder folder;
  has(error_of([&] { (void)Checkpoint::open(folder / "none"); }), "found nothing");
  write_file(folder / "empty", "");
  has(error_of([&] { (void)Checkpoint::open(folder / "empty"); }), "found something else");
  write_file(folder / "text.txt", "hello");
  has(error_of([&] { (void)Checkpoint::open(folder / "text.txt"); }), "found something else");
  TinyModel tiny;
  tiny.make().write_folder(folder / "hf");
  has(error_of([&] { (void)Checkpoint::open(folder / "hf" / "model.safetensors"); }), "give the folder that holds it");
  std::filesystem::remove(folder / "hf" / "model.safetensors");
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "hf");
  write_file(folder / "hf" / "pytorch_model.bin", "x");
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "convert");
}

TEST_CASE("GGUF keys that break their rules are refused by name") {
  // Later keys of the same name would be refused as repeated: each case leaves the usual one out.
  struct Case {
    const char* key;
    std::function<void(GgufBuilder&, const std::string&)> put;
    const char* rest;
  };
  const auto u32 = [](std::uint32_t value) { return [value](GgufBuilder& b, const std::string& key) { b.key(key, value); }; };
  const auto u64 = [](std::uint64_t value) { return [value](GgufBuilder& b, const std::string& key) { b.key(key, value); }; };
  const auto f32 = [](float value) { return [value](GgufBuilder& b, const std::string& key) { b.key(key, value); }; };
  const auto text = [](const char* value) { return [value](GgufBuilder& b, const std::string& key) { b.key(key, value); }; };
  const auto list = [](std::vector<std::int32_t> value) { return [value](GgufBuilder& b, const std::string& key) { b.key(key, value); }; };
  const auto nothing = [](GgufBuilder&, const std::string&) {};
  const std::vector<Case> cases{
      {"embedding_length", nothing, "found nothing"}, {"embedding_length", u32(0), "found 0"},
      {"embedding_length", u64(1'000'000'000'000), "found 1"}, {"embedding_length", text("36"), "expected"},
      {"block_count", nothing, "found nothing"}, {"block_count", u32(0), "found 0"}, {"block_count", u32(1'000'000'000), "at most 100000"},
      {"attention.head_count", u32(0), "found 0"}, {"attention.head_count", u32(5), "head_count_kv: expected a divisor of the 5 heads, found 2"},
      {"attention.head_count_kv", u32(0), "found 0"}, {"attention.head_count_kv", u32(4), "found 4"},
      {"attention.head_count_kv", list({2, 2, 2}), "expected one number or 2, found 3"},
      {"attention.head_count_kv", list({2, 1}), "[1]: expected 3 heads for each, as in layer 0, found 6"},
      {"attention.key_length", list({10, 12}), "expected one number for all layers"},
      {"attention.head_count_kv", list({}), "expected one number or 2, found 0"},
      {"attention.key_length", u32(9), "even size"}, {"attention.key_length", u64(1ULL << 63), "key_length"},
      {"feed_forward_length", f32(NAN), "found nan"}, {"feed_forward_length", u32(0), "found 0"},
      {"context_length", u64(1ULL << 63), "context_length"}, {"context_length", u32(0), "found 0"},
      {"attention.layer_norm_rms_epsilon", f32(0), "above 0"}, {"attention.layer_norm_rms_epsilon", f32(-1), "found -1"},
      {"attention.layer_norm_rms_epsilon", f32(NAN), "found nan"}, {"attention.layer_norm_rms_epsilon", f32(INFINITY), "found inf"},
      {"rope.freq_base", f32(0), "above 0"}, {"rope.freq_base", f32(NAN), "found nan"}, {"rope.freq_base", f32(INFINITY), "found inf"},
      {"rope.dimension_count", u32(12), "even size up to the head's 10, found 12"}, {"rope.dimension_count", u32(3), "found 3"},
      {"attention.sliding_window", f32(NAN), "found nan"}, {"attention.sliding_window", f32(1e30F), "found 1.0"},
      {"attention.sliding_window", u64(1ULL << 63), "sliding_window"},
      {"rope.scaling.type", text("longrope"), "none, linear or yarn, found longrope"},
      {"vocab_size", u64(1ULL << 40), "vocab_size"}, {"vocab_size", u32(0), "found 0"},
  };
  TinyModel tiny;
  tiny.make();
  for (const Case& c : cases) {
    const std::string key = std::string("llama.") + c.key;
    CAPTURE(key);
    GgufBuilder b;
    b.key("general.architecture", "llama");
    const auto usual = [&](const char* name, std::int64_t value) {
      if (std::string_view(name) != c.key) b.key(std::string("llama.") + name, static_cast<std::uint32_t>(value));
    };
    usual("embedding_length", 36);
    usual("block_count", 2);
    usual("attention.head_count", 6);
    usual("attention.head_count_kv", 2);
    usual("attention.key_length", 10);
    usual("feed_forward_length", 50);
    c.put(b, key);
    const std::string found = gguf_error(b);
    has(found, c.key);
    has(found, c.rest);
  }
  has(gguf_error(GgufBuilder().key("a", true)), "general.architecture: expected the name of an architecture, found nothing");
  CHECK(gguf_error(GgufBuilder().key("general.architecture", "pegasus")).ends_with("m.gguf: general.architecture: expected one that `bantam formats` lists, found pegasus"));
  has(gguf_error(GgufBuilder().key("general.architecture", "gwen3moe")), "found gwen3moe; did you mean qwen3moe");
  has(gguf_error(GgufBuilder().key("general.architecture", "qwen3").key("qwen3.expert_count", std::uint32_t{8})), "qwen3.expert_count: expected no experts in a model of type qwen3, found some");
  has(gguf_error(GgufBuilder().key("general.architecture", "qwen3moe")), "qwen3moe.expert_count: expected the experts of a model of type qwen3moe, found none");
  has(gguf_error(GgufBuilder().key("general.architecture", std::uint32_t{3})), "general.architecture");
}

TEST_CASE("rope scaling of GGUF files lands in the options") {
  TinyModel tiny;
  tiny.make();
  const TemporaryFolder folder;
  const auto rope_of = [&](std::function<void(GgufBuilder&)> keys) {
    tiny.more_keys = std::move(keys);
    tiny.write_gguf(folder / "m.gguf");
    return Checkpoint::open(folder / "m.gguf").config().rope;
  };
  const auto linear = rope_of([](GgufBuilder& b) { b.key("llama.rope.scaling.type", "linear").key("llama.rope.scaling.factor", 4.0F); });
  CHECK(linear.scaling == nn::RopeScaling::linear);
  CHECK(linear.factor == 4);
  CHECK(linear.base == 5000);
  const auto yarn = rope_of([](GgufBuilder& b) {
    b.key("llama.rope.scaling.type", "yarn").key("llama.rope.scaling.factor", 4.0F);
    b.key("llama.rope.scaling.original_context_length", std::uint32_t{16}).key("llama.rope.scaling.yarn_beta_fast", 16.0F);
    b.key("llama.rope.scaling.yarn_beta_slow", 2.0F).key("llama.rope.scaling.attn_factor", 0.5F);
  });
  CHECK(yarn.scaling == nn::RopeScaling::yarn);
  CHECK(yarn.original_context == 16);
  CHECK(yarn.beta_fast == 16);
  CHECK(yarn.beta_slow == 2);
  CHECK(yarn.attention_factor == doctest::Approx(0.5 * (0.1 * std::log(4.0) + 1)));
  CHECK(rope_of([](GgufBuilder& b) { b.key("llama.rope.scaling.type", "none"); }).scaling == nn::RopeScaling::none);
  for (const float factor : {0.0F, 0.5F, -1.0F, NAN, INFINITY}) {
    const auto bad = [&] { (void)rope_of([&](GgufBuilder& b) { b.key("llama.rope.scaling.type", "linear").key("llama.rope.scaling.factor", factor); }); };
    has(error_of(bad), "llama.rope.scaling.factor: expected at least 1");
  }
  for (const std::uint64_t original : {std::uint64_t{0}, std::uint64_t{1} << 62, std::uint64_t{1} << 63}) {
    const auto bad = [&] {
      (void)rope_of([&](GgufBuilder& b) {
        b.key("llama.rope.scaling.type", "yarn").key("llama.rope.scaling.factor", 4.0F).key("llama.rope.scaling.original_context_length", original);
      });
    };
    has(error_of(bad), "original_context_length: expected");
  }
}

}  // namespace
}  // namespace bantam::test
