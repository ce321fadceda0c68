// How far a removal is, told after each block.
#pragma once

#include "bantam/calibrate/progress.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/stopwatch.hpp"

namespace bantam::inline v0 {

class Steps {
 public:
  Steps(std::int64_t total, const ProgressFn& progress) : total_(total), progress_(progress) {}

  /// Throws cancelled when the caller wants no more.
  void done(std::string_view what, std::int64_t layer) {
    ++done_;
    const double left = watch_.seconds() / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    const Progress progress{done_, total_, message(what, " layer ", layer), 0, left};
    if (progress_ && !progress_(progress)) fail(Errc::cancelled, "prune: cancelled after layer ", layer);
  }

 private:
  std::int64_t total_, done_ = 0;
  const ProgressFn& progress_;
  const Stopwatch watch_;
};

}  // namespace bantam::inline v0
