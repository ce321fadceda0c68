// Several residual streams of tokens, at both ends of a model, outside of a pass.
#pragma once

#include <span>
#include <vector>

#include "bantam/model/forward.hpp"
#include "model_source.hpp"

namespace bantam::inline v0 {

/// Hidden states as Forward's halves read them, (tokens, ModelConfig::state_dim()). Of models with one stream they are what they were.
class ResidualStreams {
 public:
  explicit ResidualStreams(const ModelSource& source);

  /// States of tokens: in each row the embedding, (dim), is there, and gets the streams of the first layer behind it. Throws what reading throws.
  void spread(std::span<float> states) const;
  /// What the final norm reads, (tokens, dim), of states that have left the last layer.
  [[nodiscard]] Tensor<float, 2> merge(std::span<const float> states) const;

 private:
  [[nodiscard]] Tensor<float, 2> merge_connected(std::span<const float> states) const;

  const ModelConfig& config_;
  std::vector<WeightMatrix> projections_, unembeddings_;  ///< of each stream but the first, (dim, dim)
  nn::HyperConnectionWeights head_;  ///< of streams of the other kind
};

}  // namespace bantam::inline v0
