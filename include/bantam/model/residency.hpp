// What of a model's weights is in memory under a bound, and what is read from its file when it is wanted.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "bantam/model/checkpoint.hpp"

namespace bantam::inline v0 {

class DeviceMap;

/// Follows from shapes and formats alone. All but what is said here to be read is in memory for good: the head, vectors,
/// routers and the layer that drafts always are. Tables of which a token reads a row go first, experts next; where that is not enough,
/// matrices of layers follow, as much of each layer as of the others: two slots for what is read of the largest layer are all the memory that this
/// takes, and reads go on while what is in memory is computed.
struct Residency {
  struct Layer {
    std::vector<Role> streamed = {};   ///< its matrices that are read for each pass, but for those of experts
    std::int64_t cached_experts = 0;   ///< how many of its experts are in memory at a time; 0: all, or it has none
    std::int64_t slot_bytes = 0;       ///< memory of those that are read
    std::int64_t expert_slot_bytes = 0;  ///< of its largest expert
    std::int64_t expert_file_bytes = 0;  ///< of one in the file, on average
    [[nodiscard]] bool streams() const noexcept { return !streamed.empty(); }
  };
  std::vector<Layer> layers;  ///< those of passes
  std::vector<Role> looked_up = {};  ///< tables whose rows are read from the file when a token wants one
  std::int64_t table_bytes = 0;     ///< of the file, what those take
  std::int64_t limit = 0;           ///< bytes for all matrices; no_limit: there is room for all
  std::int64_t least = 0;           ///< the least limit under which the model runs
  std::int64_t pinned_bytes = 0;    ///< of matrices that are in memory for good
  std::int64_t slot_bytes = 0;      ///< of one of the slots for layers
  std::int64_t slots = 0;           ///< two, or none
  std::int64_t cache_bytes = 0;     ///< for experts
  std::int64_t streamed_layer_bytes = 0;  ///< of a file, that each pass reads; tokens read the experts besides that are not there

  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
  [[nodiscard]] bool is_bounded() const noexcept { return limit != no_limit; }
  [[nodiscard]] bool keeps_all() const noexcept { return !is_bounded() && looked_up.empty(); }
  [[nodiscard]] std::int64_t resident_bytes() const noexcept { return pinned_bytes + slots * slot_bytes + cache_bytes; }
  [[nodiscard]] bool fits() const noexcept { return least <= limit; }
  /// Leaves a table in the file.
  void look_up(const CheckpointTensor& table);
  /// Whether a tensor is in memory for good.
  [[nodiscard]] bool keeps(const CheckpointTensor& tensor) const noexcept;
};

/// What all matrices take in memory.
[[nodiscard]] std::int64_t bytes_in_memory(const Checkpoint& checkpoint);
/// What is in memory where there is room: all but tables of per-layer embeddings and of n-grams, which are half of a model or more, and of which a token
/// reads some kB.
[[nodiscard]] Residency residency_with_room(const Checkpoint& checkpoint);
/// What is in memory of a model that does not fit `limit` whole. With a map, which throws for what it does not name, what that says: experts on the disk
/// get what is left of the limit.
[[nodiscard]] Residency residency_of(const Checkpoint& checkpoint, std::int64_t limit, const DeviceMap* devices = nullptr);

/// The share of a token's experts that are among those used last, where so many of a layer's are cached: s (1 + c) / (s + c), s being the share of
/// experts that are cached and c = 0.08. Fitted to what LRU caches of Qwen3, Gemma 4, gpt-oss, and Qwen3.5 were measured to reach with texts, from 0.45 for
/// a twentieth of the experts to 0.81 for a quarter; off by up to 0.04 there, and for the largest models (GLM-5.2, 0.55 for a sixth) too high.
[[nodiscard]] double expert_hits(std::int64_t cached, std::int64_t experts) noexcept;

namespace detail {
/// Whether a tensor can be read when it is wanted: matrices of layers, but for routers.
[[nodiscard]] bool can_stream(const CheckpointTensor& tensor) noexcept;
/// Whether it is a table of which a token reads one row, and of more rows than a text has positions.
[[nodiscard]] bool can_look_up(const CheckpointTensor& tensor) noexcept;
/// Whether a token that works with it reads all of it: of tables of which it reads a row, only an embedding that is the head too.
[[nodiscard]] bool is_read_whole(const CheckpointTensor& tensor, const ModelConfig& config) noexcept;
/// Whether it is in memory as floats, though the file has it quantized: RoleInfo::is_widened().
[[nodiscard]] bool is_widened(const CheckpointTensor& tensor) noexcept;
/// Memory of a tensor among others: in a slot, or in the arena of those that stay.
[[nodiscard]] std::int64_t room_of(const CheckpointTensor& tensor) noexcept;
}  // namespace detail

}  // namespace bantam::inline v0
