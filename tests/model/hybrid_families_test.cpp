// Qwen3-Next, Nemotron 3 with experts in a latent space, Granite 4: what they have beside the families before them.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

std::string refusal_of_folder(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
}

TEST_CASE("each part of hybrid families counts") {
  const FamilyPart parts[] = {
      {&archs::qwen3_next, "decays", filled("linear_attn.A_log", 0.5f)},
      {&archs::qwen3_next, "beta", filled("linear_attn.in_proj_b.weight", 0)},
      {&archs::qwen3_next, "decay of the input", filled("linear_attn.in_proj_a.weight", 0)},
      {&archs::qwen3_next, "gate of the delta net", filled("linear_attn.in_proj_z.weight", 0.5f)},
      {&archs::qwen3_next, "convolution", filled("linear_attn.conv1d.weight", 0.25f)},
      {&archs::qwen3_next, "norms of q and k", [](reference::Transformer& r) { std::erase_if(r.weights, [](const auto& w) { return w.first.ends_with("k_norm.weight"); }); }},
      {&archs::nemotron_h_moe, "what experts add", filled("mlp.latent_up.weight", 0)},
      {&archs::nemotron_h_moe, "what experts read", filled("mlp.latent_down.weight", 0.1f)},
      {&archs::granite_hybrid, "embedding scale", [](reference::Transformer& r) { r.embedding_scale = 1; }},
      {&archs::granite_hybrid, "residual scale", [](reference::Transformer& r) { r.residual_scale = 1; }},
      {&archs::granite_hybrid, "scale of scores", [](reference::Transformer& r) { r.attention_scale = 0; }},
      {&archs::granite_hybrid, "scale of logits", [](reference::Transformer& r) { r.logit_scale = 1; }},
      {&archs::granite_hybrid, "no rope", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::granite_hybrid, "decays", filled("mamba.A_log", 0.5f)},
      {&archs::granite_moe_hybrid, "norm of the state", filled("mamba.norm.weight", 0.5f)},
      {&archs::granite_moe_hybrid, "shared expert", filled("mlp.shared_expert.down_proj.weight", 0)},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("Qwen3-Next: files with all inputs of a delta net in one tensor, and configs with steps alone, are read") {
  for (const auto& [key_heads, value_heads] : {std::pair{2, 4}, {2, 2}, {1, 3}, {3, 6}}) {
    CAPTURE(key_heads);
    TinyModel tiny{.arch = &archs::qwen3_next, .key_heads = key_heads, .value_heads = value_heads};
    tiny.make();
    const auto tokens = some_tokens(40);
    const std::vector<float> logits = folder_logits(tiny, tokens);
    CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
    TinyModel steps = tiny;
    steps.config["layer_types"] = nullptr;
    CHECK(folder_logits(steps, tokens) == logits);
    // The order of folders.
    TinyModel older = tiny;
    older.tensors.clear();
    for (const TinyTensor& t : tiny.tensors) {
      if (t.gguf_name.ends_with("attn_gate.weight")) continue;
      older.tensors.push_back(t);
      if (!t.gguf_name.ends_with("attn_qkv.weight")) continue;
      const TinyTensor whole = tiny.fused_rows_of(t);
      TinyTensor& in = older.tensors.back();
      in.id = {}, in.fused = {};
      in.gguf_name = message("blk.", t.id.layer, ".ssm_in.weight"), in.shape = whole.shape, in.values = whole.values;
    }
    const TemporaryFolder folder;
    older.write_gguf(folder / "older.gguf");
    CHECK(logits_of(Model::load(folder / "older.gguf"), tokens) == logits);
    // And back.
    for (const auto& [out, target] : {std::pair{"m.gguf", Target::gguf}, {"hf", Target::safetensors}}) {
      compress_file(Checkpoint::open(folder / "older.gguf"), folder / out, recipe::rtn("f32"), target);
      CHECK(logits_of(Model::load(folder / out), tokens) == logits);
    }
  }
}

TEST_CASE("Qwen3-Next: inputs of a delta net that do not fit its heads are refused") {
  TinyModel tiny{.arch = &archs::qwen3_next, .fuses = true};
  tiny.make();
  TinyModel wrong = tiny;
  wrong.config["linear_num_key_heads"] = 4;
  has(refusal_of_folder(wrong), "linear_attn.in_proj_qkvz.weight: expected shape (192, 36), found (144, 36)");
  wrong.config["linear_num_key_heads"] = 3;
  has(refusal_of_folder(wrong), "linear_num_value_heads: expected a multiple of the 3 key heads or groups, found 4");
  wrong = tiny;
  std::erase_if(wrong.tensors, [](const TinyTensor& t) { return t.fused_name.ends_with("in_proj_ba.weight"); });
  has(refusal_of_folder(wrong), "expected tensor model.layers.0.linear_attn.in_proj_b.weight, found none of that name");
}

TEST_CASE("experts in a latent space: as wide as the config says, or none") {
  const auto tokens = some_tokens(20);
  for (const std::int64_t latent : {0, 16, 50}) {
    CAPTURE(latent);
    TinyModel tiny{.arch = &archs::nemotron_h_moe, .expert_latent = latent};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    tiny.write_gguf(folder / "m.gguf");
    const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
    CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
    CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
    compress_file(Checkpoint::open(folder / "m.gguf"), folder / "written.gguf", recipe::rtn("f32"), Target::gguf);
    CHECK(logits_of(Model::load(folder / "written.gguf"), tokens) == logits);
    compress_file(Checkpoint::open(folder / "m.gguf"), folder / "written", recipe::rtn("f32"), Target::safetensors);
    CHECK(logits_of(Model::load(folder / "written"), tokens) == logits);
  }
  TinyModel tiny{.arch = &archs::nemotron_h_moe};
  tiny.make();
  TinyModel wrong = tiny;
  wrong.config["moe_latent_size"] = 27;
  has(refusal_of_folder(wrong), "mixer.fc1_latent_proj.weight: expected shape (27, 36), found (28, 36)");
  wrong.config["moe_latent_size"] = nullptr;
  has(refusal_of_folder(wrong), "expected shape (20, 36), found (20, 28)");
  wrong.config["moe_latent_size"] = -1;
  has(refusal_of_folder(wrong), "moe_latent_size: expected a whole number from 0 to 65536, found -1");
  wrong.config["moe_latent_size"] = 1e300;
  has(refusal_of_folder(wrong), "moe_latent_size: expected a whole number from 0 to 65536");
  wrong = tiny;
  wrong.remove("backbone.layers.1.mixer.fc2_latent_proj.weight");
  has(refusal_of_folder(wrong), "expected tensor backbone.layers.1.mixer.fc2_latent_proj.weight, found none");
}

TEST_CASE("experts in a latent space: what experts read, calibrated methods see; the way there and back has 8 bits") {
  TinyModel tiny{.arch = &archs::nemotron_h_moe, .dim = 64, .expert_ffn = 32, .expert_latent = 32};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto tokens = some_tokens(40);
  const std::vector<double> expected = tiny.reference().logits(tokens);
  Calibration calibration;
  for (int i = 0; i < 8; ++i) {
    calibration.samples.emplace_back();
    for (int t = 0; t < 60; ++t) calibration.samples.back().push_back(1 + (t * t + 7 * t * i + 3 * i) % 30);
  }
  const auto apart = [&](const Recipe& recipe) {
    compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe, Target::native, {}, calibration);
    const Model model = Model::load(folder / "m.bantam");
    for (const LayerWeights& layer : model.weights().layers) {
      if (layer.experts.experts.empty()) continue;
      CHECK(layer.experts.latent_down.format().name == "i8.g32");
      CHECK(layer.experts.latent_up.format().name == "i8.g32");
      CHECK(layer.experts.experts[0].up.format().name == "i4.g32");
    }
    const std::vector<float> found = logits_of(model, tokens);
    double squares = 0;
    for (std::size_t i = 0; i < found.size(); ++i) squares += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    return squares;
  };
  const double nearest = apart(recipe::rtn("i4.g32"));
  for (const Method method : {Method::gptq, Method::awq}) {
    CAPTURE(std::string(name_of(method)));
    CHECK(apart(recipe::with(method, "i4.g32")) < 2 * nearest);
  }
}

TEST_CASE("Granite 4: with rope and without, all layers attending or few, from every container") {
  const auto tokens = some_tokens(20);
  for (const ArchSpec* arch : {&archs::granite_hybrid, &archs::granite_moe_hybrid}) {
    for (const bool turned : {false, true}) {
      CAPTURE(arch->has_experts());
      CAPTURE(turned);
      TinyModel tiny{.arch = arch, .turned = turned};
      tiny.make();
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      tiny.write_gguf(folder / "m.gguf");
      const Model model = Model::load(folder / "hf");
      const std::vector<float> logits = logits_of(model, tokens);
      CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
      CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
      model.save(folder / "m.bantam");
      CHECK(logits_of(Model::load(folder / "m.bantam"), tokens) == logits);
      for (const auto& [out, target] : {std::pair{"written.gguf", Target::gguf}, {"written", Target::safetensors}}) {
        compress_file(Checkpoint::open(folder / "hf"), folder / out, recipe::rtn("f32"), target);
        CHECK(Checkpoint::open(folder / out).config().arch == arch);
        CHECK(logits_of(Model::load(folder / out), tokens) == logits);
      }
      const Json written = Json::parse(read_file(folder / "written" / "config.json"), "config.json");
      CHECK(written["position_embedding_type"] == (turned ? "rope" : "nope"));
      CHECK(written["num_local_experts"] == (arch->has_experts() ? 6 : 0));
    }
  }
}

TEST_CASE("Granite 4 whose layers all attend, with rope, is Granite 3 in GGUF files, as llama.cpp has it") {
  TinyModel tiny{.arch = &archs::granite_hybrid, .turned = true};
  tiny.make();
  // The attending layer twice.
  const auto is_first = [](const TinyTensor& t) { return t.name.starts_with("model.layers.0."); };
  std::erase_if(tiny.tensors, is_first);
  std::vector<TinyTensor> all;
  for (const TinyTensor& t : tiny.tensors) {
    all.push_back(t);
    if (!t.name.starts_with("model.layers.1.")) continue;
    for (std::string* name : {&all.back().name, &all.back().fused_name}) {
      if (!name->empty()) name->replace(0, 15, "model.layers.0.");
    }
    all.push_back(t);
  }
  tiny.tensors = all;
  tiny.config["layer_types"] = {"attention", "attention"};
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.gguf", recipe::rtn("f32"), Target::gguf);
  CHECK(Checkpoint::open(folder / "m.gguf").config().arch == &archs::granite);
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
}

TEST_CASE("Granite 4: several groups of a state, and positions of another kind, are refused") {
  TinyModel tiny{.arch = &archs::granite_hybrid};
  tiny.make();
  tiny.config["mamba_n_groups"] = 2;
  has(refusal_of_folder(tiny), "config.json: mamba_n_groups: expected 1 group of a model of type granitemoehybrid, found 2");
  tiny.config["mamba_n_groups"] = 1;
  tiny.config["position_embedding_type"] = "learned_absolute";
  has(refusal_of_folder(tiny), "config.json: position_embedding_type: expected rope or nope, found learned_absolute");
  tiny.config["position_embedding_type"] = nullptr;
  CHECK(folder_logits(tiny, some_tokens()).size() == 12 * 37);
  tiny.config["mamba_d_head"] = "auto";
  has(refusal_of_folder(tiny), "mamba_d_head: expected a number, found");
  tiny.config["mamba_d_head"] = 12;
  tiny.config["layer_types"] = {"mamba", "linear"};
  has(refusal_of_folder(tiny), "layer_types[1]: expected full_attention, sliding_attention, linear_attention, conv or mamba");
}

TEST_CASE("numbers of config.json that JSON has no words for, as Python writes them, are passed over; in texts they stay") {
  TinyModel tiny{.arch = &archs::mamba2};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto tokens = some_tokens(20);
  const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  const std::string config = read_file(folder / "hf" / "config.json");
  write_file(folder / "hf" / "config.json", R"({"time_step_limit": [0.0, Infinity], "low": -Infinity, "none": NaN, "note": "to \"Infinity\", NaN", )" + config.substr(1));
  CHECK(logits_of(Model::load(folder / "hf"), tokens) == logits);
  CHECK(Checkpoint::open(folder / "hf").metadata().at("note") == "to \"Infinity\", NaN");
  CHECK(Checkpoint::outline(folder / "hf").config().arch == &archs::mamba2);
  write_file(folder / "hf" / "config.json", R"({"time_step_limit": Infinities, )" + config.substr(1));
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "config.json: not json");
  // Infinity where a number is needed is none.
  write_file(folder / "hf" / "config.json", R"({"hidden_size": Infinity, )" + config.substr(1, config.size() - 2).replace(config.find("\"hidden_size\"") - 1, 13, "\"other\"") + "}");
  has(error_of([&] { (void)Checkpoint::open(folder / "hf"); }), "hidden_size: expected a number, found nothing");
}

}  // namespace
}  // namespace bantam::test
