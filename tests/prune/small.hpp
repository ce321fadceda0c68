// Small models to take parts from.
#pragma once

#include "bantam/core/parallel.hpp"
#include "bantam/prune/structure.hpp"
#include "bantam/session/evaluate.hpp"
#include "compress/inputs.hpp"
#include "tiny_model.hpp"

namespace bantam::test {

struct Small {
  Small() { set_parallel_threads(1); }  // more would cost these small models more than they save
  ~Small() { set_parallel_threads(0); }
  Small(const Small&) = delete;
  Small& operator=(const Small&) = delete;

  /// A folder with the model, opened.
  Checkpoint written(const TinyModel& tiny, const std::string& name = "hf") const {
    tiny.write_folder(folder / name);
    return Checkpoint::open(folder / name);
  }
  TemporaryFolder folder;
  Calibration calibration = some_calibration();
};

/// The bundled model, calibrated on the bundled text.
struct RealModel {
  explicit RealModel(const std::filesystem::path& text_file) : text(read_file(text_file)) {}
  /// From the whole model, over the text.
  [[nodiscard]] double divergence(const PrunedStructure& pruned) const {
    return *perplexity(Model::from_checkpoint(pruned.checkpoint), text, {.limit = 2000, .kv = "f32"}, &base).kl_mean;
  }

  const Checkpoint original = Checkpoint::open(std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m");
  const Model base = Model::from_checkpoint(original);
  const Calibration calibration = Calibration::from_text(original.tokenizer(), default_calibration_text(), 16, 256);
  const std::string text;
};

inline TinyModel small_model(const ArchSpec* arch) {
  TinyModel tiny{.arch = arch, .layers = 3, .heads = 6, .kv_heads = 3, .tied = arch == &archs::qwen3, .biases = arch == &archs::llama};
  return tiny.make();
}

}  // namespace bantam::test
