// The weights of a mixture of experts.
#pragma once

#include "bantam/nn/blocks/weights/mlp.hpp"

namespace bantam::inline v0::nn {

struct ExpertsWeights {
  WeightMatrix router;                ///< (experts, dim), of floats: a choice that flips costs more than their bytes
  std::vector<float> router_bias;     ///< (experts)
  std::vector<float> selection_bias;  ///< (experts): see Router
  std::vector<float> shared_gate;     ///< (dim): what was there before the experts counts by sigmoid(shared_gate x)
  std::vector<MlpWeights> experts;    ///< alike: all with a gate, or none
  /// (latent, dim), (dim, latent): experts read latent_down x, and latent_up brings back what they add up to (LatentMoE of
  /// Nemotron 3). Empty: they read x.
  WeightMatrix latent_down = {}, latent_up = {};
  std::vector<float> router_scale = {};  ///< (dim): the router reads rms(residual) * router_scale / sqrt(dim) (Gemma 4); empty: what experts read
  std::vector<float> expert_scale = {};  ///< (experts): what weights are multiplied by after all else

  /// Also where experts are not in memory: their matrices have shapes and formats then, and no bytes.
  [[nodiscard]] bool are_gated() const noexcept { return !experts.empty() && experts[0].gate.rows() > 0; }
};

inline constexpr BlockWeight<ExpertsWeights> experts_table[] = {
    {Role::router, WeightAxis::experts, WeightAxis::dim, &ExpertsWeights::router},
    {Role::router_bias, WeightAxis::one, WeightAxis::experts, &ExpertsWeights::router_bias, Role::router},
    {Role::router_scale, WeightAxis::one, WeightAxis::dim, &ExpertsWeights::router_scale},
    {Role::expert_scale, WeightAxis::one, WeightAxis::experts, &ExpertsWeights::expert_scale},
    {Role::selection_bias, WeightAxis::one, WeightAxis::experts, &ExpertsWeights::selection_bias},
    {Role::shared_gate, WeightAxis::one, WeightAxis::dim, &ExpertsWeights::shared_gate},
    {Role::latent_down, WeightAxis::expert_latent, WeightAxis::dim, &ExpertsWeights::latent_down},
    {Role::latent_up, WeightAxis::dim, WeightAxis::expert_latent, &ExpertsWeights::latent_up},
};

/// Of each expert.
inline constexpr BlockWeight<MlpWeights> expert_table[] = {
    {Role::expert_gate, WeightAxis::expert_ffn, WeightAxis::expert_dim, &MlpWeights::gate},
    {Role::expert_up, WeightAxis::expert_ffn, WeightAxis::expert_dim, &MlpWeights::up},
    {Role::expert_down, WeightAxis::expert_dim, WeightAxis::expert_ffn, &MlpWeights::down},
    {Role::expert_gate_bias, WeightAxis::one, WeightAxis::expert_ffn, &MlpWeights::gate_bias, Role::expert_gate},
    {Role::expert_up_bias, WeightAxis::one, WeightAxis::expert_ffn, &MlpWeights::up_bias, Role::expert_up},
    {Role::expert_down_bias, WeightAxis::one, WeightAxis::expert_dim, &MlpWeights::down_bias, Role::expert_down},
};

}  // namespace bantam::inline v0::nn
