// What became of a model's parts, for people.
#pragma once

#include "bantam/compress/prepare.hpp"
#include "output.hpp"

namespace bantam::cli {

/// What went, and a line for each cost that is known.
[[nodiscard]] std::string pruned_text(const PruneReport& pruned);

}  // namespace bantam::cli
