// Sensitivities against models that were really changed, plans against files that were really written.
#include <cmath>

#include "compress/fitting.hpp"
#include "limits.hpp"

namespace bantam::test {
namespace {

const std::vector<const FormatInfo*> some = {&find_format("i2z.g32"), &find_format("i4.g32"), &find_format("i8.g32"),
                                             &find_format("f16")};

TEST_CASE("the divergence of a matrix is that of a model with this matrix changed") {
  for (const auto& [tied, rotation] : {std::pair<bool, std::optional<std::uint64_t>>{false, {}}, {true, {}}, {true, 3}}) {
    for (const Method method : {Method::rtn, Method::gptq, Method::hqq}) {
      CAPTURE(tied);
      CAPTURE(rotation.has_value());
      CAPTURE(std::string(name_of(method)));
      const Fitting f(tied);
      const bool own_head = !tied || rotation;  // the final norm's weights are not all the same
      const Recipe base(find_format("f32"), method, {.rotation = rotation});
      const auto found =
          f.measure(base, {.candidates = {&find_format("i4m.g32"), &find_format("i3.g32")}, .measured = 2});
      CHECK(found.size() == (own_head ? 16 : 15));
      for (const char* name :
           {"model.embed_tokens", "lm_head", "model.layers.0.self_attn.k_proj", "model.layers.0.mlp.down_proj",
            "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.up_proj"}) {
        if (!own_head && std::string_view(name) == "lm_head") continue;
        for (const char* format : {"i4m.g32", "i3.g32"}) {
          if (quick() && (std::string_view(name).starts_with("model.layers.1") || std::string_view(format) != "i3.g32")) continue;
          CAPTURE(std::string(name));
          compress_file(*f.checkpoint, f.folder / "one.bantam", Recipe(base).keep(name, format), Target::native, {},
                        f.calibration);
          const FormatCost& cost = cost_of(found, name, format);
          CHECK(cost.measured);
          CHECK(cost.kl > 0);
          // The same matrix, the same products: what differs is the rounding of floats to and from logits.
          CHECK(cost.kl == doctest::Approx(f.divergence_of("one.bantam")).epsilon(1e-3));
        }
      }
    }
  }
}

TEST_CASE("divergences are measured with every architecture's own norms and scales") {
  for (const ArchSpec* arch : dense_architectures()) {
    CAPTURE(std::string(arch->name));
    const Fitting f(false, {.arch = arch});
    if (arch->find(Role::head) == nullptr) {
      CHECK(error_of([&] { (void)f.measure(recipe::rtn("f32"), {.candidates = {&find_format("i4m.g32")}, .measured = 1}); }).find("expected a model that makes logits") != std::string::npos);
      continue;
    }
    if (arch->encodes) {
      CHECK(error_of([&] { (void)f.measure(recipe::rtn("f32"), {.candidates = {&find_format("i4m.g32")}, .measured = 1}); }).find("of a decoder behind an encoder: not yet") != std::string::npos);
      continue;
    }
    const auto found = f.measure(recipe::rtn("f32"), {.candidates = {&find_format("i4m.g32"), &find_format("i3.g32")}, .measured = 2});
    for (const CheckpointTensor& tensor : f.checkpoint->tensors()) {
      if (tensor.layer != 1 || (tensor.role != Role::o && tensor.role != Role::down)) continue;
      CAPTURE(tensor.name);
      compress_file(*f.checkpoint, f.folder / "one.bantam", recipe::rtn("f32").keep(tensor.name, "i3.g32"), Target::native, {}, f.calibration);
      const FormatCost& cost = cost_of(found, tensor.name, "i3.g32");
      CHECK(cost.measured);
      CHECK(cost.kl == doctest::Approx(f.divergence_of("one.bantam")).epsilon(1e-3));
    }
  }
}

TEST_CASE("the divergence of a pruned matrix is that of a model with this matrix pruned and changed") {
  for (const auto& [pruning, method] : {std::pair{recipe::wanda(0.5), Method::rtn}, {recipe::sparsegpt(0.5), Method::gptq},
                                        {recipe::magnitude(0.5, MaskScope::row), Method::gptq}}) {
    CAPTURE(pruning.text());
    const Fitting f;
    const Recipe base(find_format("f32"), method);
    const auto found = f.measure(pruning | base, {.candidates = {&find_format("i4.g32"), &find_format("f16")}, .measured = 2});
    for (const char* name : {"model.layers.0.self_attn.k_proj", "model.layers.1.mlp.down_proj"}) {
      for (const char* format : {"i4.g32", "f16"}) {
        CAPTURE(std::string(name));
        CAPTURE(std::string(format));
        const FormatCost& cost = cost_of(found, name, format);
        if (!cost.measured) continue;  // of floats, where there are others
        Pruning one = pruning;
        one.except("*", {}).except(name, pruning.sparsity);
        compress_file(*f.checkpoint, f.folder / "one.bantam", (one | base).keep(name, format), Target::native, {}, f.calibration);
        CHECK(cost.kl > 0);
        CHECK(cost.kl == doctest::Approx(f.divergence_of("one.bantam")).epsilon(1e-3));
      }
    }
    // A matrix's own format counts as changed where it is pruned; formats that do not hold zeros are no choice for it.
    const auto stored = f.measure(pruning | base, {.measured = 1});
    for (const Sensitivity& one : stored) {
      const bool pruned = one.name.find("layers.") != std::string::npos;
      for (const FormatCost& cost : one.formats) CHECK((!pruned || (holds_zero(*cost.format) && cost.kl > 0)));
    }
  }
}

TEST_CASE("finer formats err less, and what is not measured lies between what is") {
  const Fitting f;
  const auto all = f.measure(recipe::rtn("f32"), {.candidates = some, .measured = 4});
  const auto few = f.measure(recipe::rtn("f32"), {.candidates = some, .measured = 2});
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    REQUIRE(all[i].formats.size() == 4);
    for (std::size_t k = 1; k < 4; ++k) CHECK(all[i].formats[k].error < all[i].formats[k - 1].error);
    const std::vector<FormatCost>& formats = few[i].formats;
    const bool table = all[i].name == "lm_head" || all[i].name == "model.embed_tokens";
    CHECK(formats[0].measured);
    CHECK(formats[1].measured == table);
    CHECK(formats[2].measured);
    for (std::size_t k = 0; k < 4; ++k) {
      CHECK(formats[k].error == all[i].formats[k].error);
      if (formats[k].measured) CHECK(formats[k].kl == all[i].formats[k].kl);
    }
    CHECK(formats[0].kl > formats[1].kl);
    CHECK(formats[1].kl > formats[2].kl);
    CHECK(formats[2].kl > formats[3].kl);
    // The point between two, guessed from their errors.
    CHECK(std::fabs(std::log(formats[1].kl / all[i].formats[1].kl)) < std::log(2.0));
  }
}

TEST_CASE("what some rows say of a format whose codes are searched for is near what all of them say") {
  if (skips_figures()) return;
  const Fitting f(false, {.dim = 256, .layers = 1, .heads = 4, .head_dim = 64, .ffn = 512});
  const Recipe base(find_format("f32"), Method::rtn);
  const FormatInfo *const trellis = &find_format("t1h.g128"), *const vectors = &find_format("iq2_xxs.g32");
  using Formats = std::vector<const FormatInfo*>;
  for (const auto& [candidates, target] : {std::pair{Formats{trellis, &find_format("i2z.g64")}, Target::native},
                                           {Formats{vectors, &find_format("q2_k"), &find_format("q4_0")}, Target::gguf}}) {
    const std::string searched(candidates.front()->name);
    CAPTURE(searched);
    // Alone it is measured, on all rows.
    const auto whole = f.measure(base, {.candidates = {candidates.front()}, .measured = 1}, target), some = f.measure(base, {.candidates = candidates, .measured = 1}, target);
    int estimated = 0;
    for (const Sensitivity& one : whole) {
      CAPTURE(one.name);
      const FormatCost &expected = cost_of(whole, one.name, searched), &found = cost_of(some, one.name, searched);
      CHECK(expected.measured);
      CHECK(found.error == doctest::Approx(expected.error).epsilon(0.04));
      estimated += found.measured ? 0 : 1;
      // By what is measured of another format, and the errors of both.
      CHECK(std::fabs(std::log(found.kl / expected.kl)) < std::log(2.0));
    }
    CHECK(estimated == (target == Target::native ? 9 : 7));  // tables have their coarsest format of vectors measured
  }
}

TEST_CASE("without candidates named, trellises are among a native file's, and types of vectors among GGUF's") {
  if (skips_figures()) return;
  const Fitting f(true, {.dim = 256, .layers = 1, .heads = 4, .head_dim = 64, .ffn = 256});
  for (const auto& [target, coarsest, searched] : {std::tuple{Target::native, "t1h.g128", 4}, {Target::gguf, "iq1_s.g32", 7}}) {
    const auto found = f.measure(recipe::rtn("i4.g32"), {.measured = 2}, target);
    for (const Sensitivity& one : found) {
      CAPTURE(one.name);
      CHECK(one.formats.front().format->name == coarsest);
      CHECK(std::ranges::count_if(one.formats, [](const FormatCost& cost) { return cost.format->step_bits != 0 || cost.format->vectors != nullptr; }) == searched);
      for (const FormatCost& cost : one.formats) {
        CHECK((cost.kl > 0 || cost.format->is_float));
        CHECK((!cost.measured || cost.format->step_bits == 0));
      }
    }
    const double bits = target == Target::native ? 2.0 : 2.2;
    const Plan plan = fit(*f.checkpoint, recipe::rtn("i4.g32"), found, {.bits_per_weight = bits}, target).plan;
    CHECK(plan.bits_per_weight <= bits);
    CHECK(plan.bits_per_weight > 0.97 * bits);  // of seven small matrices and a table
  }
}

TEST_CASE("rows that trellises would have to fill up get none") {
  const Fitting narrow(true, {.dim = 64, .layers = 1, .heads = 4, .head_dim = 16, .ffn = 96});
  for (const Sensitivity& one : narrow.measure(recipe::rtn("i4.g32"), {.measured = 1})) CHECK(one.formats.front().format->name == "i2z.g64");
}

TEST_CASE("divergence between points follows powers of the error") {
  using Points = std::vector<std::pair<double, double>>;
  const Points points{{0.1, 0.02}, {0.4, 0.5}, {0.01, 1e-4}};
  for (const auto& [error, kl] : points) CHECK(interpolate_divergence(points, error) == doctest::Approx(kl));
  CHECK(interpolate_divergence(points, 0.2) == doctest::Approx(0.1));  // halfway in logarithms
  CHECK(interpolate_divergence(points, 0.005) == doctest::Approx(1e-4 / 4));
  CHECK(interpolate_divergence(points, 0.8) == doctest::Approx(2.0));
  CHECK(interpolate_divergence(points, 0) == 0);
  CHECK(interpolate_divergence(Points{}, 0.3) == 0);
  CHECK(interpolate_divergence(Points{{0.1, 0.0}, {0.2, 0.04}}, 0.1) ==
        doctest::Approx(0.01));  // a point of nothing says nothing
}

TEST_CASE("plans know the size of every file to the byte") {
  const Fitting f;
  for (const auto& [target, name] :
       {std::pair{Target::native, "x.bantam"}, {Target::gguf, "x.gguf"}, {Target::safetensors, "x"}}) {
    for (const char* format : {"f32", "f16", "i8.g32", "q4_0"}) {
      if (target == Target::safetensors && !find_format(format).is_float) continue;
      CAPTURE(std::string(name));
      CAPTURE(std::string(format));
      const Recipe recipe = recipe::rtn(format).keep("*.0.mlp.up_proj", "f16").keep("lm_head", "f16");
      const Plan plan = plan_file(*f.checkpoint, recipe, target);
      CHECK_FALSE(std::filesystem::exists(f.folder / name));
      const Report report = compress_file(*f.checkpoint, f.folder / name, recipe, target);
      CHECK(plan.bytes == report.bytes_after);
      CHECK(plan.bytes_before == report.bytes_before);
      REQUIRE(plan.matrices.size() == report.layers.size());
      std::int64_t weights = 0, bytes = 0;
      for (std::size_t i = 0; i < plan.matrices.size(); ++i) {
        CHECK(plan.matrices[i].name == report.layers[i].name);
        CHECK(plan.matrices[i].format->name == report.layers[i].format);
        if (target == Target::native) CHECK(plan.matrices[i].bytes == report.layers[i].bytes_after);
        weights += plan.matrices[i].weights;
        bytes += plan.matrices[i].bytes;
      }
      CHECK(plan.bits_per_weight == doctest::Approx(8.0 * static_cast<double>(bytes) / static_cast<double>(weights)));
      std::filesystem::remove_all(f.folder / name);
    }
  }
}

TEST_CASE("a fit lies within its budget, keeps what is to be kept, and becomes the file that it planned") {
  // Rows of whole blocks, which GGUF wants.
  const Fitting f(false, {.dim = 64, .heads = 4, .head_dim = 16, .ffn = 96});
  for (const auto& [target, name] : {std::pair{Target::native, "x.bantam"}, {Target::gguf, "x.gguf"}}) {
    CAPTURE(std::string(name));
    std::vector<const FormatInfo*> candidates = some;
    if (target == Target::gguf) candidates = {&find_format("q4_0"), &find_format("q8_0"), &find_format("f16")};
    const Recipe base = recipe::rtn("i4.g32").keep("*.1.mlp.gate_proj", "f16");
    const auto sensitivities = f.measure(base, {.candidates = candidates, .measured = 2}, target);
    std::int64_t last = 0;
    double last_kl = 1e9;
    const std::int64_t most =
        fit(*f.checkpoint, base, sensitivities, {.bytes = std::int64_t{1} << 40}, target).plan.bytes;
    for (const std::int64_t budget : {most * 8 / 10, most * 9 / 10, most, most * 2}) {
      CAPTURE(budget);
      const Fit found = fit(*f.checkpoint, base, sensitivities, {.bytes = budget}, target);
      CHECK(found.plan.bytes <= budget);
      CHECK(found.plan.bytes >= last);
      CHECK(found.expected_kl <= last_kl);
      CHECK(found.at_best == (budget >= most));
      last = found.plan.bytes;
      last_kl = found.expected_kl;
      const Report report = compress_file(*f.checkpoint, f.folder / name, found.recipe, target, {}, f.calibration);
      CHECK(report.bytes_after == found.plan.bytes);
      double sum = 0;
      for (std::size_t i = 0; i < report.layers.size(); ++i) {
        CHECK(report.layers[i].format == found.plan.matrices[i].format->name);
        if (report.layers[i].name == "model.layers.1.mlp.gate_proj") CHECK(report.layers[i].format == "f16");
        sum += found.kl[i];
      }
      CHECK(found.expected_kl == doctest::Approx(sum));
      for (const Choice& point : found.trade_off)
        CHECK((point.bytes <= found.plan.bytes || point.cost <= found.expected_kl));
    }
    const double bits = 0.9 * fit(*f.checkpoint, base, sensitivities, {.bytes = most}, target).plan.bits_per_weight;
    CHECK(fit(*f.checkpoint, base, sensitivities, {.bits_per_weight = bits}, target).plan.bits_per_weight <= bits);
  }
}

TEST_CASE("types that GGUF files alone have are fitted, too, those of one format in memory apart") {
  const Fitting f(false, {.dim = 256, .layers = quick() ? 1 : 2, .heads = 4, .head_dim = 64, .ffn = 256});
  const Recipe base = recipe::rtn("i4.g32");
  const auto sensitivities = f.measure(base, {.candidates = {&find_format("iq2_xs.g16"), &find_format("iq2_s.g16")}, .measured = 2}, Target::gguf);
  for (const double bits : {2.33, 2.57}) {  // of one type, and of the other
    const Fit found = fit(*f.checkpoint, base, sensitivities, {.bits_per_weight = bits}, Target::gguf);
    const Report report = compress_file(*f.checkpoint, f.folder / "x.gguf", found.recipe, Target::gguf);
    CHECK(report.bytes_after == found.plan.bytes);
    CHECK(report.bits_per_weight <= bits);
    for (std::size_t i = 0; i < report.layers.size(); ++i) CHECK(report.layers[i].format == found.plan.matrices[i].format->name);
  }
}

TEST_CASE("a rotated fit lies within its budget, its untied head counted, and becomes the file that it planned") {
  const Fitting f(true);
  const Recipe base = recipe::with(Method::gptq, "i4.g32", {}, {.rotation = 5});
  const auto sensitivities = f.measure(base, {.candidates = some});
  const Fit found = fit(*f.checkpoint, base, sensitivities, {.bits_per_weight = 9});
  CHECK(found.plan.bits_per_weight <= 9);
  CHECK(found.plan.matrices.size() == 16);
  const Report report = compress_file(*f.checkpoint, f.folder / "fit.bantam", found.recipe, Target::native, {}, f.calibration);
  CHECK(report.bytes_after == found.plan.bytes);
  for (std::size_t i = 0; i < report.layers.size(); ++i) CHECK(report.layers[i].format == std::string(found.plan.matrices[i].format->name));
}

TEST_CASE("a model that is stored in few bits may stay as it is") {
  Fitting f;
  compress_file(*f.checkpoint, f.folder / "small.bantam", recipe::rtn("i4.g32").keep("*", "i4.g32"));
  f.checkpoint.emplace(Checkpoint::open(f.folder / "small.bantam"));
  const auto sensitivities = f.measure(recipe::rtn("i4.g32"), {.candidates = some});
  for (const Sensitivity& one : sensitivities) {
    CHECK(cost_of(sensitivities, one.name, "i4.g32").kl == 0);
    CHECK(cost_of(sensitivities, one.name, "i2z.g32").kl > 0);
  }
  const Fit found = fit(*f.checkpoint, recipe::rtn("i4.g32"), sensitivities, {.bits_per_weight = 16});
  CHECK(found.expected_kl == 0);
  for (const Plan::Matrix& matrix : found.plan.matrices) CHECK(matrix.format->name == "i4.g32");
}

TEST_CASE("budgets that cannot be met name the sizes that can") {
  const Fitting f;
  const Recipe base = recipe::rtn("i4.g32");
  auto sensitivities = f.measure(base, {.candidates = some, .measured = 1});
  const auto says = [&](const Budget& budget, const std::string& word) {
    const std::string text = error_of([&] { (void)fit(*f.checkpoint, base, sensitivities, budget); });
    CHECK_MESSAGE(text.find(word) != std::string::npos, text);
  };
  const Plan least = plan_file(*f.checkpoint, recipe::rtn("i2z.g32").keep("*", "i2z.g32"));
  says({.bytes = 1000}, " bytes, found 1000");
  says({.bytes = least.bytes - 5000}, "expected ");
  says({.bits_per_weight = 1.5}, "bits a weight, found 1.5");
  says({}, "above 0");
  says({.bytes = 1, .bits_per_weight = 2}, "above 0");
  says({.bits_per_weight = std::nan("")}, "above 0");
  sensitivities.pop_back();
  says({.bits_per_weight = 5}, "found others");
}

TEST_CASE("measuring can be cancelled, and refuses what cannot be measured") {
  const Fitting f;
  int seen = 0;
  CHECK_THROWS_AS(
      (void)measure_sensitivity(*f.checkpoint, recipe::rtn("i4.g32"), f.calibration, Target::native,
                                {.candidates = some}, [&](const Progress& p) { return ++seen < 4 && p.total == 16; }),
      Error);
  CHECK(seen == 4);
  CHECK(error_of([&] {
          (void)f.measure(recipe::rtn("i4.g32"), {.candidates = {&find_format("nf4")}}, Target::gguf);
        }).find("candidates: expected one that such files have") != std::string::npos);
  CHECK(error_of([&] { (void)f.measure(recipe::wanda(0.5) | recipe::rtn("i4.g32"), {.candidates = {&find_format("i4m")}}); }) ==
        "candidates: expected formats that hold 0 exactly, to prune, found i4m.g32");
  CHECK(error_of([&] { (void)f.measure(recipe::rtn("i4.g32"), {.measured = 0}); }).find("at least one") !=
        std::string::npos);
  CHECK(error_of([&] { (void)measure_sensitivity(*f.checkpoint, recipe::rtn("i4.g32"), {}); }).find("expected text") !=
        std::string::npos);
}

}  // namespace
}  // namespace bantam::test
