// GLM-4 9B (the first, as transformers has it) and GLM-Edge: GLM-4 (0414) without the norms behind the halves.
#pragma once

#include "bantam/model/archs/glm4.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey glm_tensors[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Presence::optional},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Presence::optional},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Presence::optional},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, fused_gate},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, fused_up},
};

inline constexpr ArchSpec glm = [] {
  ArchSpec spec = glm4;
  spec.name = "glm";
  spec.hf_class = "GlmForCausalLM";
  spec.gguf = "chatglm";
  spec.more_tensors = glm_tensors;
  return spec;
}();

}  // namespace bantam::inline v0::archs
