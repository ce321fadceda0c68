// GLM-4 (0414) without experts: norms around both halves, half of each head rotated in adjacent pairs, gate and up in one tensor.
#pragma once

#include "bantam/model/archs/phi3.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey glm4_tensors[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Presence::optional},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Presence::optional},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Presence::optional},
    {Role::attention_out_norm, "model.layers.{}.post_self_attn_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_mlp_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, fused_gate},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, fused_up},
};

inline constexpr ArchSpec glm4{
    .name = "glm4",
    .hf_class = "Glm4ForCausalLM",
    .paper = "arXiv:2406.12793",
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = glm4_tensors,
};

}  // namespace bantam::inline v0::archs
