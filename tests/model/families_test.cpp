// What families have beside Llama's blocks: each part counts, and both containers say it.
#include <cmath>

#include "bantam/io/gguf_writer.hpp"
#include "model/family_parts.hpp"
#include "reference/rope.hpp"

namespace bantam::test {
namespace {

TEST_CASE("each part that a family adds is noticed when it is left out") {
  const FamilyPart parts[] = {
      {&archs::gemma, "embedding scale", [](reference::Transformer& r) { r.embedding_scale = 1; }},
      {&archs::gemma, "gelu", [](reference::Transformer& r) { r.activation = [](double x) { return x / (1 + std::exp(-x)); }; }},
      {&archs::gemma2, "cap of scores", [](reference::Transformer& r) { r.attention_softcap = 0; }},
      {&archs::gemma2, "cap of logits", [](reference::Transformer& r) { r.final_softcap = 0; }},
      {&archs::gemma2, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::gemma2, "norm behind attention", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("attention_out_norm"); }); }},
      {&archs::gemma2, "norm behind the MLP", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("ffn_out_norm"); }); }},
      {&archs::gemma3, "local rope", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::gemma3, "norms of q and k", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("k_norm.weight"); }); }},
      {&archs::phi2, "bias of the head", [](reference::Transformer& r) { r.weights.erase("lm_head.bias"); }},
      {&archs::glm4, "adjacent pairs", [](reference::Transformer& r) { r.adjacent_pairs = false; }},
      {&archs::olmo3, "scaled rope of full layers alone", [](reference::Transformer& r) { r.locals.clear(); }},
      {&archs::ministral3, "temperature", [](reference::Transformer& r) { r.temperature = 0; }},
      {&archs::cohere2, "rope in layers with a window alone", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::cohere2, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::gpt_neox, "attention and MLP side by side", [](reference::Transformer& r) { r.parallel = false; }},
      {&archs::exaone4, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::exaone4, "no rope without a window", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::exaone4, "norm behind attention", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("attention_out_norm"); }); }},
      {&archs::hunyuan_dense, "norms of q and k behind rope", [](reference::Transformer& r) { r.norms_rotated = false; }},
      {&archs::seed_oss, "biases of q, k and v", filled("_proj.bias", 0)},
      {&archs::ernie4_5, "adjacent pairs", [](reference::Transformer& r) { r.adjacent_pairs = false; }},
      {&archs::granite_moe, "weights of the chosen that sum to one", [](reference::Transformer& r) { r.router.renormalize = false; }},
  };
  check_parts_count(parts, some_tokens(20));
}

TEST_CASE("EXAONE 4: windows by letters and layer_types, or none, and then rope in all layers") {
  TinyModel tiny{.arch = &archs::exaone4};
  tiny.make();
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = folder_logits(tiny, tokens);
  TinyModel published = tiny;
  published.config["sliding_window_pattern"] = "LLLG";
  published.config["layer_types"] = {"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"};
  CHECK(folder_logits(published, tokens) == logits);
  published.config["sliding_window"] = published.config["sliding_window_pattern"] = nullptr;
  published.config["layer_types"] = {"full_attention", "full_attention", "full_attention", "full_attention"};
  reference::Transformer reference = tiny.reference();
  reference.windows.clear();
  reference.rotates.clear();
  CHECK(distance(folder_logits(published, tokens), reference.logits(tokens)) < family_tolerance);
}

TEST_CASE("the language model of a folder with a vision tower is loaded, and what is left out is named") {
  TinyModel tiny{.arch = &archs::gemma3, .tied = true};
  tiny.make();
  const auto tokens = some_tokens(16);
  const std::vector<float> logits = folder_logits(tiny, tokens);
  for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
    CAPTURE(prefix);
    TinyModel part = tiny;
    for (TinyTensor& t : part.tensors) t.name.replace(0, std::string("model.").size(), prefix);
    part.tensors.push_back({"vision_tower.vision_model.embeddings.patch_embedding.weight", "", {2, 3}, {1, 2, 3, 4, 5, 6}});
    part.tensors.push_back({"multi_modal_projector.mm_soft_emb_norm.weight", "", {2}, {1, 2}});
    Json text = tiny.config;
    text["architectures"] = nullptr;
    text["tie_word_embeddings"] = nullptr;
    part.config = {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"model_type", "gemma3"}, {"tie_word_embeddings", true}, {"text_config", text}, {"vision_config", {{"hidden_size", 2}}}};
    const TemporaryFolder folder;
    part.write_folder(folder / "hf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    CHECK(checkpoint.left_out() == std::vector<std::string>{part.tensors[part.tensors.size() - 2].name, part.tensors.back().name});
    CHECK(checkpoint.config().arch == &archs::gemma3);
    CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
  }
  // Without such names nothing is left out: what nobody knows is refused.
  TinyModel odd = tiny;
  odd.tensors.push_back({"vision_tower.weight", "", {2}, {1, 2}});
  const TemporaryFolder folder;
  odd.write_folder(folder / "hf");
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "vision_tower.weight: expected no such tensor");
  odd.config = {{"architectures", {"SomeForConditionalGeneration"}}, {"text_config", {{"model_type", "some"}}}};
  odd.write_folder(folder / "unknown");
  has(error_of([&] { (void)Checkpoint::open(folder / "unknown"); }), "config.json: text_config: model_type: expected one that `bantam formats` lists, found ");
}

TEST_CASE("published folders of Qwen3.5 are read: text beside images, layers that draft left out") {
  TinyModel tiny{.arch = &archs::qwen3_5};
  tiny.make();
  const auto tokens = some_tokens(40);
  const std::vector<float> logits = folder_logits(tiny, tokens);
  TinyModel part = tiny;
  part.tensors.push_back({"mtp.fc.weight", "", {2, 3}, {1, 2, 3, 4, 5, 6}});
  CHECK(folder_logits(part, tokens) == logits);
  for (TinyTensor& t : part.tensors) {
    if (t.name.starts_with("model.")) t.name.replace(0, std::string("model.").size(), "model.language_model.");
  }
  part.tensors.push_back({"model.visual.patch_embed.proj.weight", "", {2, 3}, {1, 2, 3, 4, 5, 6}});
  Json text = tiny.config;
  text["architectures"] = nullptr;
  text["model_type"] = "qwen3_5_text";
  text["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000.0}, {"partial_rotary_factor", tiny.config["partial_rotary_factor"]}, {"mrope_section", {2, 1, 1}}};
  part.config = {{"architectures", {"Qwen3_5ForConditionalGeneration"}}, {"model_type", "qwen3_5"}, {"tie_word_embeddings", false}, {"text_config", text}};
  const TemporaryFolder folder;
  part.write_folder(folder / "hf");
  CHECK(Checkpoint::open(folder / "hf").left_out() == std::vector<std::string>{"model.visual.patch_embed.proj.weight"});
  CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
}

TEST_CASE("each part of recurrent and gated layers counts") {
  const auto tokens = some_tokens(40);
  const auto counts = [&](const ArchSpec& arch, const std::function<void(reference::Transformer&)>& leave_out) {
    TinyModel tiny{.arch = &arch};
    tiny.make();
    reference::Transformer reference = tiny.reference();
    leave_out(reference);
    return distance(folder_logits(tiny, tokens), reference.logits(tokens)) > 20 * family_tolerance;
  };
  for (const char* ending : {"linear_attn.A_log", "linear_attn.dt_bias", "linear_attn.in_proj_b.weight", "linear_attn.norm.weight"}) {
    CAPTURE(std::string(ending));
    CHECK(counts(archs::qwen3_5, filled(ending, 0.5f)));
  }
  CHECK(counts(archs::qwen3_5, filled("linear_attn.conv1d.weight", 0.25f)));
  for (const char* ending : {"mamba.A_log", "mamba.dt_bias", "mamba.D", "mamba.norm.weight", "mamba.conv1d.bias"}) {
    CAPTURE(std::string(ending));
    CHECK(counts(archs::nemotron_h, filled(ending, 0.5f)));
  }
  CHECK(counts(archs::lfm2, filled("conv.conv.weight", 0.5f)));
}

TEST_CASE("each part of Gemma 4's layers counts, in the shapes of E2B, 31B and 26B-A4B") {
  const auto tokens = some_tokens(40);
  const auto filled = [](const std::string& ending, float value) {
    return [=](reference::Transformer& r) {
      int found = 0;
      for (auto& [name, values] : r.weights) {
        if (name.ends_with(ending)) std::ranges::fill(values, value), ++found;
      }
      CHECK(found > 0);
    };
  };
  using Change = std::function<void(reference::Transformer&)>;
  struct Part {
    const char* name;
    Change leave_out;
  };
  const Part of_all[] = {
      {"norm of values", [](reference::Transformer& r) { r.norms_values = false; }},
      {"scale of scores", [](reference::Transformer& r) { r.attention_scale = 0; }},
      {"cap of logits", [](reference::Transformer& r) { r.final_softcap = 0; }},
      {"embedding scale", [](reference::Transformer& r) { r.embedding_scale = 1; }},
      {"windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {"local rope", [](reference::Transformer& r) { for (double& f : r.local_frequencies) f /= 2; }},
      {"pairs that do not turn", [](reference::Transformer& r) { for (double& f : r.frequencies) f = f == 0 ? 0.1 : f; }},
      {"norm of keys", filled("k_norm.weight", 0.5f)},
      {"norm behind attention", filled("attention_out_norm", 0.5f)},
      {"norm behind the MLP", filled("ffn_out_norm", 0.5f)},
      {"scale of a layer", filled("layer_scale", 1.5f)},
  };
  const Part of_small[] = {
      {"per-layer embeddings", [](reference::Transformer& r) { r.per_layer_dim = 0; }},
      {"what is looked up", filled("per_layer_embedding", 0.0f)},
      {"what is projected", filled("per_layer_model_projection", 0.0f)},
      {"norm of what is projected", filled("per_layer_model_norm", 0.5f)},
      {"norm behind per-layer embeddings", filled("per_layer_norm", 0.5f)},
      // Keys of another layer of the kind: its own shape, and as good a guess.
      {"whose keys are read", [](reference::Transformer& r) { r.kv_layers[3] = 0, r.kv_layers[4] = 0; }},
  };
  const Part of_large[] = {
      {"values that are keys", [](reference::Transformer& r) { r.weights["model.layers.2.self_attn.v_proj.weight"] = std::vector<float>(r.weights.at("model.layers.2.self_attn.k_proj.weight").size(), 0.25f); }},
  };
  struct Shape {
    TinyModel tiny;
    std::span<const Part> own;
  };
  for (Shape& shape : std::vector<Shape>{{{.arch = &archs::gemma4}, of_small}, {{.arch = &archs::gemma4, .shares_values = true}, of_large}, {{.arch = &archs::gemma4_moe}, of_large}}) {
    CAPTURE(std::string(shape.own[0].name));
    CAPTURE(shape.tiny.arch->has_experts());
    const TinyModel& tiny = shape.tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    tiny.write_gguf(folder / "m.gguf");
    const Model model = Model::load(folder / "hf");
    const std::vector<float> logits = logits_of(model, tokens);
    CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
    CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
    model.save(folder / "m.bantam");
    CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
    CHECK(Model::load(folder / "m.bantam").config().specs == model.config().specs);
    for (const auto& parts : {std::span<const Part>(of_all), shape.own}) {
      for (const Part& part : parts) {
        CAPTURE(std::string(part.name));
        reference::Transformer reference = tiny.reference();
        part.leave_out(reference);
        CHECK(distance(logits, reference.logits(tokens)) > 20 * family_tolerance);
      }
    }
  }
}

TEST_CASE("published folders of Gemma 4 are read: text beside images, keys that nobody reads left out") {
  TinyModel tiny{.arch = &archs::gemma4, .tied = true};
  tiny.make();
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = folder_logits(tiny, tokens);
  TinyModel part = tiny;
  // Layers 3 to 5 read the keys of others; older folders have some of their own.
  for (const char* name : {"k_proj.weight", "v_proj.weight", "k_norm.weight"}) part.tensors.push_back({std::string("model.layers.4.self_attn.") + name, "", {2}, {1, 2}});
  CHECK(folder_logits(part, tokens) == logits);
  for (TinyTensor& t : part.tensors) {
    if (t.name.starts_with("model.")) t.name.replace(0, std::string("model.").size(), "model.language_model.");
  }
  part.tensors.push_back({"model.vision_tower.patch_embedder.input_proj.weight", "", {2, 3}, {1, 2, 3, 4, 5, 6}});
  Json text = tiny.config;
  text["architectures"] = nullptr;
  part.config = {{"architectures", {"Gemma4ForConditionalGeneration"}}, {"model_type", "gemma4"}, {"tie_word_embeddings", true}, {"text_config", text}};
  const TemporaryFolder folder;
  part.write_folder(folder / "hf");
  CHECK(Checkpoint::open(folder / "hf").left_out() == std::vector<std::string>{"model.vision_tower.patch_embedder.input_proj.weight"});
  CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
}

TEST_CASE("GGUF files with gate and up of all experts in one tensor are read, too") {
  TinyModel tiny{.arch = &archs::gemma4_moe};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const auto tokens = some_tokens(9);
  const std::vector<float> logits = logits_of(Model::load(folder / "m.gguf"), tokens);
  // Of each expert its gate's rows, then its up's.
  TinyModel joined = tiny;
  joined.tensors.clear();
  for (const TinyTensor& t : tiny.tensors) {
    if (t.gguf_name.ends_with("ffn_up_exps.weight")) continue;
    joined.tensors.push_back(t);
    if (!t.gguf_name.ends_with("ffn_gate_exps.weight")) continue;
    std::string up = t.name;
    up.replace(up.find("gate_proj"), 9, "up_proj");
    TinyTensor& both = joined.tensors.back();
    both.gguf_name.replace(both.gguf_name.find("gate_exps"), 9, "gate_up_exps");
    const std::vector<float>& more = tiny.tensor(up).values;
    both.values.insert(both.values.end(), more.begin(), more.end());
    both.shape[0] *= 2;
  }
  joined.write_gguf(folder / "joined.gguf");
  CHECK(logits_of(Model::load(folder / "joined.gguf"), tokens) == logits);
}

TEST_CASE("configs of Gemma 4 that cannot be are refused by key") {
  struct Case {
    const char* members;
    const char* words;
  };
  for (const Case& c : {Case{R"({"num_kv_shared_layers":6})", "num_kv_shared_layers: expected a whole number below the 6 layers, found 6"},
                        Case{R"({"num_kv_shared_layers":4})", "num_kv_shared_layers: layer 2: expected a layer of its kind before the last 4, found none"},
                        Case{R"({"num_kv_shared_layers":1.5})", "found 1.5"}, Case{R"({"num_global_key_value_heads":4})", "num_global_key_value_heads: expected a divisor of the 6 heads, found 4"},
                        Case{R"({"global_head_dim":15})", "global_head_dim: expected an even size up to 4096, found 15"}, Case{R"({"global_head_dim":null})", "global_head_dim: expected a number, found nothing"},
                        Case{R"({"hidden_size_per_layer_input":-1})", "hidden_size_per_layer_input"}, Case{R"({"hidden_size_per_layer_input":1e9})", "hidden_size_per_layer_input: expected at most"},
                        Case{R"({"vocab_size_per_layer_input":36})", "vocab_size_per_layer_input: expected the 37 of vocab_size, found 36"},
                        Case{R"({"use_bidirectional_attention":"all"})", "use_bidirectional_attention: expected a causal model, found all"},
                        Case{R"({"attention_bias":true})", "attention_bias: expected false"},
                        Case{R"({"rope_parameters":{"full_attention":{"rope_type":"yarn","rope_theta":1e6}}})", "rope_type: expected proportional, found yarn"},
                        Case{R"({"rope_parameters":{"full_attention":{"rope_type":"proportional","partial_rotary_factor":2}}})", "partial_rotary_factor: expected a part"},
                        Case{R"({"layer_types":["sliding_attention"]})", "layer_types: expected a list of 6 kinds, found 1"}}) {
    CAPTURE(std::string(c.members));
    TinyModel tiny{.arch = &archs::gemma4};
    tiny.make();
    const Json changes = Json::parse(c.members, "test");
    for (const auto& [key, value] : changes.items()) tiny.config[key] = value;
    const std::string line = error_of([&] { (void)parse_hf_config(tiny.config.dump(), "config.json"); });
    has(line, c.words);
    CHECK(line.starts_with("config.json"));
  }
}

TEST_CASE("sizes that Gemma 4's configs leave out are those of its class") {
  const ModelConfig c = parse_hf_config(R"({"text_config":{"model_type":"gemma4_text","attention_k_eq_v":true,"num_global_key_value_heads":2,"num_experts":128,"top_k_experts":8,
    "moe_intermediate_size":704,"enable_moe_block":true,"hidden_size_per_layer_input":0}})", "config.json");
  CHECK(c.arch == &archs::gemma4_moe);
  CHECK(c.layers == 30);
  CHECK(c.per_layer_dim == 0);
  CHECK(c.scales.attention == 1);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const bool full = i % 6 == 5;
    CHECK(c.window_of(i) == (full ? 0 : 512));
    CHECK(c.head_dim_of(i) == (full ? 512 : 256));
    CHECK(c.kv_heads_of(i) == (full ? 2 : 4));
    CHECK(c.heads_of(i) == 8);
    CHECK(c.layer(i).shares_values == full);
  }
  CHECK(c.rope.base == 1e6);
  CHECK(std::ranges::count(c.rope.divisors, 1.0F) == 64);
  CHECK(std::ssize(c.rope.divisors) == 256);
  REQUIRE(c.local_rope);
  CHECK(c.local_rope->base == 1e4);
  CHECK(c.local_rope->dim == 256);
}

TEST_CASE("sizes that Gemma 3's published text_config leaves out are those of its class") {
  const ModelConfig c = parse_hf_config(R"({"architectures":["Gemma3ForConditionalGeneration"],"text_config":{"hidden_size":2560,"intermediate_size":10240,
    "model_type":"gemma3_text","num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024}})", "config.json");
  CHECK(c.heads == 8);
  CHECK(c.kv_heads == 4);
  CHECK(c.head_dim == 256);
  CHECK(c.vocab == 262208);
  CHECK(c.tied);
  CHECK(c.gate == ops::Gate::gelu_tanh);
  CHECK(c.scales.embedding == std::sqrt(2560.0));
  CHECK(c.rope.factor == 8);
  CHECK(c.rope.base == 1e6);
  REQUIRE(c.local_rope);
  CHECK(c.local_rope->base == 1e4);
  CHECK(c.local_rope->scaling == nn::RopeScaling::none);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    CHECK(c.window_of(i) == (i % 6 == 5 ? 0 : 1024));
    CHECK(c.layer(i).rope == (i % 6 == 5 ? nn::LayerRope::model : nn::LayerRope::local));
  }
}

TEST_CASE("query_pre_attn_scalar scales scores, and GGUF files have it where their number of layers says so") {
  TinyModel tiny{.arch = &archs::gemma2};
  tiny.make();
  tiny.config["query_pre_attn_scalar"] = 3;
  const auto tokens = some_tokens(16);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  reference::Transformer reference = tiny.reference();
  CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) > 20 * family_tolerance);
  reference.attention_scale = 1 / std::sqrt(3.0);
  CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) < family_tolerance);
  GgufWriter gguf(folder / "m.gguf");
  has(error_of([&] { write_gguf_config(gguf, model.config()); }), "a scale of scores other than the architecture's: GGUF has no words for it");

  TinyModel large{.arch = &archs::gemma2, .layers = 46};
  large.make();
  large.write_gguf(folder / "large.gguf");
  CHECK(Checkpoint::open(folder / "large.gguf").config().scales.attention == 1 / std::sqrt(36.0 / 6));
}

TEST_CASE("a GGUF file's pattern of windows goes before the architecture's") {
  TinyModel tiny{.arch = &archs::gemma3};
  tiny.make();
  const auto windows_of = [&](auto pattern) {
    const TemporaryFolder folder;
    tiny.more_keys = [&](GgufBuilder& b) { b.key("gemma3.attention.sliding_window_pattern", pattern); };
    tiny.write_gguf(folder / "m.gguf");
    std::vector<std::int64_t> windows;
    const Checkpoint checkpoint = Checkpoint::open(folder / "m.gguf");
    for (const LayerSpec& spec : checkpoint.config().specs) windows.push_back(spec.window);
    return windows;
  };
  CHECK(windows_of(std::uint32_t{2}) == std::vector<std::int64_t>{7, 0, 7, 0, 7, 0});
  CHECK(windows_of(std::uint32_t{0}) == std::vector<std::int64_t>{7, 7, 7, 7, 7, 7});
}

TEST_CASE("longrope takes the divisors of the session's length, from every container") {
  TinyModel tiny{.arch = &archs::phi3};
  tiny.make();
  const std::vector<float> short_factor{1, 1.5, 2, 2.5, 3}, long_factor{1, 2, 4, 8, 16};
  tiny.config["original_max_position_embeddings"] = 32;
  tiny.config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", short_factor}, {"long_factor", long_factor}};
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model hf = Model::load(folder / "hf");
  hf.save(folder / "m.bantam");
  tiny.more_keys = [](GgufBuilder& b) {
    b.key("phi3.rope.scaling.original_context_length", std::uint32_t{32}).key("phi3.rope.scaling.attn_factor", static_cast<float>(std::sqrt(1 + std::log(2.0) / std::log(32.0))));
  };
  tiny.tensors.push_back({"", "rope_factors_long.weight", {5}, long_factor});
  tiny.tensors.push_back({"", "rope_factors_short.weight", {5}, short_factor});
  tiny.write_gguf(folder / "m.gguf");
  const auto tokens = some_tokens(20);
  for (const char* file : {"hf", "m.bantam", "m.gguf"}) {
    CAPTURE(std::string(file));
    const Model model = Model::load(folder / file);
    for (const std::int64_t context : {24, 64}) {
      reference::Transformer reference = tiny.reference();
      for (std::size_t i = 0; i < 5; ++i) reference.frequencies[i] /= static_cast<double>(context > 32 ? long_factor[i] : short_factor[i]);
      CHECK_FALSE(distance(folder_logits(TinyModel{.arch = &archs::phi3}.make(), tokens), reference.logits(tokens)) < 20 * family_tolerance);
      reference.magnitude = std::sqrt(1 + std::log(64.0 / 32) / std::log(32.0));
      Session session(model, {.context = context, .threads = 2, .kv = "f32"});
      std::vector<float> logits;
      session.score(tokens, [&](std::int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
      CHECK(distance(logits, reference.logits(tokens)) < family_tolerance);
    }
  }
}

TEST_CASE("GGUF files with q, k and v in one tensor are read, too") {
  TinyModel tiny{.arch = &archs::phi2};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const auto tokens = some_tokens(9);
  const std::vector<float> logits = logits_of(Model::load(folder / "m.gguf"), tokens);
  // Rows of q, k and v, and their biases, follow each other.
  std::vector<TinyTensor> joined;
  for (const TinyTensor& t : tiny.tensors) {
    const std::string ending = t.gguf_name.ends_with(".bias") ? ".bias" : ".weight";
    const bool is_part = t.gguf_name.ends_with("attn_q" + ending) || t.gguf_name.ends_with("attn_k" + ending) || t.gguf_name.ends_with("attn_v" + ending);
    const std::string name = is_part ? t.gguf_name.substr(0, t.gguf_name.find("attn_")) + "attn_qkv" + ending : t.gguf_name;
    const auto same = std::ranges::find(joined, name, &TinyTensor::gguf_name);
    if (same == joined.end()) {
      joined.push_back(t);
      joined.back().gguf_name = name;
      continue;
    }
    same->values.insert(same->values.end(), t.values.begin(), t.values.end());
    same->shape[0] += t.shape[0];
  }
  tiny.tensors = std::move(joined);
  tiny.write_gguf(folder / "joined.gguf");
  CHECK(logits_of(Model::load(folder / "joined.gguf"), tokens) == logits);
}

TEST_CASE("halves side by side or one after the other, as files say; what an architecture has not is refused") {
  TinyModel tiny{.arch = &archs::stablelm};
  tiny.make();
  tiny.config["use_parallel_residual"] = true;
  has(error_of([&] { (void)parse_hf_config(tiny.config.dump(), "config.json"); }), "config.json: use_parallel_residual: expected false of a model of type stablelm, found true");
  for (const ArchSpec* arch : {&archs::gpt_neox, &archs::gpt_neox_sequential}) {
    TinyModel neox{.arch = arch};
    neox.make();
    CHECK(parse_hf_config(neox.config.dump(), "config.json").arch == arch);
    neox.config["use_parallel_residual"] = !arch->parallel;
    CHECK(parse_hf_config(neox.config.dump(), "config.json").arch == (arch->parallel ? &archs::gpt_neox_sequential : &archs::gpt_neox));
  }
}

}  // namespace
}  // namespace bantam::test
