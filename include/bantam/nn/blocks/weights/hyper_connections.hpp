// The weights of hyper-connections: how a block reads several residual streams, and how much of what it makes each of them gets.
#pragma once

#include <array>

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// Of n streams, x = rms_norm of each: a block reads mean_i(x_i sigmoid(up silu(down x / n))_i). The matrices stay floats: every block reads
/// through them.
struct HyperConnectionWeights {
  std::vector<float> norm;    ///< (n dim), of each stream by itself
  WeightMatrix down;          ///< (rank, n dim)
  WeightMatrix up;            ///< (n dim, rank)
  std::vector<float> inject;  ///< (n, n dim): stream i gets 2 sigmoid(inject x / n)_i of what the block makes
};

/// One half of a layer has them under these roles.
[[nodiscard]] constexpr std::array<BlockWeight<HyperConnectionWeights>, 4> hyper_connection_table(Role norm, Role down, Role up, Role inject) noexcept {
  return {{{norm, WeightAxis::one, WeightAxis::all_streams, &HyperConnectionWeights::norm},
           {down, WeightAxis::stream_rank, WeightAxis::all_streams, &HyperConnectionWeights::down},
           {up, WeightAxis::all_streams, WeightAxis::stream_rank, &HyperConnectionWeights::up},
           {inject, WeightAxis::one, WeightAxis::stream_inject, &HyperConnectionWeights::inject}}};
}
inline constexpr auto mixer_connection_table = hyper_connection_table(Role::mixer_streams_norm, Role::mixer_streams_down, Role::mixer_streams_up, Role::mixer_streams_inject);
inline constexpr auto ffn_connection_table = hyper_connection_table(Role::ffn_streams_norm, Role::ffn_streams_down, Role::ffn_streams_up, Role::ffn_streams_inject);

}  // namespace bantam::inline v0::nn
