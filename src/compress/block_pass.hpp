// The pass over a model's blocks: what each reads, its weights rounded for that, and what the next one reads then.
#pragma once

#include <map>
#include <memory>

#include "bantam/compress/compress.hpp"
#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

/// Carries the calibration tokens' hidden states through the blocks of a checkpoint. Memory: the hidden states twice, one
/// block before and after, and the four Hessians of its inputs, whatever the depth.
class BlockPass {
 public:
  BlockPass(const Checkpoint& checkpoint, const Recipe& recipe, const Calibration& calibration);

  /// Matrices of block `layer` (in order: each call goes on where the last one ended) that the recipe's method rounds.
  /// Those it leaves alone, because their format is one of floats or the one they have, are not in the result.
  [[nodiscard]] std::map<Role, WeightMatrix> round_block(std::int64_t layer);

 private:
  const Checkpoint& checkpoint_;
  const Recipe& recipe_;
  std::vector<std::int64_t> lengths_;  ///< tokens of each sample
  std::vector<float> hidden_;          ///< (tokens of all samples, dim)
  ModelWeights none_;                  ///< Forward holds on to a model's weights; blocks come one by one
  std::unique_ptr<Forward> forward_;
  nn::KvCache cache_;
};

}  // namespace bantam::inline v0
