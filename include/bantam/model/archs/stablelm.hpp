// StableLM 3B and 2 1.6B: Llama with layer norms and their biases, a quarter of each head rotated.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey stablelm_config[] = {
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
};

inline constexpr TensorKey stablelm_tensors[] = {
    {Role::final_norm_bias, "model.norm.bias", "output_norm.bias"},
    {Role::attention_norm_bias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::ffn_norm_bias, "model.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Presence::optional},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Presence::optional},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Presence::optional},
};

inline constexpr ConfigChoice stablelm_choices[] = {{"use_parallel_residual", 0, 0}};

inline constexpr ArchSpec stablelm{
    .name = "stablelm",
    .hf_class = "StableLmForCausalLM",
    .paper = "arXiv:2402.17834",
    .norm = Norm::layer,
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.25,
    .says_parallel = true,
    .choices = stablelm_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = stablelm_tensors,
    .more_config = stablelm_config,
};

}  // namespace bantam::inline v0::archs
