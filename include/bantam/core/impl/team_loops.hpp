// Offline loops on a Team, for programs that have headers alone and no oneTBB.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>

#include "bantam/core/cpu.hpp"
#include "bantam/core/impl/parallel.hpp"

namespace bantam::inline v0::detail {

inline int most_threads() { return usable_processors(); }

/// The threads of one loop at a time, kept from loop to loop.
struct LoopTeam {
  std::atomic_flag busy;
  std::unique_ptr<Team> team;
};

inline void run_pieces(int threads, std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> piece) {
  static LoopTeam shared;
  if (shared.busy.test_and_set(std::memory_order_acquire)) {  // by a loop around this one, or of another thread, which keep all cores busy
    return for_pieces({0, items}, grain, piece);
  }
  struct Release {
    std::atomic_flag& busy;
    ~Release() { busy.clear(std::memory_order_release); }
  };
  const Release release{shared.busy};
  if (shared.team == nullptr || shared.team->size() != threads || shared.team->is_forked()) shared.team = std::make_unique<Team>(threads);
  std::atomic_flag failed;
  std::exception_ptr error;
  shared.team->deal(items, grain, [&](Range part, int) {
    try {
      // Between pieces a scope is asked, and nobody goes on where another has failed.
      for_pieces(part, grain, [&](Range range) {
        if (!failed.test(std::memory_order_relaxed)) piece(range);
      });
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  });
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace bantam::inline v0::detail
