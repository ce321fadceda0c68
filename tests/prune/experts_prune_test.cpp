// Experts that go as a whole.
#include <set>

#include "bantam/compress/prepare.hpp"
#include "bantam/core/parallel.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// A mixture in which the experts of odd numbers add next to nothing.
struct Mixture {
  explicit Mixture(TinyModel model) : tiny(std::move(model)) {
    set_parallel_threads(1);
    tiny.make();
    for (TinyTensor& t : tiny.tensors) {
      // Else some expert may see no token at all.
      if (t.reference_name.ends_with("e_score_correction_bias") || t.reference_name.ends_with("layernorm.bias")) std::ranges::fill(t.values, 0.0f);
      const auto at = t.reference_name.find("experts.");
      const bool adds = t.reference_name.ends_with("down_proj.weight") || t.reference_name.ends_with("down_proj.bias");
      if (at == std::string::npos || !adds || (t.reference_name[at + 8] - '0') % 2 == 0) continue;
      for (float& value : t.values) value *= 1e-3f;
    }
    tiny.write_folder(folder / "hf");
    checkpoint = Checkpoint::open(folder / "hf");
  }
  ~Mixture() { set_parallel_threads(0); }
  Mixture(const Mixture&) = delete;
  Mixture& operator=(const Mixture&) = delete;

  TinyModel tiny;
  TemporaryFolder folder;
  std::optional<Checkpoint> checkpoint;
};

/// The same model without the experts of odd numbers.
TinyModel without_odd(const TinyModel& whole) {
  TinyModel left{.arch = whole.arch, .experts = whole.experts / 2};
  left.make();
  left.tensors.clear();
  for (TinyTensor t : whole.tensors) {
    const bool of_experts = t.reference_name.ends_with("mlp.gate.weight") || t.reference_name.ends_with("mlp.router.bias") ||
                            t.reference_name.ends_with("e_score_correction_bias");
    if (of_experts) {
      const std::size_t size = t.values.size() / static_cast<std::size_t>(whole.experts);
      std::vector<float> kept;
      for (std::size_t e = 0; e < static_cast<std::size_t>(whole.experts); e += 2) {
        kept.insert(kept.end(), t.values.begin() + static_cast<std::ptrdiff_t>(e * size), t.values.begin() + static_cast<std::ptrdiff_t>((e + 1) * size));
      }
      t.values = std::move(kept);
      t.shape[0] = left.experts;
    }
    if (const auto at = t.reference_name.find("experts."); at != std::string::npos) {
      const int e = t.reference_name[at + 8] - '0';
      if (e % 2 == 1) continue;
      t.name.replace(t.name.find(message("experts.", e, '.')) + 8, 1, std::to_string(e / 2));
    }
    left.tensors.push_back(std::move(t));
  }
  return left;
}

TEST_CASE("experts that add least go, and what is left is the model without them, in every container") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->has_experts() || arch->full_heads_differ() || !arch->norms_before_blocks()) continue;  // refused, as tests show
    CAPTURE(std::string(arch->name));
    const Mixture mixture({.arch = arch});
    const std::vector<Removal> removals{parse_removal("experts:0.5")};
    PrunedStructure pruned = prune_structure(*mixture.checkpoint, removals, some_calibration());
    CHECK(pruned.checkpoint.config().router.experts == 3);
    CHECK(pruned.after.parameters < pruned.before.parameters);
    // A token uses as many as before.
    const std::int64_t sparse = std::ranges::count_if(pruned.checkpoint.config().specs, &LayerSpec::is_sparse);
    CHECK(pruned.before.flops_per_token - pruned.after.flops_per_token == 2 * 3 * 36 * sparse);
    const TemporaryFolder folder;
    without_odd(mixture.tiny).write_folder(folder / "expected");
    const auto tokens = some_tokens(20);
    const std::vector<float> expected = logits_of(Model::load(folder / "expected"), tokens);
    const Model small = Model::from_checkpoint(pruned.checkpoint), right = Model::load(folder / "expected");
    for (const CheckpointTensor& tensor : right.checkpoint().tensors()) {
      CAPTURE(tensor.name);
      if (tensor.is_matrix) {
        CHECK(std::ranges::equal(matrix_of(small.weights(), tensor)->dequantize().span(), matrix_of(right.weights(), tensor)->dequantize().span()));
      } else {
        CHECK(*vector_of(small.weights(), tensor) == *vector_of(right.weights(), tensor));
      }
    }
    CHECK(logits_of(small, tokens) == expected);
    for (const Target target : {Target::native, Target::gguf, Target::safetensors}) {
      const std::string out = target == Target::native ? "m.bantam" : target == Target::gguf ? "m.gguf" : "folder";
      compress_file(pruned.checkpoint, folder / out, recipe::rtn("f32"), target);
      CHECK(Checkpoint::open(folder / out).config().router.experts == 3);
      CHECK(logits_of(Model::load(folder / out), tokens) == expected);
    }
  }
}

TEST_CASE("experts go by how often they are used where that is asked for") {
  // A router whose rows 4 and 5 are what every token goes to: they see the bias alone.
  TinyModel tiny{.arch = &archs::minimax_m2};
  tiny.make();
  for (TinyTensor& t : tiny.tensors) {
    if (t.name.ends_with("e_score_correction_bias")) t.values = {-5, -5, -5, -5, 5, 5};
  }
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  const std::vector<Removal> removals{parse_removal("experts:0.66")};
  const PrunedStructure pruned = prune_structure(checkpoint, removals, some_calibration(), {.expert_score = ExpertScore::frequency});
  CHECK(pruned.checkpoint.config().router.experts == 2);
  const Model left = Model::from_checkpoint(pruned.checkpoint), whole = Model::load(folder / "hf");
  CHECK(left.weights().layers[1].experts.selection_bias == std::vector<float>{5, 5});
  // Nobody used the others.
  const auto tokens = some_tokens(20);
  CHECK(logits_of(left, tokens) == logits_of(whole, tokens));
}

TEST_CASE("as many experts go of each group of a router") {
  TinyModel tiny{.arch = &archs::glm4_moe, .experts = 8};
  tiny.make();
  tiny.config["n_group"] = 2;
  tiny.config["topk_group"] = 1;
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf");
  const std::vector<Removal> removals{parse_removal("experts:0.5")};
  const PrunedStructure pruned = prune_structure(checkpoint, removals, some_calibration());
  const Model left = Model::from_checkpoint(pruned.checkpoint), whole = Model::load(folder / "hf");
  const auto& kept = left.weights().layers[1].experts.experts;
  REQUIRE(kept.size() == 4);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    bool found = false;
    for (std::size_t e = i / 2 * 4; e < i / 2 * 4 + 4; ++e) {
      found = found || std::ranges::equal(kept[i].up.dequantize().span(), whole.weights().layers[1].experts.experts[e].up.dequantize().span());
    }
    CHECK(found);
  }
}

TEST_CASE("layers of mixtures go, and experts as many as a cost allows") {
  const Mixture mixture({.arch = &archs::glm4_moe, .layers = 4});
  const Recipe recipe = recipe::rtn("i8.g32");
  for (const char* text : {"layers:1", "experts:0.34"}) {
    const PruneReport planned = plan_parts(parse_prune(std::vector<std::string>{text}), *mixture.checkpoint, recipe);
    const PrunedModel left = remove_parts(planned, *mixture.checkpoint, some_calibration());
    Report report = compress_file(left.checkpoint, mixture.folder / "out", recipe);
    CHECK(planned.after[Cost::bytes] == static_cast<double>(report.bytes_after));
    const std::vector<float> logits = logits_of(Model::load(mixture.folder / "out"), some_tokens());
    CHECK(std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }));
  }
}

TEST_CASE("experts go to meet a size, as many of every layer, and what is left is a plain model of that size") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->has_experts() || arch->full_heads_differ() || !arch->norms_before_blocks()) continue;  // refused, as tests show
    CAPTURE(std::string(arch->name));
    const Mixture mixture({.arch = arch, .layers = 3});
    const Recipe recipe = recipe::rtn("i8.g32");
    const auto request_for = [](const std::string& goal) { return parse_prune(std::vector<std::string>{"experts"}, goal); };
    // A token uses as many experts as before: only routers have fewer rows.
    has(error_of([&] { (void)plan_parts(request_for("flops:0.5x"), *mixture.checkpoint, recipe); }), "prune to flops:0.5x: expected at least ");
    has(error_of([&] { (void)plan_parts(request_for("bytes:1kB"), *mixture.checkpoint, recipe); }), "prune to bytes:1000: expected at least ");
    const Plan whole = plan_file(*mixture.checkpoint, recipe);
    for (const std::string& goal : {std::string("bytes:0.85x"), std::string("parameters:0.85x"), message("bytes:", whole.bytes * 9 / 10)}) {
      CAPTURE(goal);
      const PruneRequest request = request_for(goal);
      const CostTarget target = parse_cost_target(goal);
      const PruneReport planned = plan_parts(request, *mixture.checkpoint, recipe);
      CHECK(planned.removals.at(0).part == Part::experts);
      CHECK(planned.after[target.cost] <= (target.of_original ? target.amount * planned.before[target.cost] : target.amount));
      const PrunedModel left = remove_parts(planned, *mixture.checkpoint, some_calibration());
      const Report report = compress_file(left.checkpoint, mixture.folder / "small.bantam", recipe);
      CHECK(static_cast<double>(report.bytes_after) == planned.after[Cost::bytes]);
      const Model small = Model::load(mixture.folder / "small.bantam");
      const std::int64_t experts = small.config().router.experts;
      CHECK((experts >= 2 && experts < 6));
      for (const LayerWeights& layer : small.weights().layers) {
        if (layer.experts.experts.empty()) continue;
        CHECK(std::ssize(layer.experts.experts) == experts);
        CHECK(layer.experts.router.rows() == experts);
        for (const std::vector<float>* bias : {&layer.experts.router_bias, &layer.experts.selection_bias}) CHECK((bias->empty() || std::ssize(*bias) == experts));
      }
    }
  }
}

TEST_CASE("groups of a router keep what a token's experts, and the groups, are chosen from") {
  TinyModel tiny{.arch = &archs::glm4_moe, .experts = 12, .experts_used = 4};
  tiny.make();
  nn::RouterOptions& router = tiny.sizes.router;
  router.groups = 3, router.groups_used = 2;
  const auto plan = [&](const char* text) { return plan_structure(tiny.sizes, std::vector<Removal>{parse_removal(text)}).specs.back().experts; };
  CHECK(plan("experts:0.25") == 9);
  CHECK(plan("experts:0.5") == 6);  // 2 of each group, 4 in two of them
  has(error_of([&] { (void)plan("experts:0.75"); }), "expected a share that leaves the 4 experts that a token uses, this leaves 2 of layer 1, in 2 of 3 groups");
  router.used = 1;
  has(error_of([&] { (void)plan("experts:0.75"); }), "expected a share that leaves the 2 experts that a group is chosen by, this leaves 1 in each group of layer 1");
  router.group_best = 1;
  CHECK(plan("experts:0.75") == 3);
}

TEST_CASE("experts that cannot go are refused") {
  const auto refusal = [](const ArchSpec& arch, const char* text) {
    TinyModel tiny{.arch = &arch};
    tiny.make();
    return error_of([&] { (void)plan_structure(tiny.sizes, std::vector<Removal>{parse_removal(text)}); });
  };
  has(refusal(archs::llama, "experts:0.5"), "prune experts:0.5: expected a mixture of experts, found llama");
  has(refusal(archs::mixtral, "experts:0.8"), "expected a share that leaves the 2 experts that a token uses, this leaves 1 of layer 0");
  has(refusal(archs::mixtral, "experts:0.01"), "takes some and leaves some of the 6 experts of layer 0, this takes none");
  has(refusal(archs::mixtral, "experts:2"), "expected a share above 0 and below 1, found 2");
  has(refusal(archs::mixtral, "channels:0.5"), "prune channels:0.5: in a mixture of experts: not yet");
}

TEST_CASE("parts of models whose layers differ in heads or read each other's keys are not removed, in one line") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->full_heads_differ() && !arch->shares_keys()) continue;
    const Mixture mixture({.arch = arch});
    for (const char* part : {"layers:1", "heads:0.5", "channels:0.5", "experts:0.5", "hidden:0.5"}) {
      CAPTURE(std::string(part));
      const std::vector<Removal> removals{parse_removal(part)};
      CHECK(error_of([&] { (void)prune_structure(*mixture.checkpoint, removals, some_calibration()); }) ==
            message("prune ", part, ": ", arch->name, ": of layers that differ in heads or read each other's keys: not yet; what works: single weights by wanda, sparsegpt or magnitude"));
    }
  }
}

}  // namespace
}  // namespace bantam::test
