// The machine's own limits, measured: what decode and prefill are fractions of.
#pragma once

namespace bantam::inline v0 {

/// Bytes read from memory a second, in GB/s: `threads` threads (0: usable cores) sum a buffer in huge pages that no
/// cache holds; the median of several passes.
[[nodiscard]] double measure_read_gb_s(int threads = 0);

/// Integer operations a second of the instruction set in use, in 10^9/s (a multiply and an add are two): a dot-product
/// tile on data in the first-level cache, on `threads` threads.
[[nodiscard]] double measure_int8_gop_s(int threads = 0);

/// Bytes of the largest cache, which models up to its size are read from; 0: the system does not tell.
[[nodiscard]] long last_level_cache_bytes() noexcept;

}  // namespace bantam::inline v0
