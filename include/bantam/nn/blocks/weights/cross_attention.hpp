// The weights of a decoder's attention to what an encoder made.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

struct CrossAttentionWeights {
  WeightMatrix q;     ///< (heads * head_dim, dim), of the decoder's states
  WeightMatrix k, v;  ///< the same of the encoder's
  WeightMatrix o;     ///< (dim, heads * head_dim)
  std::vector<float> q_bias, k_bias, v_bias, o_bias;  ///< (rows of the matrix)
};

inline constexpr BlockWeight<CrossAttentionWeights> cross_attention_table[] = {
    {Role::cross_q, WeightAxis::cross_heads, WeightAxis::dim, &CrossAttentionWeights::q},
    {Role::cross_k, WeightAxis::cross_heads, WeightAxis::dim, &CrossAttentionWeights::k},
    {Role::cross_v, WeightAxis::cross_heads, WeightAxis::dim, &CrossAttentionWeights::v},
    {Role::cross_o, WeightAxis::dim, WeightAxis::cross_heads, &CrossAttentionWeights::o},
    {Role::cross_q_bias, WeightAxis::one, WeightAxis::cross_heads, &CrossAttentionWeights::q_bias, Role::cross_q},
    {Role::cross_k_bias, WeightAxis::one, WeightAxis::cross_heads, &CrossAttentionWeights::k_bias, Role::cross_k},
    {Role::cross_v_bias, WeightAxis::one, WeightAxis::cross_heads, &CrossAttentionWeights::v_bias, Role::cross_v},
    {Role::cross_o_bias, WeightAxis::one, WeightAxis::dim, &CrossAttentionWeights::o_bias, Role::cross_o},
};

inline constexpr Role cross_q_reader[] = {Role::cross_q}, cross_kv_readers[] = {Role::cross_k, Role::cross_v}, cross_o_reader[] = {Role::cross_o};
/// What k and v read is the same in all layers, so that none can have it scaled.
inline constexpr BlockInputs cross_attention_inputs[] = {
    {.name = "q across", .roles = cross_q_reader},
    {.name = "k and v across", .roles = cross_kv_readers, .source = Role::encoder_norm, .fixed = true},
    {.name = "o across", .roles = cross_o_reader, .source = Role::cross_v, .adds = true},
};

}  // namespace bantam::inline v0::nn
