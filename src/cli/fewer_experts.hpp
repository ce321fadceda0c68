// --experts: tokens go to another number of experts than the model was trained with.
#pragma once

#include "options.hpp"

namespace bantam::cli {

/// Model::with_experts(), once standard error says how far that is from the model.
[[nodiscard]] Model with_other_experts(const Model& exact, std::int64_t experts);

}  // namespace bantam::cli
