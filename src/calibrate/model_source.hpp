// The weights of a checkpoint as they are worked on: as they are, or rotated.
#pragma once

#include <mutex>
#include <optional>

#include "bantam/calibrate/rotation.hpp"
#include "bantam/model/block_source.hpp"

namespace bantam::inline v0 {

/// Throw corrupt naming the weight that is not finite.
void check_finite(const std::string& name, std::int64_t row, std::span<const float> values);
void check_finite(const std::string& name, const WeightMatrix& matrix);
/// One block's weights. Throws corrupt naming the weight that is not finite.
[[nodiscard]] LayerWeights load_finite_block(const Checkpoint& checkpoint, std::int64_t layer);

/// Throws unsupported where the residual stream of such models cannot be rotated.
void check_rotatable(const ModelConfig& config);

/// Rotated, the model is the same function: norms' weights move into the matrices that follow, the residual stream x becomes
/// x Q, in all that makes and all that reads it, and so do, if Q is random, the values of each head, with a rotation for each
/// block. Weights are changed as they are read: a block at a time, rows of the embedding and the head by themselves. A tied head
/// differs from the embedding by the final norm's weights, so it gets a matrix of its own, unless these are all the same.
class ModelSource final : public BlockSource {
 public:
  /// Rotated at random where there is a seed. `checkpoint` outlives it. Throws unsupported where a model cannot be rotated,
  /// corrupt for norms that are not finite.
  explicit ModelSource(const Checkpoint& checkpoint, std::optional<std::uint64_t> seed = {});
  /// Rotated so.
  ModelSource(const Checkpoint& checkpoint, Rotation residual);

  /// What is to be written: the checkpoint, or one that is no longer tied and has no layer that drafts.
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept { return changed_ ? *changed_ : original_; }
  [[nodiscard]] bool rotated() const noexcept { return residual_.has_value(); }

  /// Matrices that changed are f32.
  [[nodiscard]] std::shared_ptr<const LayerWeights> acquire(std::int64_t layer) const override;
  /// A row of the embedding or of the head; without rotation of any matrix.
  void read_row(const CheckpointTensor& tensor, std::int64_t row, std::span<float> out, RowCodes& scratch) const;
  /// A token's first hidden state at a position of its sequence: its row, and what place() makes of it.
  void embed(const CheckpointTensor& embedding, TokenId id, std::int64_t position, std::span<float> out, RowCodes& scratch, Stack stack = Stack::decoder) const;
  /// Scales a token's row of the embedding, adds its position's and norms it, as the model does.
  void place(std::int64_t position, std::span<float> row, RowCodes& scratch, Stack stack = Stack::decoder) const;
  /// Rows first .. first + count of the same.
  [[nodiscard]] Tensor<float, 2> read_rows(const CheckpointTensor& tensor, std::int64_t first, std::int64_t count) const;
  /// A vector that belongs to no block; without rotation any.
  [[nodiscard]] std::vector<float> load_vector(const CheckpointTensor& tensor) const;

 private:
  [[nodiscard]] LayerWeights rotated_block(std::int64_t layer) const;
  /// What place() takes: made when it is first asked for, for shapes alone can be planned with.
  [[nodiscard]] const ModelWeights& tables() const;
  /// Of a rotated model: it reads states that are those of the original.
  void leave_out_drafting();
  /// Finds what the head takes over.
  void fold_final_norm();
  /// A row over the norm's weights that it takes over.
  void read_folded(const CheckpointTensor& tensor, std::int64_t row, std::span<float> out, RowCodes& scratch) const;

  const Checkpoint& original_;
  mutable std::once_flag tables_known_;
  mutable ModelWeights tables_;  ///< learned positions, and the norm behind the embedding
  std::optional<Checkpoint> changed_;
  std::optional<Rotation> residual_;
  std::optional<std::uint64_t> seed_;  ///< of the heads' rotations, if any
  std::vector<float> head_gains_;  ///< what the head takes over from the final norm; empty: nothing
};

}  // namespace bantam::inline v0
