// --memory: what a process may take, divided between weights and everything else.
#pragma once

#include "options.hpp"
#include "output.hpp"

namespace bantam::cli {

/// Of a token in a pass: activations, rows of floats, most of them rounded to 8 bits besides, and twice where kernels want tokens interleaved.
[[nodiscard]] std::int64_t row_bytes(const ModelConfig& config, std::span<const ScaledAdapter> adapters = {});
/// LoadOptions::memory_limit of a process that may take so much in all: --memory's SIZE, or where that is empty what the system has left for
/// it, less a sixteenth. The process has something already, and needs keys, values and states of the texts, and buffers. `adapters` are in
/// memory. Throws Error where nothing is left.
[[nodiscard]] std::int64_t room_for_weights(const Checkpoint& checkpoint, const std::string& size, TextRoom texts, std::span<const ScaledAdapter> adapters);
/// "18.5 GB of weights, 12.0 GB of them in memory: 20 of 48 layers are read from the file for each pass, and experts beyond 12 of 128 a layer"
[[nodiscard]] std::string description(const Model& model, const Residency& residency);

/// {resident_bytes, streamed_bytes, expert_hits, expert_misses, read_gb_s, waited_ms}
[[nodiscard]] Json to_json(const StreamStats& stats);
/// "weights: 1.20 GB in memory, 34.56 GB read at 2.1 GB/s, waited 12.3 s, 81 % of experts were there"
[[nodiscard]] std::string statistics(const StreamStats& stats);

}  // namespace bantam::cli
