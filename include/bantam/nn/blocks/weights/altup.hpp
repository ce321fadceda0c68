// The weights of a layer that runs over one of several residual streams.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Of n streams: m(x) = tanh(router rms_norm(x) / dim) says what the coefficients of x are, (n).
struct AltUpWeights {
  std::vector<float> router;       ///< (n, dim)
  std::vector<float> router_norm;  ///< (dim)
  std::vector<float> prediction;   ///< (n n, n): row i n + j makes what stream i gets of stream j
  std::vector<float> correction;   ///< (n, n): row i makes, less 1, what stream i gets of the innovation
  std::vector<float> scale;        ///< (dim), of the active stream, where a per-layer embedding reads it
};

inline constexpr BlockWeight<AltUpWeights> altup_table[] = {
    {Role::stream_router, WeightAxis::one, WeightAxis::stream_router, &AltUpWeights::router},
    {Role::stream_router_norm, WeightAxis::one, WeightAxis::dim, &AltUpWeights::router_norm},
    {Role::stream_prediction, WeightAxis::one, WeightAxis::stream_triples, &AltUpWeights::prediction},
    {Role::stream_correction, WeightAxis::one, WeightAxis::stream_pairs, &AltUpWeights::correction},
    {Role::stream_scale, WeightAxis::one, WeightAxis::dim, &AltUpWeights::scale},
};

}  // namespace bantam::inline v0::nn
