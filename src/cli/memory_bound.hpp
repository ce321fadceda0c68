// --memory: what a process may take, divided between weights and everything else.
#pragma once

#include "options.hpp"
#include "output.hpp"

namespace bantam::cli {

/// Of a token in a pass: activations, rows of floats, most of them rounded to 8 bits besides, and twice where kernels want tokens interleaved.
[[nodiscard]] std::int64_t row_bytes(const ModelConfig& config);
/// What weights may take in a process that takes `bound` bytes in all: less what it has already, keys, values and states of the texts,
/// and buffers. Throws Error where nothing is left.
[[nodiscard]] std::int64_t room_for_weights(const Checkpoint& checkpoint, std::int64_t bound, TextRoom texts);

/// {resident_bytes, streamed_bytes, expert_hits, expert_misses, read_gb_s, waited_ms}
[[nodiscard]] Json to_json(const StreamStats& stats);
/// "weights: 1.20 GB in memory, 34.56 GB read at 2.1 GB/s, waited 12.3 s, 81 % of experts were there"
[[nodiscard]] std::string statistics(const StreamStats& stats);

}  // namespace bantam::cli
