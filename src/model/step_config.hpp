// Step-3.5's config.json, whose published words for layers, ropes and experts no other model has.
#pragma once

#include <string>

#include "bantam/model/config.hpp"
#include "io/json.hpp"

namespace bantam::inline v0::detail {

/// The same in usual words: query heads and the kind of second half by layer, ropes by kind of layer, lists as long as there are layers. What is said in
/// usual words stays. Throws corrupt, and unsupported for what these cannot say.
[[nodiscard]] Json in_usual_words(const Json& json, const std::string& place);

/// Adds to what is written in usual words, ropes by kind of layer among them, the published ones, in the place of those that they make superfluous.
void put_step_words(const ModelConfig& c, Json& json);

}  // namespace bantam::inline v0::detail
