// What the library believes about this machine.
#include "bantam/core/cpu.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"

TEST_CASE("processor features build on each other and agree with the system's own list") {
  const bantam::CpuFeatures& cpu = bantam::cpu_features();
  if (cpu.avx512_vnni) CHECK(cpu.avx512);
  if (cpu.avx512) CHECK(cpu.avx2);
  if (cpu.neon_dotprod) CHECK(cpu.neon);
#if defined(__x86_64__)
  CHECK_FALSE(cpu.neon);
  std::ifstream info("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(info, line) && flags.empty();) {
    if (line.starts_with("flags")) flags = line + " ";
  }
  if (!flags.empty()) {
    const auto has = [&](const char* flag) { return flags.find(std::string(" ") + flag + " ") != std::string::npos; };
    // Some virtual machines' kernels leave abm out, which the processor has.
    const bool lzcnt = has("abm") || __builtin_cpu_supports("lzcnt");
    const bool avx2 = has("avx2") && has("fma") && has("f16c") && has("bmi1") && has("bmi2") && has("movbe") && lzcnt;
    CHECK(cpu.avx2 == avx2);
    const bool avx512 = avx2 && has("avx512f") && has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl");
    CHECK(cpu.avx512 == avx512);
    const bool vnni = avx512 && has("avx512_vnni") && has("avx512vbmi");
    CHECK(cpu.avx512_vnni == vnni);
#if !defined(BANTAM_CHECKED)
    if (cpu.amx_int8) CHECK((vnni && has("amx_tile") && has("amx_int8")));  // not the other way round: the system may refuse
    CHECK(cpu.avx2_vnni == (avx2 && has("avx_vnni")));  // emulated under sanitizers
#endif
  }
#elif defined(__aarch64__)
  CHECK(cpu.neon);
  CHECK_FALSE(cpu.avx2);
#endif
}

TEST_CASE("there is at least one core, and no more than the system counts") {
  CHECK(bantam::usable_cores() >= 1);
  CHECK(bantam::usable_cores() <= static_cast<int>(std::thread::hardware_concurrency()));
}

namespace {

/// What a process in these groups sees below "/", in a folder while this lives.
std::string write_system(const bantam::test::TemporaryFolder& root, const std::string& groups, const std::vector<std::pair<std::string, std::string>>& files) {
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  };
  write("proc/self/cgroup", groups);
  for (const auto& [path, text] : files) write(path, text);
  return root.path().string();
}

}  // namespace

TEST_CASE("a control group's share of processor time is found in either version, the least of those above") {
  const auto granted = [](const std::string& groups, std::vector<std::pair<std::string, std::string>> files) {
    for (auto& file : files) file.first = "sys/fs/cgroup/" + file.first;
    const bantam::test::TemporaryFolder root;
    return bantam::granted_processors(write_system(root, groups, files));
  };
  CHECK(granted("0::/", {}) == 0);
  CHECK(granted("0::/", {{"cpu.max", "max 100000"}}) == 0);
  CHECK(granted("0::/", {{"cpu.max", "200000 100000"}}) == 2);
  CHECK(granted("0::/a/b", {{"a/cpu.max", "50000 100000"}, {"a/b/cpu.max", "300000 100000"}}) == 1);
  CHECK(granted("0::/a/b", {{"a/cpu.max", "500000 100000"}, {"a/b/cpu.max", "250000 100000"}}) == 3);
  CHECK(granted("0::/a", {{"unified/a/cpu.max", "100000 100000"}}) == 1);
  CHECK(granted("5:devices:/\n4:cpu,cpuacct:/a\n0::/", {{"cpu,cpuacct/a/cpu.cfs_quota_us", "150000"}, {"cpu,cpuacct/a/cpu.cfs_period_us", "100000"}}) == 2);
  CHECK(granted("1:cpu:/", {{"cpu/cpu.cfs_quota_us", "-1"}, {"cpu/cpu.cfs_period_us", "100000"}}) == 0);
  CHECK(granted("3:cpuset:/a\n", {{"cpu/a/cpu.cfs_quota_us", "100000"}, {"cpu/a/cpu.cfs_period_us", "100000"}}) == 0);
}

TEST_CASE("memory that is left is what the system has, and what control groups of either version leave") {
  const auto left = [](const std::string& groups, const std::vector<std::pair<std::string, std::string>>& files) {
    const bantam::test::TemporaryFolder root;
    return bantam::available_memory(write_system(root, groups, files));
  };
  constexpr std::int64_t all = std::int64_t{1000} << 10;
  const std::pair<std::string, std::string> system{"proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable:    1000 kB\nBuffers: 1 kB"};
  const auto group = [](const std::string& path, const std::string& text) { return std::pair{"sys/fs/cgroup/" + path, text}; };
  CHECK(left("0::/", {}) == 0);
  CHECK(left("0::/", {system}) == all);
  CHECK(left("0::/a", {system, group("a/memory.max", "max"), group("a/memory.current", "900000")}) == all);
  CHECK(left("0::/a", {system, group("a/memory.max", "1000000"), group("a/memory.current", "900000")}) == 100000);
  CHECK(left("0::/a", {system, group("a/memory.max", "1000000"), group("a/memory.current", "900000"),
                       group("a/memory.stat", "anon 1\nactive_file 200000\ninactive_file 300000")}) == 600000);
  CHECK(left("0::/a", {system, group("a/memory.max", "1000"), group("a/memory.current", "900000")}) == 0);
  CHECK(left("0::/a/b", {system, group("a/memory.max", "500000"), group("a/memory.current", "100000"), group("a/b/memory.max", "800000"),
                         group("a/b/memory.current", "100000")}) == 400000);
  CHECK(left("4:memory:/a\n0::/", {system, group("memory/a/memory.limit_in_bytes", "700000"), group("memory/a/memory.usage_in_bytes", "300000"),
                                   group("memory/a/memory.stat", "inactive_file 5\ntotal_active_file 100000\ntotal_inactive_file 0")}) == 500000);
  CHECK(left("4:memory:/\n", {system, group("memory/memory.limit_in_bytes", "9223372036854771712"), group("memory/memory.usage_in_bytes", "300000")}) == all);
  CHECK(left("4:cpu:/\n", {system, group("memory/memory.limit_in_bytes", "1")}) == all);
}

TEST_CASE("the processor's name is one line") {
  CHECK_FALSE(bantam::cpu_name().empty());
  CHECK(bantam::cpu_name().find('\n') == std::string::npos);
}

TEST_CASE("the peak of memory grows with what is touched") {
  const std::size_t before = bantam::peak_rss_bytes();
  std::vector<char> touched(before + (32u << 20), 1);
  CHECK(bantam::peak_rss_bytes() >= before + (16u << 20));
  CHECK(touched.back() == 1);
}
