// The model of the demo, and what tests of sessions ask of it.
#pragma once

#include <filesystem>
#include <vector>

#include "bantam/bantam.hpp"
#include "bantam/io/safetensors.hpp"
#include "io/json.hpp"
#include "limits.hpp"
#include "support.hpp"

namespace bantam::test {

inline const std::filesystem::path demo_folder = std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m";

/// The first two layers of the demo's four.
inline Model half_of_demo() {
  const TemporaryFolder folder;
  const auto all = SafetensorsFile::open_folder(demo_folder);
  std::vector<const TensorEntry*> kept;
  std::vector<SafetensorsWriter::Announced> announced;
  for (const TensorEntry& tensor : all->tensors()) {
    if (tensor.name.starts_with("model.layers.2.") || tensor.name.starts_with("model.layers.3.")) continue;
    kept.push_back(&tensor);
    announced.push_back({tensor.name, tensor.type, tensor.shape});
  }
  SafetensorsWriter writer(folder / "model.safetensors", std::move(announced), {});
  for (const TensorEntry* tensor : kept) writer.write(tensor->bytes);
  writer.commit();
  std::filesystem::copy_file(demo_folder / "tokenizer.json", folder / "tokenizer.json");
  Json config = Json::parse(read_file(demo_folder / "config.json"), "config.json");
  config["num_hidden_layers"] = 2;
  write_file(folder / "config.json", config.dump());
  return Model::load(folder.path());
}

/// Loaded once; half of it where BANTAM_TEST_QUICK is set.
inline const Model& demo() {
  static const Model model = quick() ? half_of_demo() : Model::load(demo_folder);
  return model;
}

inline std::vector<float> logits_of(Session& session) {
  const auto logits = session.logits();
  return {logits.begin(), logits.end()};
}

}  // namespace bantam::test
