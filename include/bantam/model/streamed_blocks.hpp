// Layers of a model that does not fit in memory, read ahead into slots; experts, read when tokens are routed to them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "bantam/model/block_source.hpp"
#include "bantam/model/engine.hpp"
#include "bantam/model/residency.hpp"

namespace bantam::inline v0 {

/// Two slots, whatever the depth: while one layer is run, the next that is not in memory is read into the other, around the system's page
/// cache where the file is native and its file system can. A cache of experts for each layer, of those used last. What reading throws,
/// acquire() and acquire_experts() throw, and read again when they are called again; a file that changed since it was opened is an error.
/// The checkpoint and the weights outlive it.
class StreamedBlocks final : public BlockSource {
 public:
  /// weights: as load_weights() leaves them for this residency. Throws out_of_memory.
  StreamedBlocks(const Checkpoint& checkpoint, const ModelWeights& weights, const Residency& residency);
  ~StreamedBlocks() override;

  /// Throws invalid_argument while handles of both slots' layers exist.
  [[nodiscard]] std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const override;
  [[nodiscard]] std::size_t acquire_experts(std::int64_t layer, std::span<const std::int64_t> chosen) const override;
  /// From any thread.
  [[nodiscard]] StreamStats stats() const;

 private:
  struct Store;
  std::unique_ptr<Store> store_;
};

}  // namespace bantam::inline v0
