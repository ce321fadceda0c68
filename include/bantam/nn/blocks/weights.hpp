// The weights of each kind of block. What a block lacks is empty.
#pragma once

#include <vector>

#include "bantam/quant/weights.hpp"

namespace bantam::inline v0::nn {

/// Attention with grouped heads: q, k, v, o. Latent attention (arXiv:2405.04434) has q or q_a and q_b, kv_a, k_b, v_b, o.
struct AttentionWeights {
  WeightMatrix q;     ///< (heads * head_dim, dim)
  WeightMatrix k, v;  ///< (kv_heads * head_dim, dim)
  WeightMatrix o;     ///< (dim, heads * value_dim)
  std::vector<float> q_bias, k_bias, v_bias, o_bias;  ///< (rows of the matrix)
  std::vector<float> q_norm, k_norm;                  ///< (head_dim), or as many as the rows of q and k
  std::vector<float> sinks;                           ///< (heads)

  WeightMatrix q_a, q_b;  ///< (q_rank, dim), (heads * head_dim, q_rank)
  WeightMatrix kv_a;      ///< (kv_rank + rope_dim, dim)
  WeightMatrix k_b;       ///< (heads * kv_rank, head_dim - rope_dim): brings a head's query into the latent space
  WeightMatrix v_b;       ///< (heads * value_dim, kv_rank)
  std::vector<float> q_a_norm, kv_a_norm;  ///< (q_rank), (kv_rank)
};

/// down(act(gate x) * up x), a bias added to what each matrix makes: an MLP, or one expert.
struct MlpWeights {
  WeightMatrix gate, up;                            ///< (ffn, dim)
  WeightMatrix down;                                ///< (dim, ffn)
  std::vector<float> gate_bias = {}, up_bias = {};  ///< (ffn)
  std::vector<float> down_bias = {};                ///< (dim)
};

struct ExpertsWeights {
  WeightMatrix router;                ///< (experts, dim), of floats: a choice that flips costs more than their bytes
  std::vector<float> router_bias;     ///< (experts)
  std::vector<float> selection_bias;  ///< (experts): see Router
  std::vector<float> shared_gate;     ///< (dim): what was there before the experts counts by sigmoid(shared_gate x)
  std::vector<MlpWeights> experts;    ///< alike: all with a gate, or none
  /// (latent, dim), (dim, latent): experts read latent_down x, and latent_up brings back what they add up to (LatentMoE of
  /// Nemotron 3). Empty: they read x.
  WeightMatrix latent_down = {}, latent_up = {};
};

}  // namespace bantam::inline v0::nn
