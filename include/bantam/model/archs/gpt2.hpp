// GPT-2 and StarCoder 1: learned positions, q, k and v in one tensor, layer norms, biases everywhere.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey gpt2_numbers[] = {
    {Field::dim, "n_embd", "embedding_length", 0, "hidden_size"},
    {Field::layers, "n_layer", "block_count", 0, "num_hidden_layers"},
    {Field::heads, "n_head", "attention.head_count", 0, "num_attention_heads"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "n_inner", "feed_forward_length"},
    {Field::ffn_factor, "", "", 4},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "n_positions", "context_length", 1024, "n_ctx"},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};
inline constexpr ConfigKey gpt_bigcode_numbers[] = {{Field::kv_heads, "", "attention.head_count_kv", 1}};
inline constexpr auto gpt_bigcode_config = joined(gpt2_numbers, gpt_bigcode_numbers);

inline constexpr ConfigChoice gpt2_choices[] = {{"scale_attn_weights", 1, 1}, {"scale_attn_by_inverse_layer_idx", 0, 0}, {"add_cross_attention", 0, 0}};
inline constexpr ConfigChoice gpt_bigcode_choices[] = {{"multi_query", 1, 1}, {"scale_attn_weights", 1, 1}, {"add_cross_attention", 0, 0}};

inline constexpr std::string_view gpt2_qkv = "transformer.h.{}.attn.c_attn.weight", gpt2_qkv_bias = "transformer.h.{}.attn.c_attn.bias";
/// A part of q, k and v. GPT-2's folders have matrices with inputs as rows.
constexpr Fused gpt2_part(int part, bool transposed) { return {.name = gpt2_qkv, .part = part, .parts = 3, .transposed = transposed, .gguf = "blk.{}.attn_qkv.weight"}; }
constexpr Fused gpt2_bias_part(int part) { return {.name = gpt2_qkv_bias, .part = part, .parts = 3, .gguf = "blk.{}.attn_qkv.bias"}; }

/// Names of q, k and v in folders are ours: native files have them so.
inline constexpr TensorKey gpt2_common[] = {
    {Role::embedding, "transformer.wte.weight", "token_embd.weight"},
    {Role::position_embedding, "transformer.wpe.weight", "position_embd.weight"},
    {Role::final_norm, "transformer.ln_f.weight", "output_norm.weight"},
    {Role::final_norm_bias, "transformer.ln_f.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "transformer.h.{}.ln_1.bias", "blk.{}.attn_norm.bias"},
    {Role::q_bias, "transformer.h.{}.attn.q_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, gpt2_bias_part(0)},
    {Role::k_bias, "transformer.h.{}.attn.k_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, gpt2_bias_part(1)},
    {Role::v_bias, "transformer.h.{}.attn.v_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, gpt2_bias_part(2)},
    {Role::o_bias, "transformer.h.{}.attn.c_proj.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm, "transformer.h.{}.ln_2.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "transformer.h.{}.ln_2.bias", "blk.{}.ffn_norm.bias"},
    {Role::up_bias, "transformer.h.{}.mlp.c_fc.bias", "blk.{}.ffn_up.bias"},
    {Role::down_bias, "transformer.h.{}.mlp.c_proj.bias", "blk.{}.ffn_down.bias"},
};

inline constexpr TensorKey gpt2_matrices[] = {
    {Role::q, "transformer.h.{}.attn.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt2_part(0, true)},
    {Role::k, "transformer.h.{}.attn.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt2_part(1, true)},
    {Role::v, "transformer.h.{}.attn.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt2_part(2, true)},
    {Role::o, "transformer.h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight", {}, {}, false, {.name = "transformer.h.{}.attn.c_proj.weight", .transposed = true}},
    {Role::up, "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight", {}, {}, false, {.name = "transformer.h.{}.mlp.c_fc.weight", .transposed = true}},
    {Role::down, "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight", {}, {}, false, {.name = "transformer.h.{}.mlp.c_proj.weight", .transposed = true}},
};

inline constexpr TensorKey gpt_bigcode_matrices[] = {
    {Role::q, "transformer.h.{}.attn.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt2_part(0, false)},
    {Role::k, "transformer.h.{}.attn.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt2_part(1, false)},
    {Role::v, "transformer.h.{}.attn.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, gpt2_part(2, false)},
    {Role::o, "transformer.h.{}.attn.c_proj.weight", "blk.{}.attn_output.weight"},
    {Role::up, "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr ArchSpec gpt2{
    .name = "gpt2",
    .hf_class = "GPT2LMHeadModel",
    .older_class = "GPT2Model",
    .paper = "https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf",
    .norm = Norm::layer,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "activation_function",
    .no_rope_step = 1,
    .default_tied = true,
    .choices = gpt2_choices,
    .config = gpt2_numbers,
    .tensors = gpt2_common,
    .more_tensors = gpt2_matrices,
};

inline constexpr ArchSpec gpt_bigcode{
    .name = "gpt_bigcode",
    .hf_class = "GPTBigCodeForCausalLM",
    .paper = "arXiv:2305.06161",
    .gguf = "starcoder",
    .norm = Norm::layer,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "activation_function",
    .no_rope_step = 1,
    .default_tied = true,
    .choices = gpt_bigcode_choices,
    .config = gpt_bigcode_config,
    .tensors = gpt2_common,
    .more_tensors = gpt_bigcode_matrices,
};

}  // namespace bantam::inline v0::archs
