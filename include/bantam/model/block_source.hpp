// Where the weights of layers are had from: memory, a file, a model that is being changed.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <span>

#include "bantam/model/matrix_source.hpp"
#include "bantam/model/weights.hpp"
#include "bantam/nn/blocks/role.hpp"

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
  /// Moves some of these experts of a layer that is held to the front, at least one: those that are in memory, and stay there until the
  /// next call. Returns how many. The others are read meanwhile, as far as there is room. Throws what reading throws.
  [[nodiscard]] virtual std::size_t acquire_experts(std::int64_t layer, std::span<std::int64_t> wanted) const {
    (void)layer;
    return wanted.size();
  }
  /// Not 0 for experts of a layer that is held that acquire_experts() would have to read, (experts); empty: none. Until the next call of that.
  [[nodiscard]] virtual std::span<const std::uint8_t> cold_experts(std::int64_t layer) const noexcept {
    (void)layer;
    return {};
  }
  /// Where rows of a table are looked up; null: in memory.
  [[nodiscard]] virtual const MatrixSource* table(Role role) const {
    (void)role;
    return nullptr;
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
