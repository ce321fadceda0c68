// Apertus (8B, 70B): Llama with norms of q and k, and MLPs without gates, whose activation has numbers of each layer (xIELU).
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

/// GGUF files have the four numbers of all layers in lists of metadata.
inline constexpr TensorKey apertus_names[] = {
    {Role::attention_norm, "model.layers.{}.attention_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {.role = Role::xielu_positive, .hf = "model.layers.{}.mlp.act_fn.alpha_p", .gguf = "xielu.alpha_p.{}", .is_listed = true},
    {.role = Role::xielu_negative, .hf = "model.layers.{}.mlp.act_fn.alpha_n", .gguf = "xielu.alpha_n.{}", .is_listed = true},
    {.role = Role::xielu_slope, .hf = "model.layers.{}.mlp.act_fn.beta", .gguf = "xielu.beta.{}", .is_scalar = true, .is_listed = true},
    {.role = Role::xielu_limit, .hf = "model.layers.{}.mlp.act_fn.eps", .gguf = "xielu.eps.{}", .is_scalar = true, .is_listed = true},
};
inline constexpr auto apertus_tensors = joined(apertus_names, llama_biases);

inline constexpr ConfigChoice apertus_choices[] = {{"qk_norm", 1, 1}, {"post_norm", 0, 0}};

inline constexpr ArchSpec apertus{
    .name = "apertus",
    .hf_class = "ApertusForCausalLM",
    .paper = "arXiv:2509.14233, arXiv:2411.13010",
    .default_norm_eps = 1e-5,
    .default_rope_base = 12000000,
    .gate = ops::Gate::xielu,
    .activation_name = "xielu",
    .choices = apertus_choices,
    .config = llama_config,
    .tensors = gateless_tensors,
    .more_tensors = apertus_tensors,
};

}  // namespace bantam::inline v0::archs
