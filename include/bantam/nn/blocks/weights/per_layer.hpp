// The weights of a layer's per-layer embedding.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// norm(projection(act(gate x) * e)), where x is the residual stream as it is and e the token's embedding for this layer.
struct PerLayerWeights {
  WeightMatrix gate;        ///< (width, dim)
  WeightMatrix projection;  ///< (dim, width)
  std::vector<float> norm;  ///< (dim)
};

inline constexpr BlockWeight<PerLayerWeights> per_layer_table[] = {
    {Role::per_layer_gate, WeightAxis::per_layer, WeightAxis::dim, &PerLayerWeights::gate},
    {Role::per_layer_projection, WeightAxis::dim, WeightAxis::per_layer, &PerLayerWeights::projection},
    {Role::per_layer_norm, WeightAxis::one, WeightAxis::dim, &PerLayerWeights::norm},
};

inline constexpr Role per_layer_gate_reader[] = {Role::per_layer_gate}, per_layer_projection_reader[] = {Role::per_layer_projection};
inline constexpr BlockInputs per_layer_inputs[] = {
    {.name = "per-layer gate", .roles = per_layer_gate_reader, .fixed = true},  // no norm is before it
    {.name = "per-layer projection", .roles = per_layer_projection_reader, .source = Role::per_layer_gate, .adds = true, .fixed = true},
};

}  // namespace bantam::inline v0::nn
