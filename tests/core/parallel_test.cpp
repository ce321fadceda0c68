// Parallel loops: scopes that cancel them.
#include "bantam/core/parallel.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "support.hpp"

namespace bantam::test {
namespace {

struct Threads {
  explicit Threads(int count) { set_parallel_threads(count); }
  ~Threads() { set_parallel_threads(0); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
};

void sleep_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

TEST_CASE("a scope that says so stops a loop at the next piece, and is not asked again") {
  for (const int threads : {1, 2}) {
    const Threads limit(threads);
    int asked = 0;
    std::atomic<int> done = 0;
    const CancelScope scope([&] { return ++asked == 5; });
    CHECK(error_of([&] {
            parallel_for(2000, 1, [&](Range) {
              sleep_a_little();
              ++done;
            });
          }) == "cancelled");
    CHECK(asked == 5);
    if (threads == 1) CHECK(done == 3);  // asked before the loop, too
    CHECK(done < 500);  // others go on with what they have begun, while the first looks for more
  }
}

TEST_CASE("scopes inside each other are all asked, and none after its end") {
  const Threads limit(1);
  bool outer_stops = false, inner_stops = false;
  const auto loop = [] { parallel_for(3, 1, [](Range) {}); };
  const CancelScope outer([&] { return outer_stops; });
  {
    const CancelScope inner([&] { return inner_stops; });
    loop();
    check_cancelled();
    for (bool* stops : {&outer_stops, &inner_stops}) {
      *stops = true;
      CHECK(error_of(loop) == "cancelled");
      CHECK(error_of(check_cancelled) == "cancelled");
      *stops = false;
    }
    inner_stops = true;
  }
  loop();
  check_cancelled();
}

TEST_CASE("a scope asks on its own thread, and stops no loop of another") {
  const Threads limit(2);
  const auto here = std::this_thread::get_id();
  std::atomic<int> elsewhere = 0;
  std::atomic<bool> stop = false;
  const CancelScope scope([&] {
    elsewhere += std::this_thread::get_id() != here;
    return stop.load();
  });
  std::atomic<int> done = 0;
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      parallel_for(50, 1, [&](Range) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        ++done;
      });
    }
  });
  for (int i = 0; i < 10; ++i) {
    parallel_for(50, 1, [](Range) { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
    stop = true;
    CHECK(error_of([] { parallel_for(50, 1, [](Range) {}); }) == "cancelled");
    stop = false;
  }
  other.join();
  CHECK(done == 1000);
  CHECK(elsewhere == 0);
}

}  // namespace
}  // namespace bantam::test
