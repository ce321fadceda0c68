// How much the heavier tests do.
#pragma once

#include <cstdlib>

namespace bantam::test {

/// True where BANTAM_TEST_QUICK is set: fewer random cases, smaller shapes and shorter texts, for runs under emulation
/// and sanitizers.
inline bool quick() { return std::getenv("BANTAM_TEST_QUICK") != nullptr; }

}  // namespace bantam::test
