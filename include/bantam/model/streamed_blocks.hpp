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
/// cache where that is faster. A cache of experts for each layer, of those used last. Rows of tables are looked up in the file. What reading throws,
/// acquire() and acquire_experts() throw, and read again when they are called again; a file that changed since it was opened is an error.
/// The checkpoint and the weights outlive it.
class StreamedBlocks final : public BlockSource {
 public:
  /// weights: as load_weights() leaves them for this residency. Throws out_of_memory.
  StreamedBlocks(const Checkpoint& checkpoint, const ModelWeights& weights, const Residency& residency);
  ~StreamedBlocks() override;

  /// Throws invalid_argument while handles of both slots' layers exist.
  [[nodiscard]] std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const override;
  [[nodiscard]] std::size_t acquire_experts(std::int64_t layer, std::span<std::int64_t> wanted) const override;
  [[nodiscard]] std::span<const std::uint8_t> cold_experts(std::int64_t layer) const noexcept override;
  [[nodiscard]] const MatrixSource* table(Role role) const override;
  /// From any thread.
  [[nodiscard]] StreamStats stats() const;

 private:
  struct Store;
  std::unique_ptr<Store> store_;
};

/// How weights come into memory ready to be used: blocks of GGUF are rearranged on the way.
struct StreamingRate {
  double gb_s = 0;            ///< bytes of the file a second, in GB/s; 0: it has no file, or one too small to tell
  double expert_seconds = 0;  ///< of one expert's matrices, read alone; 0: it has none, or nobody knows
  double processor_s_per_gb = 0;  ///< seconds of one processor that reading and rearranging take from products
};
/// Reads five times 32 MB or a matrix of up to 128 MB beyond that, and 16 experts, with what measure_disk() chose.
[[nodiscard]] StreamingRate measure_streaming(const Checkpoint& checkpoint);

}  // namespace bantam::inline v0
