// When a thread loses its processor too often to be of use to its team.
#pragma once

#include <algorithm>
#include <chrono>

namespace bantam::inline v0::detail::team {

/// A thread's losses of its processor, beyond what is put up with. While a thread is away all wait for it: one that is away for a share
/// s of the time leaves a team of `size` (1 - s) size of its speed, a team without it has size - 1. Half of the share where they are equal is put up with.
class Losses {
 public:
  /// Whether it is too much now; counts anew then.
  bool add(std::chrono::nanoseconds passed, std::chrono::nanoseconds lost, int size) noexcept {
    excess_ = std::max(nanoseconds{}, excess_ - passed / (2 * size)) + lost;
    if (excess_ < most_excess) return false;
    excess_ = {};
    return true;
  }

 private:
  using nanoseconds = std::chrono::nanoseconds;
  // Two of the scheduler's slices that come soon one after the other. Any machine loses one now and then to something that is done at once.
  static constexpr nanoseconds most_excess = std::chrono::milliseconds(5);

  nanoseconds excess_{};
};

}  // namespace bantam::inline v0::detail::team
