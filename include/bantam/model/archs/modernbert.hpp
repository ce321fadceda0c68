// ModernBERT: norms before blocks but for the first, windows in two of three layers with a rope of their own, a gated GELU, no biases.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey modernbert_config[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_hidden_layers", "block_count"},
    {Field::heads, "num_attention_heads", "attention.head_count"},
    {Field::kv_heads, "", ""},
    {Field::head_dim, "head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "intermediate_size", "feed_forward_length"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length"},
    {Field::norm_eps, "norm_eps", "attention.layer_norm_epsilon"},
    {Field::rope_base, "global_rope_theta", "rope.freq_base"},
    {Field::local_rope_base, "local_rope_theta", "rope.freq_base_swa"},
    {Field::window, "local_attention", "attention.sliding_window"},
};

/// Names of q, k, v, gate and up in folders are ours: native files have them so.
inline constexpr TensorKey modernbert_tensors[] = {
    {Role::embedding, "embeddings.tok_embeddings.weight", "token_embd.weight"},
    {Role::embedding_norm, "embeddings.norm.weight", "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "embeddings.norm.bias", "token_embd_norm.bias", Presence::optional},
    {Role::class_dense, "head.dense.weight", "cls.weight"},
    {Role::class_norm, "head.norm.weight", "cls.norm.weight"},
    {Role::class_head, "classifier.weight", "cls.output.weight"},
    {Role::class_head_bias, "classifier.bias", "cls.output.bias"},
    {Role::final_norm, "final_norm.weight", "output_norm.weight"},
    {Role::final_norm_bias, "final_norm.bias", "output_norm.bias", Presence::optional},
    {Role::attention_norm, "layers.{}.attn_norm.weight", "blk.{}.attn_norm.weight"},
    {Role::attention_norm_bias, "layers.{}.attn_norm.bias", "blk.{}.attn_norm.bias", Presence::optional},
    {Role::q, "layers.{}.attn.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, {.name = "layers.{}.attn.Wqkv.weight", .part = 0, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::k, "layers.{}.attn.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, {.name = "layers.{}.attn.Wqkv.weight", .part = 1, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::v, "layers.{}.attn.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, {.name = "layers.{}.attn.Wqkv.weight", .part = 2, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::o, "layers.{}.attn.Wo.weight", "blk.{}.attn_output.weight"},
    {Role::ffn_norm, "layers.{}.mlp_norm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_norm_bias, "layers.{}.mlp_norm.bias", "blk.{}.ffn_norm.bias", Presence::optional},
    {Role::gate, "layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, {.name = "layers.{}.mlp.Wi.weight", .part = 0, .parts = 2, .gguf = "blk.{}.ffn_up.weight"}},
    {Role::up, "layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, {.name = "layers.{}.mlp.Wi.weight", .part = 1, .parts = 2, .gguf = "blk.{}.ffn_up.weight"}},
    {Role::down, "layers.{}.mlp.Wo.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr std::string_view modernbert_classes[] = {"ModernBertForSequenceClassification", "ModernBertForMaskedLM"};
inline constexpr std::string_view modernbert_leftovers[] = {"head.", "decoder."};

inline constexpr ConfigChoice modernbert_choices[] = {{"attention_bias", 0, 0}, {"mlp_bias", 0, 0}};

inline constexpr ArchSpec modernbert{
    .name = "modernbert",
    .hf_class = "ModernBertModel",
    .paper = "arXiv:2412.13663",
    .gguf = "modern-bert",
    .norm = Norm::layer,
    .causal = false,
    .class_activation = ClassActivation::gelu,
    .first_unnormed = true,
    .default_norm_eps = 1e-5,
    .default_rope_base = 160000,
    .gate = ops::Gate::gelu_erf,
    .activation_key = "hidden_activation",
    .full_attention_step = 3,
    .full_layers_lead = true,
    .window_rope = nn::LayerRope::local,
    .default_local_rope_base = 10000,
    .choices = modernbert_choices,
    .config = modernbert_config,
    .tensors = modernbert_tensors,
    .more_classes = modernbert_classes,
    .prefix = "model.",
    .leftovers = modernbert_leftovers,
};

}  // namespace bantam::inline v0::archs
