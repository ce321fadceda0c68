// Jais 2 (8B, 70B) and Nemotron (4 15B and 340B, Minitron, Mini 4B): Llama with layer norms and their biases, and MLPs without gates, relu².
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey jais2_config[] = {{Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"}};
inline constexpr ConfigKey nemotron_config[] = {{Field::norm_eps, "norm_eps", "attention.layer_norm_epsilon"}};

inline constexpr TensorKey nemotron_biases[] = {
    {Role::final_norm_bias, "model.norm.bias", "output_norm.bias"},
    {Role::attention_norm_bias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::ffn_norm_bias, "model.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
};
inline constexpr TensorKey jais2_own_biases[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {Role::o_bias, "model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias"},
    {Role::up_bias, "model.layers.{}.mlp.up_proj.bias", "blk.{}.ffn_up.bias"},
    {Role::down_bias, "model.layers.{}.mlp.down_proj.bias", "blk.{}.ffn_down.bias"},
};
inline constexpr auto jais2_biases = joined(nemotron_biases, jais2_own_biases);

inline constexpr ConfigChoice jais2_choices[] = {{"attention_bias", 1, 1}, {"mlp_bias", 1, 1}};
inline constexpr ConfigChoice nemotron_choices[] = {{"attention_bias", 0, 0}, {"mlp_bias", 0, 0}};

inline constexpr ArchSpec jais2{
    .name = "jais2",
    .hf_class = "Jais2ForCausalLM",
    .paper = "https://huggingface.co/inceptionai/Jais-2-70B-Chat",
    .norm = Norm::layer,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::relu2,
    .choices = jais2_choices,
    .config = llama_config,
    .tensors = gateless_tensors,
    .more_tensors = jais2_biases,
    .more_config = jais2_config,
};

/// Weights of its norms are stored less one.
inline constexpr ArchSpec nemotron{
    .name = "nemotron",
    .hf_class = "NemotronForCausalLM",
    .paper = "arXiv:2402.16819, arXiv:2407.14679",
    .norm = Norm::layer,
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.5,
    .gate = ops::Gate::relu2,
    .norm_offset = 1,
    .choices = nemotron_choices,
    .config = llama_config,
    .tensors = gateless_tensors,
    .more_tensors = nemotron_biases,
    .more_config = nemotron_config,
};

}  // namespace bantam::inline v0::archs
