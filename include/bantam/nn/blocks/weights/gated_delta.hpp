// The weights of a gated delta net.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Keys and queries have key_heads heads of key_dim, values value_heads of value_dim.
struct GatedDeltaWeights {
  WeightMatrix qkv;   ///< (channels, dim): queries, keys, values
  WeightMatrix z;     ///< (value_heads * value_dim, dim): the output gate
  WeightMatrix a, b;  ///< (value_heads, dim): decay and beta
  WeightMatrix out;   ///< (dim, value_heads * value_dim)
  std::vector<float> convolution;  ///< (taps, channels)
  std::vector<float> decay;        ///< (value_heads): -exp(A_log)
  std::vector<float> decay_bias;   ///< (value_heads)
  std::vector<float> norm;         ///< (value_dim)
};

inline constexpr BlockWeight<GatedDeltaWeights> gated_delta_table[] = {
    {Role::delta_qkv, WeightAxis::delta_channels, WeightAxis::dim, &GatedDeltaWeights::qkv},
    {Role::delta_z, WeightAxis::delta_values, WeightAxis::dim, &GatedDeltaWeights::z},
    {Role::delta_a, WeightAxis::delta_heads, WeightAxis::dim, &GatedDeltaWeights::a},
    {Role::delta_b, WeightAxis::delta_heads, WeightAxis::dim, &GatedDeltaWeights::b},
    {Role::delta_out, WeightAxis::dim, WeightAxis::delta_values, &GatedDeltaWeights::out},
    {Role::delta_convolution, WeightAxis::one, WeightAxis::delta_taps, &GatedDeltaWeights::convolution},
    {Role::delta_decay, WeightAxis::one, WeightAxis::delta_heads, &GatedDeltaWeights::decay},
    {Role::delta_decay_bias, WeightAxis::one, WeightAxis::delta_heads, &GatedDeltaWeights::decay_bias},
    {Role::delta_norm, WeightAxis::one, WeightAxis::delta_value, &GatedDeltaWeights::norm},
};

inline constexpr Role delta_readers[] = {Role::delta_qkv, Role::delta_z, Role::delta_a, Role::delta_b}, delta_out_reader[] = {Role::delta_out};
inline constexpr BlockInputs gated_delta_inputs[] = {
    {.name = "q, k, v, z, a and b", .roles = delta_readers},
    {.name = "delta out", .roles = delta_out_reader, .source = Role::delta_norm, .adds = true},
};

}  // namespace bantam::inline v0::nn
