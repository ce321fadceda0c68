// The weights of a gated short convolution.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

struct ShortConvolutionWeights {
  WeightMatrix in;   ///< (3 dim, dim): two gates, B and C, and x
  WeightMatrix out;  ///< (dim, dim)
  std::vector<float> convolution;  ///< (taps, dim)
};

inline constexpr BlockWeight<ShortConvolutionWeights> short_convolution_table[] = {
    {Role::short_in, WeightAxis::short_in, WeightAxis::dim, &ShortConvolutionWeights::in},
    {Role::short_out, WeightAxis::dim, WeightAxis::short_dim, &ShortConvolutionWeights::out},
    {Role::short_convolution, WeightAxis::one, WeightAxis::short_taps, &ShortConvolutionWeights::convolution},
};

inline constexpr Role short_in_reader[] = {Role::short_in}, short_out_reader[] = {Role::short_out};
inline constexpr BlockInputs short_convolution_inputs[] = {
    {.name = "convolution in", .roles = short_in_reader},
    {.name = "convolution out", .roles = short_out_reader, .source = Role::short_in, .adds = true},
};

}  // namespace bantam::inline v0::nn
