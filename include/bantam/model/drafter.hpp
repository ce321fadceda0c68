// Multi-token prediction: the layer of a model that guesses the token after the next one (DeepSeek V3, arXiv:2412.19437, 2.2).
#pragma once

#include <span>
#include <vector>

#include "bantam/model/forward.hpp"

namespace bantam::inline v0 {

/// The layer as a model of one layer, with the embedding and the head of the whole one. For one thread at a time.
class Drafter {
 public:
  /// Of a model that has such a layer; its weights outlive it. embedding: as BlockSource::table() has it.
  Drafter(const ModelConfig& config, const ModelWeights& weights, const MatrixSource* embedding, std::int64_t context_tokens, int threads);

  /// As Engine::draft, whose caller has checked everything.
  void run(nn::SequenceState& draft_state, std::span<const TokenId> tokens, std::span<const float> states, std::span<float> logits, std::span<float> state);
  /// As Team::is_forked().
  [[nodiscard]] bool is_forked() const noexcept { return forward_.is_forked(); }

 private:
  void project(std::span<const TokenId> tokens, std::span<const float> states);

  const ModelConfig config_;
  const ModelWeights weights_;  ///< share the matrices of the whole model
  const nn::DraftingWeights& own_;
  TableRows embedding_;
  const KernelTable& kernels_;
  Forward forward_;
  nn::Activations pairs_;         ///< (tokens, 2 dim)
  std::vector<float> projected_;  ///< (tokens, dim)
  std::vector<RowCodes> codes_;   ///< one a worker
};

}  // namespace bantam::inline v0
