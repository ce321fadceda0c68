// EuroBERT: Llama whose tokens all see each other.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey eurobert_tensors[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::final_norm, "model.norm.weight", "output_norm.weight"},
    {Role::attention_norm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr std::string_view eurobert_classes[] = {"EuroBertForMaskedLM"};
inline constexpr std::string_view eurobert_leftovers[] = {"lm_head."};
inline constexpr ConfigChoice eurobert_choices[] = {{"attention_bias", 0, 0}, {"mlp_bias", 0, 0}};

inline constexpr ArchSpec eurobert{
    .name = "eurobert",
    .hf_class = "EuroBertModel",
    .paper = "arXiv:2503.05500",
    .causal = false,
    .default_norm_eps = 1e-5,
    .choices = eurobert_choices,
    .config = llama_config,
    .tensors = eurobert_tensors,
    .more_tensors = {},
    .more_classes = eurobert_classes,
    .leftovers = eurobert_leftovers,
};

}  // namespace bantam::inline v0::archs
