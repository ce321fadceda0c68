// MPT: scores that shrink with distance in the place of positions, layer norms and, in some, norms of q and k; few have biases.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey mpt_config[] = {
    {Field::dim, "d_model", "embedding_length"},
    {Field::layers, "n_layers", "block_count"},
    {Field::heads, "n_heads", "attention.head_count"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::kv_heads, "attn_config.kv_n_heads", "attention.head_count_kv"},
    {Field::ffn, "", "feed_forward_length"},
    {Field::ffn_factor, "expansion_ratio", "", 4},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_seq_len", "context_length", 2048},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {Field::alibi, "attn_config.alibi_bias_max", "attention.max_alibi_bias", 8},
    {Field::qkv_clip, "attn_config.clip_qkv", "attention.clamp_kqv"},
};
/// What its class has as options, and no published model uses.
inline constexpr ConfigChoice mpt_choices[] = {{"attn_config.alibi", 1, 1}, {"attn_config.prefix_lm", 0, 0}, {"attn_config.attn_uses_sequence_id", 0, 0},
                                               {"attn_config.softmax_scale", 0, 0}, {"attn_config.rope", 0, 0}, {"logit_scale", 0, 0}};

constexpr Fused mpt_part(int part) { return {.name = "transformer.blocks.{}.attn.Wqkv.weight", .part = part, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}; }
constexpr Fused mpt_bias_part(int part) { return {.name = "transformer.blocks.{}.attn.Wqkv.bias", .part = part, .parts = 3, .gguf = "blk.{}.attn_qkv.bias"}; }

/// Names of q, k and v in folders are ours: native files have them so.
inline constexpr TensorKey mpt_tensors[] = {
    {Role::embedding, "transformer.wte.weight", "token_embd.weight"},
    {Role::final_norm, "transformer.norm_f.weight", "output_norm.weight"},
    {Role::final_norm_bias, "transformer.norm_f.bias", "output_norm.bias", Presence::optional},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "transformer.blocks.{}.norm_1.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "transformer.blocks.{}.norm_1.bias", "blk.{}.attn_norm.bias", Presence::optional},
    {Role::q, "transformer.blocks.{}.attn.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, mpt_part(0)},
    {Role::k, "transformer.blocks.{}.attn.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, mpt_part(1)},
    {Role::v, "transformer.blocks.{}.attn.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, mpt_part(2)},
    {Role::q_bias, "transformer.blocks.{}.attn.q_proj.bias", "blk.{}.attn_qkv.bias", Presence::optional, {}, false, mpt_bias_part(0)},
    {Role::k_bias, "transformer.blocks.{}.attn.k_proj.bias", "blk.{}.attn_qkv.bias", Presence::optional, {}, false, mpt_bias_part(1)},
    {Role::v_bias, "transformer.blocks.{}.attn.v_proj.bias", "blk.{}.attn_qkv.bias", Presence::optional, {}, false, mpt_bias_part(2)},
    {Role::q_norm, "transformer.blocks.{}.attn.q_ln.weight", "blk.{}.attn_q_norm.weight", Presence::optional},
    {Role::q_norm_bias, "transformer.blocks.{}.attn.q_ln.bias", "blk.{}.attn_q_norm.bias", Presence::optional},
    {Role::k_norm, "transformer.blocks.{}.attn.k_ln.weight", "blk.{}.attn_k_norm.weight", Presence::optional},
    {Role::k_norm_bias, "transformer.blocks.{}.attn.k_ln.bias", "blk.{}.attn_k_norm.bias", Presence::optional},
    {Role::o, "transformer.blocks.{}.attn.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "transformer.blocks.{}.attn.out_proj.bias", "blk.{}.attn_output.bias", Presence::optional},
    {Role::ffn_norm, "transformer.blocks.{}.norm_2.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "transformer.blocks.{}.norm_2.bias", "blk.{}.ffn_norm.bias", Presence::optional},
    {Role::up, "transformer.blocks.{}.ffn.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "transformer.blocks.{}.ffn.up_proj.bias", "blk.{}.ffn_up.bias", Presence::optional},
    {Role::down, "transformer.blocks.{}.ffn.down_proj.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "transformer.blocks.{}.ffn.down_proj.bias", "blk.{}.ffn_down.bias", Presence::optional},
};

inline constexpr ArchSpec mpt{
    .name = "mpt",
    .hf_class = "MPTForCausalLM",
    .older_class = "MptForCausalLM",
    .paper = "https://www.databricks.com/blog/mpt-7b, arXiv:2108.12409",
    .norm = Norm::layer,
    .head_norm = nn::HeadNorm::all,
    .head_layer_norms = true,
    .alibi = 8,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_erf,
    .no_rope_step = 1,
    .default_tied = true,
    .choices = mpt_choices,
    .config = mpt_config,
    .tensors = mpt_tensors,
};

}  // namespace bantam::inline v0::archs
