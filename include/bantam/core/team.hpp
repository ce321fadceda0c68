// The persistent team of threads that inference runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "bantam/core/profile.hpp"

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

namespace detail {
/// Differs between a process and its copies by fork(), as getpid() does, which asks the kernel: up to a microsecond for each pass.
[[nodiscard]] std::uint32_t process_number() noexcept;
}  // namespace detail

/// The threads that inference runs on, the calling one among them. A Team belongs to one thread at a time.
///
/// Work is dealt out in parts to whoever is free, and is done when its parts are: nobody waits for a thread that has not
/// begun one. So a worker that the system keeps from running costs nothing but the part it may be in; and it stays away for a
/// while when that happens again and again, so that beside busy neighbors a team becomes as small as leaves it fast.
class Team {
 public:
  /// 0 means usable_cores(). Throws invalid_argument below 0 or above 1024, out_of_memory when the system gives no more
  /// threads.
  explicit Team(int threads = 0);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int size() const noexcept;
  /// At most `threads` of them take part from now on; 0, as at first: no more than there are processors for them.
  void set_active(int threads) noexcept;

  /// Calls f(range, worker) for parts of `items`, long ones first and none shorter than `grain` but the last, which begin at multiples of it,
  /// and returns when all are done.
  /// One part at a time is with a `worker`, 0 to size() - 1. What f computes must not depend on who does, nor on how parts
  /// are joined: alone, a thread gets all items at once. f must not throw, nor deal. `work`: what a profile counts it as.
  void deal(std::int64_t items, std::int64_t grain, FunctionRef<void(Range, int worker)> f, Work work = Work::other) noexcept;
  /// A grain that cuts `items` into about so many for each thread that takes part: 32 are enough that none waits long for the last.
  [[nodiscard]] std::int64_t grain_of(std::int64_t items, std::int64_t grains = 32) const noexcept;

  /// Counts what is dealt from now on, until it is null; two clock reads a part. Not while work is dealt.
  void set_profile(Profile* profile) noexcept;

  /// Whether this is a copy in a child of the process that made the team, where its other threads do not exist: the caller does
  /// all the work then.
  [[nodiscard]] bool is_forked() const noexcept;

 private:
  void deal_parts(std::int64_t items, std::int64_t grain, FunctionRef<void(Range, int worker)> f) noexcept;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bantam::inline v0
