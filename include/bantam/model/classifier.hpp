// What a classifier behind a model makes of the state that stands for a text.
#pragma once

#include <span>
#include <vector>

#include "bantam/model/weights.hpp"

namespace bantam::inline v0 {

/// Of each label a number: head norm(act(dense state)), of what a model has of these; `act` is tanh (BERT, RoBERTa), or GELU where a norm
/// follows (ModernBERT). state: (dim). Throws unsupported for models without a classifier.
[[nodiscard]] std::vector<double> classify(const ModelConfig& config, const ModelWeights& weights, std::span<const double> state);

}  // namespace bantam::inline v0
