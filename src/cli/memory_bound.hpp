// --memory: what a process may take, divided between weights and everything else.
#pragma once

#include "options.hpp"
#include "output.hpp"

namespace bantam::cli {

/// Of a token in a pass: activations, rows of floats, most of them rounded to 8 bits besides, and twice where kernels want tokens interleaved.
[[nodiscard]] std::int64_t row_bytes(const ModelConfig& config, std::span<const ScaledAdapter> adapters = {});
/// A model that a process is about to load.
struct ModelToLoad {
  const Checkpoint& checkpoint;
  TextRoom texts;
  std::span<const ScaledAdapter> adapters = {};  ///< in memory already
};
/// LoadOptions::memory_limit of each model of a process that may take so much in all: --memory's SIZE, or where that is empty what the system has
/// left for it, less a sixteenth. The process has something already, and needs keys, values and states of the texts, and buffers. The smaller of
/// two models is in memory whole, if that leaves the other half of the room. Throws Error where nothing is left.
[[nodiscard]] std::vector<std::int64_t> rooms_for_weights(std::span<ModelToLoad> models, const std::string& size);
/// "18.5 GB of weights, 12.0 GB of them in memory: experts beyond 12 of 128 a layer are read when they are wanted, and rows of 0.2 GB of tables are
/// looked up"
[[nodiscard]] std::string description(const Model& model, const Residency& residency);

/// {resident_bytes, streamed_bytes, expert_hits, expert_misses, read_gb_s, waited_ms}
[[nodiscard]] Json to_json(const StreamStats& stats);
/// "weights: 1.20 GB in memory, 34.56 GB read at 2.1 GB/s, waited 12.3 s, 81 % of experts were there"
[[nodiscard]] std::string statistics(const StreamStats& stats);

}  // namespace bantam::cli
