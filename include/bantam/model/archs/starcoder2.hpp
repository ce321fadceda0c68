// StarCoder2: layer norms, biases everywhere, an MLP without a gate.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey starcoder2_config[] = {
    {Field::norm_eps, "norm_epsilon", "attention.layer_norm_epsilon"},
};

inline constexpr TensorKey starcoder2_tensors[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::final_norm, "model.norm.weight", "output_norm.weight"},
    {Role::final_norm_bias, "model.norm.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {Role::o, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "model.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {Role::up, "model.layers.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "model.layers.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "model.layers.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "model.layers.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias"},
};

inline constexpr ArchSpec starcoder2{
    .name = "starcoder2",
    .hf_class = "Starcoder2ForCausalLM",
    .paper = "arXiv:2402.19173",
    .norm = Norm::layer,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_tanh,
    .default_tied = true,
    .config = llama_config,
    .tensors = starcoder2_tensors,
    .more_tensors = {},
    .more_config = starcoder2_config,
};

}  // namespace bantam::inline v0::archs
