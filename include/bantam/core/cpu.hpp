// What this machine's processor can do, and how many cores and how much memory this process may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace bantam::inline v0 {

/// Instruction sets that both the processor and the operating system support.
struct CpuFeatures {
  bool avx2 = false;         ///< AVX2 with all else of x86-64-v3: FMA, F16C, BMI, LZCNT, MOVBE
  bool avx2_vnni = false;    ///< AVX-VNNI on top
  bool avx512 = false;       ///< F, BW, CD, DQ and VL
  bool avx512_vnni = false;  ///< VNNI and VBMI on top
  bool amx_int8 = false;     ///< AMX's tiles and int8 products on top, which the system lets this process use
  bool neon = false;
  bool neon_dotprod = false;
};

/// Asked once; cpuid and xgetbv on x86-64, the auxiliary vector on aarch64.
[[nodiscard]] const CpuFeatures& cpu_features() noexcept;

/// The processor's own name, "unknown" where it tells none.
[[nodiscard]] std::string cpu_name();

/// Physical cores that this process may run on (affinity, sibling threads and the container's share of processor time
/// considered); at least 1.
[[nodiscard]] int usable_cores();
/// The processors' worth of time that control groups of either version grant this process, rounded up; 0: no limit. `root`: where
/// /proc and /sys are.
[[nodiscard]] int granted_processors(const std::string& root = {});
/// Processors as the system counts them, sibling threads apart, that the calling thread may run on; at least 1.
[[nodiscard]] int usable_processors() noexcept;

/// Bytes that the system could hand out without swapping, and that the process's control groups of either version leave it; 0: the
/// system does not tell. `root`: as above.
[[nodiscard]] std::int64_t available_memory(const std::string& root = {});

/// The largest resident set of this process so far, in bytes.
[[nodiscard]] std::size_t peak_rss_bytes();

}  // namespace bantam::inline v0
