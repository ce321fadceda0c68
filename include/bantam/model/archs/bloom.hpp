// BLOOM: scores that shrink with distance in the place of positions, a norm behind the embedding, q, k and v in one tensor head by head.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey bloom_config[] = {
    {Field::dim, "hidden_size", "embedding_length", 0, "n_embed"},
    {Field::layers, "n_layer", "block_count", 0, "num_hidden_layers"},
    {Field::heads, "n_head", "attention.head_count", 0, "num_attention_heads"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "n_inner", "feed_forward_length"},
    {Field::ffn_factor, "", "", 4},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "seq_length", "context_length", 2048},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};
inline constexpr ConfigChoice bloom_choices[] = {{"apply_residual_connection_post_layernorm", 0, 0}};

/// GGUF files have the queries of all heads first.
constexpr Fused bloom_part(int part, std::string_view name, std::string_view gguf) { return {.name = name, .part = part, .parts = 3, .gguf = gguf, .by_groups = true}; }
inline constexpr std::string_view bloom_qkv = "transformer.h.{}.self_attention.query_key_value.weight", bloom_qkv_bias = "transformer.h.{}.self_attention.query_key_value.bias";

/// Names of q, k and v in folders are ours: native files have them so.
inline constexpr TensorKey bloom_tensors[] = {
    {Role::embedding, "transformer.word_embeddings.weight", "token_embd.weight"},
    {Role::embedding_norm, "transformer.word_embeddings_layernorm.weight", "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "transformer.word_embeddings_layernorm.bias", "token_embd_norm.bias"},
    {Role::final_norm, "transformer.ln_f.weight", "output_norm.weight"},
    {Role::final_norm_bias, "transformer.ln_f.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "transformer.h.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "transformer.h.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
    {Role::q, "transformer.h.{}.self_attention.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, bloom_part(0, bloom_qkv, "blk.{}.attn_qkv.weight")},
    {Role::k, "transformer.h.{}.self_attention.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, bloom_part(1, bloom_qkv, "blk.{}.attn_qkv.weight")},
    {Role::v, "transformer.h.{}.self_attention.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, bloom_part(2, bloom_qkv, "blk.{}.attn_qkv.weight")},
    {Role::q_bias, "transformer.h.{}.self_attention.q_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, bloom_part(0, bloom_qkv_bias, "blk.{}.attn_qkv.bias")},
    {Role::k_bias, "transformer.h.{}.self_attention.k_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, bloom_part(1, bloom_qkv_bias, "blk.{}.attn_qkv.bias")},
    {Role::v_bias, "transformer.h.{}.self_attention.v_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, bloom_part(2, bloom_qkv_bias, "blk.{}.attn_qkv.bias")},
    {Role::o, "transformer.h.{}.self_attention.dense.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "transformer.h.{}.self_attention.dense.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm, "transformer.h.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "transformer.h.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {Role::up, "transformer.h.{}.mlp.dense_h_to_4h.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "transformer.h.{}.mlp.dense_h_to_4h.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "transformer.h.{}.mlp.dense_4h_to_h.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "transformer.h.{}.mlp.dense_4h_to_h.bias", "blk.{}.ffn_down.bias"},
};

inline constexpr ArchSpec bloom{
    .name = "bloom",
    .hf_class = "BloomForCausalLM",
    .older_class = "BloomModel",
    .paper = "arXiv:2211.05100, arXiv:2108.12409",
    .norm = Norm::layer,
    .alibi = 8,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_tanh,
    .no_rope_step = 1,
    .default_tied = true,
    .choices = bloom_choices,
    .config = bloom_config,
    .tensors = bloom_tensors,
};

}  // namespace bantam::inline v0::archs
