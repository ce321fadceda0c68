// What the library believes about this machine.
#include "bantam/core/cpu.hpp"

#include <string>
#include <thread>
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
    const bool avx2 = has("avx2") && has("fma") && has("f16c") && has("bmi1") && has("bmi2") && has("movbe") && has("abm");
    CHECK(cpu.avx2 == avx2);
    const bool avx512 = avx2 && has("avx512f") && has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl");
    CHECK(cpu.avx512 == avx512);
    const bool vnni = avx512 && has("avx512_vnni") && has("avx512vbmi");
    CHECK(cpu.avx512_vnni == vnni);
#if !defined(BANTAM_CHECKED)
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
