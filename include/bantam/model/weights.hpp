// A model's weights in memory: constant once loaded, shared by every session.
#pragma once

#include <functional>
#include <vector>

#include "bantam/model/checkpoint.hpp"
#include "bantam/nn/blocks/weights.hpp"
#include "bantam/nn/rope.hpp"

namespace bantam::inline v0 {

struct Residency;

/// Which layers of a model with an encoder before a decoder; all are the decoder's in others.
enum class Stack : std::uint8_t { encoder, decoder };

struct ModelWeights {
  WeightMatrix embedding;  ///< (vocab, dim)
  WeightMatrix position_embedding;  ///< (positions, dim), of floats
  std::vector<float> embedding_norm, embedding_norm_bias;  ///< (dim)
  WeightMatrix head;       ///< (vocab, dim); shares the embedding's bytes when tied
  std::vector<float> final_norm, final_norm_bias;
  WeightMatrix encoder_position_embedding;  ///< of an encoder before a decoder, as the decoder's above
  std::vector<float> encoder_embedding_norm, encoder_embedding_norm_bias;
  std::vector<float> encoder_norm, encoder_norm_bias;  ///< (dim), behind its last layer
  std::vector<float> head_bias;  ///< (vocab)
  WeightMatrix per_layer_embedding;   ///< (tokens that have one, layers * width); others have the first's
  WeightMatrix per_layer_projection;  ///< (layers * width, dim)
  std::vector<float> per_layer_norm;  ///< (width)
  WeightMatrix stream_projection, stream_unembedding;  ///< ((streams - 1) * dim, dim), where there are several residual streams
  std::vector<float> head_streams_norm;           ///< of hyper-connections, as nn::HyperConnectionWeights has them, before the head
  WeightMatrix head_streams_down, head_streams_up;
  WeightMatrix ngram_embedding;  ///< nn::NgramOptions: (rows, width)
  std::vector<float> token_types;  ///< (token types, dim)
  std::vector<float> class_dense, class_dense_bias, class_norm;  ///< (dim, dim), (dim) twice
  std::vector<float> class_head, class_head_bias;                ///< (labels, dim), (labels)
  std::vector<float> pooled_dense, pooled_dense_bias;            ///< (outputs, dim), (outputs)
  std::vector<float> pooled_dense_2, pooled_dense_2_bias;        ///< (outputs, outputs of the first), (outputs)
  std::vector<LayerWeights> layers;
  std::vector<LayerWeights> drafting;  ///< as ModelConfig::drafting
  std::int64_t matrix_bytes = 0;  ///< of all matrices, each counted once, and those that are in a file alone
  /// What one decoded token reads: all of the above but the embedding of an untied model and per-layer embeddings, and of experts those that it is routed to.
  std::int64_t streamed_bytes = 0;
};

/// Called often while weights are loaded, on the thread that loads, with (bytes of the file that are done, bytes in all); false
/// cancels. The last call has both equal, and its answer is not asked for.
using LoadProgress = std::function<bool(std::int64_t, std::int64_t)>;

/// Loads every tensor of a checkpoint, or those that a residency keeps: the other matrices have shapes, formats and orders, and no bytes.
/// Throws what reading throws, and cancelled when `progress` says so.
[[nodiscard]] ModelWeights load_weights(const Checkpoint& checkpoint, Reading reading, const LoadProgress& progress = {}, const Residency* residency = nullptr);
/// Loads the tensors of one block.
[[nodiscard]] LayerWeights load_block(const Checkpoint& checkpoint, std::int64_t layer);

/// How much of what an MLP and experts add up to goes to the residual stream, beside ModelScales::residual.
[[nodiscard]] double feed_forward_scale(const ModelConfig& config, const LayerWeights& layer) noexcept;

/// What follows from what was loaded: a tied head, biases that layers share, and the counts of bytes.
void complete(ModelWeights& weights, const ModelConfig& config);
/// Room for the experts of a layer.
void make_room(LayerWeights& layer, const LayerSpec& spec);
/// Room for all layers of a model.
void make_room(ModelWeights& weights, const ModelConfig& config);

}  // namespace bantam::inline v0
