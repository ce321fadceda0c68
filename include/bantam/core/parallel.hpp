// Parallel loops for offline work: loading, compressing. Inference runs on a Team instead; never both at once.
#pragma once

#include <cstdint>

#include "bantam/core/team.hpp"

namespace bantam::inline v0 {

/// Calls f(range) over 0 .. items in pieces of at most `grain`, on the cores that this process may use. Results must
/// not depend on the order. An exception of `f` stops the loop and is thrown here.
void parallel_for(std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> f);

/// How many threads parallel_for uses from now on; 0: usable_cores() as it was when first asked for.
void set_parallel_threads(int threads);
/// How many it uses, no more than the machine has.
[[nodiscard]] int parallel_threads();

}  // namespace bantam::inline v0
