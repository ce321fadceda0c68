// --experts, --prefer-cached, --drop-cold: tokens go to other experts than the model would send them to.
#pragma once

#include "options.hpp"

namespace bantam::cli {

/// The model with what the options ask for, once standard error says how far that is from the model; the model itself where they ask for nothing.
[[nodiscard]] Model with_other_experts(const Model& exact, const LoadingOptions& options);

}  // namespace bantam::cli
