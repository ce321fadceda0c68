// Offline loops on oneTBB.
#include "bantam/core/parallel.hpp"

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>

#include "bantam/core/cpu.hpp"

namespace bantam::inline v0 {

namespace {
std::atomic<int> wanted_threads{0};
}

void set_parallel_threads(int threads) { wanted_threads = threads; }

void parallel_for(std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> f) {
  // oneTBB warns on standard error when asked for more than there is.
  const int threads = wanted_threads > 0 ? std::min(wanted_threads.load(), tbb::info::default_concurrency()) : usable_cores();
  // An arena of its own: the number of threads is ours, and nothing lingers when the loop is over.
  tbb::task_arena arena(threads);
  arena.execute([&] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, items, static_cast<std::size_t>(grain)),
                      [&](const tbb::blocked_range<std::int64_t>& part) { f({part.begin(), part.end()}); },
                      tbb::simple_partitioner());
  });
}

}  // namespace bantam::inline v0
