// Arcee AFM 4.5B: Llama whose MLPs have no gate, and relu² between their matrices.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey arcee_trunk[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::final_norm, "model.norm.weight", "output_norm.weight"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::rope_divisors, "", "rope_freqs.weight", Presence::optional},
    {Role::attention_norm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr ArchSpec arcee{
    .name = "arcee",
    .hf_class = "ArceeForCausalLM",
    .paper = "https://huggingface.co/arcee-ai/AFM-4.5B",
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::relu2,
    .config = llama_config,
    .tensors = arcee_trunk,
};

}  // namespace bantam::inline v0::archs
