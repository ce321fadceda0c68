// Experts beside shared ones, as Cohere2-MoE and Ling name them.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey shared_experts_tensors[] = {
    {Role::gate, "model.layers.{}.mlp.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};

}  // namespace bantam::inline v0::archs
