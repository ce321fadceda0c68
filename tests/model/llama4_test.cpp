// Llama 4: chunks, layers without rope, norms behind it, experts whose inputs are scaled.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

TEST_CASE("each part of Llama 4 counts") {
  const FamilyPart parts[] = {
      {&archs::llama4, "chunks", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::llama4, "chunks, not windows", [](reference::Transformer& r) { r.chunked = false; }},
      {&archs::llama4, "norms behind rope", [](reference::Transformer& r) { r.norms_turned = false; }},
      {&archs::llama4, "layers without rope", [](reference::Transformer& r) { r.rotates.assign(4, true); }},
      {&archs::llama4, "adjacent pairs", [](reference::Transformer& r) { r.adjacent_pairs = false; }},
      {&archs::llama4, "inputs of experts that are scaled", [](reference::Transformer& r) { r.scales_inputs = false; }},
      {&archs::llama4, "shared expert", filled("mlp.shared_expert.down_proj.weight", 0)},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("Llama 4's queries are warmer where they stand late, in layers without rope alone") {
  TinyModel tiny{.arch = &archs::llama4};
  tiny.make();
  tiny.config["floor_scale"] = 8;
  tiny.config["attn_scale"] = 0.75;
  tiny.config["attn_temperature_tuning"] = 4;
  const auto tokens = some_tokens(40);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const std::vector<float> logits = logits_of(model, tokens);
  reference::Transformer reference = tiny.reference();
  CHECK(distance(logits, reference.logits(tokens)) > 20 * family_tolerance);
  reference.temperature = 0.75, reference.temperature_length = 8;
  CHECK(distance(logits, reference.logits(tokens)) < family_tolerance);
  reference.warms_unturned = false;
  CHECK(distance(logits, reference.logits(tokens)) > 20 * family_tolerance);
  model.save(folder / "m.bantam");
  CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
  GgufWriter gguf(folder / "m.gguf");
  has(error_of([&] { write_gguf_config(gguf, model.config()); }), "a temperature other than the architecture's: GGUF has no words for it");
  tiny.config["attn_temperature_tuning"] = false;
  tiny.write_folder(folder / "off");
  CHECK(distance(logits_of(Model::load(folder / "off"), tokens), tiny.reference().logits(tokens)) < family_tolerance);
}

TEST_CASE("Llama 4 without norms of queries and keys, with experts in all layers, from every container") {
  for (const bool normed : {true, false}) {
    CAPTURE(normed);
    // llama.cpp takes a model of 128 experts for Maverick, which has no such norms.
    TinyModel tiny{.arch = &archs::llama4, .experts = normed ? 6 : 128};
    tiny.make();
    tiny.config["use_qk_norm"] = normed;
    const auto tokens = some_tokens(30);
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    reference::Transformer reference = tiny.reference();
    reference.norms_turned = normed;
    const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
    CHECK(distance(logits, reference.logits(tokens)) < family_tolerance);
    for (const auto& [out, target] : {std::pair{"m.bantam", Target::native}, {"written.gguf", Target::gguf}, {"written", Target::safetensors}}) {
      compress_file(Checkpoint::open(folder / "hf"), folder / out, recipe::rtn("f32"), target);
      CHECK(logits_of(Model::load(folder / out), tokens) == logits);
    }
  }
  TinyModel tiny{.arch = &archs::llama4};
  tiny.make();
  tiny.config["use_qk_norm"] = false;
  const TemporaryFolder folder;
  GgufWriter gguf(folder / "m.gguf");
  has(error_of([&] { write_gguf_config(gguf, parse_hf_config(tiny.config.dump(), "config.json")); }), "GGUF has no words for it");
}

TEST_CASE("chunks hide what lies before them, however a prompt is cut into calls") {
  TinyModel tiny{.arch = &archs::llama4, .context = 700, .window = 70};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  const auto tokens = some_tokens(600);
  const std::vector<float> whole = logits_of(model, tokens);
  CHECK(distance(whole, tiny.reference().logits(tokens)) < family_tolerance);
  for (const std::size_t piece : {1u, 69u, 70u, 130u}) {
    CAPTURE(piece);
    Session session(model, {.threads = 1, .kv = "f32"});
    std::vector<float> pieces;
    for (std::size_t first = 0; first < tokens.size(); first += piece) {
      session.score(std::span(tokens).subspan(first, std::min(piece, tokens.size() - first)),
                    [&](std::int64_t, std::span<const float> logits) { pieces.insert(pieces.end(), logits.begin(), logits.end()); });
    }
    CHECK(pieces == whole);
  }
}

TEST_CASE("published folders of Llama 4 are read: text beside images") {
  TinyModel tiny{.arch = &archs::llama4};
  tiny.make();
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = folder_logits(tiny, tokens);
  TinyModel part = tiny;
  for (TinyTensor& t : part.tensors) {
    for (std::string* name : {&t.name, &t.fused_name}) {
      if (!name->empty()) name->insert(0, "language_model.");
    }
  }
  part.tensors.push_back({"vision_model.patch_embedding.linear.weight", "", {2, 3}, {1, 2, 3, 4, 5, 6}});
  part.tensors.push_back({"multi_modal_projector.linear_1.weight", "", {2}, {1, 2}});
  Json text = tiny.config;
  text["architectures"] = nullptr;
  text["moe_layers"] = {1, 3};
  text["no_rope_layers"] = Json::array();
  part.config = {{"architectures", {"Llama4ForConditionalGeneration"}}, {"model_type", "llama4"}, {"text_config", text}};
  const TemporaryFolder folder;
  part.write_folder(folder / "hf");
  CHECK(Checkpoint::open(folder / "hf").left_out().size() == 2);
  CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
  text["moe_layers"] = {0, 2};
  part.config["text_config"] = text;
  has(error_of([&] { (void)parse_hf_config(part.config.dump(), "config.json"); }), "text_config: moe_layers: expected each layer that is a multiple of 2, found [0,2]");
}

TEST_CASE("Scout's text_config, and what it leaves out") {
  const ModelConfig c = parse_hf_config(R"({"architectures":["Llama4ForConditionalGeneration"],"model_type":"llama4","text_config":{"attention_bias":false,"attention_chunk_size":8192,
    "attn_scale":0.1,"attn_temperature_tuning":4,"floor_scale":8192,"head_dim":128,"hidden_act":"silu","hidden_size":5120,"interleave_moe_layer_step":1,"intermediate_size":8192,
    "intermediate_size_mlp":16384,"max_position_embeddings":10485760,"model_type":"llama4_text","no_rope_layers":[],"num_attention_heads":40,"num_experts_per_tok":1,
    "num_hidden_layers":48,"num_key_value_heads":8,"num_local_experts":16,"rms_norm_eps":1e-05,"rope_scaling":{"factor":16.0,"high_freq_factor":1.0,"low_freq_factor":0.5,
    "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"use_qk_norm":true,"vocab_size":202048}})", "config.json");
  CHECK(c.arch == &archs::llama4);
  CHECK(c.norms_turned);
  CHECK(c.temperature == nn::Temperature{.scale = 0.1, .length = 8192, .offset = 1, .unturned = true});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    CHECK(c.window_of(i) == (i % 4 == 3 ? 0 : 8192));
    CHECK(c.layer(i).rope == (i % 4 == 3 ? nn::LayerRope::none : nn::LayerRope::model));
    CHECK(c.layer(i).experts == 16);
    CHECK(c.layer(i).ffn == 8192);
  }
}

}  // namespace
}  // namespace bantam::test
