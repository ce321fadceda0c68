// How much the heavier tests do.
#pragma once

#include <cstdlib>

namespace bantam::test {

/// True where BANTAM_TEST_QUICK is set: fewer random cases and smaller shapes, for runs under emulation.
inline bool quick() { return std::getenv("BANTAM_TEST_QUICK") != nullptr; }

}  // namespace bantam::test
