// A model's weights in memory: constant once loaded, shared by every session.
#pragma once

#include <functional>
#include <vector>

#include "bantam/model/checkpoint.hpp"
#include "bantam/nn/blocks/experts_weights.hpp"
#include "bantam/nn/rope.hpp"

namespace bantam::inline v0 {

/// One transformer block. Vectors that an architecture lacks are empty.
struct LayerWeights {
  std::vector<float> attention_norm, ffn_norm;         ///< (dim)
  std::vector<float> q_norm, k_norm;                   ///< (head_dim), or as many as the rows of q and k
  std::vector<float> sinks;                            ///< (heads)
  std::vector<float> q_bias, k_bias, v_bias, o_bias;   ///< (rows of the matrix)
  std::vector<float> gate_bias, up_bias, down_bias;
  WeightMatrix q, k, v, o;                             ///< (heads * head_dim, dim), (kv_heads * head_dim, dim) twice, (dim, heads * head_dim)
  WeightMatrix gate, up, down;                         ///< (ffn, dim) twice, (dim, ffn): of the MLP, or of the shared expert
  nn::ExpertsWeights experts;                          ///< of sparse layers
};

struct ModelWeights {
  WeightMatrix embedding;  ///< (vocab, dim)
  WeightMatrix head;       ///< (vocab, dim); shares the embedding's bytes when tied
  std::vector<float> final_norm;
  std::vector<LayerWeights> layers;
  std::int64_t matrix_bytes = 0;  ///< of all matrices, each counted once
  /// What one decoded token reads: all of the above but the embedding of an untied model, and of experts those that it is routed to.
  std::int64_t streamed_bytes = 0;
};

/// Called often while weights are loaded, on the thread that loads, with (bytes of the file that are done, bytes in all); false
/// cancels. The last call has both equal, and its answer is not asked for.
using LoadProgress = std::function<bool(std::int64_t, std::int64_t)>;

/// Loads every tensor of a checkpoint. Throws what reading throws, and cancelled when `progress` says so.
[[nodiscard]] ModelWeights load_weights(const Checkpoint& checkpoint, Reading reading, const LoadProgress& progress = {});
/// Loads the tensors of one block.
[[nodiscard]] LayerWeights load_block(const Checkpoint& checkpoint, std::int64_t layer);

/// What follows from the matrices: a tied head, and the counts of bytes.
void complete(ModelWeights& weights, const ModelConfig& config) noexcept;
/// Room for the experts of a layer.
void make_room(LayerWeights& layer, const LayerSpec& spec);

}  // namespace bantam::inline v0
