// How far a pass over a model is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace bantam::inline v0 {

struct Progress {
  std::int64_t done = 0;  ///< matrices
  std::int64_t total = 0;
  std::string layer;           ///< the matrix just done
  double relative_error = 0;   ///< of it
  double seconds_left = 0;     ///< estimated from the bytes done so far
};

/// Called after each matrix; false cancels (Errc::cancelled is thrown, the output is not written). A CancelScope
/// (core/parallel.hpp) around the call cancels inside a matrix as well.
using ProgressFn = std::function<bool(const Progress&)>;

}  // namespace bantam::inline v0
