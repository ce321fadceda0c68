// Falcon-H1: attention beside a state space, and scales inside of blocks, which GGUF files have in weights.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "bantam/io/gguf_writer.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

constexpr const ArchSpec* falcons[] = {&archs::falcon_h1, &archs::falcon_h1_plain};

/// Of the published 1.5B, none of which is a power of two but one.
const ModelScales published_scales{.embedding = 5.656854249492381, .logits = 0.0390625, .attention_in = 0.7071067811865476, .attention_out = 0.9375, .keys = 0.1767766952966369, .space_in = 1.25,
                                   .space_out = 0.23570226039551584, .space = {0.3535533905932738, 0.3, 0.3535533905932738, 0.5, 0.3535533905932738}, .gate = 0.8838834764831845, .down = 0.5859375};

std::string refusal_of(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  return error_of([&] { (void)Checkpoint::open(folder / "hf"); });
}

TEST_CASE("Falcon-H1: each part counts") {
  const auto scale = [](const char* name, double reference::Transformer::* member) {
    return FamilyPart{&archs::falcon_h1, name, [member](reference::Transformer& r) { r.*member = 1; }};
  };
  const auto space = [](const char* name, std::size_t i) { return FamilyPart{&archs::falcon_h1_plain, name, [i](reference::Transformer& r) { r.space_scales[i] = 1; }}; };
  const auto without = [](const char* name, const char* ending) {
    return FamilyPart{&archs::falcon_h1_plain, name, filled(ending, 0)};
  };
  const FamilyPart parts[] = {
      scale("what attention reads", &reference::Transformer::attention_in), scale("what attention makes", &reference::Transformer::attention_out), scale("keys", &reference::Transformer::key_scale),
      scale("what the state space reads", &reference::Transformer::space_in), scale("what the state space makes", &reference::Transformer::space_out),
      scale("gates of the MLP", &reference::Transformer::gate_scale), scale("what the MLP makes", &reference::Transformer::down_scale),
      scale("embedding", &reference::Transformer::embedding_scale), scale("logits", &reference::Transformer::logit_scale),
      space("output gate", 0), space("x", 1), space("B", 2), space("C", 3), space("dt", 4),
      without("attention", "self_attn.o_proj.weight"), without("state space", "mamba.out_proj.weight"),
      {&archs::falcon_h1, "norm of the state space", filled("mamba.norm.weight", 0.5f)},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("Falcon-H1: scales of any size, from a folder and, in weights, from GGUF files, tied or not") {
  const auto tokens = some_tokens(70);  // over two chunks of a recurrent state
  for (const ArchSpec* arch : falcons) {
    for (const bool tied : {false, true}) {
      CAPTURE(tied);
      TinyModel tiny{.arch = arch, .context = 128, .tied = tied};
      tiny.scales = published_scales;
      tiny.make();
      const std::vector<double> expected = tiny.reference().logits(tokens);
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      tiny.write_gguf(folder / "theirs.gguf");
      const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
      CHECK(distance(logits, expected) < family_tolerance);
      CHECK(distance(logits_of(Model::load(folder / "theirs.gguf"), tokens), expected) < family_tolerance);
      // Folders and native files keep the scales, GGUF files do not, nor what is made of them.
      const auto written = [&](const char* from, const char* to, Target target) {
        compress_file(Checkpoint::open(folder / from), folder / to, recipe::rtn("f32"), target);
        const Model model = Model::load(folder / to);
        CHECK(model.config().arch == arch);
        CHECK(model.config().tied == tied);
        return std::pair(logits_of(model, tokens), model.config().scales);
      };
      CHECK(written("hf", "again", Target::safetensors) == std::pair(logits, tiny.scales));
      CHECK(written("hf", "m.bantam", Target::native) == std::pair(logits, tiny.scales));
      for (const char* from : {"hf", "m.bantam"}) {
        const auto [found, scales] = written(from, "m.gguf", Target::gguf);
        CHECK(distance(found, expected) < family_tolerance);
        CHECK(scales == ModelScales());
      }
      const auto [back, scales] = written("m.gguf", "back", Target::safetensors);
      CHECK(distance(back, expected) < family_tolerance);
      CHECK(scales == ModelScales());
      const Json config = Json::parse(read_file(folder / "back" / "config.json"), "config.json");
      CHECK(config["ssm_multipliers"] == Json({1, 1, 1, 1, 1}));
      CHECK(config["mlp_multipliers"] == Json({1, 1}));
    }
  }
}

TEST_CASE("Falcon-H1: a GGUF file is as large as it was planned, and no file has scales that are not in weights") {
  TinyModel tiny{.arch = &archs::falcon_h1};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  const Report report = compress_file(checkpoint, folder / "m.gguf", recipe::rtn("f16"), Target::gguf);
  CHECK(report.bytes_after == static_cast<std::int64_t>(std::filesystem::file_size(folder / "m.gguf")));
  GgufWriter gguf(folder / "other.gguf");
  has(error_of([&] { write_gguf_config(gguf, checkpoint.config()); }), "scales that are not in weights: GGUF has no words for it");
}

TEST_CASE("Falcon-H1: calibrated methods see what both blocks read") {
  TinyModel tiny{.arch = &archs::falcon_h1, .dim = 64, .head_dim = 16, .ffn = 96, .value_heads = 4, .state_value_dim = 16};
  tiny.scales = published_scales;
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
  const auto apart = [&](const Recipe& recipe, Target target, const char* to) {
    compress_file(Checkpoint::open(folder / "hf"), folder / to, recipe, target, {}, calibration);
    const std::vector<float> found = logits_of(Model::load(folder / to), tokens);
    double squares = 0;
    for (std::size_t i = 0; i < found.size(); ++i) squares += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    return squares;
  };
  const double nearest = apart(recipe::rtn("i4.g32"), Target::native, "m.bantam");
  CHECK(apart(recipe::with(Method::gptq, "i4.g32"), Target::native, "m.bantam") < nearest);
  CHECK(apart(recipe::with(Method::awq, "i4.g32"), Target::native, "m.bantam") < 1.5 * nearest);
  // In GGUF files, where weights are other ones, the same. The embedding is in blocks of 4 bits, too.
  const double blocks = apart(recipe::rtn("q4_0"), Target::gguf, "m.gguf");
  CHECK(blocks < 4 * nearest);
  CHECK(apart(recipe::with(Method::gptq, "q4_0"), Target::gguf, "m.gguf") < blocks);
}

TEST_CASE("Falcon-H1: what no published model has is refused by its key; numbers that are absent are 1") {
  TinyModel tiny{.arch = &archs::falcon_h1};
  tiny.make();
  TinyModel other = tiny;
  other.config["mamba_norm_before_gate"] = true;
  has(refusal_of(other), "config.json: mamba_norm_before_gate: expected false of a model of type falcon_h1, found true");
  other = tiny;
  other.config["attention_bias"] = true;
  has(refusal_of(other), "config.json: attention_bias: expected false of a model of type falcon_h1, found true");
  other = tiny;
  other.config["ssm_multipliers"][2] = "none";
  has(refusal_of(other), "config.json: ssm_multipliers.2: expected a number, found \"none\"");
  other.config["ssm_multipliers"][2] = -1;
  has(refusal_of(other), "config.json: ssm_multipliers.2: expected a number above 0, found -1");
  other = tiny;
  other.config["mamba_rms_norm"] = false;
  has(refusal_of(other), "mamba.norm.weight: expected no such tensor in a model of type falcon_h1");
  const auto tokens = some_tokens(20);
  other = tiny;
  for (const char* key : {"ssm_multipliers", "mlp_multipliers", "key_multiplier"}) other.config[key] = nullptr;
  reference::Transformer reference = tiny.reference();
  reference.space_scales.assign(5, 1);
  reference.gate_scale = reference.down_scale = reference.key_scale = 1;
  CHECK(distance(folder_logits(other, tokens), reference.logits(tokens)) < family_tolerance);
  other.config["mlp_multipliers"] = {tiny.scales.gate};
  reference.gate_scale = tiny.scales.gate;
  CHECK(distance(folder_logits(other, tokens), reference.logits(tokens)) < family_tolerance);
}

}  // namespace
}  // namespace bantam::test
