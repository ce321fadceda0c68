// Offline loops on oneTBB.
#include "bantam/core/parallel.hpp"

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "bantam/core/cpu.hpp"
#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

std::atomic<int> wanted_threads{0};

/// What a loop orders: its pieces come after what was done before it, and before what is done after it. TBB sees to it, but is
/// not built for the thread sanitizer, which has to be told.
struct LoopOrder {
#if defined(__SANITIZE_THREAD__)
  char begun = 0, done = 0;
  void begin_loop() noexcept { __tsan_release(&begun); }
  void begin_piece() noexcept { __tsan_acquire(&begun); }
  void end_piece() noexcept { __tsan_release(&done); }
  void end_loop() noexcept { __tsan_acquire(&done); }
#else
  void begin_loop() noexcept {}
  void begin_piece() noexcept {}
  void end_piece() noexcept {}
  void end_loop() noexcept {}
#endif
};

thread_local const CancelScope* innermost = nullptr;

/// The arena of `threads` threads, kept from loop to loop: making one costs more than a small loop's work.
std::shared_ptr<tbb::task_arena> arena_of(int threads) {
  static std::mutex mutex;
  static std::shared_ptr<tbb::task_arena> arena;
  const std::lock_guard lock(mutex);
  if (arena == nullptr || arena->max_concurrency() != threads) arena = std::make_shared<tbb::task_arena>(threads);
  return arena;
}

}  // namespace

CancelScope::CancelScope(std::function<bool()> cancelled) : cancelled_(std::move(cancelled)), outer_(innermost) { innermost = this; }
CancelScope::~CancelScope() { innermost = outer_; }

void check_cancelled() {
  for (const CancelScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (scope->cancelled_()) fail(Errc::cancelled, "cancelled");
  }
}

void set_parallel_threads(int threads) { wanted_threads = threads; }

int parallel_threads() {
  static const int cores = usable_cores();  // asks the system's files
  // oneTBB warns on standard error when asked for more than there is.
  return wanted_threads > 0 ? std::min(wanted_threads.load(), tbb::info::default_concurrency()) : cores;
}

void parallel_for(std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> f) {
  const int threads = parallel_threads();
  check_cancelled();  // other threads may do every piece
  // A thread that waits may lend a hand to a loop of another, which its own scope must not stop.
  const CancelScope* const scope = innermost;
  const auto piece = [&](Range range) {
    if (scope != nullptr && scope == innermost) check_cancelled();
    f(range);
  };
  if (items <= grain || threads == 1) {
    for (std::int64_t first = 0; first < items; first += grain) piece({first, std::min(first + grain, items)});
    return;
  }
  LoopOrder order;
  order.begin_loop();
  arena_of(threads)->execute([&] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, items, static_cast<std::size_t>(grain)),
                      [&](const tbb::blocked_range<std::int64_t>& part) {
                        order.begin_piece();
                        piece({part.begin(), part.end()});
                        order.end_piece();
                      },
                      tbb::simple_partitioner());
  });
  order.end_loop();
}

}  // namespace bantam::inline v0
