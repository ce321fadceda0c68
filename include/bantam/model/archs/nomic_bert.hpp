// Nomic Embed v1 and v1.5: BERT with rope in the place of learned positions and a gated MLP.
#pragma once

#include "bantam/model/archs/bert.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey nomic_bert_config[] = {
    {Field::dim, "n_embd", "embedding_length", 0, "hidden_size"},
    {Field::layers, "n_layer", "block_count", 0, "num_hidden_layers"},
    {Field::heads, "n_head", "attention.head_count", 0, "num_attention_heads"},
    {Field::kv_heads, "", ""},
    {Field::ffn, "n_inner", "feed_forward_length", 0, "intermediate_size"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "n_positions", "context_length", 0, "max_position_embeddings"},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_epsilon", 0, "layer_norm_eps"},
    {Field::rope_base, "rotary_emb_base", "rope.freq_base"},
};

/// Names of q, k and v in folders are ours: native files have them so.
inline constexpr TensorKey nomic_bert_tensors[] = {
    {Role::embedding, "embeddings.word_embeddings.weight", "token_embd.weight"},
    {Role::token_type_embedding, "embeddings.token_type_embeddings.weight", "token_types.weight"},
    {Role::embedding_norm, "emb_ln.weight", "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "emb_ln.bias", "token_embd_norm.bias"},
    {Role::q, "encoder.layers.{}.attn.q_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, {.name = "encoder.layers.{}.attn.Wqkv.weight", .part = 0, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::k, "encoder.layers.{}.attn.k_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, {.name = "encoder.layers.{}.attn.Wqkv.weight", .part = 1, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::v, "encoder.layers.{}.attn.v_proj.weight", "blk.{}.attn_qkv.weight", {}, {}, false, {.name = "encoder.layers.{}.attn.Wqkv.weight", .part = 2, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"}},
    {Role::o, "encoder.layers.{}.attn.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::attention_out_norm, "encoder.layers.{}.norm1.weight", "blk.{}.attn_output_norm.weight"},
    {Role::attention_out_norm_bias, "encoder.layers.{}.norm1.bias", "blk.{}.attn_output_norm.bias"},
    {Role::gate, "encoder.layers.{}.mlp.fc12.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "encoder.layers.{}.mlp.fc11.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "encoder.layers.{}.mlp.fc2.weight", "blk.{}.ffn_down.weight"},
    {Role::ffn_out_norm, "encoder.layers.{}.norm2.weight", "blk.{}.layer_output_norm.weight"},
    {Role::ffn_out_norm_bias, "encoder.layers.{}.norm2.bias", "blk.{}.layer_output_norm.bias"},
};

inline constexpr std::string_view nomic_bert_classes[] = {"NomicBertForPreTraining"};

/// Published configs say these; what transformers 5 writes leaves them out.
inline constexpr ConfigChoice nomic_bert_choices[] = {
    {"causal", 0, 0},         {"prenorm", 0, 0},        {"use_rms_norm", 0, 0},   {"qkv_proj_bias", 0, 0},
    {"mlp_fc1_bias", 0, 0},   {"mlp_fc2_bias", 0, 0},   {"rotary_emb_interleaved", 0, 0},
    {"rotary_emb_fraction", 1, 1, true}, {"moe_every_n_layers", 0, 0, true}, {"rotary_scaling_factor", 0, 0, true},
};

inline constexpr ArchSpec nomic_bert{
    .name = "nomic_bert",
    .hf_class = "NomicBertModel",
    .paper = "arXiv:2402.01613",
    .gguf = "nomic-bert",
    .norm = Norm::layer,
    .causal = false,
    .norms_sums = true,
    .default_norm_eps = 1e-12,
    .default_rope_base = 1000,
    .activation_key = "activation_function",
    .activation_name = "swiglu",
    .choices = nomic_bert_choices,
    .config = nomic_bert_config,
    .tensors = nomic_bert_tensors,
    .more_classes = nomic_bert_classes,
    .prefix = "bert.",
    .leftovers = bert_leftovers,
};

}  // namespace bantam::inline v0::archs
