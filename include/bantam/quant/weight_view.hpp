// A weight matrix as kernels see it.
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

/// Numbers whose largest is below this round to zeros: the reciprocal of their step would overflow.
inline constexpr float smallest_range = 0x1p-110f;

}  // namespace bantam::inline v0
