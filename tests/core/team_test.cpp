// The team of threads: shares, barriers, regions.
#include "bantam/core/team.hpp"

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "bantam/core/cpu.hpp"
#include "support.hpp"

using bantam::Range;
using bantam::Team;
using bantam::Worker;

TEST_CASE("shares cover every item exactly once, cut at multiples of the grain") {
  for (const int threads : {1, 2, 3, 8}) {
    Team team(threads);
    for (const std::int64_t items : {0, 1, 5, 31, 32, 33, 1000}) {
      for (const std::int64_t grain : {1, 4, 32}) {
        CAPTURE(threads);
        CAPTURE(items);
        CAPTURE(grain);
        std::vector<Range> shares(static_cast<std::size_t>(threads));
        team.run([&](const Worker& worker) { shares[static_cast<std::size_t>(worker.index())] = worker.share(items, grain); });
        std::int64_t next = 0;
        std::int64_t smallest = items;
        std::int64_t largest = 0;
        for (const Range& share : shares) {
          CHECK(share.begin == next);
          CHECK(share.end >= share.begin);
          const bool on_grain = share.end % grain == 0 || share.end == items;
          CHECK(on_grain);
          smallest = std::min(smallest, share.end - share.begin);
          largest = std::max(largest, share.end - share.begin);
          next = share.end;
        }
        CHECK(next == items);
        // A grain more or less, and the last grain may be cut.
        CHECK(largest - smallest <= 2 * grain - 1);
      }
    }
  }
}

TEST_CASE("a region runs once on every thread") {
  Team team(5);
  CHECK(team.size() == 5);
  std::vector<std::thread::id> ids(5);
  std::vector<int> calls(5);
  team.run([&](const Worker& worker) {
    CHECK_FALSE(worker.count() != 5);
    ids[static_cast<std::size_t>(worker.index())] = std::this_thread::get_id();
    ++calls[static_cast<std::size_t>(worker.index())];
  });
  CHECK(calls == std::vector<int>(5, 1));
  CHECK(std::set<std::thread::id>(ids.begin(), ids.end()).size() == 5);
  CHECK(ids[0] == std::this_thread::get_id());
}

TEST_CASE("phases between barriers see all of the phase before, on more threads than cores") {
  Team team(8);
  constexpr std::int64_t n = 997;
  std::vector<std::int64_t> values(n, 1);
  std::vector<std::int64_t> sums(8);
  std::atomic<int> mistakes{0};
  constexpr int phases = 200;
  team.run([&](const Worker& worker) {
    for (int phase = 0; phase < phases; ++phase) {
      const Range mine = worker.share(n);
      std::int64_t sum = 0;
      for (std::int64_t i = mine.begin; i < mine.end; ++i) sum += values[static_cast<std::size_t>(i)];
      sums[static_cast<std::size_t>(worker.index())] = sum;
      worker.barrier();
      const std::int64_t total = std::accumulate(sums.begin(), sums.end(), std::int64_t{0});
      mistakes += total != n * (phase + 1);
      worker.barrier();
      // Shares move along, so that every element is written and read by different threads.
      for (std::int64_t i = mine.begin; i < mine.end; ++i) ++values[static_cast<std::size_t>((i + phase * 131) % n)];
      worker.barrier();
    }
  });
  CHECK(mistakes == 0);
}

TEST_CASE("deals hand out every item exactly once, several between barriers, on more threads than cores") {
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    bantam::Team team(threads);
    constexpr std::int64_t items = 1001;
    std::vector<std::atomic<int>> seen(items);
    std::atomic<bool> too_long = false;
    for (int region = 0; region < 20; ++region) {
      team.run([&](const bantam::Worker& worker) {
        for (int phase = 0; phase < 3; ++phase) {
          for (int call = 0; call < bantam::Worker::deals; ++call) {
            const std::int64_t grain = 1 + call * 7;
            worker.deal(items - call, grain, [&](bantam::Range range) {
              if (worker.count() > 1 && range.end - range.begin > grain) too_long = true;
              for (std::int64_t i = range.begin; i < range.end; ++i) ++seen[static_cast<std::size_t>(i)];
            });
          }
          worker.barrier();
        }
      });
    }
    CHECK_FALSE(too_long);
    int wrong = 0;
    for (std::int64_t i = 0; i < items; ++i) {
      // The last items are left out by the later calls.
      const auto calls = std::min<std::int64_t>(bantam::Worker::deals, items - i);
      wrong += seen[static_cast<std::size_t>(i)] != 20 * 3 * calls;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a thousand regions in a row lose nothing") {
  Team team(3);
  std::vector<int> counts(3);
  for (int i = 0; i < 1000; ++i) {
    team.run([&](const Worker& worker) { ++counts[static_cast<std::size_t>(worker.index())]; });
  }
  CHECK(counts == std::vector<int>(3, 1000));
}

TEST_CASE("a team that slept wakes up") {
  Team team(2);
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    // Longer than the spinning: the other thread is parked by now.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.run([&](const Worker& worker) {
      worker.barrier();
      if (worker.index() == 1) ++calls;
      worker.barrier();
    });
  }
  CHECK(calls == 3);
}

TEST_CASE("teams start and end without work") {
  for (int i = 0; i < 50; ++i) Team team(4);
}

TEST_CASE("a worker outside of any team has all the work") {
  const Worker alone;
  CHECK(alone.count() == 1);
  CHECK(alone.share(10, 4).end == 10);
  alone.barrier();
}

TEST_CASE("no number of threads stands for all cores, impossible ones are refused") {
  CHECK(Team().size() == bantam::usable_cores());
  CHECK(bantam::test::error_of([] { Team team(-1); }) == "threads: expected 0 (all cores) to 1024, found -1");
  CHECK(bantam::test::error_of([] { Team team(1025); }) == "threads: expected 0 (all cores) to 1024, found 1025");
}
