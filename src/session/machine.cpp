// Measuring the machine: bandwidth and integer rate.
#include "bantam/session/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "bantam/core/far_apart.hpp"
#include "bantam/core/median.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/stopwatch.hpp"
#include "bantam/core/team.hpp"
#include "bantam/kernels/table.hpp"
#include "bantam/nn/linear.hpp"

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
  const std::int64_t grain = round_up<std::int64_t>(team.grain_of(size), 64);
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

double measure_product_gb_s(const FormatInfo& format, std::int64_t rows, std::int64_t columns, int threads) {
  Team team(threads);
  const KernelTable& kernels = kernels_in_use();
  constexpr std::int64_t at_once = 4;
  // No more than there is room for: what is that long is read as fast.
  rows = std::clamp<std::int64_t>(static_cast<std::int64_t>(buffer_bytes) / at_once / format.matrix_bytes(panel_rows, columns) * panel_rows, panel_rows, rows);
  const std::int64_t step = round_up<std::int64_t>(format.matrix_bytes(rows, columns), 4096), count = std::max(at_once, static_cast<std::int64_t>(buffer_bytes) / step), bytes = count * step;
  const std::shared_ptr<std::byte> data = allocate_storage(static_cast<std::size_t>(bytes));
  // A scale of about 0.2 in halves; any code.
  team.deal(bytes, round_up<std::int64_t>(team.grain_of(bytes), 64), [&](Range part, int) { std::fill(data.get() + part.begin, data.get() + part.end, std::byte{0x33}); });
  std::vector<WeightMatrix> matrices;  // in an order that nothing fetches ahead
  for (const std::int64_t i : far_apart(count)) matrices.emplace_back(format, rows, columns, std::shared_ptr<const std::byte>(data, data.get() + i * step));
  nn::Activations x;
  x.serve(kernels, matrices[0]);
  x.resize(1, columns);
  std::fill_n(x.row(0), columns, 0.5f);
  x.quantize_row(kernels, 0);
  nn::RowBuffer out;
  out.resize(at_once, rows);
  const auto product = [&](std::int64_t i, std::int64_t k) { return nn::Product{matrices[static_cast<std::size_t>(i + k)], nullptr, {out.row(k), rows}}; };
  std::vector<double> rates;
  for (int pass = 0; pass < passes; ++pass) {
    std::int64_t done = 0;
    const double elapsed = seconds([&] {
      for (; done + at_once <= count; done += at_once) nn::linear(kernels, team, x, {product(done, 0), product(done, 1), product(done, 2), product(done, 3)});
    });
    rates.push_back(static_cast<double>(done * format.matrix_bytes(rows, columns)) / elapsed * 1e-9);
  }
  return median(rates);
}

double measure_step_seconds(std::int64_t columns, int threads) {
  Team team(threads);
  const KernelTable& kernels = kernels_in_use();
  const std::vector<float> x(static_cast<std::size_t>(columns), 0.5f), weights(x);
  std::vector<float> out(static_cast<std::size_t>(team.size() * columns));
  constexpr int steps = 1000;  // some milliseconds
  std::vector<double> each;
  for (int pass = 0; pass < passes; ++pass) {
    each.push_back(seconds([&] {
      for (int i = 0; i < steps; ++i) team.deal(team.size(), 1, [&](Range, int worker) { kernels.rms_norm(x.data(), weights.data(), 1e-5f, out.data() + worker * columns, columns); });
    }) / steps);
  }
  return median(each);
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
