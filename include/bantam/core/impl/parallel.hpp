// Offline loops and their end on demand: definitions of core/parallel.hpp, but for whose threads do the pieces.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>

#include "bantam/core/cpu.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/parallel.hpp"

namespace bantam::inline v0 {

namespace detail {

BANTAM_ONCE std::atomic<int> wanted_threads{0};
BANTAM_ONCE constinit thread_local const CancelScope* innermost_scope = nullptr;

/// Two definitions: on oneTBB in the library (src/core/parallel.cpp), on a Team without it (team_loops.hpp).
/// Calls piece(range) for pieces of at most `grain`, of which there are several, on `threads` threads, two or more. The first exception
/// stops the loop and is thrown here.
void run_pieces(int threads, std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> piece);
/// No more than so many threads are asked for.
[[nodiscard]] int most_threads();

/// Calls f for pieces of `grain`, one after the other.
inline void for_pieces(Range all, std::int64_t grain, FunctionRef<void(Range)> f) {
  for (std::int64_t first = all.begin; first < all.end; first += grain) f({first, std::min(first + grain, all.end)});
}

}  // namespace detail

BANTAM_ONCE CancelScope::CancelScope(std::function<bool()> cancelled) : cancelled_(std::move(cancelled)), outer_(detail::innermost_scope) {
  detail::innermost_scope = this;
}
BANTAM_ONCE CancelScope::~CancelScope() { detail::innermost_scope = outer_; }

BANTAM_ONCE void check_cancelled() {
  for (const CancelScope* scope = detail::innermost_scope; scope != nullptr; scope = scope->outer_) {
    if (scope->cancelled_()) fail(Errc::cancelled, "cancelled");
  }
}

BANTAM_ONCE void set_parallel_threads(int threads) { detail::wanted_threads = threads; }

BANTAM_ONCE int parallel_threads() {
  static const int cores = usable_cores();  // asks the system's files
  return detail::wanted_threads > 0 ? std::min(detail::wanted_threads.load(), detail::most_threads()) : cores;
}

BANTAM_ONCE void parallel_for(std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> f) {
  const int threads = parallel_threads();
  check_cancelled();  // other threads may do every piece
  // A thread that waits may lend a hand to a loop of another, which its own scope must not stop.
  const CancelScope* const scope = detail::innermost_scope;
  const auto piece = [&](Range range) {
    if (scope != nullptr && scope == detail::innermost_scope) check_cancelled();
    f(range);
  };
  if (items <= grain || threads == 1) {
    return detail::for_pieces({0, items}, grain, piece);
  }
  detail::run_pieces(threads, items, grain, piece);
}

}  // namespace bantam::inline v0
