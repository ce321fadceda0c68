// Parallel loops for offline work: loading, compressing. Inference runs on a Team instead; never both at once.
#pragma once

#include <cstdint>
#include <functional>

#include "bantam/core/team.hpp"

namespace bantam::inline v0 {

/// Calls f(range) over 0 .. items in pieces of at most `grain`, on the cores that this process may use. Results must
/// not depend on the order. An exception of `f` stops the loop and is thrown here, and so does a CancelScope.
void parallel_for(std::int64_t items, std::int64_t grain, FunctionRef<void(Range)> f);

/// While one exists, loops that its thread begins ask first, and before each piece that this thread does itself, whether to
/// go on, and throw cancelled where not: loading and compressing stop within a piece of work, however large the matrix, reading of
/// tokens after a layer, encoding of text after some words.
/// `cancelled` is called often, on this thread only. Of scopes inside each other every one is asked.
class CancelScope {
 public:
  explicit CancelScope(std::function<bool()> cancelled);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  friend void check_cancelled();
  std::function<bool()> cancelled_;
  const CancelScope* outer_;
};
/// Throws cancelled where a scope of this thread says so: for long work that is no parallel_for.
void check_cancelled();

/// How many threads parallel_for uses from now on; 0: usable_cores() as it was when first asked for.
void set_parallel_threads(int threads);
/// How many it uses, no more than the machine has.
[[nodiscard]] int parallel_threads();

}  // namespace bantam::inline v0
