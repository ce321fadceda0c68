// How kernels see a weight matrix.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bantam::inline v0 {

/// A weight matrix (rows, columns) in strip16; `data` is aligned to 64 bytes.
struct WeightView {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

}  // namespace bantam::inline v0
