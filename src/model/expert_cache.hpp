// The experts of a layer that were used last.
#pragma once

#include <atomic>

#include "stream_unit.hpp"

namespace bantam::inline v0 {

struct ExpertCounts {
  std::atomic<std::int64_t> hits{0}, misses{0};
};

/// Slots for as many experts of a layer as fit: those that were used last (LRU). Those that are there are run while others are read.
class ExpertCache {
 public:
  /// The next matrix of one of them.
  void add(const CheckpointTensor& tensor);
  /// slot_bytes: of the largest. Throws out_of_memory.
  void allocate(std::int64_t slots, std::size_t slot_bytes);
  [[nodiscard]] bool empty() const noexcept { return experts_.empty(); }

  /// BlockSource::cold_experts().
  [[nodiscard]] std::span<const std::uint8_t> cold() const noexcept { return cold_; }
  /// BlockSource::acquire_experts() for `layer`, which has the matrices of experts that are there, and no bytes for others.
  [[nodiscard]] std::size_t acquire(ReaderPool& readers, LayerWeights& layer, std::span<std::int64_t> wanted, ExpertCounts& counts);

 private:
  struct Slot {
    std::int64_t expert = -1;
    std::int64_t used = 0;                                 ///< when, in calls
    std::int64_t begun = 0;                                ///< when it was asked for
    std::shared_ptr<ReaderPool::Batch> batch = nullptr;    ///< it is being read
    bool is_new = false;                                   ///< nobody ran it yet
  };

  void note(std::int64_t expert, std::int64_t slot) noexcept;
  [[nodiscard]] Slot* holder_of(std::int64_t expert) noexcept;
  [[nodiscard]] std::byte* memory_of(const Slot& slot) const noexcept { return memory_.get() + static_cast<std::size_t>(&slot - slots_.data()) * slot_bytes_; }
  std::size_t sort(std::span<std::int64_t> wanted) noexcept;
  void begin(ReaderPool& readers, LayerWeights& layer, Slot& slot, std::int64_t expert);
  void settle(ReaderPool& readers, LayerWeights& layer, Slot& slot);

  std::vector<StreamUnit> experts_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> slot_of_;  ///< of each expert; -1: none
  std::vector<std::uint8_t> cold_;     ///< not 0: it has none
  std::shared_ptr<std::byte> memory_;
  std::size_t slot_bytes_ = 0;
  std::int64_t calls_ = 0;
};

}  // namespace bantam::inline v0
