// The choice of a cache that weights are fetched to, by measurement.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>

#include "bantam/kernels/arguments.hpp"

namespace bantam::inline v0::nn {

/// Chooses the level of cache that passes of one token fetch weights to. Processors disagree by up to half (docs/numbers.md), and
/// results do not depend on it: so the first passes try both in turns, and those after have the faster.
class FetchChoice {
 public:
  [[nodiscard]] Fetch level() const noexcept { return levels[static_cast<std::size_t>(current_)]; }

  /// After a pass of one token at level(): how long it took.
  void passed(std::chrono::nanoseconds time) noexcept {
    if (decided_) return;
    Trial& trial = trials_[static_cast<std::size_t>(current_)];
    trial.shortest = trial.passes == 0 ? time : std::min(trial.shortest, time);
    trial.total += time;
    ++trial.passes;
    decided_ = std::ranges::all_of(trials_, [](const Trial& t) { return t.passes >= least_passes && t.total >= least_time; });
    current_ = decided_ ? trials_[1].shortest < trials_[0].shortest : 1 - current_;
  }

 private:
  static constexpr std::array levels{Fetch::first_level, Fetch::second_level};
  // Of each. The shortest pass is the one that nobody disturbed; of short passes it takes more to have one.
  static constexpr int least_passes = 4;
  static constexpr std::chrono::milliseconds least_time{20};

  struct Trial {
    int passes = 0;
    std::chrono::nanoseconds shortest{}, total{};
  };
  std::array<Trial, levels.size()> trials_{};
  int current_ = 0;
  bool decided_ = false;
};

}  // namespace bantam::inline v0::nn
