// The weights of a low-rank residual branch.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// x + rms_norm(right left x) (LAuReL, arXiv:2411.07501). Its matrices are small and stay floats.
struct LaurelWeights {
  WeightMatrix left;        ///< (rank, dim)
  WeightMatrix right;       ///< (dim, rank)
  std::vector<float> norm;  ///< (dim)
};

inline constexpr BlockWeight<LaurelWeights> laurel_table[] = {
    {Role::laurel_left, WeightAxis::laurel, WeightAxis::dim, &LaurelWeights::left},
    {Role::laurel_right, WeightAxis::dim, WeightAxis::laurel, &LaurelWeights::right},
    {Role::laurel_norm, WeightAxis::one, WeightAxis::dim, &LaurelWeights::norm},
};

}  // namespace bantam::inline v0::nn
