// GPT-Neo and TinyStories: GPT-2 with q, k and v in matrices of their own and without biases, scores that are not scaled, and a window in every
// other layer.
#pragma once

#include "bantam/model/archs/gpt2.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey gpt_neo_config[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_layers", "block_count", 0, "num_hidden_layers"},
    {Field::heads, "num_heads", "attention.head_count", 0, "num_attention_heads"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "intermediate_size", "feed_forward_length"},
    {Field::ffn_factor, "", "", 4},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length", 2048},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {Field::window, "window_size", "attention.sliding_window", 256},
};

inline constexpr TensorKey gpt_neo_matrices[] = {
    {Role::q, "transformer.h.{}.attn.attention.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "transformer.h.{}.attn.attention.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "transformer.h.{}.attn.attention.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "transformer.h.{}.attn.attention.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "transformer.h.{}.attn.attention.out_proj.bias", "blk.{}.attn_output.bias"},
    {Role::up, "transformer.h.{}.mlp.c_fc.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight"},
};
inline constexpr auto gpt_neo_common = without(gpt2_common, Role::q_bias, Role::k_bias, Role::v_bias, Role::o_bias);

/// No other program reads its GGUF files.
inline constexpr ArchSpec gpt_neo = [] {
  ArchSpec spec = gpt2;
  spec.name = "gpt_neo";
  spec.hf_class = "GPTNeoForCausalLM";
  spec.older_class = "GPTNeoModel";
  spec.paper = "https://github.com/EleutherAI/gpt-neo, arXiv:2305.07759 (TinyStories)";
  spec.gguf = "gptneo";
  spec.full_attention_step = 2;
  spec.full_layers_lead = true;
  spec.local_layers_key = "attention_layers";
  spec.window_rope = spec.full_rope = nn::LayerRope::none;
  spec.attention_scale = 1;
  spec.flags_windows = true;
  spec.choices = {};
  spec.config = gpt_neo_config;
  spec.tensors = gpt_neo_common;
  spec.more_tensors = gpt_neo_matrices;
  return spec;
}();

}  // namespace bantam::inline v0::archs
