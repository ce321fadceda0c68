// config.json and folders as transformers 5 writes them: other words for the same models.
#include "bantam/model/model.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

/// A member out of an object.
Json taken(Json& object, const std::string& key) {
  Json rest = Json::object();
  Json value;
  for (const auto& [name, member] : object.items()) {
    if (name == key) value = member;
    else rest[std::string(name)] = member;
  }
  object = rest;
  return value;
}

/// The same config in the newer words.
Json newer(Json c, const ModelConfig& sizes) {
  if (c.contains("rope_theta") && !c.contains("rope_parameters")) {
    Json rope = c.contains("rope_scaling") ? taken(c, "rope_scaling") : Json::object();
    if (!rope.contains("rope_type")) rope["rope_type"] = "default";
    rope["rope_theta"] = taken(c, "rope_theta");
    c["rope_parameters"] = rope;
  }
  if (c.contains("torch_dtype")) c["dtype"] = taken(c, "torch_dtype");
  if (sizes.arch == &archs::qwen3_moe) c["num_local_experts"] = taken(c, "num_experts");
  if (sizes.arch->single_halves) {
    for (const char* key : {"hybrid_override_pattern", "num_hidden_layers", "layers_block_type"}) (void)taken(c, key);
    c["layers_block_type"] = Json::array();
    for (const LayerSpec& spec : sizes.specs) {
      c["layers_block_type"].push_back(spec.mixer == MixerKind::state_space ? "linear_attention" : spec.mixer == MixerKind::attention ? "full_attention" : spec.is_sparse() ? "moe" : "mlp");
    }
  }
  if (sizes.arch->recurrent == MixerKind::state_space && c.contains("layer_types")) {
    c["layer_types"] = Json::array();
    for (const LayerSpec& spec : sizes.specs) c["layer_types"].push_back(recurs(spec.mixer) ? "linear_attention" : "full_attention");
  }
  if (c.contains("global_head_dim")) {
    Json full = Json::object();
    full["head_dim"] = taken(c, "global_head_dim");
    if (const Json heads = taken(c, "num_global_key_value_heads"); heads.is_number()) full["num_key_value_heads"] = heads;
    c["per_layer_config"] = Json::object();
    for (std::size_t i = 0; i < sizes.specs.size(); ++i) {
      if (sizes.specs[i].window == 0) c["per_layer_config"][std::to_string(i)] = full;
    }
  }
  if (!c.contains("use_bidirectional_attention")) c["use_bidirectional_attention"] = false;
  if (sizes.arch == &archs::exaone4 && sizes.window == 0) c["sliding_window_pattern"] = 0;
  return c;
}

TEST_CASE("configs in the words of transformers 5 say the same as in the older ones") {
  for (const ArchSpec* arch : architectures) {
    CAPTURE(arch->name);
    CAPTURE(arch->hf_class);
    TinyModel tiny{.arch = arch};
    tiny.make();
    const ModelConfig older = parse_hf_config(tiny.config.dump(), "config.json");
    CHECK(write_hf_config(parse_hf_config(newer(tiny.config, older).dump(), "config.json"), "") == write_hf_config(older, ""));
  }
}

TEST_CASE("layers without a window that a newer config gives several sizes are refused by their number") {
  TinyModel tiny{.arch = &archs::gemma4};
  tiny.make();
  Json config = newer(tiny.config, parse_hf_config(tiny.config.dump(), "config.json"));
  config["per_layer_config"]["77"] = Json::object();
  config["per_layer_config"]["77"]["head_dim"] = 4;
  const std::string line = error_of([&] { (void)parse_hf_config(config.dump(), "config.json"); });
  CHECK_MESSAGE(line.find("per_layer_config: 77: head_dim: expected the ") != line.npos, line);
}

TEST_CASE("attention to both sides is refused however a config says it") {
  TinyModel tiny{.arch = &archs::gemma3};
  tiny.make();
  for (const Json& said : {Json(true), Json("all")}) {
    Json config = tiny.config;
    config["use_bidirectional_attention"] = said;
    const std::string line = error_of([&] { (void)parse_hf_config(config.dump(), "config.json"); });
    CHECK_MESSAGE(line.find("use_bidirectional_attention: expected false of a model of type gemma3_text") != line.npos, line);
  }
}

TEST_CASE("MiMo-V2's published config says the same as that of transformers' class") {
  TinyModel tiny{.arch = &archs::mimo_v2};
  tiny.make();
  Json published = tiny.config, plain = tiny.config;
  const Json ropes = taken(published, "rope_parameters");
  (void)taken(published, "mlp_layer_types");
  for (const LayerSpec& spec : tiny.sizes.specs) {
    published["hybrid_layer_pattern"].push_back(spec.window > 0 ? 1 : 0);
    published["moe_layer_freq"].push_back(spec.is_sparse() ? 1 : 0);
    plain["layer_types"].push_back(spec.window > 0 ? "sliding_attention" : "full_attention");
  }
  published["layernorm_epsilon"] = taken(published, "rms_norm_eps");
  published["rope_theta"] = ropes["full_attention"]["rope_theta"];
  published["swa_rope_theta"] = ropes["sliding_attention"]["rope_theta"];
  published["routed_scaling_factor"] = nullptr;
  published["swa_head_dim"] = published["head_dim"];
  published["swa_v_head_dim"] = published["v_head_dim"];
  published["swa_num_attention_heads"] = published["num_attention_heads"];
  // transformers' class knows how many key-value heads layers with a window have.
  (void)taken(plain, "swa_num_key_value_heads");
  const std::string expected = write_hf_config(parse_hf_config(tiny.config.dump(), "config.json"), "");
  CHECK(write_hf_config(parse_hf_config(published.dump(), "config.json"), "") == expected);
  CHECK(write_hf_config(parse_hf_config(plain.dump(), "config.json"), "") == expected);
  published["swa_v_head_dim"] = 16;
  CHECK(error_of([&] { (void)parse_hf_config(published.dump(), "config.json"); }).find("swa_v_head_dim: expected the 6 of the other layers, found 16") != std::string::npos);
}

TEST_CASE("LFM2's MLPs have two thirds of the width that its config says, in whole blocks, where it says so") {
  // LFM2-350M, LFM2-1.2B: the widths that llama.cpp's converter gives them.
  for (const auto& [said, width] : {std::pair{6656, 4608}, {12288, 8192}}) {
    TinyModel tiny{.arch = &archs::lfm2, .ffn = said};
    tiny.make();
    Json config = tiny.config;
    (void)taken(config, "intermediate_size");
    (void)taken(config, "block_auto_adjust_ff_dim");
    config["block_ff_dim"] = said;
    CHECK(parse_hf_config(config.dump(), "config.json").ffn == width);
    const ModelConfig written = parse_hf_config(write_hf_config(parse_hf_config(config.dump(), "config.json"), ""), "config.json");
    CHECK(written.ffn == width);
    config["block_auto_adjust_ff_dim"] = false;
    CHECK(parse_hf_config(config.dump(), "config.json").ffn == said);
    CHECK(parse_hf_config(tiny.config.dump(), "config.json").ffn == said);
    config["block_multiple_of"] = 0;
    config["block_auto_adjust_ff_dim"] = true;
    CHECK(error_of([&] { (void)parse_hf_config(config.dump(), "config.json"); }).find("block_multiple_of: expected a whole number above 0, found 0") != std::string::npos);
  }
}

TEST_CASE("a folder whose config ties what differs has a head of its own") {
  TinyModel tiny{.arch = &archs::t5_gated};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "apart");
  tiny.config["tie_word_embeddings"] = true;
  tiny.write_folder(folder / "tied");
  const Checkpoint apart = Checkpoint::open(folder / "apart"), tied = Checkpoint::open(folder / "tied");
  CHECK(!tied.config().tied);
  CHECK(write_hf_config(tied.config(), "") == write_hf_config(apart.config(), ""));
}

TEST_CASE("logits of a head that is the embedding are not scaled where the config says so") {
  TinyModel tiny{.arch = &archs::t5_gated, .tied = true};
  tiny.make();
  CHECK(parse_hf_config(tiny.config.dump(), "config.json").logit_scale() == doctest::Approx(1 / std::sqrt(36.0)));
  tiny.config["scale_decoder_outputs"] = false;
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  CHECK(checkpoint.config().logit_scale() == 1);
  CHECK(std::ranges::any_of(checkpoint.tensors(), [](const CheckpointTensor& tensor) { return tensor.role == Role::head; }));
}

}  // namespace
}  // namespace bantam::test
