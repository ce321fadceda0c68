// Offline loops, on oneTBB.
#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <memory>
#include <mutex>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "bantam/core/impl/parallel.hpp"

namespace bantam::inline v0 {

namespace {

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

/// The arena of `threads` threads, kept from loop to loop: making one costs more than a small loop's work.
std::shared_ptr<tbb::task_arena> arena_of(int threads) {
  static std::mutex mutex;
  static std::shared_ptr<tbb::task_arena> arena;
  const std::lock_guard lock(mutex);
  if (arena == nullptr || arena->max_concurrency() != threads) arena = std::make_shared<tbb::task_arena>(threads);
  return arena;
}

}  // namespace

namespace detail {

// oneTBB warns on standard error when asked for more than there is.
int most_threads() { return tbb::info::default_concurrency(); }

void run_pieces(int threads, std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> piece) {
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

}  // namespace detail

}  // namespace bantam::inline v0
