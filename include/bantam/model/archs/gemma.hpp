// Gemma 1, 2 and 3: norms stored less one, a scaled embedding, GELU; from 2 on norms around both halves and windows, in 3 with a rope of their own.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

/// Published configs of Gemma 3 leave out what transformers' class has as defaults.
inline constexpr ConfigKey gemma3_config[] = {
    {Field::heads, "num_attention_heads", "attention.head_count", 8},
    {Field::kv_heads, "num_key_value_heads", "attention.head_count_kv", 4},
    {Field::head_dim, "head_dim", "attention.key_length", 256},
    {Field::vocab, "vocab_size", "vocab_size", 262208},
    {Field::context, "max_position_embeddings", "context_length", 131072},
    {Field::attention_scalar, "query_pre_attn_scalar", ""},
    {Field::local_rope_base, "rope_local_base_freq", "rope.freq_base_swa"},
    {Field::final_softcap, "final_logit_softcapping", "final_logit_softcapping"},
};

inline constexpr ConfigKey gemma2_config[] = {
    {Field::attention_scalar, "query_pre_attn_scalar", ""},
    {Field::attention_softcap, "attn_logit_softcapping", "attn_logit_softcapping"},
    {Field::final_softcap, "final_logit_softcapping", "final_logit_softcapping"},
};

inline constexpr TensorKey gemma2_tensors[] = {
    {Role::attention_out_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
};

inline constexpr TensorKey gemma3_tensors[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::attention_out_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
};

/// Of Gemma 3n and 4.
inline constexpr TensorKey gemma_per_layer_tensors[] = {
    {Role::per_layer_embedding, "model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {Role::per_layer_model_projection, "model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {Role::per_layer_model_norm, "model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {Role::per_layer_gate, "model.layers.{}.per_layer_input_gate.weight", "blk.{}.inp_gate.weight"},
    {Role::per_layer_projection, "model.layers.{}.per_layer_projection.weight", "blk.{}.proj.weight"},
    {Role::per_layer_norm, "model.layers.{}.post_per_layer_input_norm.weight", "blk.{}.post_norm.weight"},
};

inline constexpr ArchSpec gemma{
    .name = "gemma",
    .hf_class = "GemmaForCausalLM",
    .paper = "arXiv:2403.08295",
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "hidden_activation",
    .norm_offset = 1,
    .scales_embedding = true,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = {},
};

inline constexpr ArchSpec gemma2{
    .name = "gemma2",
    .hf_class = "Gemma2ForCausalLM",
    .paper = "arXiv:2408.00118",
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "hidden_activation",
    .full_attention_step = 2,
    .norm_offset = 1,
    .scales_embedding = true,
    .layers_scaled_by_dim = 46,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = gemma2_tensors,
    .more_config = gemma2_config,
};

inline constexpr TensorKey vaultgemma_tensors[] = {{Role::ffn_norm, "model.layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"}};

/// VaultGemma 1B: Gemma 2 without the norms behind the halves.
inline constexpr ArchSpec vaultgemma = [] {
  ArchSpec spec = gemma2;
  spec.name = "vaultgemma";
  spec.hf_class = "VaultGemmaForCausalLM";
  spec.paper = "arXiv:2510.15001";
  spec.layers_scaled_by_dim = 0;
  spec.more_tensors = vaultgemma_tensors;
  return spec;
}();

inline constexpr std::string_view gemma3_classes[] = {"Gemma3TextForSequenceClassification", "Gemma3TextModel"};
/// Else EmbeddingGemma.
inline constexpr ConfigChoice gemma3_choices[] = {{"use_bidirectional_attention", 0, 0}};

inline constexpr ArchSpec gemma3{
    .name = "gemma3_text",
    .hf_class = "Gemma3ForCausalLM",
    .paper = "arXiv:2503.19786",
    .gguf = "gemma3",
    .default_rope_base = 1000000,
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "hidden_activation",
    .full_attention_step = 6,
    .window_rope = nn::LayerRope::local,
    .default_local_rope_base = 10000,
    .norm_offset = 1,
    .scales_embedding = true,
    .layers_scaled_by_dim = 62,
    .default_tied = true,
    .choices = gemma3_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = gemma3_tensors,
    .more_config = gemma3_config,
    .more_classes = gemma3_classes,
};

}  // namespace bantam::inline v0::archs
