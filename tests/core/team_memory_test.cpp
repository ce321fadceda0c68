// Teams where memory runs out.
#include <atomic>
#include <cstdlib>
#include <new>

#include "bantam/core/team.hpp"
#include "support.hpp"

namespace {

/// Of this thread: allocations until one fails; less than 0: none does.
thread_local int until_failure = -1;

}  // namespace

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  void* const p = until_failure >= 0 && until_failure-- == 0 ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("whichever allocation of a team fails, its threads end and the caller is told") {
  int failures = 0;
  for (bool whole = false; !whole; failures += !whole) {
    REQUIRE(failures < 1000);
    until_failure = failures;
    try {
      bantam::Team team(4);
      until_failure = -1;
      whole = true;
      std::atomic<int> items = 0;
      team.deal(100, 1, [&](bantam::Range part, int) { items += static_cast<int>(part.end - part.begin); });
      CHECK(items == 100);
    } catch (const bantam::Error& error) {
      until_failure = -1;
      CHECK(error.code() == bantam::Errc::out_of_memory);
    } catch (const std::bad_alloc&) {
      until_failure = -1;
    }
  }
  CHECK(failures > 4);
}
