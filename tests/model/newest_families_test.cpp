// Families of 2025 and 2026 that are data, or nearly: each part counts; gates of heads' outputs, norms without weights, indexers.
#include <cmath>
#include <set>

#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/safetensors.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

TEST_CASE("each part of the newest families counts") {
  const auto without = [](const std::string& ending) {
    return [=](reference::Transformer& r) { CHECK(std::erase_if(r.weights, [&](const auto& w) { return w.first.ends_with(ending); }) > 0); };
  };
  const FamilyPart parts[] = {
      {&archs::llama_biased, "biases of MLPs", filled("mlp.gate_proj.bias", 0)},
      {&archs::llama_biased, "bias of what MLPs add", filled("mlp.down_proj.bias", 0)},
      {&archs::helium, "adjacent pairs", [](reference::Transformer& r) { r.adjacent_pairs = false; }},
      {&archs::cwm, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::ministral, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::gpt_neox_sequential, "halves one after the other", [](reference::Transformer& r) { r.parallel = true; }},
      {&archs::hyperclovax, "norm behind attention", without("attention_out_norm")},
      {&archs::hyperclovax, "scale of what halves add", [](reference::Transformer& r) { r.residual_scale = 1; }},
      {&archs::vaultgemma, "cap of scores", [](reference::Transformer& r) { r.attention_softcap = 0; }},
      {&archs::flex_olmo, "norms over all heads", [](reference::Transformer& r) { r.norms_all_heads = false; }},
      {&archs::flex_olmo, "norm behind experts", without("ffn_out_norm")},
      {&archs::mellum, "rope of layers with a window", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::youtu, "low rank of queries", filled("q_a_layernorm.weight", 0.5F)},
      {&archs::jais2, "relu²", [](reference::Transformer& r) { r.activation = [](double x) { return std::max(x, 0.0); }; }},
      {&archs::jais2, "biases of norms", without("input_layernorm.bias")},
      {&archs::nemotron, "the part that turns", [](reference::Transformer& r) { r.rotates.assign(2, false); }},
      {&archs::nemotron, "layer norms", [](reference::Transformer& r) { r.layer_norms = false; }},
      {&archs::olmo, "norms without weights", [](reference::Transformer& r) { r.plain_norms = false; }},
      {&archs::olmo, "clipped queries, keys and values", [](reference::Transformer& r) { r.qkv_clip = 0; }},
      {&archs::afmoe, "gates of heads' outputs", filled("self_attn.gate_proj.weight", 0)},
      {&archs::afmoe, "norm behind experts", without("ffn_out_norm")},
      {&archs::afmoe, "no rope without a window", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::afmoe, "scale of the embedding", [](reference::Transformer& r) { r.embedding_scale = 1; }},
      {&archs::laguna, "gates of heads", filled("self_attn.gate_proj.weight", 0)},
      {&archs::laguna, "rope of layers with a window", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::laguna, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::mistral4, "temperature", [](reference::Transformer& r) { r.temperature = 0; }},
      {&archs::mistral4, "experts by softmax", [](reference::Transformer& r) { r.router.score = reference::Score::sigmoid; }},
      {&archs::deepseek_v32, "low rank of queries", filled("q_a_layernorm.weight", 0.5F)},
      {&archs::cohere2_moe, "mean of the shared expert and the others", [](reference::Transformer& r) { r.averages_shared = false; }},
      {&archs::cohere2_moe, "rope of dense layers", [](reference::Transformer& r) { r.rotates[0] = false; }},
      {&archs::cohere2_moe, "no rope in others without a window", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::cohere2_moe, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::cohere2_moe, "experts by softmax", [](reference::Transformer& r) { r.router.score = reference::Score::sigmoid; }},
      {&archs::granite_swa, "sinks", without("sinks")},
      {&archs::granite_swa, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::granite_swa, "layers that rope does not turn", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::granite_swa, "scale of what halves add", [](reference::Transformer& r) { r.residual_scale = 1; }},
      {&archs::granite_moe_swa, "sinks", without("sinks")},
      {&archs::granite_moe_swa, "shared expert", filled("mlp.shared_expert.down_proj.weight", 0)},
      {&archs::granite_moe_swa, "weights of the chosen that sum to one", [](reference::Transformer& r) { r.router.renormalize = false; }},
      {&archs::apertus, "curve above 0", filled("alpha_p", -9)},
      {&archs::apertus, "curve below 0", filled("alpha_n", -9)},
      {&archs::apertus, "slope", filled("beta", 0)},
      {&archs::apertus, "limit", filled("eps", -1)},
      {&archs::apertus, "norms of keys", filled("k_norm.weight", 0.5F)},
      {&archs::granite_moe_shared, "shared expert", filled("mlp.shared_expert.down_proj.weight", 0)},
      {&archs::bailing_moe, "shared experts", filled("mlp.shared_expert.down_proj.weight", 0)},
      {&archs::bailing_moe, "weights of the chosen that sum to one", [](reference::Transformer& r) { r.router.renormalize = false; }},
      {&archs::bailing_moe, "experts by softmax", [](reference::Transformer& r) { r.router.score = reference::Score::sigmoid; }},
      {&archs::bailing_moe_v2, "norms of keys", filled("k_norm.weight", 0.5F)},
      {&archs::bailing_moe_v2, "selection bias", filled("e_score_correction_bias", 0)},
      {&archs::mimo_v2, "sinks", without("sinks")},
      {&archs::mimo_v2, "scale of values", [](reference::Transformer& r) { r.value_scale = 1; }},
      {&archs::mimo_v2, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::mimo_v2, "rope of layers with a window", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::mimo_v2, "selection bias", filled("e_score_correction_bias", 0)},
      {&archs::exaone, "norms before MLPs", filled("post_attention_layernorm.weight", 0.5F)},
      {&archs::internlm2, "keys", filled("k_proj.weight", 0.1F)},
      {&archs::minicpm, "scale of the embedding", [](reference::Transformer& r) { r.embedding_scale = 1; }},
      {&archs::minicpm, "scale of what halves add", [](reference::Transformer& r) { r.residual_scale = 1; }},
      {&archs::minicpm, "scale of logits", [](reference::Transformer& r) { r.logit_scale = 1; }},
      {&archs::deepseek_moe, "shared experts", filled("mlp.shared_expert.down_proj.weight", 0)},
      {&archs::deepseek_moe, "weights of the chosen as they are", [](reference::Transformer& r) { r.router.renormalize = true; }},
      {&archs::step3p5, "gates of heads", filled("self_attn.gate_proj.weight", 0)},
      {&archs::step3p5, "their sigmoid", [](reference::Transformer& r) { r.softplus_gates = true; }},
      {&archs::step3p5, "limits of experts", [](reference::Transformer& r) { CHECK(std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("limit") && w.first.find("experts.") != std::string::npos; }) > 0); }},
      {&archs::step3p5, "limits of the shared expert", without("shared_expert.limit")},
      {&archs::step3p5, "limit of MLPs", without("layers.0.mlp.limit")},
      {&archs::step3p5, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::step3p5, "rope of layers with a window", [](reference::Transformer& r) { r.local_frequencies = r.frequencies; }},
      {&archs::step3p5, "selection bias", filled("e_score_correction_bias", 0)},
      {&archs::step3p5, "norms of keys", filled("k_norm.weight", 0.5F)},
      {&archs::bailing_moe_v3, "gates of heads", filled("layers.1.self_attn.gate_proj.weight", 0)},
      {&archs::bailing_moe_v3, "bound of decays", [](reference::Transformer& r) { r.decay_bound = 0; }},
      {&archs::bailing_moe_v3, "decays", filled("self_attn.f_a_proj.weight", 0)},
      {&archs::bailing_moe_v3, "output gate of delta nets", filled("self_attn.g_a_proj.weight", 0)},
      {&archs::bailing_moe_v3, "rope", [](reference::Transformer& r) { r.rotates.assign(2, false); }},
      {&archs::bailing_moe_v3, "limits of experts", [](reference::Transformer& r) { CHECK(std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("limit") && w.first.find("experts.") != std::string::npos; }) > 0); }},
      {&archs::bailing_moe_v3, "selection bias", filled("e_score_correction_bias", 0)},
      {&archs::bitnet, "norm before o", without("attn_sub_norm.weight")},
      {&archs::bitnet, "norm before down", without("ffn_sub_norm.weight")},
      {&archs::bitnet, "squared ReLU", [](reference::Transformer& r) { r.activation = reference::silu; }},
  };
  check_parts_count(parts, some_tokens(30));
}

TEST_CASE("an indexer chooses what queries see, by tokens or blocks, wherever a text was cut") {
  for (const ArchSpec* arch : architectures) {
    if (arch->find(Field::index_used) == nullptr) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .index_used = 24};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    tiny.write_gguf(folder / "m.gguf");
    const auto tokens = some_tokens(60);
    const std::vector<double> expected = tiny.reference().logits(tokens);
    for (const char* name : {"hf", "m.gguf"}) {
      const Model model = Model::load(folder / name);
      CHECK(model.config().context == 64);
      CHECK(distance(logits_of(model, tokens), expected) < family_tolerance);
    }
    // Each part of it counts.
    const std::pair<const char*, std::function<void(reference::Transformer&)>> parts[] = {
        {"indexer", [](reference::Transformer& r) { r.indexer.used = 0; }},
        {"tokens", [](reference::Transformer& r) { r.indexer.used -= 4; }},
        {"rope", [](reference::Transformer& r) { r.indexer.adjacent = !r.indexer.adjacent; }},
        {"norm of keys", [](reference::Transformer& r) { CHECK(std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("indexer.k_norm"); }) > 0); }},
        {"the other parts", [](reference::Transformer& r) { CHECK(std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("indexer.q_norm") || w.first.ends_with("indexer.weights"); }) > 0); }},
    };
    for (const auto& [part, change] : parts) {
      CAPTURE(part);
      reference::Transformer reference = tiny.reference();
      change(reference);
      CHECK(distance(logits_of(Model::load(folder / "hf"), tokens), reference.logits(tokens)) > 100 * family_tolerance);
    }
    for (const char* kv : {"f32", "f16", "q4"}) {
      CAPTURE(kv);
      const Model model = Model::load(folder / "m.gguf");
      Session whole(model, {.threads = 1, .kv = kv}), cut(model, {.threads = 2, .kv = kv});
      whole.prefill(tokens);
      for (std::size_t at = 0, length = 1; at < tokens.size(); at += length, length = length % 5 + 1) cut.prefill(std::span(tokens).subspan(at, std::min(length, tokens.size() - at)));
      CHECK(std::ranges::equal(cut.logits(), whole.logits()));
      for (std::int64_t left = 30; left < 35; ++left) {
        cut.truncate(left);
        cut.prefill(std::span(tokens).subspan(static_cast<std::size_t>(left)));
        CHECK(std::ranges::equal(cut.logits(), whole.logits()));
      }
      // Nothing takes tokens out of the middle of blocks: those behind are read again.
      cut.remove(7, 12);
      std::vector<TokenId> fewer(tokens.begin(), tokens.begin() + 7);
      fewer.insert(fewer.end(), tokens.begin() + 12, tokens.end());
      CHECK(cut.tokens() == fewer);
      cut.prefill(std::vector<TokenId>{5});
      Session fresh(model, {.threads = 1, .kv = kv});
      fewer.push_back(5);
      fresh.prefill(fewer);
      CHECK(std::ranges::equal(cut.logits(), fresh.logits()));
    }
    Engine engine(Model::load(folder / "m.gguf"), {.threads = 1});
    nn::SequenceState state = engine.new_state("f32");
    CHECK(error_of([&] { engine.remove(state, 0, 0); }) == std::string(arch->recurrent != MixerKind::none ? "remove: expected a model that keeps keys and values alone, found one with recurrent states"
                                                                                                               : "remove: expected a model whose tokens see all before them, found one with an indexer"));
    // What is written again has it.
    compress_file(Checkpoint::open(folder / "m.gguf"), folder / "written", recipe::rtn("f32"), Target::safetensors);
    CHECK(logits_of(Model::load(folder / "written"), tokens) == logits_of(Model::load(folder / "m.gguf"), tokens));
  }
}

TEST_CASE("layers that draft are left out of GGUF files of MiMo-V2, whose lists go on to them") {
  TinyModel tiny{.arch = &archs::mimo_v2, .layers = 9};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  std::string bytes = read_file(folder / "m.gguf");
  const std::size_t key = bytes.find("mimo2.nextn_predict_layers");
  REQUIRE(key != std::string::npos);
  bytes[key + std::string_view("mimo2.nextn_predict_layers").size() + sizeof(std::uint32_t)] = 3;  // behind its type
  write_file(folder / "m.gguf", bytes);
  const Model model = Model::load(folder / "m.gguf");
  CHECK(model.config().layers == 6);
  reference::Transformer reference = tiny.reference();
  reference.layers = 6;
  const auto tokens = some_tokens(30);
  CHECK(distance(logits_of(model, tokens), reference.logits(tokens)) < family_tolerance);
}

TEST_CASE("folders say ropes by kind of layer as transformers reads them") {
  TinyModel tiny{.arch = &archs::mellum};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  compress_file(Checkpoint::open(folder / "hf"), folder / "written", recipe::rtn("f32"), Target::safetensors);
  const Json ropes = Json::parse(read_text_file(folder / "written" / "config.json"), "config.json")["rope_parameters"];
  CHECK(ropes["full_attention"]["rope_theta"] == 5000.0);
  CHECK(ropes["sliding_attention"]["rope_theta"] == 300.0);
  CHECK(ropes["sliding_attention"]["rope_type"] == "default");
}

TEST_CASE("Llama with biases of MLPs says so in folders, and is known by them in GGUF files") {
  TinyModel tiny{.arch = &archs::llama_biased};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  CHECK(Checkpoint::open(folder / "m.gguf").config().arch == &archs::llama_biased);
  compress_file(Checkpoint::open(folder / "m.gguf"), folder / "written", recipe::rtn("f32"), Target::safetensors);
  CHECK(Json::parse(read_text_file(folder / "written" / "config.json"), "config.json")["mlp_bias"] == true);
}

TEST_CASE("classes that compute what Llama does under its names are read as Llama") {
  TinyModel tiny{.arch = &archs::llama, .biases = true};
  tiny.make();
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = folder_logits(tiny, tokens);
  for (const std::string_view name : archs::llama.same_classes) {
    CAPTURE(std::string(name));
    tiny.config["architectures"] = Json::array({Json(name)});
    tiny.config["model_type"] = "another";
    CHECK(folder_logits(tiny, tokens) == logits);
    tiny.config["mlp_bias"] = true;
    CHECK(parse_hf_config(tiny.config.dump(), "config.json").arch == &archs::llama_biased);
    tiny.config["mlp_bias"] = false;
  }
}

TEST_CASE("MiniCPM's scales are made of what folders say, and of what the first models had where GGUF files say nothing") {
  TinyModel tiny{.arch = &archs::minicpm};
  tiny.make();
  tiny.config["scale_emb"] = 3.0, tiny.config["scale_depth"] = 2.0, tiny.config["dim_model_base"] = 9.0;
  const ModelConfig config = parse_hf_config(tiny.config.dump(), "config.json");
  CHECK(config.scales.embedding == 3);
  CHECK(config.scales.residual == doctest::Approx(2 / std::sqrt(static_cast<double>(tiny.layers))));
  CHECK(config.scales.logits == doctest::Approx(9.0 / static_cast<double>(tiny.dim)));
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  std::string bytes = read_file(folder / "m.gguf");
  for (const char* name : {"minicpm.embedding_scale", "minicpm.residual_scale", "minicpm.logit_scale"}) {
    const std::size_t key = bytes.find(name);
    REQUIRE(key != std::string::npos);
    bytes[key] = 'M';  // a key that nobody knows
  }
  write_file(folder / "m.gguf", bytes);
  const ModelScales scales = Checkpoint::open(folder / "m.gguf").config().scales;
  CHECK(scales.embedding == 12);
  CHECK(scales.residual == doctest::Approx(1.4 / std::sqrt(static_cast<double>(tiny.layers))));
  CHECK(scales.logits == doctest::Approx(256.0 / static_cast<double>(tiny.dim)));
}

/// What Step-3.5-Flash's folder says, with fewer and smaller layers.
constexpr const char* step_config = R"({"architectures":["Step3p5ForCausalLM"],"model_type":"step3p5","hidden_size":256,"intermediate_size":512,
  "num_hidden_layers":4,"num_attention_heads":8,"num_attention_groups":4,"head_dim":32,"vocab_size":1024,"max_seq_len":512,
  "max_position_embeddings":512,"rms_norm_eps":1e-5,
  "layer_types":["full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention"],
  "sliding_window":64,"rope_theta":[5000000.0,10000.0,10000.0,10000.0,5000000.0,10000.0],
  "rope_scaling":{"rope_type":"llama3","factor":2.0,"low_freq_factor":1.0,"high_freq_factor":32.0,"original_max_position_embeddings":256},
  "yarn_only_types":["full_attention"],"partial_rotary_factors":[0.5,1.0,1.0,1.0,0.5,1.0],
  "attention_other_setting":{"attention_type":"sliding_attention","num_attention_heads":12,"num_attention_groups":4,"head_dim":32,"true_head_dim":32},
  "use_moe":true,"moe_num_experts":4,"moe_top_k":2,"moe_intermediate_size":64,"share_expert_dim":96,"moe_layer_offset":0,"moe_every_n_layer":1,
  "moe_layers_enum":"2,3","moe_router_activation":"sigmoid","moe_router_scaling_factor":3.0,"use_moe_router_bias":true,"need_fp32_gate":true,
  "norm_expert_weight":true,"use_qk_norm":true,"use_head_wise_attn_gate":true,"att_impl_type":"GQA","tie_word_embeddings":false,
  "num_nextn_predict_layers":2,"use_rope_layers":[],"swiglu_limits":[0.0,0.0,7.0,null,0.0,0.0],
  "swiglu_limits_shared":[0.0,0.0,0.0,16.0,0.0,0.0],"zero_centered":true,"sink":false})";

TEST_CASE("Step-3.5's folders say layers, ropes and experts in words of their own") {
  const auto check = [](const ModelConfig& c) {
    CHECK(c.layers == 4);
    for (std::int64_t i = 0; i < c.layers; ++i) {
      CAPTURE(i);
      CHECK(c.heads_of(i) == (i == 0 ? 8 : 12));
      CHECK(c.kv_heads_of(i) == 4);
      CHECK(c.window_of(i) == (i == 0 ? 0 : 64));
      CHECK(c.layer(i).is_sparse() == (i >= 2));
      CHECK(c.layer(i).rope == (i == 0 ? nn::LayerRope::model : nn::LayerRope::local));
      CHECK(c.layer(i).expert_limit == (i == 2 ? 7 : 0));
      CHECK(c.layer(i).mlp_limit == (i == 3 ? 16 : 0));
    }
    CHECK(c.layer(3).ffn == 96);
    CHECK(c.rope.dim == 16);
    CHECK(c.rope.base == 5000000);
    CHECK(c.rope.scaling == nn::RopeScaling::llama3);
    REQUIRE(c.local_rope.has_value());
    CHECK(c.local_rope->dim == 32);
    CHECK(c.local_rope->base == 10000);
    CHECK(c.local_rope->scaling == nn::RopeScaling::none);
    CHECK(c.router.scale == 3);
  };
  const ModelConfig config = parse_hf_config(step_config, "config.json");
  CHECK(config.drafting_layers == 2);
  check(config);
  // It is written in the same words, and in no others for the same.
  const std::string written = write_hf_config(config, "bfloat16");
  check(parse_hf_config(written, "config.json"));
  const Json said = Json::parse(step_config, "step"), again = Json::parse(written, "config.json");
  for (const char* key : {"num_attention_heads", "num_attention_groups", "head_dim", "sliding_window", "moe_num_experts", "moe_top_k", "share_expert_dim", "moe_layers_enum", "moe_router_scaling_factor", "yarn_only_types", "moe_router_activation", "zero_centered"}) {
    CAPTURE(std::string(key));
    CHECK(again[key] == said[key]);
  }
  CHECK(again["rope_theta"] == Json({5000000.0, 10000.0, 10000.0, 10000.0}));
  CHECK(again["partial_rotary_factors"] == Json({0.5, 1.0, 1.0, 1.0}));
  CHECK(again["attention_other_setting"]["num_attention_heads"] == 12);
  CHECK(again["rope_scaling"]["factor"] == 2.0);
  CHECK(again["swiglu_limits"] == Json({0.0, 0.0, 7.0, 0.0}));
  for (const char* usual : {"rope_parameters", "num_attention_heads_per_layer", "mlp_layer_types"}) CHECK(again[usual].is_null());
  // And in transformers', which has numbers of its own for some.
  Json newer;
  const std::set<std::string_view> older = {"attention_other_setting", "num_attention_groups", "moe_num_experts", "moe_top_k", "moe_layers_enum", "rope_theta", "rope_scaling", "partial_rotary_factors"};
  for (const auto& [key, value] : said.items()) {
    if (!older.contains(key)) newer[key] = value;
  }
  newer["num_sliding_attention_heads"] = 12, newer["num_key_value_heads"] = 4, newer["n_routed_experts"] = 4, newer["num_experts_per_tok"] = 2;
  newer["mlp_layer_types"] = Json::array({"dense", "dense", "sparse", "sparse"});
  newer["rope_parameters"] = {{"full_attention", {{"rope_type", "llama3"}, {"rope_theta", 5000000.0}, {"partial_rotary_factor", 0.5}, {"factor", 2.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 32.0}, {"original_max_position_embeddings", 256}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}, {"partial_rotary_factor", 1.0}}}};
  check(parse_hf_config(newer.dump(), "config.json"));
}

TEST_CASE("what Step-3.5's configs cannot mean is refused in one line") {
  const auto with = [](const char* key, const Json& value) {
    Json json = Json::parse(step_config, "step");
    json[key] = value;
    return error_of([&] { (void)parse_hf_config(json.dump(), "config.json"); });
  };
  has(with("rope_theta", Json({5000000.0, 10000.0, 10000.0, 20000.0})), "config.json: rope_theta[3]: expected the 10000 of the layers like it, found 20000");
  has(with("rope_theta", Json({5000000.0, 10000.0})), "config.json: rope_theta: expected a number for each of 4 layers, found 2");
  has(with("yarn_only_types", Json::array({"sliding_attention"})), "config.json: yarn_only_types: expected [\"full_attention\"], found [\"sliding_attention\"]");
  has(with("moe_layers_enum", "2,three"), "config.json: moe_layers_enum: expected numbers of layers with commas between, found three");
  has(with("moe_layers_enum", Json({-1, 2})), "config.json: moe_layers_enum: expected numbers of layers, found others");
  has(with("use_rope_layers", Json::array({true, false, true, true})), "config.json: use_rope_layers: expected that rope turns all layers, found [true,false,true,true]");
  has(with("attention_other_setting", {{"attention_type", "full_attention"}}), "config.json: attention_other_setting: attention_type: expected sliding_attention, found full_attention");
  has(with("attention_other_setting", {{"head_dim", 64}}), "config.json: attention_other_setting: head_dim: expected that of the other layers, found 64");
  has(with("attention_other_setting", 3), "config.json: attention_other_setting: expected a JSON object, found number");
  has(with("swiglu_limits", Json({1.0})), "config.json: swiglu_limits: expected a list of 4 numbers, found 1");
  has(with("swiglu_limits", Json::array({0, 0, "much", 0})), "config.json: swiglu_limits[2]: expected a number or null, found");
  has(with("swiglu_limits_shared", Json({0.0, -1.0, 0.0, 0.0})), "config.json: swiglu_limits_shared[1]: expected a number of at least 0, found -1");
  has(with("moe_router_activation", "softmax"), "config.json: moe_router_activation: expected sigmoid of a model of type step3p5, found");
  has(with("num_hidden_layers", 1e9), "config.json: num_hidden_layers: expected at most 100000, found 1000000000");
}

TEST_CASE("Ling 3's config is read as it is published, and written in the same words") {
  constexpr const char* published = R"({"architectures":["BailingMoeV3ForCausalLM"],"model_type":"bailing_hybrid","dtype":"bfloat16","expert_swiglu_limit_list":null,
    "first_k_dense_replace":1,"gated_attention_proj_granularity_type":"head_wise","group_norm_size":1,"head_dim":128,"hidden_act":"silu",
    "hidden_size":1536,"intermediate_size":4608,"kda_lower_bound":-5,"kda_safe_gate":true,"kv_lora_rank":512,"layer_group_size":4,"linear_silu":true,
    "max_position_embeddings":131072,"max_window_layers":20,"moe_intermediate_size":512,"moe_router_enable_expert_bias":true,
    "moe_shared_expert_intermediate_size":512,"mtp_use_kda":false,"n_group":8,"no_kda_lora":true,"norm_topk_prob":true,"num_attention_heads":16,
    "num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":26,"num_key_value_heads":16,"num_kv_heads_for_linear_attn":0,
    "num_nextn_predict_layers":0,"num_shared_experts":1,"partial_rotary_factor":0.5,"q_lora_rank":256,"qk_head_dim":192,"qk_nope_head_dim":128,
    "qk_rope_head_dim":64,"rms_norm_eps":1e-06,"rope_interleave":true,"rope_parameters":{"partial_rotary_factor":0.5,"rope_theta":6000000,"rope_type":"default"},
    "rope_theta":6000000,"rotary_dim":64,"routed_scaling_factor":2.5,"scale_router_input":false,"score_function":"sigmoid","scoring_func":"sigmoid",
    "share_expert_swiglu_limit_list":[0],"short_conv_kernel_size":4,"tie_word_embeddings":false,"topk_group":4,"topk_method":"noaux_tc","up_proj_norm":false,
    "use_bias":false,"use_kda_lora":false,"use_mla_nope":false,"use_nGPT":false,"use_qk_norm":true,"use_qkv_bias":false,"v_head_dim":128,
    "value_norm":false,"vocab_size":157184})";
  const auto with = [&](const char* key, const Json& value) {
    Json json = Json::parse(published, "published");
    json[key] = value;
    return json;
  };
  const auto check = [](const ModelConfig& c) {
    REQUIRE(c.layers == 26);
    // Two layers behind six whole groups of four.
    for (std::int64_t i = 0; i < c.layers; ++i) CHECK(c.layer(i).mixer == ((i + 1) % 4 == 0 || i >= 24 ? MixerKind::attention : MixerKind::channel_delta));
    CHECK(c.decay_bound == -5);
    CHECK(c.recurrent.key_dim == 128);
    CHECK(c.recurrent.value_heads == 16);
    CHECK(c.head_dim == 192);
    CHECK(c.rope.dim == 64);
    CHECK(c.rope.base == 6000000);
    CHECK(c.layer(0).ffn == 4608);
    CHECK(c.layer(1).ffn == 512);
    CHECK(c.router.groups == 8);
    CHECK(c.router.scale == 2.5);
    CHECK(c.layer(2).expert_limit == 0);
  };
  const ModelConfig config = parse_hf_config(with("share_expert_swiglu_limit_list", nullptr).dump(), "config.json");
  check(config);
  const Json said = Json::parse(published, "published"), written = Json::parse(write_hf_config(config, "bfloat16"), "config.json");
  check(parse_hf_config(written.dump(), "config.json"));
  for (const char* key : {"layer_group_size", "kda_lower_bound", "head_dim", "short_conv_kernel_size", "no_kda_lora", "gated_attention_proj_granularity_type", "num_shared_experts", "model_type"}) {
    CAPTURE(std::string(key));
    CHECK(written[key] == said[key]);
  }
  // Other layers than the rule has it are named.
  ModelConfig other = config;
  other.specs[3].mixer = MixerKind::channel_delta;
  const Json named = Json::parse(write_hf_config(other, "bfloat16"), "config.json");
  CHECK(named["layer_types"][3] == "linear_attention");
  CHECK(named["layer_types"][7] == "attention");
  CHECK(parse_hf_config(named.dump(), "config.json").layer(3).mixer == MixerKind::channel_delta);
  const auto refusal = [&](const char* key, const Json& value) {
    Json json = with("share_expert_swiglu_limit_list", nullptr);
    json[key] = value;
    return error_of([&] { (void)parse_hf_config(json.dump(), "config.json"); });
  };
  has(refusal("kda_lower_bound", 0.5), "config.json: kda_lower_bound: expected a number below 0, found 0.5");
  has(refusal("layer_group_size", 0), "config.json: layer_group_size: expected at least 1, found 0");
  has(refusal("no_kda_lora", false), "config.json: no_kda_lora: expected true of a model of type bailing_hybrid, found false");
  has(refusal("gated_attention_proj_granularity_type", "element_wise"), "config.json: gated_attention_proj_granularity_type: expected head_wise of a model of type bailing_hybrid, found \"element_wise\"");
  has(refusal("moe_shared_expert_intermediate_size", 1024), "config.json: moe_shared_expert_intermediate_size: expected the 512 of other experts, found 1024");
  has(error_of([&] { (void)parse_hf_config(published, "config.json"); }), "config.json: share_expert_swiglu_limit_list: expected a list of 26 numbers, found 1");
}

TEST_CASE("a decay that grows without bound is refused in GGUF files of Ling 3") {
  TinyModel tiny{.arch = &archs::bailing_moe_v3};
  tiny.make();
  const TemporaryFolder folder;
  tiny.more_keys = [](GgufBuilder& b) { b.key("bailingmoe3.kda.safe_gate", false); };
  tiny.write_gguf(folder / "m.gguf");
  has(error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); }), "m.gguf: bailingmoe3.kda.safe_gate: expected true, found false");
}

TEST_CASE("experts of Cohere2-MoE may be scored by sigmoid, and files say so") {
  TinyModel tiny{.arch = &archs::cohere2_moe};
  tiny.make();
  tiny.config["expert_selection_fn"] = "sigmoid";
  const auto tokens = some_tokens(30);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  reference::Transformer reference = tiny.reference();
  CHECK(distance(logits, reference.logits(tokens)) > 20 * family_tolerance);
  reference.router.score = reference::Score::sigmoid;
  CHECK(distance(logits, reference.logits(tokens)) < family_tolerance);
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf);
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
  compress_file(Checkpoint::open(folder / "m.gguf"), folder / "again", recipe::rtn("f32"), Target::safetensors);
  const Json config = Json::parse(read_text_file(folder / "again" / "config.json"), "config.json");
  CHECK(config["expert_selection_fn"] == "sigmoid");
  CHECK(config["shared_expert_combination_strategy"] == "average");
  CHECK(config["mlp_layer_types"][0] == "dense");
  CHECK(config["layer_types"][0] == "full_attention");
  CHECK(config["layer_types"][1] == "sliding_attention");
}

TEST_CASE("layers may have bases of rope of their own, of two values and 0") {
  TinyModel tiny{.arch = &archs::granite_swa};
  tiny.make();
  const auto tokens = some_tokens(30);
  const auto with = [&](const Json& bases) {
    tiny.config["layer_rope_theta"] = bases;
    return parse_hf_config(tiny.config.dump(), "config.json");
  };
  (void)with({0.0, 5000.0, 300.0, 5000.0});
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  reference::Transformer reference = tiny.reference();
  reference.locals[2] = true;
  for (std::size_t i = 0; i < reference.frequencies.size(); ++i) reference.local_frequencies.push_back(std::pow(300.0, -static_cast<double>(i) / static_cast<double>(reference.frequencies.size())));
  CHECK(distance(logits_of(Model::load(folder / "hf"), tokens), reference.logits(tokens)) < family_tolerance);
  compress_file(Checkpoint::open(folder / "hf"), folder / "again", recipe::rtn("f32"), Target::safetensors);
  CHECK(Json::parse(read_text_file(folder / "again" / "config.json"), "config.json")["layer_rope_theta"] == Json({0.0, 5000.0, 300.0, 5000.0}));
  has(error_of([&] { compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf); }), "rope in other layers than the architecture has it in: GGUF has no words for it");
  has(error_of([&] { (void)with({1.0, 2.0, 3.0, 3.0}); }), "config.json: layer_rope_theta[2]: expected at most two bases, found a third, 3");
  has(error_of([&] { (void)with({1.0, 2.0}); }), "config.json: layer_rope_theta: expected a base for each of 4 layers, found 2");
  has(error_of([&] { (void)with({1.0, -2.0, 0.0, 0.0}); }), "config.json: layer_rope_theta[1]: expected a number of at least 0, found -2");
  tiny.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  has(error_of([&] { (void)with({1.0, 2.0, 0.0, 0.0}); }), "config.json: layer_rope_theta: expected one base where rope is scaled, found two");
}

TEST_CASE("numbers of xIELU are tensors of folders, some without axes, and lists of GGUF files") {
  TinyModel tiny{.arch = &archs::apertus};
  tiny.make();
  const auto tokens = some_tokens(20);
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  const std::vector<float> logits = logits_of(Model::load(folder / "m.gguf"), tokens);
  compress_file(Checkpoint::open(folder / "m.gguf"), folder / "again", recipe::rtn("f32"), Target::safetensors);
  CHECK(logits_of(Model::load(folder / "again"), tokens) == logits);
  const auto files = SafetensorsFile::open_folder(folder / "again");
  CHECK(files->find("model.layers.1.mlp.act_fn.alpha_p")->shape == std::vector<std::int64_t>{1});
  CHECK(files->find("model.layers.1.mlp.act_fn.beta")->shape.empty());
  compress_file(Checkpoint::open(folder / "again"), folder / "again.gguf", recipe::rtn("f32"), Target::gguf);
  CHECK(logits_of(Model::load(folder / "again.gguf"), tokens) == logits);
  CHECK(GgufFile::open(folder / "again.gguf")->numbers("xielu.alpha_n")->size() == 2);
  // One number may stand for all layers; a list is of as many as there are, and needed.
  const auto with = [&](const std::function<void(GgufBuilder&)>& more) {
    std::erase_if(tiny.tensors, [](const TinyTensor& t) { return t.own.role == Role::xielu_slope; });
    tiny.more_keys = more;
    tiny.write_gguf(folder / "other.gguf");
    return Checkpoint::open(folder / "other.gguf").config().layers;
  };
  CHECK(with([](GgufBuilder& b) { b.key("xielu.beta", 0.5F); }) == 2);
  has(error_of([&] { (void)with([](GgufBuilder& b) { b.key("xielu.beta", std::vector<float>{1, 2, 3}); }); }), "other.gguf: xielu.beta: expected one number or 2, found 3");
  has(error_of([&] { (void)with([](GgufBuilder&) {}); }), "other.gguf: xielu.beta: expected one number or 2, found nothing");
  // With another activation there are none.
  std::erase_if(tiny.tensors, [](const TinyTensor& t) { return t.own.role >= Role::xielu_positive && t.own.role <= Role::xielu_limit; });
  tiny.config["hidden_act"] = "silu";
  CHECK(distance(folder_logits(tiny, tokens), tiny.reference().logits(tokens)) < family_tolerance);
}

TEST_CASE("configs of the newest families that are not run are refused by key") {
  struct Case {
    const ArchSpec* arch;
    const char* key;
    Json value;
    const char* words;
  };
  for (const Case& x : {Case{&archs::afmoe, "mup_enabled", false, "mup_enabled: expected true of a model of type afmoe, found false"},
                        Case{&archs::hyperclovax, "use_post_norm", false, "use_post_norm: expected true of a model of type hyperclovax, found false"},
                        Case{&archs::jais2, "mlp_bias", false, "mlp_bias: expected true of a model of type jais2, found false"},
                        Case{&archs::cohere2_moe, "shared_expert_combination_strategy", "sum", "shared_expert_combination_strategy: expected average of a model of type cohere2_moe, found \"sum\""},
                        Case{&archs::cohere2_moe, "expert_selection_fn", "hash", "expert_selection_fn: expected softmax or sigmoid, found hash"},
                        Case{&archs::apertus, "qk_norm", false, "qk_norm: expected true of a model of type apertus, found false"},
                        Case{&archs::deepseek_v32, "index_topk", 0, "index_topk: expected a whole number from 1"},
                        Case{&archs::deepseek_v32, "index_n_heads", 1 << 20, "index_n_heads: expected up to 65536 heads of up to 65536, found 1048576 of 64"}}) {
    CAPTURE(std::string(x.key));
    TinyModel tiny{.arch = x.arch};
    tiny.make();
    tiny.config[x.key] = x.value;
    has(error_of([&] { (void)parse_hf_config(tiny.config.dump(), "config.json"); }), message("config.json: ", x.words));
  }
}

}  // namespace
}  // namespace bantam::test
