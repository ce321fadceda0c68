// Threads that are dealt parts of work, and stay away while their processor is wanted by others: definitions of core/team.hpp.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "bantam/core/cpu.hpp"
#include "bantam/core/error.hpp"
#include "bantam/core/impl/losses.hpp"
#include "bantam/core/once.hpp"
#include "bantam/core/team.hpp"

namespace bantam::inline v0 {

namespace detail::team {

using std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// About 20 to 100 microseconds, by how long the processor pauses: longer than the gap between two phases of a layer, shorter than
// a scheduler's time slice, so that a neighbor gets its core back.
inline constexpr int spin_rounds = 2000;
// A look at what the system counts takes half a microsecond.
inline constexpr nanoseconds between_looks = 1ms;
// How long a processor that became free may lie idle, and how often a neighbor is disturbed by somebody who tries its processor.
inline constexpr nanoseconds longest_rest = 128ms;
inline constexpr nanoseconds shortest_rest = 32ms;
// Whoever wakes up gets a slice of the scheduler's first, 3 ms: only after it shows whether a neighbor wants the processor.
inline constexpr nanoseconds trial = 5ms;
// A neighbor that computes takes a slice of 3 ms. Who only wakes up to look around, as many do on any machine, takes 0.1 to 0.3.
inline constexpr nanoseconds shortest_loss = 1ms;
// Two threads of a team on one processor take turns and lose nothing to others, so that nothing else tells. The scheduler
// parts them within a tick or two where another processor is free; a gap is when nothing was to do.
inline constexpr nanoseconds patience = 8ms;
inline constexpr nanoseconds longest_gap = 20ms;
// Processors may be given and taken while we run (taskset -p).
inline constexpr nanoseconds between_counts = 100ms;

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

/// Sleeps while `word` is `value`, and not longer than `most` (0: for ever). std::atomic has no wait that ends by itself.
inline void sleep_on(const Word& word, std::uint32_t value, nanoseconds most = {}) noexcept {
  const timespec time{most / 1s, (most % 1s).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, most.count() > 0 ? &time : nullptr, nullptr, 0);
}
inline void wake(const Word& word, int threads) noexcept { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0); }
inline constexpr int everybody = 1 << 30;

/// What the system does to one thread.
class Watch {
 public:
  /// How long others had the thread's processor since the last look, if they had it at all; looks now and then.
  nanoseconds lost(Clock::time_point now) noexcept {
    const nanoseconds passed = now - looked_;
    if (passed < between_looks) return {};
    const bool first = looked_ == Clock::time_point{};
    looked_ = now;
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    const nanoseconds ran = std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
    const nanoseconds lost = passed - (ran - std::exchange(ran_, ran)) - std::exchange(slept_, {});
    // What the caller does between deals may sleep, too: that is no loss. Nor is what a hypervisor takes
    // while nobody else here had the processor: it takes it wherever we run.
    const bool taken = std::exchange(switches_, usage.ru_nivcsw) != usage.ru_nivcsw;
    return !first && taken && lost > shortest_loss ? lost : nanoseconds{};
  }
  /// Whether others have so much of the processor that a team of `size` is faster without this thread.
  bool is_crowded(Clock::time_point now, int size) noexcept { return too_much_.add(now - std::exchange(counted_, now), lost(now), size); }
  void sleep_on(const Word& word, std::uint32_t value, nanoseconds most = {}) noexcept {
    const Clock::time_point begin = Clock::now();
    team::sleep_on(word, value, most);
    slept_ += Clock::now() - begin;
  }

 private:
  Clock::time_point looked_, counted_;
  nanoseconds ran_{}, slept_{};
  Losses too_much_;
  long switches_ = 0;
};

/// How long a worker stays away: longer each time that it is disturbed soon after it came back.
class Rests {
 public:
  nanoseconds next(Clock::time_point now) noexcept {
    rest_ = now - back_ < 8 * rest_ ? std::min(2 * rest_, longest_rest) : shortest_rest;
    back_ = now + rest_;
    return rest_;
  }

 private:
  nanoseconds rest_{};
  Clock::time_point back_;
};

// The caller writes `work`, then `cursor` (release). A thread owns a part once its exchange of the cursor has succeeded
// (acquire), and only then reads `work`: the caller does not write it again before `done` has counted that part (release,
// acquire). It may have been late and got a part of other work than it looked at; that is as good a part. All else is about
// sleeping. Who wants to sleep says so and then looks once more; who has news tells it and then looks for sleepers: in
// the one order of sequentially consistent operations, one of the two sees the other.
struct State {
  struct Work {
    const FunctionRef<void(Range, int)>* f = nullptr;
    std::int64_t items = 0, grain = 0;
    std::uint32_t grains = 0;
  };
  // What several threads write is on lines of its own.
  /// Which work this is (upper half; it only tells one from the next) and how many of its grains nobody has yet.
  alignas(64) std::atomic<std::uint64_t> cursor{0};
  alignas(64) Work work;
  /// Grains that others than the caller have finished, and how many of them the caller sleeps for.
  alignas(64) Word done{0};
  std::atomic<std::uint32_t> awaited{nobody};
  static constexpr std::uint32_t nobody = ~0u;
  /// News for workers that sleep because there was nothing to do, and whether any does.
  alignas(64) Word called{0};
  std::atomic<bool> asleep{false};
  /// News for all others: about `stop` and `places`.
  alignas(64) Word told{0};
  std::atomic<bool> stop{false};
  std::atomic<int> places{1};          ///< workers from here on take no part
  std::atomic<bool> too_many{false};   ///< the caller lost its processor: one of the workers is to rest
  std::atomic<int> callers_processor{-1};

  // The caller's own.
  alignas(64) int size = 1;
  bool fixed = false;  ///< places
  int granted = 0;     ///< by a quota
  Watch watch;
  Clock::time_point counted;
  std::uint32_t process = detail::process_number();
  std::vector<std::thread> threads;

  void tell() noexcept {
    for (Word* word : {&told, &called}) {
      word->fetch_add(1);
      wake(*word, everybody);
    }
  }
  void set_places(int count) noexcept {
    if (places.exchange(count) != count) tell();
  }
  void count_places() noexcept {
    const int processors = usable_processors();
    set_places(std::min({size, processors, granted > 0 ? granted : size}));
  }

  void finish() noexcept {
    stop = true;
    tell();
    for (std::thread& thread : threads) thread.join();
  }

  /// Does parts until no grain is left; returns how many grains they were. `report`: to the caller.
  ///
  /// A part is half of a thread's share of what is left: long ones stream, and at the end nobody waits for more than a grain (guided
  /// self-scheduling, Polychronopoulos and Kuck, IEEE Trans. Comput. 1987, whose parts are the whole share: too much for a thread that is slowed down).
  std::uint32_t take_parts(int index, bool report) noexcept {
    std::uint32_t taken = 0;
    for (std::uint64_t now = cursor.load(std::memory_order_acquire); static_cast<std::uint32_t>(now) != 0;) {
      const auto left = static_cast<std::uint32_t>(now);
      const std::uint32_t part = std::max(1u, left / (2 * static_cast<std::uint32_t>(places.load(std::memory_order_relaxed))));
      if (!cursor.compare_exchange_weak(now, now - part, std::memory_order_acquire, std::memory_order_acquire)) continue;
      const std::int64_t begin = (work.grains - left) * work.grain;
      (*work.f)(Range{begin, std::min(begin + part * work.grain, work.items)}, index);
      taken += part;
      if (report && done.fetch_add(part) + part == awaited.load()) wake(done, 1);
      now = cursor.load(std::memory_order_acquire);
    }
    return taken;
  }

  /// Returns when there are parts, or `called` is not what it was `before`.
  void wait_for_parts(std::uint32_t before, Watch& mine) noexcept {
    const auto has_parts = [&](std::memory_order order) { return static_cast<std::uint32_t>(cursor.load(order)) != 0; };
    for (int i = 0; i < spin_rounds; ++i) {
      if (has_parts(std::memory_order_relaxed)) return;
      relax();
    }
    asleep = true;
    if (!has_parts(std::memory_order_seq_cst)) mine.sleep_on(called, before);
  }

  bool is_in_the_way() const noexcept { return sched_getcpu() == callers_processor.load(std::memory_order_relaxed); }

  /// What a worker does first after a rest: keeps its processor busy to see whether anybody else wants it. Whoever loses it
  /// here holds nobody up; within a part it would hold up all.
  bool try_processor(std::uint32_t news, Watch& mine) noexcept {
    Clock::time_point now = Clock::now();
    const Clock::time_point end = now + trial;
    (void)mine.lost(now);
    for (; now < end && told.load(std::memory_order_relaxed) == news; now = Clock::now()) {
      if (is_in_the_way() || mine.lost(now) > nanoseconds{}) return false;
      for (int i = 0; i < 64; ++i) relax();
    }
    return true;
  }

  /// Stays away, longer each time that the processor turns out to be wanted by others.
  void rest(Watch& mine, Rests& rests) noexcept {
    std::uint32_t news = 0;
    do {
      news = told.load();
      if (stop) return;
      mine.sleep_on(told, news, rests.next(Clock::now()));
    } while (!try_processor(news = told.load(), mine));
  }

  void serve(int index) noexcept {
    Watch mine;
    Rests rests;
    Clock::time_point last, elsewhere;  // when it looked, and when it had another processor than the caller
    while (true) {
      // Before what they tell is looked at: what comes later ends the sleep.
      const std::uint32_t calls = called.load(), news = told.load();
      if (stop) return;
      const Clock::time_point now = Clock::now();
      const nanoseconds gap = now - std::exchange(last, now);
      if (gap > longest_gap || !is_in_the_way()) elsewhere = now;
      if (index >= places) {
        mine.sleep_on(told, news);
      } else if (mine.is_crowded(now, places) || now - elsewhere > patience || (too_many.load(std::memory_order_relaxed) && too_many.exchange(false))) {
        rest(mine, rests);
      } else {
        wait_for_parts(calls, mine);
        take_parts(index, true);
      }
    }
  }

  void wait_for(std::uint32_t grains) noexcept {
    for (int i = 0; i < spin_rounds; ++i) {
      if (done.load(std::memory_order_acquire) == grains) return;
      relax();
    }
    // Asleep, the caller leaves its processor to the worker it waits for.
    awaited = grains;
    for (std::uint32_t now = done.load(); now != grains; now = done.load()) watch.sleep_on(done, now);
    awaited.store(nobody, std::memory_order_relaxed);
  }

  void look_around() noexcept {
    const Clock::time_point now = Clock::now();
    if (const int at = sched_getcpu(); at != callers_processor.load(std::memory_order_relaxed)) callers_processor = at;
    if (watch.is_crowded(now, places)) too_many = true;
    if (!fixed && now - counted > between_counts) {
      counted = now;
      count_places();
    }
  }
};

}  // namespace detail::team

struct Team::State : detail::team::State {
  Profile* profile = nullptr;
};

BANTAM_ONCE Team::Team(int threads) : state_(std::make_unique<State>()) {
  if (threads < 0 || threads > 1024) fail(Errc::invalid_argument, "threads: expected 0 (all cores) to 1024, found ", threads);
  State& state = *state_;
  state.size = threads == 0 ? usable_cores() : threads;
  if (state.size == 1) return;
  state.granted = granted_processors();
  state.count_places();
  state.threads.reserve(static_cast<std::size_t>(state.size));
  try {
    for (int index = 1; index < state.size; ++index) {
      state.threads.emplace_back([&state, index] { state.serve(index); });
    }
  } catch (const std::exception&) {  // of the system, or no memory for the thread's start
    const auto started = state.threads.size() + 1;
    state.finish();
    fail(Errc::out_of_memory, "threads: expected ", state.size, ", the system allows ", started);
  }
}

BANTAM_ONCE Team::~Team() {
  if (is_forked()) {
    (void)state_.release();  // there is nobody to join, and no way to forget a thread that does not exist
  } else {
    state_->finish();
  }
}

BANTAM_ONCE int Team::size() const noexcept { return state_->size; }

BANTAM_ONCE std::int64_t Team::grain_of(std::int64_t items, std::int64_t grains) const noexcept {
  return std::max<std::int64_t>(1, items / (grains * state_->places.load(std::memory_order_relaxed)));
}

BANTAM_ONCE std::uint32_t detail::process_number() noexcept {
  static std::atomic<std::uint32_t> forks{0};
  static const bool counted = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }) == 0;
  return counted ? forks.load(std::memory_order_relaxed) : static_cast<std::uint32_t>(getpid());
}

BANTAM_ONCE bool Team::is_forked() const noexcept { return detail::process_number() != state_->process; }

BANTAM_ONCE void Team::set_active(int threads) noexcept {
  state_->fixed = threads > 0;
  if (threads > 0) {
    state_->set_places(std::min(threads, state_->size));
  } else {
    state_->count_places();
  }
}

BANTAM_ONCE void Team::set_profile(Profile* profile) noexcept { state_->profile = profile; }

BANTAM_ONCE void Team::deal(std::int64_t items, std::int64_t grain, FunctionRef<void(Range, int worker)> f, Work work) noexcept {
  if (state_->profile == nullptr) return deal_parts(items, grain, f);
  Profile::Phase& phase = (*state_->profile)[work];
  const detail::NanosecondWatch all;
  deal_parts(items, grain, [&](Range part, int worker) {
    const detail::NanosecondWatch mine;
    f(part, worker);
    phase.busy.fetch_add(mine.passed(), std::memory_order_relaxed);
  });
  phase.seconds += 1e-9 * static_cast<double>(all.passed());
  ++phase.times;
}

BANTAM_ONCE void Team::deal_parts(std::int64_t items, std::int64_t grain, FunctionRef<void(Range, int worker)> f) noexcept {
  State& state = *state_;
  BANTAM_ASSERT(grain > 0 && items / grain < State::nobody);
  if (items <= grain || state.size == 1) {
    if (items > 0) f(Range{0, items}, 0);
    return;
  }
  const auto grains = static_cast<std::uint32_t>((items + grain - 1) / grain);
  state.work = {&f, items, grain, grains};
  state.done.store(0, std::memory_order_relaxed);
  const std::uint64_t last = state.cursor.load(std::memory_order_relaxed) >> 32;
  state.cursor.store((last + 1) << 32 | grains);
  if (state.asleep) {
    state.asleep = false;
    state.called.fetch_add(1);
    detail::team::wake(state.called, detail::team::everybody);
  }
  state.wait_for(grains - state.take_parts(0, false));
  state.look_around();
}

}  // namespace bantam::inline v0
