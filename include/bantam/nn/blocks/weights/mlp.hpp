// The weights of an MLP.
#pragma once

#include "bantam/nn/blocks/table.hpp"

namespace bantam::inline v0::nn {

/// down(act(gate x) * up x), a bias added to what each matrix makes: an MLP, or one expert.
struct MlpWeights {
  WeightMatrix gate, up;                            ///< (ffn, dim)
  WeightMatrix down;                                ///< (dim, ffn)
  std::vector<float> gate_bias = {}, up_bias = {};  ///< (ffn)
  std::vector<float> down_bias = {};                ///< (dim)
};

inline constexpr BlockWeight<MlpWeights> mlp_table[] = {
    {Role::gate, WeightAxis::ffn, WeightAxis::dim, &MlpWeights::gate},
    {Role::up, WeightAxis::ffn, WeightAxis::dim, &MlpWeights::up},
    {Role::down, WeightAxis::dim, WeightAxis::ffn, &MlpWeights::down},
    {Role::gate_bias, WeightAxis::one, WeightAxis::ffn, &MlpWeights::gate_bias, Role::gate},
    {Role::up_bias, WeightAxis::one, WeightAxis::ffn, &MlpWeights::up_bias, Role::up},
    {Role::down_bias, WeightAxis::one, WeightAxis::dim, &MlpWeights::down_bias, Role::down},
};

inline constexpr Role mlp_readers[] = {Role::gate, Role::up}, down_reader[] = {Role::down};
inline constexpr BlockInputs mlp_inputs[] = {
    {.name = "gate and up", .roles = mlp_readers},
    {.name = "down", .roles = down_reader, .source = Role::up, .adds = true},  // the gate multiplies what up makes
};

}  // namespace bantam::inline v0::nn
