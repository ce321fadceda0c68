// Pruning on the command line.
#pragma once

#include <optional>
#include <string>

#include "bantam/prune/pruning.hpp"

namespace bantam::cli {

/// "wanda:0.5", "sparsegpt:2:4"; nothing for "". UsageError for methods and amounts that are not there.
[[nodiscard]] std::optional<Pruning> parse_prune(const std::string& text);

}  // namespace bantam::cli
