// What a model with a classifier makes of texts: how well documents answer a query, read together with it, and which labels texts have.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bantam/session/embed.hpp"

namespace bantam::inline v0 {

struct RerankOptions {
  /// What a model that is asked in words, and answers yes or no, is to look for (Qwen3-Reranker). Empty: passages that answer a search.
  std::string instruction = {};
  bool truncate = true;  ///< leaves out the end of documents where a pair is longer than the context, which is refused otherwise
  std::vector<ScaledAdapter> adapters = {};  ///< added to the model's matrices
  ReadProgress progress = {};
};

/// A score of each document, higher for better ones. Of a model with a classifier of one label its number as it is, of which 1 / (1 + exp(-x))
/// makes a probability; of one that answers yes or no the probability of yes. Pairs are read as the tokenizer's files say. Throws
/// unsupported for other models, and as embed() does.
[[nodiscard]] std::vector<float> rerank(Engine& engine, std::string_view query, std::span<const std::string> documents, const RerankOptions& options = {});

/// Numbers of scores, the best first, equal ones as they stand; what is no number comes last.
[[nodiscard]] std::vector<std::int64_t> best_first(std::span<const float> scores);

/// What a classifier makes of pairs, or of single texts where the second is empty: (pairs, labels). Throws unsupported for models without one.
[[nodiscard]] Tensor<float, 2> classify(Engine& engine, std::span<const TokenPair> pairs, const ReadProgress& progress = {},
                                        std::span<const ScaledAdapter> adapters = {});

struct ClassifyOptions {
  std::string second = {};  ///< what each text is read together with, as a pair (natural language inference); empty: alone
  bool truncate = true;     ///< leaves out the end of what is longer than the context, which is refused otherwise
  std::vector<ScaledAdapter> adapters = {};  ///< added to the model's matrices
  ReadProgress progress = {};
};

/// Of each text what each label comes to, (texts, labels), as ModelConfig::label_use says: probabilities, or numbers of a regression.
/// ModelConfig::names_of_labels() names them. Each row is what the text gives alone, bit for bit. Throws as the other.
[[nodiscard]] Tensor<float, 2> classify(Engine& engine, std::span<const std::string> texts, const ClassifyOptions& options = {});

}  // namespace bantam::inline v0
