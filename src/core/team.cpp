// Threads that wait for work by spinning briefly and then sleeping on a futex (std::atomic::wait).
#include "bantam/core/team.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "bantam/core/cpu.hpp"
#include "bantam/core/error.hpp"

namespace bantam::inline v0 {

namespace {

// About 20 to 50 microseconds: longer than the gap between two phases of a layer, shorter than a scheduler's time
// slice, so that a neighbor gets its core back.
constexpr int spin_rounds = 2000;
// With more threads than processors whoever waits stands in the way of those it waits for, and hands its processor on
// at once, which takes about a microsecond (docs/numbers.md).
constexpr int yield_rounds = 100;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Returns once `value` differs from `old`. `crowded`: there are more threads than processors.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old, bool crowded) noexcept {
  for (int i = 0; i < (crowded ? yield_rounds : spin_rounds); ++i) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    if (crowded) {
      sched_yield();
    } else {
      relax();
    }
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

struct Team::State {
  // Each on a line of its own: arrivals must not slow the threads that watch the epoch.
  alignas(64) std::atomic<std::uint32_t> region{0};
  alignas(64) std::atomic<std::uint32_t> epoch{0};
  alignas(64) std::atomic<int> arrived{0};
  /// How far each deal since the last barrier is.
  struct alignas(64) Cursor {
    std::atomic<std::int64_t> next{0};
  };
  std::array<Cursor, Worker::deals> cursors;
  alignas(64) const FunctionRef<void(const Worker&)>* work = nullptr;
  int size = 1;
  bool crowded = false;
  bool stop = false;
  std::vector<std::thread> threads;

  void finish() noexcept {
    stop = true;
    region.fetch_add(1, std::memory_order_release);
    region.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void barrier() noexcept {
    const std::uint32_t now = epoch.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      arrived.store(0, std::memory_order_relaxed);
      // Nobody is inside a deal now.
      for (Cursor& cursor : cursors) cursor.next.store(0, std::memory_order_relaxed);
      epoch.store(now + 1, std::memory_order_release);
      epoch.notify_all();
    } else {
      wait_for_change(epoch, now, crowded);
    }
  }
};

Range Worker::share(std::int64_t items, std::int64_t grain) const noexcept {
  const std::int64_t grains = (items + grain - 1) / grain;
  const std::int64_t begin = grains * index_ / count_ * grain;
  const std::int64_t end = grains * (index_ + 1) / count_ * grain;
  return {begin < items ? begin : items, end < items ? end : items};
}

void Worker::barrier() const noexcept {
  deal_ = 0;
  if (count_ > 1) team_->state_->barrier();
}

std::atomic<std::int64_t>& Worker::next_deal() const noexcept {
  BANTAM_ASSERT(deal_ < deals);
  return team_->state_->cursors[static_cast<std::size_t>(deal_++)].next;
}

Team::Team(int threads) : state_(std::make_unique<State>()) {
  if (threads < 0 || threads > 1024) fail(Errc::invalid_argument, "threads: expected 0 (all cores) to 1024, found ", threads);
  state_->size = threads == 0 ? usable_cores() : threads;
  state_->crowded = state_->size > usable_processors();
  state_->threads.reserve(static_cast<std::size_t>(state_->size));  // so that only the system can refuse below
  try {
    for (int index = 1; index < state_->size; ++index) {
      state_->threads.emplace_back([this, index] {
        State& state = *state_;
        std::uint32_t seen = 0;
        while (true) {
          seen = wait_for_change(state.region, seen, state.crowded);
          if (state.stop) return;
          (*state.work)(Worker(this, index, state.size));
          state.barrier();
        }
      });
    }
  } catch (const std::system_error&) {
    const auto started = state_->threads.size() + 1;
    state_->finish();
    fail(Errc::out_of_memory, "threads: expected ", state_->size, ", the system allows ", started);
  }
}

Team::~Team() { state_->finish(); }

int Team::size() const noexcept { return state_->size; }

void Team::run(FunctionRef<void(const Worker&)> work) noexcept {
  State& state = *state_;
  if (state.size > 1) {
    state.work = &work;
    state.region.fetch_add(1, std::memory_order_release);
    state.region.notify_all();
  }
  work(Worker(this, 0, state.size));
  if (state.size > 1) state.barrier();
}

}  // namespace bantam::inline v0
