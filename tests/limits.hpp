// How much the heavier tests do.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>

namespace bantam::test {

/// True where BANTAM_TEST_QUICK is set: fewer random cases, smaller shapes and shorter texts, for runs under emulation
/// and sanitizers.
inline bool quick() { return std::getenv("BANTAM_TEST_QUICK") != nullptr; }

/// True, having said so, where figures over thousands of tokens are left to the optimized run.
inline bool skips_figures() {
  if (quick()) MESSAGE("skipped: figures, checked where BANTAM_TEST_QUICK is not set");
  return quick();
}

}  // namespace bantam::test
