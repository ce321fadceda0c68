// OLMo 1 (1B, 7B): Llama with layer norms that have no weights; 7B keeps queries, keys and values within bounds.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey olmo_config[] = {
    {Field::norm_eps, "", "attention.layer_norm_epsilon"},
    {Field::qkv_clip, "clip_qkv", "attention.clamp_kqv"},
};

inline constexpr TensorKey olmo_tensors[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr ConfigChoice olmo_choices[] = {{"attention_bias", 0, 0}};

inline constexpr ArchSpec olmo{
    .name = "olmo",
    .hf_class = "OlmoForCausalLM",
    .paper = "arXiv:2402.00838",
    .norm = Norm::layer,
    .plain_norms = true,
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .choices = olmo_choices,
    .config = llama_config,
    .tensors = olmo_tensors,
    .more_config = olmo_config,
};

}  // namespace bantam::inline v0::archs
