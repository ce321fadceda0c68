// The weights of a state space, Mamba-2's.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Heads of a group share B and C, which stand for keys and queries; inner is heads * head_dim.
struct StateSpaceWeights {
  WeightMatrix in;   ///< (inner + channels + heads, dim): the output gate z; x, B and C, which are convolved; dt
  WeightMatrix out;  ///< (dim, inner)
  std::vector<float> convolution;       ///< (taps, channels)
  std::vector<float> convolution_bias;  ///< (channels), or none
  std::vector<float> decay;             ///< (heads): -exp(A_log)
  std::vector<float> decay_bias;        ///< (heads), of dt
  std::vector<float> skip;              ///< (heads): D
  std::vector<float> norm;              ///< (inner), group by group; or none
};

inline constexpr BlockWeight<StateSpaceWeights> state_space_table[] = {
    {Role::state_in, WeightAxis::state_in, WeightAxis::dim, &StateSpaceWeights::in},
    {Role::state_out, WeightAxis::dim, WeightAxis::state_inner, &StateSpaceWeights::out},
    {Role::state_convolution, WeightAxis::one, WeightAxis::state_taps, &StateSpaceWeights::convolution},
    {Role::state_convolution_bias, WeightAxis::one, WeightAxis::state_channels, &StateSpaceWeights::convolution_bias},
    {Role::state_decay, WeightAxis::one, WeightAxis::state_heads, &StateSpaceWeights::decay},
    {Role::state_decay_bias, WeightAxis::one, WeightAxis::state_heads, &StateSpaceWeights::decay_bias},
    {Role::state_skip, WeightAxis::one, WeightAxis::state_heads, &StateSpaceWeights::skip},
    {Role::state_norm, WeightAxis::one, WeightAxis::state_inner, &StateSpaceWeights::norm},
};

inline constexpr Role state_in_reader[] = {Role::state_in}, state_out_reader[] = {Role::state_out};
inline constexpr BlockInputs state_space_inputs[] = {
    {.name = "state in", .roles = state_in_reader},
    {.name = "state out", .roles = state_out_reader, .source = Role::state_norm, .adds = true},
};

}  // namespace bantam::inline v0::nn
