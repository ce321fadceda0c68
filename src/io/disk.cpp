// Measuring how fast files can be read.
#include "bantam/io/disk.hpp"

#include <sys/stat.h>

#include <atomic>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/stopwatch.hpp"

namespace bantam::inline v0 {

namespace {

constexpr std::size_t probe_bytes = std::size_t{1} << 20;
constexpr double seconds_each = 0.0625;

/// Reads pieces first, first + stride, ... until the time is over. Bytes a second.
double rate_of(const MappedFile& file, int readers, bool around_cache, std::size_t first) {
  const std::size_t pieces = file.bytes().size() / probe_bytes;
  // Far from each other, and all of them in the end: an odd number of steps meets every piece but for a common divisor.
  const std::size_t stride = pieces * 5 / 8 | 1;
  std::atomic<std::size_t> next = 0, done = 0;
  std::atomic<bool> failed = false;
  const Stopwatch watch;
  const auto work = [&] {
    try {
      // A huge page, as what is read in earnest goes to: ordinary ones may take four times as long.
      const auto room = allocate_storage(std::size_t{2} << 20);
      const auto at = reinterpret_cast<std::uintptr_t>(room.get());
      std::byte* const to = room.get() + (round_up<std::uintptr_t>(at, MappedFile::block_bytes) - at);
      while (watch.seconds() < seconds_each && !failed) {
        const std::size_t piece = (first + next++ * stride) % pieces;
        const auto part = file.bytes().subspan(piece * probe_bytes, probe_bytes);
        if (around_cache) {
          file.read_blocks(part, to);
        } else {
          file.forget(part);  // the drive's rate is asked for
          file.read(part, to);
        }
        done += probe_bytes;
      }
    } catch (const Error&) {  // whoever wants the bytes in earnest says what is wrong
      failed = true;
    }
  };
  std::vector<std::jthread> others;
  try {
    for (int i = 1; i < readers; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // fewer will do
  }
  work();
  others.clear();
  return failed ? 0 : static_cast<double>(done) / watch.seconds();
}

DiskReading measure(const MappedFile& file) {
  DiskReading best;
  std::size_t first = 0;
  const auto consider = [&](int readers, bool around_cache) {
    const double gb_s = 1e-9 * rate_of(file, readers, around_cache, first += 7);
    if (gb_s > 1.1 * best.gb_s) best = {readers, around_cache, gb_s};
  };
  if (file.has_direct_reads()) {
    for (const int readers : {2, 4, 8}) consider(readers, true);
  }
  consider(4, false);
  return best;
}

}  // namespace

DiskReading measure_disk(const MappedFile& file) {
  static std::mutex mutex;
  static std::map<std::uint64_t, DiskReading> known;
  struct stat status {};
  if (file.bytes().size() < 16 * probe_bytes || ::stat(file.path().c_str(), &status) != 0) return {};
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(status.st_dev);
  if (is_new) at->second = measure(file);
  return at->second;
}

}  // namespace bantam::inline v0
