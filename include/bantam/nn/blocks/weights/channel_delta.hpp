// The weights of a delta net whose decay is of each key channel.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Queries, keys and values have as many heads, of the same size.
struct ChannelDeltaWeights {
  WeightMatrix q, k, v;   ///< (heads * head_dim, dim)
  WeightMatrix f_a, f_b;  ///< (rank, dim), (heads * head_dim, rank): decays; or one of (heads * head_dim, dim) and none
  WeightMatrix g_a, g_b;  ///< the same of the output gate
  WeightMatrix b;         ///< (heads, dim): beta
  WeightMatrix out;       ///< (dim, heads * head_dim)
  std::vector<float> q_convolution, k_convolution, v_convolution;  ///< (taps, heads * head_dim)
  std::vector<float> decay;       ///< (heads): -exp(A_log)
  std::vector<float> decay_bias;  ///< (heads * head_dim)
  std::vector<float> norm;        ///< (head_dim)
};

inline constexpr BlockWeight<ChannelDeltaWeights> channel_delta_table[] = {
    {Role::channel_q, WeightAxis::channel_keys, WeightAxis::dim, &ChannelDeltaWeights::q},
    {Role::channel_k, WeightAxis::channel_keys, WeightAxis::dim, &ChannelDeltaWeights::k},
    {Role::channel_v, WeightAxis::channel_keys, WeightAxis::dim, &ChannelDeltaWeights::v},
    {Role::channel_f_a, WeightAxis::channel_gates, WeightAxis::dim, &ChannelDeltaWeights::f_a},
    {Role::channel_f_b, WeightAxis::channel_keys, WeightAxis::channel_gates, &ChannelDeltaWeights::f_b},
    {Role::channel_g_a, WeightAxis::channel_gates, WeightAxis::dim, &ChannelDeltaWeights::g_a},
    {Role::channel_g_b, WeightAxis::channel_keys, WeightAxis::channel_gates, &ChannelDeltaWeights::g_b},
    {Role::channel_b, WeightAxis::channel_heads, WeightAxis::dim, &ChannelDeltaWeights::b},
    {Role::channel_out, WeightAxis::dim, WeightAxis::channel_keys, &ChannelDeltaWeights::out},
    {Role::channel_q_convolution, WeightAxis::one, WeightAxis::channel_taps, &ChannelDeltaWeights::q_convolution},
    {Role::channel_k_convolution, WeightAxis::one, WeightAxis::channel_taps, &ChannelDeltaWeights::k_convolution},
    {Role::channel_v_convolution, WeightAxis::one, WeightAxis::channel_taps, &ChannelDeltaWeights::v_convolution},
    {Role::channel_decay, WeightAxis::one, WeightAxis::channel_heads, &ChannelDeltaWeights::decay},
    {Role::channel_decay_bias, WeightAxis::one, WeightAxis::channel_keys, &ChannelDeltaWeights::decay_bias},
    {Role::channel_norm, WeightAxis::one, WeightAxis::channel_rank, &ChannelDeltaWeights::norm},
};

inline constexpr Role channel_readers[] = {Role::channel_q, Role::channel_k, Role::channel_v, Role::channel_f_a, Role::channel_g_a, Role::channel_b};
inline constexpr Role channel_f_reader[] = {Role::channel_f_b}, channel_g_reader[] = {Role::channel_g_b}, channel_out_reader[] = {Role::channel_out};
inline constexpr BlockInputs channel_delta_inputs[] = {
    {.name = "q, k, v, f_a, g_a and b", .roles = channel_readers},
    {.name = "f_b", .roles = channel_f_reader, .source = Role::channel_f_a},
    {.name = "g_b", .roles = channel_g_reader, .source = Role::channel_g_a},
    {.name = "channel delta out", .roles = channel_out_reader, .source = Role::channel_norm, .adds = true},
};

}  // namespace bantam::inline v0::nn
