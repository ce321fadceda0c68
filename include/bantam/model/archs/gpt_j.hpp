// GPT-J: attention and MLP side by side behind one layer norm, a part of each head rotated in adjacent pairs, a bias of the head.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey gpt_j_config[] = {
    {Field::dim, "n_embd", "embedding_length", 0, "hidden_size"},
    {Field::layers, "n_layer", "block_count", 0, "num_hidden_layers"},
    {Field::heads, "n_head", "attention.head_count", 0, "num_attention_heads"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "n_inner", "feed_forward_length"},
    {Field::ffn_factor, "", "", 4},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "n_positions", "context_length", 2048},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {Field::rope_dim, "rotary_dim", "rope.dimension_count"},
};
inline constexpr ConfigChoice gpt_j_choices[] = {{"scale_attn_weights", 1, 1}};

inline constexpr TensorKey gpt_j_tensors[] = {
    {Role::embedding, "transformer.wte.weight", "token_embd.weight"},
    {Role::final_norm, "transformer.ln_f.weight", "output_norm.weight"},
    {Role::final_norm_bias, "transformer.ln_f.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::head_bias, "lm_head.bias", "output.bias"},
    {Role::attention_norm, "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "transformer.h.{}.ln_1.bias", "blk.{}.attn_norm.bias"},
    {Role::q, "transformer.h.{}.attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "transformer.h.{}.attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "transformer.h.{}.attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "transformer.h.{}.attn.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::up, "transformer.h.{}.mlp.fc_in.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "transformer.h.{}.mlp.fc_in.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "transformer.h.{}.mlp.fc_out.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "transformer.h.{}.mlp.fc_out.bias", "blk.{}.ffn_down.bias"},
};

/// GGUF has names for it; no other program runs such files.
inline constexpr ArchSpec gpt_j{
    .name = "gptj",
    .hf_class = "GPTJForCausalLM",
    .paper = "https://github.com/kingoflolz/mesh-transformer-jax, arXiv:2104.09864",
    .norm = Norm::layer,
    .parallel = true,
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "activation_function",
    .choices = gpt_j_choices,
    .config = gpt_j_config,
    .tensors = gpt_j_tensors,
};

}  // namespace bantam::inline v0::archs
