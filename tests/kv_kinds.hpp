// The ways to keep keys and values, for tests that go through all of them.
#pragma once

#include <vector>

#include "bantam/kernels/table.hpp"

namespace bantam::test {

inline std::vector<const char*> kv_kinds() {
  std::vector<const char*> kinds;
  for (const KvKernels& kv : kernel_tables().back()->kv) kinds.push_back(kv.name);
  return kinds;
}

}  // namespace bantam::test
