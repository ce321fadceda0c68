// Phi-1, 1.5 and 2: attention and MLP side by side behind one layer norm, biases everywhere, a part of each head rotated, no gate.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey phi2_config[] = {
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
};

inline constexpr TensorKey phi2_tensors[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::final_norm, "model.final_layernorm.weight", "output_norm.weight"},
    {Role::final_norm_bias, "model.final_layernorm.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::head_bias, "lm_head.bias", "output.bias"},
    {Role::attention_norm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "model.layers.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", {}, {}, false, {.gguf = "blk.{}.attn_qkv.weight"}},
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", {}, {}, false, {.gguf = "blk.{}.attn_qkv.bias"}},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", {}, {}, false, {.part = 1, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", {}, {}, false, {.part = 1, .gguf = "blk.{}.attn_qkv.bias"}},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", {}, {}, false, {.part = 2, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", {}, {}, false, {.part = 2, .gguf = "blk.{}.attn_qkv.bias"}},
    {Role::o, "model.layers.{}.self_attn.dense.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "model.layers.{}.self_attn.dense.bias", "blk.{}.attn_output.bias"},
    {Role::up, "model.layers.{}.mlp.fc1.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "model.layers.{}.mlp.fc1.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "model.layers.{}.mlp.fc2.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "model.layers.{}.mlp.fc2.bias", "blk.{}.ffn_down.bias"},
};

inline constexpr ArchSpec phi2{
    .name = "phi",
    .hf_class = "PhiForCausalLM",
    .paper = "arXiv:2309.05463",
    .gguf = "phi2",
    .norm = Norm::layer,
    .parallel = true,
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.5,
    .gate = ops::Gate::gelu_tanh,
    .config = llama_config,
    .tensors = phi2_tensors,
    .more_tensors = {},
    .more_config = phi2_config,
};

}  // namespace bantam::inline v0::archs
