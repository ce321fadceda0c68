// The weights of attention, with grouped heads or latent.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Attention with grouped heads: q, k, v, o. Latent attention (arXiv:2405.04434) has q or q_a and q_b, kv_a, k_b, v_b, o.
struct AttentionWeights {
  WeightMatrix q;     ///< (heads * head_dim, dim)
  WeightMatrix k, v;  ///< (kv_heads * head_dim, dim), (kv_heads * value_dim, dim)
  WeightMatrix gate;  ///< (heads * value_dim, dim): OutputGate::own; (heads, dim): of_heads
  WeightMatrix o;     ///< (dim, heads * value_dim)
  std::vector<float> q_bias, k_bias, v_bias, o_bias;  ///< (rows of the matrix)
  std::vector<float> q_norm, k_norm;                  ///< (head_dim), or as many as the rows of q and k
  std::vector<float> q_norm_bias = {}, k_norm_bias = {};  ///< as many, of layer norms
  std::vector<float> o_norm = {};                     ///< (heads * value_dim), of an RMS norm of what `o` reads; empty: there is none
  std::vector<float> sinks;                           ///< (heads)
  std::vector<float> relative_bias = {};              ///< (buckets, heads): of scores, by distance

  WeightMatrix q_a, q_b;  ///< (q_rank, dim), (heads * head_dim, q_rank)
  WeightMatrix kv_a;      ///< (kv_rank + rope_dim, dim)
  WeightMatrix k_b;       ///< (heads * kv_rank, head_dim - rope_dim): brings a head's query into the latent space
  WeightMatrix v_b;       ///< (heads * value_dim, kv_rank)
  std::vector<float> q_a_norm, kv_a_norm;  ///< (q_rank), (kv_rank)

  /// Of the indexer that chooses which tokens a query sees where there are more than IndexOptions::used (DeepSeek V3.2, Qwen4).
  WeightMatrix index_q;        ///< (index heads * index dim, q_rank)
  WeightMatrix index_q_stream;  ///< (index heads * index dim, dim), in its place
  WeightMatrix index_k;        ///< (index dim, dim)
  WeightMatrix index_weights;  ///< (index heads, dim)
  std::vector<float> index_q_norm, index_k_norm, index_k_norm_bias;  ///< (index dim)
};

inline constexpr BlockWeight<AttentionWeights> attention_table[] = {
    {Role::q, WeightAxis::queries, WeightAxis::dim, &AttentionWeights::q},
    {Role::k, WeightAxis::keys, WeightAxis::dim, &AttentionWeights::k},
    {Role::v, WeightAxis::values, WeightAxis::dim, &AttentionWeights::v},
    {Role::attention_gate, WeightAxis::gates, WeightAxis::dim, &AttentionWeights::gate},
    {Role::o, WeightAxis::dim, WeightAxis::outputs, &AttentionWeights::o},
    {Role::q_bias, WeightAxis::one, WeightAxis::queries, &AttentionWeights::q_bias, Role::q},
    {Role::k_bias, WeightAxis::one, WeightAxis::keys, &AttentionWeights::k_bias, Role::k},
    {Role::v_bias, WeightAxis::one, WeightAxis::values, &AttentionWeights::v_bias, Role::v},
    {Role::o_bias, WeightAxis::one, WeightAxis::dim, &AttentionWeights::o_bias, Role::o},
    {Role::q_norm, WeightAxis::one, WeightAxis::q_norm, &AttentionWeights::q_norm},
    {Role::k_norm, WeightAxis::one, WeightAxis::k_norm, &AttentionWeights::k_norm},
    {Role::q_norm_bias, WeightAxis::one, WeightAxis::q_norm, &AttentionWeights::q_norm_bias},
    {Role::k_norm_bias, WeightAxis::one, WeightAxis::k_norm, &AttentionWeights::k_norm_bias},
    {Role::o_norm, WeightAxis::one, WeightAxis::outputs, &AttentionWeights::o_norm},
    {Role::sinks, WeightAxis::one, WeightAxis::heads, &AttentionWeights::sinks},
    {Role::relative_bias, WeightAxis::one, WeightAxis::bias_table, &AttentionWeights::relative_bias},
    {Role::q_a, WeightAxis::q_rank, WeightAxis::dim, &AttentionWeights::q_a},
    {Role::q_a_norm, WeightAxis::one, WeightAxis::q_rank, &AttentionWeights::q_a_norm},
    {Role::q_b, WeightAxis::queries, WeightAxis::q_rank, &AttentionWeights::q_b},
    {Role::kv_a, WeightAxis::latent, WeightAxis::dim, &AttentionWeights::kv_a},
    {Role::kv_a_norm, WeightAxis::one, WeightAxis::kv_rank, &AttentionWeights::kv_a_norm},
    {Role::k_b, WeightAxis::latent_queries, WeightAxis::nope, &AttentionWeights::k_b, {}, true},
    {Role::v_b, WeightAxis::outputs, WeightAxis::kv_rank, &AttentionWeights::v_b, {}, true},
    {Role::index_q, WeightAxis::index_queries, WeightAxis::q_rank, &AttentionWeights::index_q},
    {Role::index_k, WeightAxis::index_dim, WeightAxis::dim, &AttentionWeights::index_k},
    {Role::index_weights, WeightAxis::index_heads, WeightAxis::dim, &AttentionWeights::index_weights},
    {Role::index_k_norm, WeightAxis::one, WeightAxis::index_dim, &AttentionWeights::index_k_norm},
    {Role::index_k_norm_bias, WeightAxis::one, WeightAxis::index_dim, &AttentionWeights::index_k_norm_bias},
    {Role::index_q_stream, WeightAxis::index_queries, WeightAxis::dim, &AttentionWeights::index_q_stream},
    {Role::index_q_norm, WeightAxis::one, WeightAxis::index_dim, &AttentionWeights::index_q_norm},
};

inline constexpr Role attention_readers[] = {Role::q, Role::k, Role::v, Role::attention_gate, Role::q_a, Role::kv_a, Role::index_k, Role::index_weights, Role::index_q_stream}, q_b_reader[] = {Role::q_b, Role::index_q}, o_reader[] = {Role::o};
inline constexpr BlockInputs attention_inputs[] = {
    {.name = "q, k and v", .roles = attention_readers},
    {.name = "q_b", .roles = q_b_reader, .source = Role::q_a_norm},
    {.name = "o", .roles = o_reader, .source = Role::v, .norm = Role::o_norm, .adds = true},
};

}  // namespace bantam::inline v0::nn
