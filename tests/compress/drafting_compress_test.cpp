// Compression of models with a layer that drafts: it stays, rounded by itself, in every container.
#include "bantam/compress/compress.hpp"
#include "bantam/prune/structure.hpp"
#include "compress/fitting.hpp"

namespace bantam::test {
namespace {

TEST_CASE("every method keeps the layer that drafts, in the format that was asked for") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->may_draft()) continue;
    CAPTURE(std::string(arch->name));
    TinyModel tiny{.arch = arch, .drafts = true};
    tiny.make();
    const TemporaryFolder folder;
    tiny.write_folder(folder / "hf");
    const Checkpoint source = Checkpoint::open(folder / "hf");
    for (const Method method : {Method::rtn, Method::gptq, Method::awq}) {
      CAPTURE(std::string(name_of(method)));
      const Calibration calibration = method == Method::rtn ? Calibration{} : some_calibration();
      const Report report = compress_file(source, folder / "m.bantam", recipe::with(method, "i8.g32", {}, {.awq = {.ratios = 3, .weigh_weights = false}}), Target::native, {}, calibration);
      const Model model = Model::load(folder / "m.bantam");
      REQUIRE(model.config().drafting == tiny.sizes.drafting);
      CHECK(model.weights().drafting.front().drafting.projection.format().name == "i8.g32");
      std::int64_t drafting = 0;
      for (const CheckpointTensor& tensor : source.tensors()) drafting += tensor.is_drafting && tensor.is_matrix;
      CHECK(std::ranges::count_if(report.layers, [](const LayerReport& layer) { return layer.name.find("eh_proj") != std::string::npos || layer.name.starts_with("mtp."); }) >= 1);
      CHECK(drafting >= 5);
    }
    for (const Target target : {Target::gguf, Target::safetensors}) {
      const std::filesystem::path out = folder / (target == Target::gguf ? "m.gguf" : "out");
      compress_file(source, out, recipe::rtn("f32"), target);
      const Model model = Model::load(out), original = Model::load(folder / "hf");
      REQUIRE(model.config().drafting == tiny.sizes.drafting);
      CHECK(model.config().layers == tiny.sizes.layers);
      for (const CheckpointTensor& tensor : source.tensors()) {
        if (!tensor.is_drafting) continue;
        CAPTURE(tensor.name);
        REQUIRE(model.find(tensor.name) != nullptr);
        if (tensor.is_matrix) {
          CHECK(std::ranges::equal(matrix_of(model.weights(), tensor)->dequantize().span(), matrix_of(original.weights(), tensor)->dequantize().span()));
        } else {
          CHECK(*vector_of(model.weights(), tensor) == *vector_of(original.weights(), tensor));
        }
      }
      CHECK(logits_of(model, some_tokens()) == logits_of(original, some_tokens()));
    }
  }
}

TEST_CASE("fitting to a size leaves the layer that drafts the recipe's format, as the container has it, and counts it") {
  for (const ArchSpec* arch : architectures_by_parts()) {
    if (!arch->may_draft()) continue;
    CAPTURE(std::string(arch->name));
    const Fitting f(false, {.arch = arch, .drafts = true});
    for (const auto& [target, format] : {std::pair{Target::native, "i4.g32"}, {Target::gguf, "q4_k"}}) {
      CAPTURE(std::string(format));
      const Recipe base = recipe::rtn(format);
      Progress last;
      const auto keep_last = [&](const Progress& progress) {
        last = progress;
        return true;
      };
      const auto sensitivities = measure_sensitivity(*f.checkpoint, base, f.calibration, target, {.measured = 1}, keep_last);
      CHECK(last.done == last.total);
      const Fit found = fit(*f.checkpoint, base, sensitivities, {.bytes = std::int64_t{1} << 40}, target);
      const std::filesystem::path out = f.folder / (target == Target::gguf ? "m.gguf" : "m.bantam");
      compress_file(*f.checkpoint, out, found.recipe, target);
      const Model model = Model::load(out);
      REQUIRE(model.config().drafting == f.tiny.sizes.drafting);
      // No row of 36 numbers, nor of 72, is whole blocks of q4_k.
      CHECK(model.weights().drafting.front().drafting.projection.format().name == (target == Target::gguf ? "f16" : "i4.g32"));
    }
  }
}

TEST_CASE("models whose parts were removed have no layer that drafts") {
  TinyModel tiny{.arch = &archs::glm4_moe, .drafts = true};
  tiny.make();
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  const Checkpoint source = Checkpoint::open(folder / "hf");
  const std::vector<Removal> removals{parse_removal("experts:0.5")};
  const Checkpoint left = prune_structure(source, removals, some_calibration()).checkpoint;
  CHECK(left.config().drafting.empty());
  CHECK(std::ranges::none_of(left.tensors(), &CheckpointTensor::is_drafting));
  const Model model = Model::from_checkpoint(left);
  model.save(folder / "m.bantam");
  CHECK(logits_of(Model::load(folder / "m.bantam"), some_tokens()) == logits_of(model, some_tokens()));
}

}  // namespace
}  // namespace bantam::test
