// GPT-2, StarCoder 1, Falcon, BLOOM, MPT, GPT-J, OPT: learned positions, scores that shrink with distance, norms behind the embedding.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "bantam/prune/structure.hpp"
#include "calibrate/block_pass.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

std::string refusal_of_config(const std::string& json) {
  const std::string line = error_of([&] { (void)parse_hf_config(json, "config.json"); });
  CHECK_MESSAGE(line.starts_with("config.json: "), line);
  return line;
}

/// The reference's logits, the same from a folder, a GGUF file and what is written of that in every container: the folder in "written".
std::vector<float> logits_everywhere(const TinyModel& tiny, const std::vector<TokenId>& tokens, const TemporaryFolder& folder) {
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
  for (const auto& [out, target] : {std::pair{"m.bantam", Target::native}, {"written.gguf", Target::gguf}, {"written", Target::safetensors}}) {
    compress_file(Checkpoint::open(folder / "m.gguf"), folder / out, recipe::rtn("f32"), target);
    CHECK(logits_of(Model::load(folder / out), tokens) == logits);
  }
  return logits;
}

TEST_CASE("each part of the older families counts") {
  const auto without = [](const std::string& ending) {
    return [=](reference::Transformer& r) { CHECK(std::erase_if(r.weights, [&](const auto& w) { return w.first.ends_with(ending); }) > 0); };
  };
  const FamilyPart parts[] = {
      {&archs::gpt2, "learned positions", without("position_embedding")},
      {&archs::gpt2, "biases of norms", without("layernorm.bias")},
      {&archs::gpt2, "biases of values", without("v_proj.bias")},
      {&archs::gpt_bigcode, "learned positions", without("position_embedding")},
      {&archs::falcon, "halves side by side", [](reference::Transformer& r) { r.parallel = false; }},
      {&archs::falcon_40b, "the MLP's own norm", filled("post_attention_layernorm.weight", 0.5f)},
      {&archs::falcon_40b, "halves side by side", [](reference::Transformer& r) { r.parallel = false; }},
      {&archs::falcon_rw, "slopes", [](reference::Transformer& r) { r.alibi = 0; }},
      {&archs::falcon_rw, "slopes that are scaled", [](reference::Transformer& r) { r.scales_alibi = false; }},
      {&archs::falcon_rw, "halves one after the other", [](reference::Transformer& r) { r.parallel = true; }},
      {&archs::bloom, "slopes", [](reference::Transformer& r) { r.alibi = 0; }},
      {&archs::bloom, "norm behind the embedding", without("embedding_norm.weight")},
      {&archs::bloom, "bias of that norm", without("embedding_norm.bias")},
      {&archs::mpt, "slopes", [](reference::Transformer& r) { r.alibi = 4; }},
      {&archs::mpt, "clipped queries, keys and values", [](reference::Transformer& r) { r.qkv_clip = 0; }},
      {&archs::gpt_j, "adjacent pairs", [](reference::Transformer& r) { r.adjacent_pairs = false; }},
      {&archs::gpt_j, "the part that turns", [](reference::Transformer& r) { r.rotates.assign(2, false); }},
      {&archs::gpt_j, "halves side by side", [](reference::Transformer& r) { r.parallel = false; }},
      {&archs::gpt_j, "bias of the head", without("lm_head.bias")},
      {&archs::opt, "learned positions", without("position_embedding")},
      {&archs::opt, "two rows before them", [](reference::Transformer& r) { r.position_offset = 0; }},
      {&archs::phimoe, "experts in turn", [](reference::Transformer& r) { r.router.score = reference::Score::softmax_of_chosen; }},
      {&archs::phimoe, "layer norms", [](reference::Transformer& r) { r.layer_norms = false; }},
      {&archs::gpt_neo, "learned positions", without("position_embedding")},
      {&archs::gpt_neo, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::gpt_neo, "scores that are not scaled", [](reference::Transformer& r) { r.attention_scale = 0; }},
      {&archs::gpt_neo, "bias of what heads put out", without("o_proj.bias")},
      {&archs::opt, "relu", [](reference::Transformer& r) { r.activation = [](double x) { return x / (1 + std::exp(-x)); }; }},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("Command R+: each head of q and k has a layer norm of its own, from every container") {
  TinyModel tiny{.arch = &archs::cohere, .biases = true};
  tiny.make();
  const auto tokens = some_tokens(40);
  const TemporaryFolder folder;
  const std::vector<float> logits = logits_everywhere(tiny, tokens, folder);
  CHECK(Json::parse(read_text_file(folder / "written" / "config.json"), "config.json")["use_qk_norm"] == true);
  reference::Transformer other = tiny.reference();
  other.norms_own_heads = false;
  CHECK(distance(logits, other.logits(tokens)) > 20 * family_tolerance);
  other = tiny.reference();
  other.head_layer_norms = false;
  CHECK(distance(logits, other.logits(tokens)) > 20 * family_tolerance);
}

TEST_CASE("MPT: norms of q and k are layer norms over all heads, biases count, from every container") {
  TinyModel tiny{.arch = &archs::mpt, .biases = true};
  tiny.make();
  const auto tokens = some_tokens(40);
  const TemporaryFolder folder;
  const std::vector<float> logits = logits_everywhere(tiny, tokens, folder);
  const Json written = Json::parse(read_text_file(folder / "written" / "config.json"), "config.json");
  CHECK(written["attn_config"]["qk_ln"] == true);
  CHECK(written["attn_config"]["alibi"] == true);
  CHECK(written["no_bias"] == false);
  reference::Transformer other = tiny.reference();
  other.head_layer_norms = false;
  CHECK(distance(logits, other.logits(tokens)) > 20 * family_tolerance);
  // A bias of all keys takes no part where none turns.
  for (const char* ending : {"q_norm.weight", "k_norm.weight", "q_norm.bias", "down_proj.bias"}) {
    CAPTURE(std::string(ending));
    other = tiny.reference();
    filled(ending, 0.5f)(other);
    CHECK(distance(logits, other.logits(tokens)) > 20 * family_tolerance);
  }
}

TEST_CASE("folders of models without their head, and masks that lie beside weights, are read") {
  for (const ArchSpec* arch : {&archs::gpt2, &archs::bloom, &archs::opt, &archs::gpt_neo, &archs::qwen3}) {
    CAPTURE(std::string(arch->name));
    for (const bool tied : {true, false}) {
      TinyModel tiny{.arch = arch, .tied = tied};
      tiny.make();
      const auto tokens = some_tokens(12);
      const std::vector<float> logits = folder_logits(tiny, tokens);
      const std::string beginning = tiny.tensors[0].name.substr(0, tiny.tensors[0].name.find('.') + 1);
      for (TinyTensor& t : tiny.tensors) {
        for (std::string* name : {&t.name, &t.fused_name}) {
          if (name->starts_with(beginning)) name->erase(0, beginning.size());
        }
      }
      if (!arch->older_class.empty()) tiny.config["architectures"] = Json::array({Json(arch->older_class)});
      if (arch == &archs::gpt2) tiny.tensors.push_back({"h.0.attn.bias", "", {1, 1, 2, 2}, {1, 0, 1, 1}});
      if (arch == &archs::gpt2) tiny.tensors.push_back({"h.1.attn.masked_bias", "", {1}, {-1e4F}});
      if (arch == &archs::gpt_neo) tiny.tensors.push_back({"h.1.attn.attention.bias", "", {1, 1, 2, 2}, {1, 0, 1, 1}});
      CHECK(folder_logits(tiny, tokens) == logits);
    }
  }
}

TEST_CASE("learned positions end: what is longer is refused at the door, in one line") {
  for (const ArchSpec* arch : {&archs::gpt2, &archs::opt}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .context = 24};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    CHECK(model.weights().position_embedding.rows() == 24 + arch->position_offset);
    CHECK(error_of([&] { (void)Engine(model, {.context = 25}); }) == "context: expected at most the 24 tokens that the model has learned positions of, found 25");
    CHECK(error_of([&] { (void)Session(model, {.context = 4096}); }) == "context: expected at most the 24 tokens that the model has learned positions of, found 4096");
    // All of them are there.
    Session session(model, {.threads = 1, .kv = "f32"});
    CHECK(session.context() == 24);
    const auto tokens = some_tokens(24);
    CHECK(distance(logits_of(model, tokens), tiny.reference().logits(tokens)) < family_tolerance);
    session.prefill(tokens);
    has(error_of([&] { session.prefill(std::vector<TokenId>{1}); }), "context: expected at most 24 tokens, 24 are held");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    const ModelSource source(checkpoint);
    CHECK(error_of([&] { const BlockPass pass(source, {.samples = {some_tokens(25)}}); }) ==
          "calibration: a sample: expected at most the 24 tokens that the model has learned positions of, found 25");
    // A table of another length is no table of this model.
    tiny.config[arch == &archs::gpt2 ? "n_positions" : "max_position_embeddings"] = 25;
    tiny.write_folder(folder / "longer");
    has(error_of([&] { (void)Checkpoint::open(folder / "longer"); }), message(": expected shape (", 25 + arch->position_offset, ", 36), found (", 24 + arch->position_offset, ", 36)"));
  }
}

TEST_CASE("tokens taken out of a session: scores that shrink with distance follow, learned positions are read again") {
  for (const ArchSpec* arch : {&archs::gpt2, &archs::bloom}) {
    CAPTURE(std::string(arch->name));
    // One layer, where keys and values are of tokens alone.
    TinyModel tiny{.arch = arch, .layers = 1, .context = 128};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    const auto last_logits = [](Session& session) {
      std::vector<float> row;
      session.score(std::vector<TokenId>{5}, [&](std::int64_t, std::span<const float> logits) { row.assign(logits.begin(), logits.end()); });
      return row;
    };
    Session session(model, {.threads = 1, .kv = "f32"}), fresh(model, {.threads = 1, .kv = "f32"});
    std::vector<TokenId> tokens = some_tokens(100);
    session.prefill(tokens);
    session.remove(10, 70);
    tokens.erase(tokens.begin() + 10, tokens.begin() + 70);
    CHECK(session.tokens() == tokens);
    fresh.prefill(tokens);
    const std::vector<float> a = last_logits(session), b = last_logits(fresh);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) < 1e-5F);
    if (arch->learns_positions()) {
      CHECK(a == b);
      Engine engine(model, {.threads = 1});
      nn::SequenceState state = engine.new_state("f32");
      has(error_of([&] { engine.remove(state, 0, 0); }), "remove: expected a model whose keys can be turned to other positions, found one that learned positions");
    }
  }
}

TEST_CASE("rows in the place of tokens get positions and the norm behind the embedding, too") {
  for (const ArchSpec* arch : {&archs::gpt2, &archs::bloom}) {
    TinyModel tiny{.arch = arch};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Model model = Model::load(folder / "hf");
    const auto tokens = some_tokens(9);
    Engine engine(model, {.threads = 1});
    std::vector<float> rows, given, expected;
    for (const TokenId id : tokens) {
      std::vector<float> row(36);
      RowCodes codes;
      model.weights().embedding.read_row(id, row, codes);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    for (auto* out : {&given, &expected}) {
      nn::SequenceState state = engine.new_state("f32");
      Engine::Sequence sequence{.state = &state};
      if (out == &given) sequence.embeddings = rows;
      if (out == &expected) sequence.tokens = tokens;
      engine.run({&sequence, 1}, [&](std::int64_t, std::int64_t, std::span<const float> logits) { out->insert(out->end(), logits.begin(), logits.end()); },
                 [](std::int64_t) { return true; });
    }
    CHECK(given == expected);
  }
}

TEST_CASE("calibrated methods see positions and slopes: GPTQ does better than rounding") {
  for (const ArchSpec* arch : {&archs::gpt2, &archs::bloom, &archs::falcon_40b}) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .dim = 64, .heads = 4, .head_dim = 16, .ffn = 96, .context = 64};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    Calibration calibration;
    for (int i = 0; i < 16; ++i) {
      calibration.samples.emplace_back();
      for (int t = 0; t < 60; ++t) calibration.samples.back().push_back(1 + (t * t + 7 * t * i + 3 * i) % 30);
    }
    const auto tokens = some_tokens(60);
    const std::vector<double> expected = tiny.reference().logits(tokens);
    const auto error = [&](const Recipe& recipe) {
      compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe, Target::native, {}, calibration);
      const Model model = Model::load(folder / "m.bantam");
      if (arch->learns_positions()) CHECK(model.weights().position_embedding.format().name == "f32");
      double squares = 0;
      const std::vector<float> found = logits_of(model, tokens);
      for (std::size_t i = 0; i < found.size(); ++i) squares += std::pow(static_cast<double>(found[i]) - expected[i], 2);
      return squares;
    };
    CHECK(error(recipe::with(Method::gptq, "i4.g32")) < error(recipe::rtn("i4.g32")));
  }
}

TEST_CASE("parts of these models that cannot go are refused in one line") {
  const auto refusal = [](const ArchSpec& arch, const char* text) {
    TinyModel tiny{.arch = &arch};
    tiny.make();
    return error_of([&] { (void)plan_structure(tiny.sizes, std::vector<Removal>{parse_removal(text)}); });
  };
  has(refusal(archs::bloom, "heads:0.5"), "prune heads:0.5: bloom: ALiBi's slopes follow from the number of heads; what works: layers, channels, and single weights");
  has(refusal(archs::gpt2, "hidden:0.25"), "rotation: gpt2: expected RMS norms");
  has(refusal(archs::gpt_j, "channels:0.5"), "prune channels:0.5: gptj: expected blocks one after the other with norms before them alone");
}

TEST_CASE("sizes that published configs say in other words, or leave out, are found") {
  // gpt2
  ModelConfig c = parse_hf_config(R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"layer_norm_epsilon":1e-05,"model_type":"gpt2","n_ctx":1024,
    "n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"vocab_size":50257})", "config.json");
  CHECK(c.arch == &archs::gpt2);
  CHECK(c.ffn == 3072);
  CHECK(c.positions() == 1024);
  CHECK(c.tied);
  CHECK(c.layer(0).rope == nn::LayerRope::none);
  // TinyStories-33M, shorter
  const auto stories = [](const char* kinds) {
    return message(R"({"activation_function":"gelu_new","architectures":["GPTNeoForCausalLM"],"attention_layers":)", kinds, R"(,"attention_types":[[["global","local"],2]],"hidden_size":768,
    "intermediate_size":null,"layer_norm_epsilon":1e-05,"max_position_embeddings":2048,"model_type":"gpt_neo","num_heads":16,"num_layers":4,"vocab_size":50257,"window_size":256})");
  };
  c = parse_hf_config(stories(R"(["global","local","local","global"])"), "config.json");
  CHECK(c.arch == &archs::gpt_neo);
  CHECK(c.ffn == 3072);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(c.window_of(i) == (i == 1 || i == 2 ? 256 : 0));
  CHECK(parse_hf_config(write_hf_config(c, "float32"), "config.json").specs == c.specs);
  CHECK(error_of([&] { (void)parse_hf_config(stories(R"(["global","local","near","global"])"), "config.json"); }) ==
        "config.json: attention_layers[2]: expected global or local, found \"near\"");
  // starcoder
  c = parse_hf_config(R"({"activation_function":"gelu","architectures":["GPTBigCodeForCausalLM"],"layer_norm_epsilon":1e-05,"model_type":"gpt_bigcode","multi_query":true,"n_embd":6144,
    "n_head":48,"n_inner":24576,"n_layer":40,"n_positions":8192,"vocab_size":49152})", "config.json");
  CHECK(c.arch == &archs::gpt_bigcode);
  CHECK(c.kv_heads == 1);
  CHECK(c.gate == ops::Gate::gelu_erf);
  // falcon-7b, whose 71 key-value heads its class does not read; and as it was published first
  c = parse_hf_config(R"({"alibi":false,"architectures":["FalconForCausalLM"],"bias":false,"hidden_size":4544,"layer_norm_epsilon":1e-05,"model_type":"falcon","multi_query":true,
    "new_decoder_architecture":false,"num_attention_heads":71,"num_hidden_layers":32,"num_kv_heads":71,"parallel_attn":true,"vocab_size":65024})", "config.json");
  CHECK(c.arch == &archs::falcon);
  CHECK(c.kv_heads == 1);
  CHECK(c.head_dim == 64);
  CHECK(c.ffn == 4 * 4544);
  c = parse_hf_config(R"({"alibi":false,"architectures":["RWForCausalLM"],"bias":false,"hidden_size":4544,"layer_norm_epsilon":1e-05,"model_type":"RefinedWebModel","multi_query":true,
    "n_head":71,"n_layer":32,"parallel_attn":true,"vocab_size":65024})", "config.json");
  CHECK(c.arch == &archs::falcon);
  CHECK(c.layers == 32);
  c = parse_hf_config(R"({"alibi":false,"architectures":["FalconForCausalLM"],"bias":false,"hidden_size":8192,"layer_norm_epsilon":1e-05,"model_type":"falcon",
    "new_decoder_architecture":true,"num_attention_heads":128,"num_hidden_layers":60,"num_kv_heads":8,"parallel_attn":true,"vocab_size":65024})", "config.json");
  CHECK(c.arch == &archs::falcon_40b);
  CHECK(c.kv_heads == 8);
  c = parse_hf_config(R"({"alibi":true,"architectures":["FalconForCausalLM"],"bias":true,"hidden_size":2048,"layer_norm_epsilon":1e-05,"model_type":"falcon","multi_query":false,
    "new_decoder_architecture":false,"num_attention_heads":32,"num_hidden_layers":24,"num_kv_heads":32,"parallel_attn":false,"vocab_size":50304})", "config.json");
  CHECK(c.arch == &archs::falcon_rw);
  CHECK(c.alibi == 8);
  // bloom-560m
  c = parse_hf_config(R"({"apply_residual_connection_post_layernorm":false,"architectures":["BloomForCausalLM"],"layer_norm_epsilon":1e-05,"model_type":"bloom","n_embed":1024,
    "n_inner":null,"n_layer":24,"num_attention_heads":16,"offset_alibi":100,"seq_length":2048,"vocab_size":250880})", "config.json");
  CHECK(c.arch == &archs::bloom);
  CHECK(c.dim == 1024);
  CHECK(c.heads == 16);
  CHECK(c.ffn == 4096);
  CHECK(c.alibi == 8);
  // mpt-7b
  c = parse_hf_config(R"({"architectures":["MPTForCausalLM"],"attn_config":{"alibi":true,"alibi_bias_max":8,"attn_impl":"torch","attn_pdrop":0,"attn_type":"multihead_attention",
    "attn_uses_sequence_id":false,"clip_qkv":null,"prefix_lm":false,"qk_ln":false,"softmax_scale":null},"d_model":4096,"expansion_ratio":4,"learned_pos_emb":true,"logit_scale":null,
    "max_seq_len":2048,"model_type":"mpt","n_heads":32,"n_layers":32,"no_bias":true,"norm_type":"low_precision_layernorm","vocab_size":50432})", "config.json");
  CHECK(c.arch == &archs::mpt);
  CHECK(c.ffn == 16384);
  CHECK(c.qkv_clip == 0);
  CHECK(c.tied);
  // gpt-j-6b
  c = parse_hf_config(R"({"activation_function":"gelu_new","architectures":["GPTJForCausalLM"],"layer_norm_epsilon":1e-05,"model_type":"gptj","n_embd":4096,"n_head":16,"n_inner":null,
    "n_layer":28,"n_positions":2048,"rotary":true,"rotary_dim":64,"tie_word_embeddings":false,"vocab_size":50400})", "config.json");
  CHECK(c.arch == &archs::gpt_j);
  CHECK(c.rope.dim == 64);
  CHECK(c.head_dim == 256);
  CHECK(c.ffn == 16384);
  // opt-125m
  c = parse_hf_config(R"({"_remove_final_layer_norm":false,"activation_function":"relu","architectures":["OPTForCausalLM"],"do_layer_norm_before":true,"ffn_dim":3072,"hidden_size":768,
    "max_position_embeddings":2048,"model_type":"opt","num_attention_heads":12,"num_hidden_layers":12,"vocab_size":50272,"word_embed_proj_dim":768})", "config.json");
  CHECK(c.arch == &archs::opt);
  CHECK(c.positions() == 2050);
  CHECK(c.context == 2048);
  CHECK(c.gate == ops::Gate::relu);
  // Phi-3.5-MoE-instruct, shorter
  c = parse_hf_config(R"({"architectures":["PhiMoEForCausalLM"],"attention_bias":true,"hidden_act":"silu","hidden_size":4096,"intermediate_size":6400,"lm_head_bias":true,
    "max_position_embeddings":131072,"model_type":"phimoe","num_attention_heads":32,"num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,"num_local_experts":16,
    "original_max_position_embeddings":4096,"rms_norm_eps":1e-05,"rope_scaling":{"long_factor":)" + message(Json(std::vector<double>(64, 2.0)).dump()) + R"(,"long_mscale":1.243163121016122,
    "original_max_position_embeddings":4096,"short_factor":)" + message(Json(std::vector<double>(64, 1.0)).dump()) + R"(,"short_mscale":1.243163121016122,"type":"longrope"},
    "rope_theta":10000.0,"router_jitter_noise":0.01,"vocab_size":32064})", "config.json");
  CHECK(c.arch == &archs::phimoe);
  CHECK(c.router.score == nn::RouterScore::in_turn);
  CHECK(c.rope.attention_factor == 1.243163121016122);
}

TEST_CASE("configs of these families that are not run are refused by key") {
  struct Case {
    const ArchSpec* arch;
    const char* members;
    const char* words;
  };
  for (const Case& x : {Case{&archs::opt, R"({"do_layer_norm_before":false})", "do_layer_norm_before: expected true of a model of type opt, found false"},
                        Case{&archs::opt, R"({"word_embed_proj_dim":512})", "word_embed_proj_dim: expected the 36 of hidden_size, found 512"},
                        Case{&archs::gpt2, R"({"scale_attn_by_inverse_layer_idx":true})", "scale_attn_by_inverse_layer_idx: expected false of a model of type gpt2, found true"},
                        Case{&archs::gpt_bigcode, R"({"multi_query":false})", "multi_query: expected true of a model of type gpt_bigcode, found false"},
                        Case{&archs::falcon, R"({"multi_query":false})", "multi_query: expected true of a model of type falcon, found false"},
                        Case{&archs::falcon_40b, R"({"num_ln_in_parallel_attn":3})", "num_ln_in_parallel_attn: expected 2 of a model of type falcon, found 3"},
                        Case{&archs::bloom, R"({"apply_residual_connection_post_layernorm":true})", "apply_residual_connection_post_layernorm: expected false of a model of type bloom"},
                        Case{&archs::mpt, R"({"attn_config":{"alibi":false}})", "attn_config.alibi: expected true of a model of type mpt, found false"},
                        Case{&archs::mpt, R"({"attn_config":{"softmax_scale":0.5}})", "attn_config.softmax_scale: expected false of a model of type mpt, found 0.5"},
                        Case{&archs::mpt, R"({"logit_scale":"inv_sqrt_d_model"})", "logit_scale: expected false of a model of type mpt, found"},
                        Case{&archs::mpt, R"({"attn_config":{"alibi_bias_max":1e9}})", "attn_config.alibi_bias_max: expected a number up to 1024, found"},
                        Case{&archs::mpt, R"({"attn_config":{"clip_qkv":-1}})", "attn_config.clip_qkv: expected a number above 0, found -1"},
                        Case{&archs::mpt, R"({"expansion_ratio":1e300})", "expansion_ratio: expected a whole number"},
                        Case{&archs::gpt2, R"({"n_positions":0})", "n_positions: expected a whole number from 1"}}) {
    CAPTURE(std::string(x.members));
    TinyModel tiny{.arch = x.arch};
    tiny.make();
    const Json changes = Json::parse(x.members, "test");
    for (const auto& [key, value] : changes.items()) tiny.config[key] = value;
    has(refusal_of_config(tiny.config.dump()), x.words);
  }
  // Multi-query attention is said by the class, not by a number.
  TinyModel tiny{.arch = &archs::gpt_bigcode};
  tiny.make();
  tiny.sizes.kv_heads = 2;
  const TemporaryFolder folder;
  tiny.write_gguf(folder / "m.gguf");
  has(error_of([&] { (void)Checkpoint::open(folder / "m.gguf"); }), "starcoder.attention.head_count_kv: expected 1 of a model of type gpt_bigcode, found 2");
}

}  // namespace
}  // namespace bantam::test
