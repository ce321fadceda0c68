// Folders of sentence-transformers: what comes behind the model, in files of their own.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bantam/io/tensor_source.hpp"
#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0 {

/// Sets what stands for a text, what layers come behind that, and whether embeddings are made as long as 1, where a folder has a modules.json.
/// Gives the folders of these layers. Throws corrupt or unsupported naming the file and what it has.
[[nodiscard]] std::vector<std::filesystem::path> read_sentence_modules(const std::filesystem::path& folder, ModelConfig& config);
/// A folder's tensors with those of layers behind pooling, which have folders of their own.
[[nodiscard]] std::shared_ptr<const TensorSource> with_modules(std::shared_ptr<const TensorSource> model, std::span<const std::filesystem::path> folders);
/// Layers behind pooling as native files say them (bantam_pooled_layers).
void read_pooled_layers(const Json& json, const std::string& place, ModelConfig& config);
[[nodiscard]] Json json_of(std::span<const PooledLayer> layers);
/// Of a tensor's name: the folder of its own that it has there, and what it is called in it; nothing for the model's own.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> module_of(std::string_view name);
/// Names, within a folder, and contents of the files that say the same of a model; none where nothing is to be said.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> sentence_modules_of(const ModelConfig& config);

}  // namespace bantam::inline v0
