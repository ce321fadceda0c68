// The persistent team of threads that inference runs on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace bantam::inline v0 {

/// A reference to a callable, for the length of a call. Never allocates.
template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f) noexcept  // NOLINT: implicit on purpose, like function_ref of the standard
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Half-open range of work items.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class Team;

/// One thread's view of a running parallel region: which share of the work is its own, and the barrier.
class Worker {
 public:
  /// The only worker there is: for using an op alone, outside any team.
  Worker() = default;

  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] int count() const noexcept { return count_; }
  /// This worker's contiguous share of `items`, cut at multiples of `grain`. Shares differ by at most one grain.
  [[nodiscard]] Range share(std::int64_t items, std::int64_t grain = 1) const noexcept;
  /// Calls f(range) for parts of `items`, each of `grain` (the last may be shorter), until all are handed out to whoever
  /// is free: a worker that the system or a neighbor holds up does less. All workers make the same calls in the same
  /// order, at most `deals` of them between two barriers. What f computes must not depend on who does.
  template <class F>
  void deal(std::int64_t items, std::int64_t grain, F&& f) const {
    if (count_ == 1) {
      if (items > 0) f(Range{0, items});
      return;
    }
    std::atomic<std::int64_t>& next = next_deal();
    for (std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed); begin < items;
         begin = next.fetch_add(grain, std::memory_order_relaxed)) {
      f(Range{begin, begin + grain < items ? begin + grain : items});
    }
  }
  static constexpr int deals = 8;
  /// Waits until every worker of the region has come here. Spins briefly, then sleeps: never a pure spin.
  void barrier() const noexcept;

 private:
  friend class Team;
  Worker(Team* team, int index, int count) noexcept : team_(team), index_(index), count_(count) {}
  [[nodiscard]] std::atomic<std::int64_t>& next_deal() const noexcept;
  Team* team_ = nullptr;
  mutable int deal_ = 0;  ///< calls of deal() since the last barrier
  int index_ = 0;
  int count_ = 1;
};

/// `threads` workers, the calling thread among them. One region runs at a time; a Team belongs to one thread at a time.
class Team {
 public:
  /// 0 means usable_cores(). Throws invalid_argument below 0 or above 1024, out_of_memory when the system gives no more
  /// threads.
  explicit Team(int threads = 0);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int size() const noexcept;
  /// Calls `work(worker)` once on every thread and returns when all are done. `work` must not throw.
  void run(FunctionRef<void(const Worker&)> work) noexcept;

 private:
  friend class Worker;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bantam::inline v0
