// SmallThinker: routers that read what their layer reads.
#include <cmath>

#include "bantam/compress/compress.hpp"
#include "calibrate/block_pass.hpp"
#include "model/family_parts.hpp"

namespace bantam::test {
namespace {

TEST_CASE("each part of SmallThinker counts") {
  const FamilyPart parts[] = {
      {&archs::smallthinker, "routers that read the layer's input", [](reference::Transformer& r) { r.routes_inputs = false; }},
      {&archs::smallthinker, "relu", [](reference::Transformer& r) { r.activation = [](double x) { return x / (1 + std::exp(-x)); }; }},
      {&archs::smallthinker, "windows", [](reference::Transformer& r) { r.windows.clear(); }},
      {&archs::smallthinker, "a first layer without one", [](reference::Transformer& r) { std::ranges::rotate(r.windows, r.windows.begin() + 1); }},
      {&archs::smallthinker, "rope in layers with a window alone", [](reference::Transformer& r) { r.rotates.clear(); }},
      {&archs::smallthinker, "weights of the chosen that sum to one", [](reference::Transformer& r) { r.router.renormalize = false; }},
  };
  check_parts_count(parts, some_tokens(40));
}

TEST_CASE("SmallThinker with a softmax over the chosen, without windows, from every container") {
  for (const bool softmax : {false, true}) {
    for (const bool windowed : {false, true}) {
      CAPTURE(softmax);
      CAPTURE(windowed);
      TinyModel tiny{.arch = &archs::smallthinker};
      tiny.make();
      tiny.config["moe_primary_router_apply_softmax"] = softmax;
      tiny.config["sliding_window_layout"] = windowed ? Json{0, 1, 1, 1} : Json{0, 0, 0, 0};
      tiny.config["rope_layout"] = windowed ? Json{0, 1, 1, 1} : Json{1, 1, 1, 1};
      reference::Transformer reference = tiny.reference();
      if (softmax) reference.router.score = reference::Score::softmax_of_chosen;
      if (!windowed) reference.windows.clear(), reference.rotates.clear();
      const auto tokens = some_tokens(40);
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      const std::vector<float> logits = logits_of(Model::load(folder / "hf"), tokens);
      CHECK(distance(logits, reference.logits(tokens)) < family_tolerance);
      for (const auto& [out, target] : {std::pair{"m.bantam", Target::native}, {"written.gguf", Target::gguf}, {"written", Target::safetensors}}) {
        compress_file(Checkpoint::open(folder / "hf"), folder / out, recipe::rtn("f32"), target);
        CHECK(logits_of(Model::load(folder / out), tokens) == logits);
      }
    }
  }
}

TEST_CASE("calibration carries hidden states through layers half by half as passes do, in every architecture") {
  for (const ArchSpec* arch : architectures) {
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
    const Model model = Model::from_checkpoint(checkpoint, {.memory = WeightMemory::huge_pages});
    const ModelSource source(checkpoint);
    const std::vector<TokenId> first = some_tokens(23), second = some_tokens(11);
    BlockPass pass(source, {.samples = {first, second}});
    for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
      const auto block = source.acquire(layer);
      (void)pass.observe_all(*block, layer);  // which leaves them where they are
      pass.advance_over(*block, layer);
    }
    std::vector<float> expected = logits_of(model, first), found;
    const std::vector<float> more = logits_of(model, second);
    expected.insert(expected.end(), more.begin(), more.end());
    if (model.config().has_head) {
      Forward head(model.config(), model.weights(), 64, 1);
      head.run_head(pass.states(), [&](std::int64_t, std::span<const float> logits) { found.insert(found.end(), logits.begin(), logits.end()); });
    } else {
      // What encoders give: the states, behind the last norm where there is one.
      found.assign(pass.states().begin(), pass.states().end());
      const ModelWeights& w = model.weights();
      for (std::size_t at = 0; at < found.size() && !w.final_norm.empty(); at += w.final_norm.size()) {
        normalize_row(kernels_in_use(), model.config(), pass.states().data() + at, w.final_norm, w.final_norm_bias, found.data() + at);
      }
    }
    CHECK(found == expected);
  }
}

TEST_CASE("what SmallThinker's published configs say is found") {
  const auto config = [](std::string_view layouts) {
    return parse_hf_config(R"({"architectures":["SmallThinkerForCausalLM"],"model_type":"smallthinker","head_dim":128,"hidden_size":2560,"max_position_embeddings":16384,
      "moe_ffn_hidden_size":768,"moe_num_active_primary_experts":6,"moe_num_primary_experts":64,"moe_primary_router_apply_softmax":false,"num_attention_heads":28,
      "num_hidden_layers":4,"num_key_value_heads":4,"rms_norm_eps":1e-06,"rope_theta":1500000.0,"sliding_window_size":4096,"vocab_size":151936,)" + std::string(layouts) + "}", "config.json");
  };
  const ModelConfig large = config(R"("rope_layout":[0,1,1,1],"sliding_window_layout":[0,1,1,1])"), small = config(R"("rope_layout":[1,1,1,1],"sliding_window_layout":[0,0,0,0])");
  CHECK(large.router.score == nn::RouterScore::sigmoid);
  CHECK(large.router.renormalize);
  CHECK(large.gate == ops::Gate::relu);
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(large.window_of(i) == (i == 0 ? 0 : 4096));
    CHECK(large.layer(i).rope == (i == 0 ? nn::LayerRope::none : nn::LayerRope::model));
    CHECK(small.window_of(i) == 0);
    CHECK(small.layer(i).rope == nn::LayerRope::model);
  }
  has(error_of([&] { (void)config(R"("sliding_window_layout":[0,1])"); }), "config.json: sliding_window_layout: expected a list of 4 numbers, found 2");
  has(error_of([&] { (void)config(R"("rope_layout":[0,1,1,2])"); }), "config.json: rope_layout[3]: expected 0 or 1, found 2");
}

}  // namespace
}  // namespace bantam::test
