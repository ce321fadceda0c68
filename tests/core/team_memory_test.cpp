// Teams where memory runs out.
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "bantam/core/team.hpp"
#include "support.hpp"

namespace {

/// Of this thread: allocations until one fails; less than 0: none does.
thread_local int until_failure = -1;

}  // namespace

// With its forms that do not throw: what one of these gave, the other may get back.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return until_failure >= 0 && until_failure-- == 0 ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

TEST_CASE("whichever allocation of a team fails, its threads end and the caller is told") {
  int allocations = 0, told = 0;
  for (bool failed = true; failed; allocations += failed) {
    REQUIRE(allocations < 1000);
    until_failure = allocations;
    try {
      bantam::Team team(4);
      // A team may do without what it could not read of its quota.
      failed = std::exchange(until_failure, -1) < 0;
      std::atomic<int> items = 0;
      team.deal(100, 1, [&](bantam::Range part, int) { items += static_cast<int>(part.end - part.begin); });
      CHECK(items == 100);
    } catch (const bantam::Error& error) {
      CHECK(error.code() == bantam::Errc::out_of_memory);
      ++told;
    } catch (const std::bad_alloc&) {
      ++told;
    }
  }
  // The list of threads, and each of the three.
  CHECK(told >= 4);
}
