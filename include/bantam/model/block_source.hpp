// Where the weights of layers are had from: memory, a file, a model that is being changed.
#pragma once

#include <future>
#include <memory>
#include <span>

#include "bantam/model/weights.hpp"

namespace bantam::inline v0 {

/// Behind inference and compression alike: neither knows whether a layer is in memory. For one thread at a time.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;

  /// The weights of a layer, waiting for them where they are not in memory. They stay as long as the handle: its end releases
  /// them. Throws what reading throws.
  [[nodiscard]] virtual std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const = 0;
  /// Says that a layer is wanted next, so that it can be read meanwhile. What goes wrong is thrown by acquire().
  virtual void prefetch(std::int64_t layer) const { (void)layer; }
  /// Has experts of a layer that is held in memory: the first of `chosen` (ascending), as many as there is room for, at least one. They stay
  /// until the next call. Returns how many. Throws what reading throws.
  [[nodiscard]] virtual std::size_t acquire_experts(std::int64_t layer, std::span<const std::int64_t> chosen) const {
    (void)layer;
    return chosen.size();
  }

 protected:
  BlockSource() = default;
};

/// Layers that are in memory for good. `weights` outlives it.
class ResidentBlocks final : public BlockSource {
 public:
  explicit ResidentBlocks(const ModelWeights& weights) noexcept : weights_(weights) {}
  [[nodiscard]] std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const override {
    // Nothing to count: an alias of no owner.
    return {std::shared_ptr<const void>(), &weights_.layers[static_cast<std::size_t>(layer)]};
  }

 private:
  const ModelWeights& weights_;
};

/// Layers that are read from a checkpoint each time they are wanted, one ahead of the one at work: the memory of two layers,
/// however many there are. `checkpoint` outlives it.
class FileBlocks final : public BlockSource {
 public:
  explicit FileBlocks(const Checkpoint& checkpoint) noexcept : checkpoint_(checkpoint) {}
  [[nodiscard]] std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const override;
  /// Reads on a thread of its own. One layer at a time: the last that was asked for and not acquired is dropped.
  void prefetch(std::int64_t layer) const override;

 private:
  struct Ahead {
    std::int64_t layer = -1;
    std::future<LayerWeights> weights;
  };
  const Checkpoint& checkpoint_;
  mutable Ahead ahead_;
};

}  // namespace bantam::inline v0
