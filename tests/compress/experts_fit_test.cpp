// Mixed precision over mixtures of experts: one format for what all experts of a layer read alike.
#include <set>

#include "bantam/model/expert_names.hpp"
#include "compress/fitting.hpp"
#include "limits.hpp"

namespace bantam::test {
namespace {

const std::vector<const FormatInfo*> few_formats = {&find_format("i3.g32"), &find_format("i8.g32"), &find_format("f16")};

/// The recipe with one format for a role of all experts of layer 1.
Recipe keeping(Recipe recipe, const Checkpoint& checkpoint, Role role, std::string_view format) {
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    if (tensor.role == role && tensor.layer == 1 && tensor.expert == 0) recipe.keep(name_of_experts(tensor.name, 0), format);
  }
  return recipe;
}

const CheckpointTensor& first_expert(const Checkpoint& checkpoint, Role role) {
  const auto found = std::ranges::find_if(checkpoint.tensors(), [&](const CheckpointTensor& t) { return t.role == role && t.layer == 1; });
  REQUIRE(found != checkpoint.tensors().end());
  return *found;
}

TEST_CASE("the divergence of a layer's experts is that of a model with all of them changed") {
  std::vector<const ArchSpec*> tried = {&archs::glm4_moe, &archs::cohere2_moe};
  if (!quick()) tried = few_architectures();
  for (const ArchSpec* arch : tried) {
    if (!arch->has_experts()) continue;
    CAPTURE(std::string(arch->name));
    const Fitting f(false, {.arch = arch, .layers = 3, .biases = true});
    for (const Method method : {Method::rtn, Method::gptq, Method::hqq}) {
      if (method != Method::gptq && arch != &archs::glm4_moe) continue;
      CAPTURE(std::string(name_of(method)));
      const Recipe base(find_format("f32"), method);
      const auto found = f.measure(base, {.candidates = {&find_format("i4m.g32"), &find_format("i3.g32")}, .measured = 2});
      for (const char* format : {"i4m.g32", "i3.g32"}) {
        CAPTURE(std::string(format));
        const auto agrees = [&](Recipe changed, Role role) {
          compress_file(*f.checkpoint, f.folder / "one.bantam", changed, Target::native, {}, f.calibration);
          const FormatCost& cost = cost_of(found, first_expert(*f.checkpoint, role).name, format);
          CHECK(cost.measured);
          CHECK(cost.kl > 0);
          CHECK(cost.error > 0);
          CHECK(cost.kl == doctest::Approx(f.divergence_of("one.bantam")).epsilon(1e-3));
        };
        const Role first = arch->find(Role::expert_gate, true) != nullptr ? Role::expert_gate : Role::expert_up;
        agrees(keeping(keeping(base, *f.checkpoint, Role::expert_gate, format), *f.checkpoint, Role::expert_up, format), first);
        agrees(keeping(base, *f.checkpoint, Role::expert_down, format), Role::expert_down);
      }
    }
  }
}

TEST_CASE("experts of a layer are measured together, routers not at all, whatever their number") {
  for (const std::int64_t experts : {6, 24}) {
    const Fitting f(false, {.arch = &archs::qwen2_moe, .experts = experts});
    const auto found = f.measure(recipe::rtn("f32"), {.candidates = few_formats, .measured = 1});
    // Embedding and head; of each layer q, k, v, o, gate, up and down of the shared expert, the router, experts' gate and up, and down.
    CHECK(found.size() == 2 + 2 * 10);
    std::size_t matrices = 0;
    for (const Sensitivity& one : found) {
      matrices += 1 + one.others.size();
      const bool router = one.name.ends_with("mlp.gate");
      if (router) CHECK((one.formats.size() == 1 && one.formats[0].kl == 0 && one.formats[0].format->is_float));
      if (one.name.find("experts.") != std::string::npos) CHECK(one.others.size() + 1 == static_cast<std::size_t>(one.name.ends_with("down_proj") ? experts : 2 * experts));
    }
    CHECK(matrices == static_cast<std::size_t>(2 + 2 * (8 + 3 * experts)));
  }
}

TEST_CASE("a fit over experts lies within its budget and becomes the file that it planned") {
  std::size_t turn = 0;
  for (const ArchSpec* arch : {&archs::qwen2_moe, &archs::glm4_moe, &archs::gpt_oss}) {
    CAPTURE(std::string(arch->name));
    const Fitting f(false, {.arch = arch, .dim = 64, .heads = 4, .head_dim = 16, .ffn = 96, .expert_ffn = 32});
    for (const auto& [target, name] : {std::pair{Target::native, "x.bantam"}, {Target::gguf, "x.gguf"}}) {
      CAPTURE(std::string(name));
      std::vector<const FormatInfo*> candidates = few_formats;
      if (target == Target::gguf) candidates = {&find_format("q4_0"), &find_format("q8_0"), &find_format("f16")};
      // Of an optimized build all, else each of them twice.
      std::vector<Method> methods{Method::rtn, Method::gptq, Method::awq};
      if (quick()) methods = {methods[turn++ % methods.size()]};
      for (const Method method : methods) {
        CAPTURE(std::string(name_of(method)));
        const Recipe base = recipe::with(method, "i4.g32", {}, {.awq = {.ratios = 3, .weigh_weights = false}});
        const auto sensitivities = f.measure(base, {.candidates = candidates, .measured = 2}, target);
        const Fit whole = fit(*f.checkpoint, base, sensitivities, {.bytes = std::int64_t{1} << 40}, target);
        const std::int64_t least = whole.trade_off.front().bytes, most = whole.plan.bytes;
        double last_kl = 1e9;
        for (const std::int64_t budget : {least + (most - least) * 3 / 10, least + (most - least) * 7 / 10, most}) {
          CAPTURE(budget);
          const Fit found = fit(*f.checkpoint, base, sensitivities, {.bytes = budget}, target);
          CHECK(found.plan.bytes <= budget);
          CHECK(found.expected_kl <= last_kl);
          last_kl = found.expected_kl;
          const Report report = compress_file(*f.checkpoint, f.folder / name, found.recipe, target, {}, f.calibration);
          CHECK(report.bytes_after == found.plan.bytes);
          CHECK(std::filesystem::file_size(f.folder / name) == static_cast<std::uintmax_t>(found.plan.bytes));
          double sum = 0;
          std::map<std::string, std::set<std::string>> formats;
          for (std::size_t i = 0; i < report.layers.size(); ++i) {
            CHECK(report.layers[i].format == found.plan.matrices[i].format->name);
            sum += found.kl[i];
            const Plan::Matrix& matrix = found.plan.matrices[i];
            if (matrix.expert >= 0) formats[name_of_experts(matrix.name, matrix.expert)].insert(report.layers[i].format);
          }
          CHECK(found.expected_kl == doctest::Approx(sum));
          for (const auto& [experts, of_all] : formats) CHECK_MESSAGE(of_all.size() == 1, experts);
          // One exception for all experts of a layer, not one for each.
          CHECK(found.recipe.exceptions().size() < 30);
          for (const Recipe::Exception& exception : found.recipe.exceptions()) CHECK_MESSAGE(exception.pattern.find("router") == std::string::npos, exception.pattern);
        }
      }
    }
  }
}

TEST_CASE("experts that are to be kept in a format are, and the others of the layer take one together") {
  const Fitting f(false, {.arch = &archs::qwen3_moe});
  const Recipe base = recipe::rtn("i4.g32").keep("*.layers.1.*.experts.2.*", "f16");
  const auto sensitivities = f.measure(base, {.candidates = few_formats, .measured = 1});
  const Fit found = fit(*f.checkpoint, base, sensitivities, {.bits_per_weight = 16});
  const Report report = compress_file(*f.checkpoint, f.folder / "x.bantam", found.recipe);
  CHECK(report.bytes_after == found.plan.bytes);
  std::set<std::string> kept, others;
  for (const LayerReport& layer : report.layers) {
    if (layer.name.starts_with("model.layers.1.mlp.experts.") && layer.name.ends_with("down_proj")) (layer.name.find(".2.") != std::string::npos ? kept : others).insert(layer.format);
  }
  CHECK(kept == std::set<std::string>{"f16"});
  CHECK(others.size() == 1);
}

}  // namespace
}  // namespace bantam::test
