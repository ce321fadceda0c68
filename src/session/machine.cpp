// Measuring the machine: bandwidth and integer rate.
#include "bantam/session/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "bantam/core/median.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"

namespace bantam::inline v0 {

namespace {

// Larger than the last-level cache of any machine sold today with a few cores.
constexpr std::size_t buffer_bytes = std::size_t{512} << 20;
constexpr int passes = 5;

double seconds(FunctionRef<void()> work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

}  // namespace

long last_level_cache_bytes() noexcept {
  long most = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) most = std::max(most, ::sysconf(level));
#endif
  return most;
}

double measure_read_gb_s(int threads) {
  Team team(threads);
  AlignedBuffer<std::uint64_t> buffer(buffer_bytes / 8);
  const auto size = static_cast<std::int64_t>(buffer.size());
  const std::int64_t grain = round_up<std::int64_t>(team.grain_of(size, 8), 64);
  // Every page is written once, or all of them are the one page of zeros.
  team.deal(size, grain, [&](Range part, int) { std::fill(buffer.data() + part.begin, buffer.data() + part.end, 1); });
  std::vector<double> rates;
  for (int pass = 0; pass < passes; ++pass) {
    const double elapsed = seconds([&] {
      team.deal(size, grain, [&](Range part, int) {
        // A word of every line is enough to fetch it; four sums keep several lines in flight.
        std::uint64_t sum[4] = {};
        const std::uint64_t* p = buffer.data();
        for (std::int64_t i = part.begin; i + 32 <= part.end; i += 32) {
          for (int k = 0; k < 4; ++k) sum[k] += p[i + k * 8];
        }
        const std::uint64_t kept = sum[0] + sum[1] + sum[2] + sum[3];
        __asm__ volatile("" : : "r"(kept));
      });
    });
    rates.push_back(static_cast<double>(buffer_bytes) / elapsed * 1e-9);
  }
  return median(rates);
}

double measure_int8_gop_s(int threads) {
  Team team(threads);
  const KernelTable& kernels = kernels_in_use();
  // About 20 ms a pass on the slowest table that matters, in parts that end together.
  constexpr std::int64_t parts = 20, rounds = 1000;
  std::vector<double> rates;
  for (int pass = 0; pass < passes; ++pass) {
    std::atomic<std::int64_t> total = 0;
    const double elapsed = seconds([&] {
      team.deal(team.size() * parts, 1, [&](Range part, int) { total += kernels.int8_rate((part.end - part.begin) * rounds); });
    });
    rates.push_back(static_cast<double>(total) / elapsed * 1e-9);
  }
  return median(rates);
}

}  // namespace bantam::inline v0
