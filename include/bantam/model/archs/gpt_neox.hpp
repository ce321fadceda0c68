// GPT-NeoX and Pythia: attention and MLP side by side behind layer norms of their own, q, k and v in one tensor head by head; RedPajama INCITE
// with one after the other.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey gpt_neox_config[] = {
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
    {Field::rope_base, "rotary_emb_base", "rope.freq_base"},
    {Field::kv_heads, "", ""},
    {Field::window, "", ""},
};

/// GGUF files have the queries of all heads first.
constexpr Fused gpt_neox_part(int part, std::string_view name, std::string_view gguf) {
  return {.name = name, .part = part, .parts = 3, .gguf = gguf, .by_groups = true};
}
inline constexpr std::string_view gpt_neox_qkv = "gpt_neox.layers.{}.attention.query_key_value.weight", gpt_neox_qkv_bias = "gpt_neox.layers.{}.attention.query_key_value.bias";

/// Names of q, k and v in folders are ours: native files have them so.
inline constexpr TensorKey gpt_neox_tensors[] = {
    {Role::embedding, "gpt_neox.embed_in.weight", "token_embd.weight"},
    {Role::final_norm, "gpt_neox.final_layer_norm.weight", "output_norm.weight"},
    {Role::final_norm_bias, "gpt_neox.final_layer_norm.bias", "output_norm.bias"},
    {Role::head, "embed_out.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "gpt_neox.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "gpt_neox.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::q, "gpt_neox.layers.{}.attention.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt_neox_part(0, gpt_neox_qkv, "blk.{}.attn_qkv.weight")},
    {Role::k, "gpt_neox.layers.{}.attention.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt_neox_part(1, gpt_neox_qkv, "blk.{}.attn_qkv.weight")},
    {Role::v, "gpt_neox.layers.{}.attention.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt_neox_part(2, gpt_neox_qkv, "blk.{}.attn_qkv.weight")},
    {Role::q_bias, "gpt_neox.layers.{}.attention.q_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, gpt_neox_part(0, gpt_neox_qkv_bias, "blk.{}.attn_qkv.bias")},
    {Role::k_bias, "gpt_neox.layers.{}.attention.k_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, gpt_neox_part(1, gpt_neox_qkv_bias, "blk.{}.attn_qkv.bias")},
    {Role::v_bias, "gpt_neox.layers.{}.attention.v_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, gpt_neox_part(2, gpt_neox_qkv_bias, "blk.{}.attn_qkv.bias")},
    {Role::o, "gpt_neox.layers.{}.attention.dense.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "gpt_neox.layers.{}.attention.dense.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm, "gpt_neox.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "gpt_neox.layers.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {Role::up, "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias", "blk.{}.ffn_down.bias"},
};

inline constexpr ConfigChoice gpt_neox_choices[] = {{"use_parallel_residual", 1, 1}}, gpt_neox_sequential_choices[] = {{"use_parallel_residual", 0, 1}};

inline constexpr ArchSpec gpt_neox{
    .name = "gpt_neox",
    .hf_class = "GPTNeoXForCausalLM",
    .paper = "arXiv:2204.06745, arXiv:2304.01373",
    .gguf = "gptneox",
    .norm = Norm::layer,
    .parallel = true,
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.25,
    .gate = ops::Gate::gelu_erf,
    .says_parallel = true,
    .choices = gpt_neox_choices,
    .config = llama_config,
    .tensors = gpt_neox_tensors,
    .more_tensors = {},
    .more_config = gpt_neox_config,
};

/// RedPajama INCITE: the MLP reads what attention has added to.
inline constexpr ArchSpec gpt_neox_sequential = [] {
  ArchSpec spec = gpt_neox;
  spec.parallel = false;
  spec.choices = gpt_neox_sequential_choices;
  return spec;
}();

}  // namespace bantam::inline v0::archs
