// Qwen3-Next and Qwen3-Coder-Next: Qwen3.5's layers with experts; what delta nets read lies in two tensors, key head by key head.
#pragma once

#include "bantam/model/archs/qwen3_5.hpp"
#include "bantam/model/archs/qwen_moe.hpp"

namespace bantam::inline v0::archs {

inline constexpr auto qwen3_next_config = joined(qwen3_5_config, qwen2_moe_config);

/// GGUF files have queries, keys and values apart from gates, older ones together as folders do; betas and decays are together in both.
constexpr Fused qwen3_next_inputs(int part) {
  return {.name = "model.layers.{}.linear_attn.in_proj_qkvz.weight", .part = part, .parts = 2, .gguf = "blk.{}.ssm_in.weight", .by_key_heads = true};
}
constexpr Fused qwen3_next_rates(int part) {
  return {.name = "model.layers.{}.linear_attn.in_proj_ba.weight", .part = part, .parts = 2, .gguf = "blk.{}.ssm_ba.weight", .by_key_heads = true};
}

/// Names of in_proj_qkv, z, b and a are ours: native files have them so.
inline constexpr TensorKey qwen3_next_layers[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::delta_qkv, "model.layers.{}.linear_attn.in_proj_qkv.weight", "blk.{}.attn_qkv.weight", {}, {}, false, qwen3_next_inputs(0)},
    {Role::delta_z, "model.layers.{}.linear_attn.in_proj_z.weight", "blk.{}.attn_gate.weight", {}, {}, false, qwen3_next_inputs(1)},
    {Role::delta_b, "model.layers.{}.linear_attn.in_proj_b.weight", "blk.{}.ssm_ba.weight", {}, {}, false, qwen3_next_rates(0)},
    {Role::delta_a, "model.layers.{}.linear_attn.in_proj_a.weight", "blk.{}.ssm_ba.weight", {}, {}, false, qwen3_next_rates(1)},
    {Role::delta_out, "model.layers.{}.linear_attn.out_proj.weight", "blk.{}.ssm_out.weight"},
    {Role::delta_convolution, "model.layers.{}.linear_attn.conv1d.weight", "blk.{}.ssm_conv1d.weight"},
    {Role::delta_decay, "model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a"},
    {Role::delta_decay_bias, "model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::delta_norm, "model.layers.{}.linear_attn.norm.weight", "blk.{}.ssm_norm.weight"},
};
inline constexpr auto qwen3_next_tensors = joined(qwen3_next_layers, qwen2_moe_experts);

inline constexpr ArchSpec qwen3_next{
    .name = "qwen3_next",
    .hf_class = "Qwen3NextForCausalLM",
    .paper = "https://qwen.ai/blog?id=qwen3-next, arXiv:2412.06464",
    .gguf = "qwen3next",
    .recurrent = MixerKind::gated_delta,
    .attention_step = 4,
    .output_gate = nn::OutputGate::beside_queries,
    .router = {.renormalize = true},
    .default_rope_part = 0.25,
    .norm_offset = 1,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen3_next_tensors,
    .more_config = qwen3_next_config,
};

}  // namespace bantam::inline v0::archs
