// Folders of sentence-transformers: what comes behind the model, in files of their own.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bantam/model/config.hpp"

namespace bantam::inline v0 {

/// Sets what stands for a text, and whether embeddings are made as long as 1, where a folder has a modules.json. Throws corrupt or unsupported
/// naming the file and what it has.
void read_sentence_modules(const std::filesystem::path& folder, ModelConfig& config);
/// Names, within a folder, and contents of the files that say the same of a model; none where nothing is to be said.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> sentence_modules_of(const ModelConfig& config);

}  // namespace bantam::inline v0
