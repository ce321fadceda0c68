// Recipes that prune, over a whole model.
#include <map>

#include "bantam/compress/sensitivity.hpp"
#include "bantam/core/parallel.hpp"
#include "compress/inputs.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

struct Pass {
  // Rows of whole eights; biases, into which AWQ folds.
  explicit Pass(const TinyModel& model = {.dim = 40, .layers = 2, .heads = 4, .kv_heads = 4, .head_dim = 8, .ffn = 48, .biases = true}) : tiny(model) {
    set_parallel_threads(1);  // more would cost these small models more than they save
    tiny.make();
    tiny.write_folder(folder / "hf");
  }
  ~Pass() { set_parallel_threads(0); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  Report run(const Recipe& recipe, const std::filesystem::path& journal = {}, int stop_after = 1000) {
    int matrices = 0;
    return compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe, Target::native,
                         [&](const Progress&) { return ++matrices < stop_after; }, calibration, journal);
  }
  [[nodiscard]] Checkpoint result() const { return Checkpoint::open(folder / "m.bantam"); }

  TinyModel tiny;
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
};

/// Rows of more than the 64 inputs that formats of blocks hold whole.
struct WidePass : Pass {
  WidePass() : Pass({.dim = 136, .layers = 2, .heads = 4, .kv_heads = 4, .head_dim = 34, .ffn = 200, .biases = true}) {}
};

std::map<std::string, Tensor<float, 2>> matrices_of(const Checkpoint& checkpoint) {
  std::map<std::string, Tensor<float, 2>> matrices;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.is_matrix) matrices.emplace(tensor.name, checkpoint.load_matrix(tensor, Reading::buffered).dequantize());
  }
  return matrices;
}

double zeros_of(const Tensor<float, 2>& w) {
  return static_cast<double>(std::ranges::count(w.span(), 0.0f)) / static_cast<double>(w.size());
}

bool in_block(const std::string& name) { return name.find("layers.") != std::string::npos; }

TEST_CASE_FIXTURE(Pass, "every method prunes what blocks multiply by, before any rounding, and nothing else") {
  for (const PruneMethod method : prune_methods) {
    for (const Sparsity& amount : std::vector<Sparsity>{0.5, {2, 4}, {4, 8}}) {
      for (const auto& [rounding, format] : {std::pair{Method::rtn, "f32"}, {Method::rtn, "i4.g32"}, {Method::gptq, "i4z.g32"},
                                             {Method::awq, "i4.g32"}, {Method::awq_gptq, "nf4"}}) {
        CAPTURE(std::string(name_of(method)));
        CAPTURE(to_string(amount));
        CAPTURE(std::string(name_of(rounding)));
        CAPTURE(std::string(format));
        const Recipe plan = Pruning{method, amount} | recipe::with(rounding, format, {}, {.awq = {.ratios = 3, .weigh_weights = false}})
                                                         .keep("*.0.*.v_proj", "f16");
        const Report report = run(plan);
        CHECK(Json::parse(result().recipe(), "test")["prune"] == message(name_of(method), ':', to_string(amount)));
        const auto matrices = matrices_of(result());
        double zeros = 0, weights = 0;
        for (const LayerReport& layer : report.layers) {
          CAPTURE(layer.name);
          const Tensor<float, 2>& w = matrices.at(layer.name);
          CHECK(layer.sparsity.has_value() == in_block(layer.name));
          if (!layer.sparsity) {
            CHECK(zeros_of(w) < 0.3);  // of 8 bits at least
            continue;
          }
          CHECK(*layer.sparsity == zeros_of(w));
          if (method != PruneMethod::magnitude_model || amount.of > 0) {
            CHECK(*layer.sparsity >= 0.499);
            if (std::string(layer.format)[0] == 'f') CHECK(*layer.sparsity <= 0.501);
          }
          zeros += *layer.sparsity * static_cast<double>(w.size());
          weights += static_cast<double>(w.size());
          for (std::int64_t i = 0; amount.of > 0 && i < w.size(); i += amount.of) {
            CHECK(std::count(w.data() + i, w.data() + i + amount.of, 0.0f) >= amount.zeros);
          }
        }
        CHECK(*report.sparsity == doctest::Approx(zeros / weights));
        CHECK(*report.sparsity >= 0.499);
        const auto json = Json::parse(report.to_json(), "test");
        CHECK(json["sparsity"] == *report.sparsity);
        CHECK(json["layers"][1].contains("sparsity") == report.layers[1].sparsity.has_value());
      }
    }
  }
}

TEST_CASE_FIXTURE(Pass, "magnitude needs no calibration, leaves what it keeps, and reaches matrices that would be copied") {
  calibration = {};
  const auto before = matrices_of(Checkpoint::open(folder / "hf"));
  run(recipe::magnitude(0.25) | recipe::rtn("f32"));
  for (const auto& [name, w] : matrices_of(result())) {
    CAPTURE(name);
    const Tensor<float, 2>& original = before.at(name);
    const Tensor<float, 2> expected = in_block(name) ? masked(original, magnitude_mask(original, 0.25)) : original.clone();
    CHECK(std::ranges::equal(w.span(), expected.span()));
  }
  compress_file(Checkpoint::open(folder / "hf"), folder / "i4.bantam", recipe::rtn("i4.g32"));
  compress_file(Checkpoint::open(folder / "i4.bantam"), folder / "m.bantam", recipe::magnitude({2, 4}) | recipe::rtn("i4.g32"));
  for (const auto& [name, w] : matrices_of(result())) {
    for (std::int64_t i = 0; in_block(name) && i < w.size(); i += 4) CHECK(std::count(w.data() + i, w.data() + i + 4, 0.0f) >= 2);
  }
  CHECK(!run(recipe::rtn("i4.g32")).sparsity);
}

TEST_CASE_FIXTURE(Pass, "magnitudes of rows and of the model: every row loses alike, or one bound holds for all") {
  calibration = {};
  const auto before = matrices_of(Checkpoint::open(folder / "hf"));
  run(recipe::magnitude(0.25, MaskScope::row) | recipe::rtn("f32"));
  for (const auto& [name, w] : matrices_of(result())) {
    CAPTURE(name);
    for (std::int64_t r = 0; in_block(name) && r < w.extent(0); ++r) CHECK(std::count(&w(r, 0), &w(r, 0) + w.extent(1), 0.0f) == w.extent(1) / 4);
  }
  const std::string spared = "model.layers.1.mlp.up_proj";
  run(Pruning{PruneMethod::magnitude_model, 0.4}.except(spared, {}) | recipe::rtn("f32"));
  std::vector<float> gone, left;
  for (const auto& [name, w] : matrices_of(result())) {
    const Tensor<float, 2>& original = before.at(name);
    if (!in_block(name) || name == spared) {
      CHECK(std::ranges::equal(w.span(), original.span()));
      continue;
    }
    for (std::int64_t i = 0; i < w.size(); ++i) (w.data()[i] == 0 ? gone : left).push_back(std::fabs(original.data()[i]));
  }
  const auto weights = static_cast<double>(gone.size() + left.size());
  CHECK(static_cast<double>(gone.size()) == doctest::Approx(0.4 * weights).epsilon(0.002));  // each matrix loses whole weights
  // Up to the sizes that are counted as one.
  CHECK(std::ranges::max(gone) <= std::ranges::min(left) * (1 + 1.0f / 128));
}

TEST_CASE_FIXTURE(Pass, "exceptions lose their own shares, whatever the method and the rounding") {
  for (const PruneMethod method : prune_methods) {
    for (const char* format : {"f32", "i4z.g32"}) {
      CAPTURE(std::string(name_of(method)));
      CAPTURE(std::string(format));
      const Method rounding = format[0] == 'f' ? Method::rtn : Method::gptq;
      const Report report = run(Pruning{method, {2, 4}}.except("*.layers.0.*", {}).except("*.0.*.down_proj", 0.25) | recipe::with(rounding, format));
      for (const LayerReport& layer : report.layers) {
        CAPTURE(layer.name);
        const bool first = layer.name.find(".layers.0.") != std::string::npos, down = layer.name.find("0.mlp.down_proj") != std::string::npos;
        CHECK(layer.sparsity.has_value() == (in_block(layer.name) && (!first || down)));
        if (layer.sparsity && format[0] == 'f' && method != PruneMethod::sparsegpt) CHECK(*layer.sparsity == (down ? 0.25 : 0.5));
        if (layer.sparsity) CHECK(*layer.sparsity >= (down ? 0.249 : 0.499));
      }
    }
  }
}

TEST_CASE_FIXTURE(Pass, "a model in memory is pruned as its file is, rotated and smoothed, and a resumed run writes the same") {
  const Model model = Model::load(folder / "hf");
  for (const PruneMethod method : prune_methods) {
    for (const char* change : {"none", "rotate", "smooth", "at once", "floats"}) {
      CAPTURE(std::string(name_of(method)));
      CAPTURE(std::string(change));
      MethodOptions options;
      if (change[0] == 'r') options.rotation = 3;
      if (change[0] == 's') options.smooth = 0.5;
      options.true_sequential = change[0] != 'a';
      const Recipe rounding = change[0] == 'f' ? recipe::rtn("f32") : recipe::gptq("i4.g32", {}, options);
      const Recipe plan = Pruning{method, {2, 4}} | rounding;
      const Report whole = run(plan);
      const std::string bytes = read_file(folder / "m.bantam");
      const auto [small, report] = compress(model, plan, {}, calibration);
      CHECK(report.sparsity == whole.sparsity);
      small.save(folder / "saved.bantam");
      for (const auto& [name, w] : matrices_of(Checkpoint::open(folder / "saved.bantam"))) {
        CHECK(std::ranges::equal(w.span(), matrices_of(result()).at(name).span()));
      }
      CHECK_THROWS_AS(run(plan, folder / "m.journal", 14), Error);
      const Report resumed = run(plan, folder / "m.journal");
      CHECK(resumed.resumed_blocks == 2);
      CHECK(resumed.sparsity == whole.sparsity);
      CHECK(read_file(folder / "m.bantam") == bytes);
      CHECK_THROWS_AS(run(plan, folder / "m.journal", 14), Error);
      CHECK(run(Pruning{method, {4, 8}} | rounding, folder / "m.journal").resumed_blocks == 0);
    }
  }
}

TEST_CASE_FIXTURE(WidePass, "formats that hold some of the weights give the model that dense ones do, at any number of threads") {
  for (const auto& [sparse, dense] : {std::pair{"i4s.g64", "i4.g64"}, {"i4b.g128", "i4.g128"}}) {
    // Of patterns the other magnitudes remove the same.
    for (const PruneMethod method : {PruneMethod::magnitude, PruneMethod::wanda, PruneMethod::sparsegpt}) {
      for (const Method rounding : {Method::rtn, Method::gptq, Method::awq, Method::awq_gptq}) {
        const bool quick_one = std::string_view(sparse) == "i4s.g64" ? method == PruneMethod::magnitude && rounding == Method::gptq : method == PruneMethod::sparsegpt && rounding == Method::awq_gptq;
        if (quick() && !quick_one) continue;
        CAPTURE(std::string(sparse));
        CAPTURE(std::string(name_of(method)));
        CAPTURE(std::string(name_of(rounding)));
        const auto recipe = [&](const char* format) {
          return Pruning{method, sparsity_of(find_format(sparse))} | recipe::with(rounding, format, {}, {.awq = {.ratios = 1, .weigh_weights = false}});
        };
        const auto text = some_tokens();
        run(recipe(dense));
        const auto expected = matrices_of(result());
        const std::vector<float> logits = logits_of(Model::load(folder / "m.bantam"), text);
        set_parallel_threads(3);
        run(recipe(sparse));
        set_parallel_threads(1);
        const Checkpoint written = result();
        for (const CheckpointTensor& tensor : written.tensors()) {
          if (tensor.is_matrix && tensor.layer >= 0) CHECK(tensor.format().name == sparse);
        }
        for (const auto& [name, w] : matrices_of(result())) CHECK(std::ranges::equal(w.span(), expected.at(name).span()));
        // Sums of integers are exact, and what is not there adds 0 to them.
        CHECK(logits_of(Model::load(folder / "m.bantam"), text) == logits);
      }
    }
  }
}

TEST_CASE_FIXTURE(Pass, "a format that holds some of the weights chooses them when rounding to nearest, and asks for pruning else") {
  calibration = {};
  run(recipe::rtn("i4s"));
  for (const auto& [name, w] : matrices_of(result())) {
    for (std::int64_t i = 0; in_block(name) && i < w.size(); i += 4) CHECK(std::count(w.data() + i, w.data() + i + 4, 0.0f) >= 2);
  }
  calibration = some_calibration();
  run(recipe::rtn("i4b").keep("lm_head.weight", "i8s"));
  const auto refused = [&](const Recipe& plan) { return error_of([&] { run(plan); }); };
  const std::string first = "model.layers.0.self_attn.q_proj: ";
  CHECK(refused(recipe::gptq("i4s")) == first + "i4s.g64 holds what pruning by 2:4 leaves: expected --prune wanda:2:4 or sparsegpt:2:4, found none");
  CHECK(refused(recipe::wanda({2, 4}) | recipe::awq("i4b")) ==
        first + "i4b.g128 holds what pruning by 16x4 leaves: expected --prune wanda:16x4 or sparsegpt:16x4, found wanda:2:4");
  CHECK(refused(recipe::magnitude(0.5) | recipe::rtn("i8s")).find("expected --prune wanda:2:4 or sparsegpt:2:4, found magnitude:0.5") != std::string::npos);
  CHECK(refused(recipe::gptq("i4").keep("*.1.*.up_proj", "i4b")).find("model.layers.1.mlp.up_proj: i4b.g128 holds") == 0);
  const std::vector<const FormatInfo*> candidates{&find_format("i4s"), &find_format("i8")};
  CHECK(error_of([&] { (void)measure_sensitivity(Checkpoint::open(folder / "hf"), recipe::gptq("i4"), calibration, Target::native, {.candidates = candidates}); })
            .find("candidates: i4s.g64 holds what pruning by 2:4 leaves") == 0);
}

TEST_CASE_FIXTURE(Pass, "what cannot be pruned is refused by name before anything is rounded") {
  int done = 0;
  const auto refused = [&](const Recipe& plan) {
    return error_of([&] {
      compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", plan, Target::native, [&](const Progress&) { return ++done, true; }, calibration);
    });
  };
  const std::string first = "model.layers.0.self_attn.q_proj: ";
  CHECK(refused(recipe::magnitude(0.5) | recipe::rtn("i4m")).find(first + "expected a format that holds 0 exactly, to prune, found i4m") == 0);
  CHECK(refused(recipe::wanda(0.5) | recipe::rtn("i4").keep("*.1.*.down_proj", "q4_k")).find("model.layers.1.mlp.down_proj: expected a format that holds 0") == 0);
  CHECK(refused(recipe::wanda({2, 7}) | recipe::rtn("i4")) == first + "pruning: expected rows of whole 7s for 2:7, found rows of 40");
  CHECK_THROWS_AS((void)plan_file(Checkpoint::open(folder / "hf"), recipe::wanda({2, 7}) | recipe::rtn("i4")), Error);
  calibration = {};
  CHECK(refused(recipe::wanda(0.5) | recipe::rtn("i4")) == "calibration: expected text, found none");
  CHECK(done == 0);
  CHECK(error_of([] { (void)(recipe::wanda(1.5) | recipe::rtn("i4")); }) == "pruning: expected a share above 0 and below 1, found 1.5");
  CHECK(error_of([] { (void)recipe::with(Method::rtn, "i4", {}, {.pruning = Pruning{}}); }) == "pruning: expected a share above 0 and below 1, found 0");
}

TEST_CASE("of a trained model: sparsegpt diverges least, then wanda, magnitude far behind; patterns cost more") {
  if (skips_figures()) return;
  const Model model = Model::load(BANTAM_SOURCE_DIR "/models/books4m");
  const std::string text(default_calibration_text());
  // Calibrated on the first half, measured on the second.
  const std::string_view half = std::string_view(text).substr(0, text.size() / 2), rest = std::string_view(text).substr(text.size() / 2);
  const Calibration calibration = Calibration::from_text(model.tokenizer(), half, 24, 256);
  const auto divergence = [&](PruneMethod method, const Sparsity& amount) {
    const Model pruned = compress(model, Pruning{method, amount} | recipe::rtn("f32"), {}, calibration).first;
    return *perplexity(pruned, rest, {.limit = 1000, .kv = "f32"}, &model).kl_mean;
  };
  const std::vector<Sparsity> amounts{0.5, {4, 8}, {2, 4}};
  std::map<PruneMethod, std::vector<double>> found;
  for (const PruneMethod method : prune_methods) {
    for (const Sparsity& amount : amounts) found[method].push_back(divergence(method, amount));
    MESSAGE(std::string(name_of(method)), ": 0.5 ", found[method][0], ", 4:8 ", found[method][1], ", 2:4 ", found[method][2]);
    if (method != PruneMethod::magnitude_model) CHECK(found[method][0] < found[method][1]);
    CHECK(found[method][1] < found[method][2]);
  }
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    CHECK(found[PruneMethod::sparsegpt][i] <= found[PruneMethod::wanda][i]);
    CHECK(found[PruneMethod::wanda][i] < 0.8 * found[PruneMethod::magnitude][i]);
  }
  const Recipe alone = recipe::with(Method::rtn, "f32", {}, {.follow_original = 0, .pruning = recipe::sparsegpt(0.5)});
  const double unguided = *perplexity(compress(model, alone, {}, calibration).first, rest, {.limit = 1000, .kv = "f32"}, &model).kl_mean;
  MESSAGE("sparsegpt: 0.5, not following the original: ", unguided);
  CHECK(found[PruneMethod::sparsegpt][0] < 0.95 * unguided);
}

}  // namespace
}  // namespace bantam::test
