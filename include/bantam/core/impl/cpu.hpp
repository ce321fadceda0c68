// Processor features, name and cores: definitions of core/cpu.hpp.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "bantam/core/cpu.hpp"
#include "bantam/core/once.hpp"

namespace bantam::inline v0 {

namespace detail {

#if defined(__x86_64__)
/// Tiles are 8 KiB more to save at a task switch: Linux wants to be asked once a process, and refuses where a thread's stack for signals
/// is too small for them.
BANTAM_ONCE bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
BANTAM_ONCE CpuFeatures detect_features() {
  const auto bit = [](unsigned value, int position) { return ((value >> position) & 1u) != 0; };
  CpuFeatures found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool osxsave = bit(c, 27), fma = bit(c, 12), f16c = bit(c, 29), movbe = bit(c, 22);
  if (!osxsave) return found;
  const bool lzcnt = __get_cpuid(0x80000001u, &a, &b, &c, &d) && bit(c, 5);
  // The system must save the wide registers at a task switch, or using them corrupts other programs.
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  const bool saves_ymm = (low & 0x6u) == 0x6u;
  const bool saves_zmm = saves_ymm && (low & 0xe0u) == 0xe0u;
  const bool saves_tiles = (low & 0x60000u) == 0x60000u;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  // The table is compiled for x86-64-v3, whose bit manipulation the compiler uses freely: all of it must be there.
  const bool bmi = bit(b, 3) && bit(b, 8);
  found.avx2 = saves_ymm && bit(b, 5) && fma && f16c && movbe && lzcnt && bmi;
  unsigned more = 0, ignored = 0;
  found.avx2_vnni = found.avx2 && __get_cpuid_count(7, 1, &more, &ignored, &ignored, &ignored) && bit(more, 4);
  found.avx512 = found.avx2 && saves_zmm && bit(b, 16) && bit(b, 17) && bit(b, 28) && bit(b, 30) && bit(b, 31);
  found.avx512_vnni = found.avx512 && bit(c, 11) && bit(c, 1);
  found.amx_int8 = found.avx512_vnni && saves_tiles && bit(d, 24) && bit(d, 25) && may_use_tiles();
#if defined(BANTAM_VNNI_EMULATED)
  found.avx2_vnni = found.avx2;  // simd/ymm.hpp
#endif
#if defined(BANTAM_AMX_EMULATED)
  found.amx_int8 = found.avx512_vnni;  // simd/amx.hpp
#endif
  return found;
}
#elif defined(__aarch64__)
BANTAM_ONCE CpuFeatures detect_features() {
  CpuFeatures found;
  const unsigned long capabilities = getauxval(AT_HWCAP);
  found.neon = (capabilities & HWCAP_ASIMD) != 0;
  found.neon_dotprod = found.neon && (capabilities & HWCAP_ASIMDDP) != 0;
  return found;
}
#else
BANTAM_ONCE CpuFeatures detect_features() { return {}; }
#endif

}  // namespace detail

BANTAM_ONCE const CpuFeatures& cpu_features() noexcept {
  static const CpuFeatures features = detail::detect_features();
  return features;
}

BANTAM_ONCE std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name") && !line.starts_with("Model\t")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

namespace detail {

BANTAM_ONCE cpu_set_t allowed_processors() noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_SET(0, &allowed);
  return allowed;
}

/// The first number of a file; 0: there is none.
BANTAM_ONCE double first_number(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : 0.0;
}

/// The number behind a word of a file such as /proc/meminfo; 0: there is none.
BANTAM_ONCE double number_of(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  double value = 0;
  for (std::string found, rest; file >> found; std::getline(file, rest)) {
    if (found == word) return file >> value ? value : 0.0;
  }
  return 0;
}

/// quota / period of one group; 0: no limit. Version 2 has both in one file ("200000 100000", "max 100000").
BANTAM_ONCE double granted_by(const std::string& group) {
  std::ifstream both(group + "/cpu.max");
  double quota = 0, period = 0;
  if (!(both >> quota >> period)) {
    quota = first_number(group + "/cpu.cfs_quota_us");  // -1: none
    period = first_number(group + "/cpu.cfs_period_us");
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

/// What one group has left of its bound of memory; infinity: it has none. Pages of files that it read last are given up when memory is
/// wanted, and count as free.
BANTAM_ONCE double memory_left_in(const std::string& group) {
  const bool is_second = std::ifstream(group + "/memory.max").good();
  const double limit = first_number(group + (is_second ? "/memory.max" : "/memory.limit_in_bytes"));  // "max", or near 2^63: none
  if (limit <= 0 || limit > 0x1p62) return std::numeric_limits<double>::infinity();
  const double used = first_number(group + (is_second ? "/memory.current" : "/memory.usage_in_bytes"));
  const std::string total = is_second ? "" : "total_";  // with the groups below
  const double files = number_of(group + "/memory.stat", total + "inactive_file") + number_of(group + "/memory.stat", total + "active_file");
  return std::max(0.0, limit - std::max(0.0, used - files));
}

/// Calls f(folder) for the process's groups of a controller ("cpu", "memory") and for those above them, of either version.
template <class F>
void for_each_group(const std::string& root, const std::string& controller, F&& f) {
  std::ifstream groups(root + "/proc/self/cgroup");
  // "0::/path" is of version 2, "4:cpu,cpuacct:/path" of version 1. A container sees its own group as the root.
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    std::vector<std::string> mounts;
    if (names.empty()) mounts = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    if (("," + names + ",").find("," + controller + ",") != std::string::npos) mounts = {"/sys/fs/cgroup/" + controller};
    if (!mounts.empty() && names.find(',') != std::string::npos) mounts.push_back("/sys/fs/cgroup/" + names);
    for (const std::string& mount : mounts) {
      // A group has no more than those above it.
      for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
        f(root + mount + path);
        if (path.rfind('/') == std::string::npos) break;
      }
    }
  }
}

}  // namespace detail

BANTAM_ONCE int usable_processors() noexcept {
  const cpu_set_t allowed = detail::allowed_processors();
  return std::max(1, CPU_COUNT(&allowed));
}

BANTAM_ONCE int granted_processors(const std::string& root) {
  double least = 0;
  detail::for_each_group(root, "cpu", [&](const std::string& group) {
    const double granted = detail::granted_by(group);
    if (granted > 0 && (least == 0 || granted < least)) least = granted;
  });
  return static_cast<int>(std::ceil(least));
}

BANTAM_ONCE std::int64_t available_memory(const std::string& root) {
  double least = 1024 * detail::number_of(root + "/proc/meminfo", "MemAvailable:");
  if (least == 0) return 0;
  detail::for_each_group(root, "memory", [&](const std::string& group) { least = std::min(least, detail::memory_left_in(group)); });
  return static_cast<std::int64_t>(least);
}

BANTAM_ONCE int usable_cores() {
  const cpu_set_t allowed = detail::allowed_processors();
  // Two threads of one core share its arithmetic and its bandwidth: one worker a core is enough.
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string list;
    if (!std::getline(siblings, list)) list = "cpu" + std::to_string(cpu);
    cores.insert(list);
  }
  const int granted = granted_processors();
  const int count = std::max<int>(1, static_cast<int>(cores.size()));
  return granted > 0 ? std::min(count, granted) : count;
}

BANTAM_ONCE std::size_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace bantam::inline v0
