// OPT: learned positions behind two rows that pad, layer norms, biases everywhere, ReLU.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey opt_config[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_hidden_layers", "block_count"},
    {Field::heads, "num_attention_heads", "attention.head_count"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "ffn_dim", "feed_forward_length"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length", 2048},
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
};
/// 350M has its norms behind the halves; of the others none is published.
inline constexpr ConfigChoice opt_choices[] = {{"do_layer_norm_before", 1, 1}, {"_remove_final_layer_norm", 0, 0}, {"enable_bias", 1, 1}, {"layer_norm_elementwise_affine", 1, 1}};

inline constexpr TensorKey opt_tensors[] = {
    {Role::embedding, "model.decoder.embed_tokens.weight", "token_embd.weight"},
    {Role::position_embedding, "model.decoder.embed_positions.weight", "position_embd.weight"},
    {Role::final_norm, "model.decoder.final_layer_norm.weight", "output_norm.weight"},
    {Role::final_norm_bias, "model.decoder.final_layer_norm.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "model.decoder.layers.{}.self_attn_layer_norm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "model.decoder.layers.{}.self_attn_layer_norm.bias", "blk.{}.attn_norm.bias"},
    {Role::q, "model.decoder.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::q_bias, "model.decoder.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {Role::k, "model.decoder.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::k_bias, "model.decoder.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {Role::v, "model.decoder.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::v_bias, "model.decoder.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {Role::o, "model.decoder.layers.{}.self_attn.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "model.decoder.layers.{}.self_attn.out_proj.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm, "model.decoder.layers.{}.final_layer_norm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "model.decoder.layers.{}.final_layer_norm.bias", "blk.{}.ffn_norm.bias"},
    {Role::up, "model.decoder.layers.{}.fc1.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "model.decoder.layers.{}.fc1.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "model.decoder.layers.{}.fc2.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "model.decoder.layers.{}.fc2.bias", "blk.{}.ffn_down.bias"},
};

/// No other program reads its GGUF files.
inline constexpr ArchSpec opt{
    .name = "opt",
    .hf_class = "OPTForCausalLM",
    .older_class = "OPTModel",
    .paper = "arXiv:2205.01068",
    .norm = Norm::layer,
    .position_offset = 2,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::relu,
    .activation_key = "activation_function",
    .no_rope_step = 1,
    .default_tied = true,
    .choices = opt_choices,
    .config = opt_config,
    .tensors = opt_tensors,
};

}  // namespace bantam::inline v0::archs
