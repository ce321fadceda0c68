// Which n-grams a model has embeddings of, and where they stand in its table, from both containers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bantam/io/tensor_source.hpp"
#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

// Nothing is done for architectures that have none. Layers are known.

/// `whole`: of a model that sees, which has the token of images.
void read_ngrams(const Json& json, const Json& whole, const std::string& place, ModelConfig& c);
void read_ngrams(const GgufFile& file, const std::string& prefix, ModelConfig& c);
void write_ngrams(const ModelConfig& c, Json& json);
void write_ngrams(const ModelConfig& c, const std::string& prefix, GgufWriter& file);

/// Whole numbers that folders have as tensors beside config.json, which says how they were made: they hold where the two differ.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<std::int64_t>>> ngram_tensors(const ModelConfig& c);
void read_ngram_tensors(const TensorSource& folder, const std::string& place, ModelConfig& c);

}  // namespace bantam::inline v0::detail
