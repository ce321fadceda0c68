// Structured pruning: layers, FFN channels, heads and hidden dimensions that go as a whole, and leave a smaller model of the same kind.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bantam/calibrate/calibration.hpp"
#include "bantam/calibrate/progress.hpp"
#include "bantam/model/checkpoint.hpp"
#include "bantam/prune/removal.hpp"

namespace bantam::inline v0 {

/// What each channel of a layer's FFN, or each key-value head with its query heads, is worth, in their order: the least go. Given the
/// matrix that reads them, (dim, inputs), and the mean squares of its inputs, (inputs): a head's are neighbors there.
using ImportanceFn = std::function<std::vector<double>(Part part, std::int64_t layer, TensorView<const float, 2> reader, std::span<const float> mean_squares)>;

/// What an expert is worth.
enum class ExpertScore : std::uint8_t {
  activation,  ///< the mean over the tokens routed to it of weight * |what it adds| (REAP, arXiv:2510.13999, eq. 4)
  frequency,   ///< how many tokens are routed to it
};

struct StructureOptions {
  ImportanceFn importance = {};  ///< of channels and heads; empty: as prune_structure says
  ExpertScore expert_score = ExpertScore::activation;
  /// What stays makes up for what it can of what went: from the first part that goes, every matrix is refitted by least squares
  /// over the calibration text, what reads the hidden states to what it read in the original, what adds to them to what they are there.
  bool compensate = true;
  double damping = 0.03;  ///< of these for o and down, times the mean square of the inputs
  /// The same for the others, and for all where hidden dimensions go: a short text says too little of so many. With 32 or 64 tokens
  /// a dimension 0.1 loses 2 to 5 % less than 0.01, with 128 it loses 3 % more (docs/numbers.md).
  double stream_damping = 0.1;
  /// The share of what blocks before have left to make up for that o and down are fitted to: all of it would fit the text too well.
  double follow_original = 0.6;
};

/// What will be left of a model, without a look at its weights.
struct StructurePlan {
  std::int64_t layers = 0;
  std::int64_t dim = 0;
  std::vector<LayerSpec> specs;  ///< of each layer, if it stays
  std::vector<Removal> removals;
};
/// Shares are rounded to whole key-value heads, and to as many channels at once as formats have weights a group: the largest of
/// 256, 128, 64 and 32 that divides a layer's at least 16 times; else to single ones. Hidden dimensions likewise, where 8 times do:
/// all rows are as long. Throws invalid_argument for removals that take everything or nothing, and for two of one part,
/// unsupported for hidden dimensions of models whose residual stream cannot be rotated.
[[nodiscard]] StructurePlan plan_structure(const ModelConfig& config, std::span<const Removal> removals);

/// 1 - the mean over calibration tokens of the cosine between a hidden state before a layer and after it, of each layer.
[[nodiscard]] std::vector<double> block_influence(const Checkpoint& checkpoint, const Calibration& calibration);

struct ModelSize {
  std::int64_t parameters = 0;
  std::int64_t flops_per_token = 0;  ///< two for each weight that a token meets; attention comes besides, with the context
  std::int64_t bytes = 0;            ///< of all tensors, as stored
};
[[nodiscard]] ModelSize size_of(const Checkpoint& checkpoint);

struct PrunedStructure {
  Checkpoint checkpoint;  ///< in memory: for compress_file, or Model::from_checkpoint
  ModelSize before, after;
  std::vector<std::int64_t> layers;     ///< the original's that stayed
  std::vector<double> influence;        ///< block_influence(), where layers went; else empty
  std::vector<std::string> warnings;
};

/// Layers go first, then hidden dimensions, then heads and channels of what is left, block by block: each is judged by what it reads
/// of the blocks before, already pruned. A channel or head is worth the mean square of what it adds to the hidden states (Wanda-sp,
/// arXiv:2312.11983).
/// Nothing makes up for an expert: its tokens go to others.
/// The residual stream goes over to orthogonal axes, one set for all layers, which are ordered by how much of what norms put out
/// lies along them and how much those who read it answer to that, and keeps the first of them. Norms' weights go into the
/// matrices that follow; a tied head stays tied, and its norm keeps what its weights do along each axis.
/// Memory: the pruned model, in f32 from the first block that makes up for something, two blocks, two Hessians of one matrix and
/// the calibration text's hidden states, twice; for hidden dimensions the sliced model in f32 besides, and eight square matrices
/// of doubles as wide as the stream.
/// Throws what plan_structure throws, invalid_argument without calibration samples and for importances that are too few or not
/// finite, corrupt naming the tensor where a weight is not finite, cancelled when `progress`, called after each block, says so.
[[nodiscard]] PrunedStructure prune_structure(const Checkpoint& checkpoint, std::span<const Removal> removals, const Calibration& calibration,
                                              const StructureOptions& options = {}, const ProgressFn& progress = {});

}  // namespace bantam::inline v0
