// Kimi Linear: delta nets with a decay of each channel, latent attention that no rope turns.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

std::string refusal_of_kimi(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
}

TEST_CASE("Kimi Linear: each part counts") {
  const auto part = [](const char* name, const char* ending, float value) { return FamilyPart{&archs::kimi_linear, name, filled(ending, value)}; };
  const FamilyPart parts[] = {
      part("decays of heads", "self_attn.A_log", 1),
      part("decays of channels", "self_attn.dt_bias", 0.5f),
      part("decays of the input", "f_b_proj.weight", 0),
      part("output gate", "g_b_proj.weight", 0),
      part("beta", "self_attn.b_proj.weight", 0),
      part("convolution of q", "q_conv1d.weight", 0.25f),
      part("convolution of k", "k_conv1d.weight", 0.25f),
      part("convolution of v", "v_conv1d.weight", 0.25f),
      part("norm of heads", "o_norm.weight", 0.5f),
      part("shared expert", "mlp.shared_expert.down_proj.weight", 0),
      part("selection bias", "e_score_correction_bias", 0),
      {&archs::kimi_linear, "no rope", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::kimi_linear, "decays of channels, not of heads", [](reference::Transformer& r) {
         // What a gated delta net would have: the first channel's in all.
         for (auto& [name, values] : r.weights) {
           if (!name.ends_with("f_b_proj.weight") && !name.ends_with("dt_bias")) continue;
           const std::size_t width = name.ends_with("dt_bias") ? 1 : r.recurrent.key_dim, head = r.recurrent.key_dim * width;
           for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i / head * head + i % width];
         }
       }},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("Kimi Linear: layers by the lists of published folders, which are written again, from every container") {
  TinyModel tiny{.arch = &archs::kimi_linear, .layers = 5, .context = 128};
  tiny.make();
  CHECK(tiny.config["linear_attn_config"]["kda_layers"] == Json({1, 3, 5}));
  CHECK(tiny.config["linear_attn_config"]["full_attn_layers"] == Json({2, 4}));
  const auto tokens = some_tokens(100);
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
  CHECK(distance(logits, tiny.reference().logits(tokens)) < family_tolerance);
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits);
  for (const char* from : {"hf", "m.gguf"}) {
    for (const auto& [out, target] : {std::pair{"written.gguf", Target::gguf}, {"written", Target::safetensors}, {"written.bantam", Target::native}}) {
      CAPTURE(std::string(out));
      compress_file(Checkpoint::open(folder / from), folder / out, recipe::rtn("f32"), target);
      CHECK(Checkpoint::open(folder / out).config().arch == &archs::kimi_linear);
      CHECK(logits_of(Model::load(folder / out), tokens) == logits);
    }
  }
  const Json written = Json::parse(read_file(folder / "written" / "config.json"), "config.json");
  CHECK(written["linear_attn_config"] == tiny.config["linear_attn_config"]);
}

TEST_CASE("Kimi Linear: shapes of converted GGUF files are read, with an axis of one more") {
  TinyModel tiny{.arch = &archs::kimi_linear};
  tiny.make();
  for (TinyTensor& t : tiny.tensors) {
    if (t.gguf_name.find("ssm_conv1d") != std::string::npos) t.gguf_shape.insert(t.gguf_shape.begin(), 1);
    if (t.gguf_name.ends_with("ssm_a")) t.gguf_shape = {1, 1, tiny.heads, 1};
  }
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  tiny.write_gguf(folder / "m.gguf");
  const auto tokens = some_tokens(20);
  CHECK(logits_of(Model::load(folder / "m.gguf"), tokens) == logits_of(Model::load(folder / "hf"), tokens));
}

TEST_CASE("Kimi Linear: calibrated methods see what every matrix reads") {
  TinyModel tiny{.arch = &archs::kimi_linear, .dim = 64, .ffn = 96, .expert_ffn = 32, .key_dim = 32, .kv_rank = 32};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const auto tokens = some_tokens(60);
  const std::vector<double> expected = tiny.reference().logits(tokens);
  Calibration calibration;
  for (int i = 0; i < 8; ++i) {
    calibration.samples.emplace_back();
    for (int t = 0; t < 60; ++t) calibration.samples.back().push_back(1 + (t * t + 7 * t * i + 3 * i) % 30);
  }
  const auto apart = [&](const Recipe& recipe) {
    const Report report = compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe, Target::native, {}, calibration);
    const Model model = Model::load(folder / "m.bantam");
    for (const WeightMatrix* matrix : {&model.weights().layers[0].channel_delta.q, &model.weights().layers[0].channel_delta.f_b, &model.weights().layers[0].channel_delta.b}) {
      CHECK(matrix->format().name == "i4.g32");
    }
    const std::vector<float> found = logits_of(model, tokens);
    double squares = 0;
    for (std::size_t i = 0; i < found.size(); ++i) squares += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    return squares;
  };
  const double nearest = apart(recipe::rtn("i4.g32"));
  for (const Method method : {Method::gptq, Method::awq}) {
    CAPTURE(std::string(name_of(method)));
    CHECK(apart(recipe::with(method, "i4.g32")) < 1.5 * nearest);
  }
}

TEST_CASE("Kimi Linear: what Kimi K3 has, and layers that are not there, are refused") {
  TinyModel tiny{.arch = &archs::kimi_linear};
  tiny.make();
  TinyModel other = tiny;
  other.config["linear_attn_config"]["use_full_rank_gate"] = true;
  has(refusal_of_kimi(other), "config.json: linear_attn_config.use_full_rank_gate: expected false of a model of type kimi_linear, found true");
  other = tiny;
  other.config["mla_use_nope"] = false;
  has(refusal_of_kimi(other), "config.json: mla_use_nope: expected true of a model of type kimi_linear, found false");
  for (const std::int64_t layer : {0, 3}) {
    other = tiny;
    other.config["linear_attn_config"]["full_attn_layers"][0] = layer;
    has(refusal_of_kimi(other), message("config.json: linear_attn_config: full_attn_layers: expected layers from 1 to 2, found ", layer));
  }
  other = tiny;
  other.config["linear_attn_config"]["full_attn_layers"] = 2;
  has(refusal_of_kimi(other), "config.json: linear_attn_config: full_attn_layers: expected a list, found number");
  other = tiny;
  other.config["linear_attn_config"]["head_dim"] = 5000;
  has(refusal_of_kimi(other), "config.json: linear_attn_config.head_dim: expected at most 4096");
  other.config["linear_attn_config"]["head_dim"] = 10;
  has(refusal_of_kimi(other), "self_attn.q_proj.weight: expected shape (60, 36), found (72, 36)");
}

}  // namespace
}  // namespace bantam::test
