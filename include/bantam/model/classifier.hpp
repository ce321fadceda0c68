// What a classifier, or layers of an embedding, behind a model make of the state that stands for a text.
#pragma once

#include <span>
#include <vector>

#include "bantam/model/weights.hpp"

namespace bantam::inline v0 {

/// Of each label a number: head norm(act(dense state)), of what a model has of these; `act` as ArchSpec::class_activation says. state: (dim). Throws unsupported for models without a classifier.
[[nodiscard]] std::vector<double> classify(const ModelConfig& config, const ModelWeights& weights, std::span<const double> state);
/// What ModelConfig::pooled_layers make of it for an embedding, embedding_dim() numbers; the same where there are none.
[[nodiscard]] std::vector<double> behind_pooling(const ModelConfig& config, const ModelWeights& weights, std::span<const double> pooled);

}  // namespace bantam::inline v0
