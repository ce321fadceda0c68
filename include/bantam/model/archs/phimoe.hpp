// Phi-3.5-MoE: Mixtral with layer norms, biases, and experts that SparseMixer chose in training.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey phimoe_config[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
    {Field::router_jitter, "router_jitter_noise", "", 0.01},
};

inline constexpr TensorKey phimoe_tensors[] = {
    {Role::final_norm_bias, "model.norm.bias", "output_norm.bias"},
    {Role::head_bias, "lm_head.bias", "output.bias"},
    {Role::attention_norm_bias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {Role::o_bias, "model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm_bias, "model.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {Role::router, "model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", "blk.{}.ffn_down_exps.weight"},
};
/// As its class has them in all models.
inline constexpr ConfigChoice phimoe_choices[] = {{"attention_bias", 1, 1}, {"lm_head_bias", 1, 1}};

/// llama.cpp runs its files with RMS norms, and weights of the chosen experts by softmax that sum to one; this is what the model was
/// trained to be.
inline constexpr ArchSpec phimoe{
    .name = "phimoe",
    .hf_class = "PhimoeForCausalLM",
    .older_class = "PhiMoEForCausalLM",
    .paper = "arXiv:2404.14219, arXiv:2409.12136",
    .norm = Norm::layer,
    .router = {.score = nn::RouterScore::in_turn},
    .default_norm_eps = 1e-5,
    .choices = phimoe_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = phimoe_tensors,
    .more_config = phimoe_config,
};

}  // namespace bantam::inline v0::archs
