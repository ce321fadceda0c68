// What is carried beside hidden states from layer to layer, in models that have such: keys that later layers read, choices of their indexers, per-layer embeddings.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "bantam/model/forward.hpp"
#include "model_source.hpp"

namespace bantam::inline v0 {

/// What layers leave to later ones, of each sequence: keys and values, and what indexers chose. A copy shares what was there; what either is given next, it
/// has alone.
class LentStates {
 public:
  explicit LentStates(const ModelConfig& config) noexcept : config_(&config) {}

  /// For a layer's first half over a sequence: sets what is null where the layer neither reads of others nor leaves anything. `keeps`: of a layer that others
  /// read of, whether they are to read what this run makes.
  void lend(std::int64_t layer, std::size_t sequence, bool keeps, BesideStates& to);

 private:
  template <class State>
  using ByLayer = std::map<std::int64_t, std::vector<std::shared_ptr<State>>>;  ///< and sequence
  template <class State, class Make>
  static State* find(ByLayer<State>& states, std::int64_t place, std::size_t sequence, bool is_new, Make&& make);

  const ModelConfig* config_;
  ByLayer<nn::SequenceState> keys_;
  ByLayer<nn::KeptChoice> choices_;
};

/// Embeddings of the n-grams that a text's tokens end.
class NgramRows {
 public:
  /// `source` outlives it.
  explicit NgramRows(const ModelSource& source);

  /// (tokens, all width) of a whole text, until the next call. Throws what reading throws.
  [[nodiscard]] std::span<const float> of(std::span<const TokenId> tokens);

 private:
  const ModelSource& source_;
  const CheckpointTensor* table_ = nullptr;
  std::vector<float> rows_;
};

/// Per-layer embeddings of tokens, a layer at a time. They depend on nothing but the token: each is made once a layer.
class LayerEmbeddings {
 public:
  /// `source` outlives it.
  explicit LayerEmbeddings(const ModelSource& source);

  /// (tokens, width) of a layer, until the next call; nothing in a model that has none. Throws what reading throws.
  [[nodiscard]] std::span<const float> of(std::int64_t layer, std::span<const TokenId> tokens);

 private:
  void make(const std::vector<TokenId>& tokens);

  const ModelSource& source_;
  nn::PerLayerOptions options_;
  WeightMatrix projection_;
  std::vector<float> norm_;
  const CheckpointTensor *embedding_ = nullptr, *table_ = nullptr;
  std::int64_t layer_ = -1;
  std::map<TokenId, std::vector<float>> known_;  ///< of layer_
  std::vector<float> rows_;
};

/// Either of them, where half of a layer reads such; else nothing.
class BesideEmbeddings {
 public:
  explicit BesideEmbeddings(const ModelSource& source) : config_(source.checkpoint().config()), of_layers_(source), of_ngrams_(source) {}
  [[nodiscard]] std::span<const float> of(std::int64_t layer, Half half, std::span<const TokenId> tokens) {
    if (half == Half::mixer && config_.layer(layer).reads_ngrams) return of_ngrams_.of(tokens);
    return half == Half::end ? of_layers_.of(layer, tokens) : std::span<const float>();
  }

 private:
  const ModelConfig& config_;
  LayerEmbeddings of_layers_;
  NgramRows of_ngrams_;
};

}  // namespace bantam::inline v0
