// What a layer that drafts makes its input of: multi-token prediction (DeepSeek V3, arXiv:2412.19437, 2.2).
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// x_i = projection [norm(embedding of token i + 1); norm(state of token i)] goes through a layer like the others; its output, normalized,
/// gives the head the logits of token i + 2.
struct DraftingWeights {
  WeightMatrix projection;  ///< (dim, 2 dim)
  std::vector<float> embedding_norm, state_norm;  ///< (dim)
  std::vector<float> final_norm;                  ///< (dim); empty: the model's
};

inline constexpr BlockWeight<DraftingWeights> drafting_table[] = {
    {Role::draft_projection, WeightAxis::dim, WeightAxis::twice_dim, &DraftingWeights::projection},
    {Role::draft_embedding_norm, WeightAxis::one, WeightAxis::dim, &DraftingWeights::embedding_norm},
    {Role::draft_state_norm, WeightAxis::one, WeightAxis::dim, &DraftingWeights::state_norm},
    {Role::draft_final_norm, WeightAxis::one, WeightAxis::dim, &DraftingWeights::final_norm},
};

}  // namespace bantam::inline v0::nn
