// The machine's own limits, measured: what decode and prefill are fractions of.
#pragma once

#include <cstdint>

#include "bantam/quant/format_info.hpp"

namespace bantam::inline v0 {

/// Bytes read from memory a second, in GB/s: `threads` threads (0: usable cores) sum a buffer in huge pages that no
/// cache holds; the median of several passes.
[[nodiscard]] double measure_read_gb_s(int threads = 0);

/// Bytes a second, in GB/s, of matrices of this shape, here and there in memory, that `threads` threads multiply by one vector, four at a time, as decoding does:
/// more than measure_read_gb_s() where kernels fetch ahead better than its loop, less where matrices are short, or a format's arithmetic takes longer than
/// reading.
[[nodiscard]] double measure_product_gb_s(const FormatInfo& format, std::int64_t rows, std::int64_t columns, int threads = 0);

/// What a step of a pass takes where little is to do: each of `threads` threads norms a row of `columns` numbers, and all wait for the last.
[[nodiscard]] double measure_step_seconds(std::int64_t columns, int threads = 0);

/// Integer operations a second of the instruction set in use, in 10^9/s (a multiply and an add are two): a dot-product
/// tile on data in the first-level cache, on `threads` threads.
[[nodiscard]] double measure_int8_gop_s(int threads = 0);

/// Bytes of the largest cache, which models up to its size are read from; 0: the system does not tell.
[[nodiscard]] long last_level_cache_bytes() noexcept;

}  // namespace bantam::inline v0
