// Falcon: attention and MLP side by side behind one layer norm (7B) or two (40B), q, k and v in one tensor key-value head by key-value head.
// Falcon-RW: one after the other, scores that shrink with distance in the place of rope, biases.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey falcon_numbers[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_hidden_layers", "block_count", 0, "n_layer"},
    {Field::heads, "num_attention_heads", "attention.head_count", 0, "n_head"},
    {Field::head_dim, "attention_head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "ffn_hidden_size", "feed_forward_length"},
    {Field::ffn_factor, "", "", 4},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length"},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};
inline constexpr ConfigKey falcon_rope[] = {{Field::rope_base, "rope_theta", "rope.freq_base"}};
/// 7B's configs have a number of key-value heads that its class does not read.
inline constexpr ConfigKey falcon_multi_query[] = {{Field::kv_heads, "", "attention.head_count_kv", 1}};
inline constexpr ConfigKey falcon_grouped[] = {{Field::kv_heads, "num_kv_heads", "attention.head_count_kv"}};
inline constexpr auto falcon_turned = joined(falcon_numbers, falcon_rope);
inline constexpr auto falcon_config = joined(falcon_turned, falcon_multi_query);
inline constexpr auto falcon_40b_config = joined(falcon_turned, falcon_grouped);

inline constexpr ConfigChoice falcon_choices[] = {{"new_decoder_architecture", 0, 0}, {"alibi", 0, 0}, {"parallel_attn", 1, 1}, {"multi_query", 1, 1}, {"bias", 0, 0}};
inline constexpr ConfigChoice falcon_40b_choices[] = {{"new_decoder_architecture", 1, 0}, {"alibi", 0, 0}, {"num_ln_in_parallel_attn", 2, 2, true}, {"bias", 0, 0}};
inline constexpr ConfigChoice falcon_rw_choices[] = {{"new_decoder_architecture", 0, 0}, {"alibi", 1, 0}, {"parallel_attn", 0, 1}, {"multi_query", 0, 1}, {"bias", 1, 0},
                                                     {"apply_residual_connection_post_layernorm", 0, 0}};

/// GGUF files have the queries of all heads first.
constexpr Fused falcon_part(int part) {
  return {.name = "transformer.h.{}.self_attention.query_key_value.weight", .part = part, .parts = 3, .gguf = "blk.{}.attn_qkv.weight", .by_groups = true};
}
constexpr Fused falcon_bias_part(int part) {
  return {.name = "transformer.h.{}.self_attention.query_key_value.bias", .part = part, .parts = 3, .gguf = "blk.{}.attn_qkv.bias", .by_groups = true};
}

/// Names of q, k and v in folders are ours: native files have them so.
inline constexpr TensorKey falcon_tensors[] = {
    {Role::embedding, "transformer.word_embeddings.weight", "token_embd.weight"},
    {Role::final_norm, "transformer.ln_f.weight", "output_norm.weight"},
    {Role::final_norm_bias, "transformer.ln_f.bias", "output_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::q, "transformer.h.{}.self_attention.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, falcon_part(0)},
    {Role::k, "transformer.h.{}.self_attention.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, falcon_part(1)},
    {Role::v, "transformer.h.{}.self_attention.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, falcon_part(2)},
    {Role::o, "transformer.h.{}.self_attention.dense.weight", "blk.{}.attn_output.weight"},
    {Role::up, "transformer.h.{}.mlp.dense_h_to_4h.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "transformer.h.{}.mlp.dense_4h_to_h.weight", "blk.{}.ffn_down.weight"},
};
inline constexpr TensorKey falcon_norm[] = {
    {Role::attention_norm, "transformer.h.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "transformer.h.{}.input_layernorm.bias", "blk.{}.attn_norm.bias"},
};
inline constexpr TensorKey falcon_40b_norms[] = {
    {Role::attention_norm, "transformer.h.{}.ln_attn.weight", "blk.{}.attn_norm_2.weight"},
    {Role::attention_norm_bias, "transformer.h.{}.ln_attn.bias", "blk.{}.attn_norm_2.bias"},
    {Role::ffn_norm, "transformer.h.{}.ln_mlp.weight", "blk.{}.attn_norm.weight"},
    {Role::ffn_norm_bias, "transformer.h.{}.ln_mlp.bias", "blk.{}.attn_norm.bias"},
};
inline constexpr TensorKey falcon_rw_biases[] = {
    {Role::q_bias, "transformer.h.{}.self_attention.q_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, falcon_bias_part(0)},
    {Role::k_bias, "transformer.h.{}.self_attention.k_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, falcon_bias_part(1)},
    {Role::v_bias, "transformer.h.{}.self_attention.v_proj.bias", "blk.{}.attn_qkv.bias", {}, {}, false, falcon_bias_part(2)},
    {Role::o_bias, "transformer.h.{}.self_attention.dense.bias", "blk.{}.attn_output.bias"},
    {Role::ffn_norm, "transformer.h.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "transformer.h.{}.post_attention_layernorm.bias", "blk.{}.ffn_norm.bias"},
    {Role::up_bias, "transformer.h.{}.mlp.dense_h_to_4h.bias", "blk.{}.ffn_up.bias"},
    {Role::down_bias, "transformer.h.{}.mlp.dense_4h_to_h.bias", "blk.{}.ffn_down.bias"},
};
inline constexpr auto falcon_rw_tensors = joined(falcon_rw_biases, falcon_norm);

inline constexpr ArchSpec falcon{
    .name = "falcon",
    .hf_class = "FalconForCausalLM",
    .older_class = "RWForCausalLM",
    .paper = "arXiv:2311.16867",
    .norm = Norm::layer,
    .parallel = true,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_erf,
    .activation_key = "activation",
    .default_tied = true,
    .choices = falcon_choices,
    .config = falcon_config,
    .tensors = falcon_tensors,
    .more_tensors = falcon_norm,
};

inline constexpr ArchSpec falcon_40b = [] {
  ArchSpec spec = falcon;
  spec.gguf_mark = "blk.0.attn_norm_2.weight";
  spec.choices = falcon_40b_choices;
  spec.config = falcon_40b_config;
  spec.more_tensors = falcon_40b_norms;
  return spec;
}();

/// Falcon 2 11B: one norm for both halves, several key-value heads. Its GGUF files are read as 7B's, which say how many there are.
inline constexpr ConfigChoice falcon_11b_choices[] = {{"new_decoder_architecture", 1, 0}, {"alibi", 0, 0}, {"num_ln_in_parallel_attn", 1, 2, true}, {"bias", 0, 0}};
inline constexpr ArchSpec falcon_11b = [] {
  ArchSpec spec = falcon;
  spec.paper = "arXiv:2407.14885";
  spec.choices = falcon_11b_choices;
  spec.config = falcon_40b_config;
  return spec;
}();

/// No other program reads its GGUF files.
inline constexpr ArchSpec falcon_rw = [] {
  ArchSpec spec = falcon;
  spec.paper = "arXiv:2306.01116";
  spec.gguf = "falcon-rw";
  spec.parallel = false;
  spec.alibi = 8;
  spec.scales_alibi = true;
  spec.no_rope_step = 1;
  spec.choices = falcon_rw_choices;
  spec.config = falcon_numbers;
  spec.more_tensors = falcon_rw_tensors;
  return spec;
}();

}  // namespace bantam::inline v0::archs
