// Gemma 3n: four residual streams, a low-rank branch beside attention, sparse gates, per-layer embeddings; keys that later layers read.
#pragma once

#include "bantam/model/archs/gemma.hpp"

namespace bantam::inline v0::archs {

/// Published configs may leave out what transformers' class has as defaults.
inline constexpr ConfigKey gemma3n_config[] = {
    {Field::dim, "hidden_size", "embedding_length", 2048},
    {Field::layers, "num_hidden_layers", "block_count", 35},
    {Field::heads, "num_attention_heads", "attention.head_count", 8},
    {Field::kv_heads, "num_key_value_heads", "attention.head_count_kv", 2},
    {Field::head_dim, "head_dim", "attention.key_length", 256},
    {Field::ffn, "intermediate_size", "feed_forward_length", 16384},
    {Field::vocab, "vocab_size", "vocab_size", 262400},
    {Field::context, "max_position_embeddings", "context_length", 32768},
    {Field::local_rope_base, "rope_local_base_freq", "rope.freq_base_swa"},
    {Field::window, "sliding_window", "attention.sliding_window", 512},
    {Field::final_softcap, "final_logit_softcapping", "final_logit_softcapping", 30},
    {Field::shared_layers, "num_kv_shared_layers", "attention.shared_kv_layers", 15},
    {Field::per_layer_dim, "hidden_size_per_layer_input", "embedding_length_per_layer_input", 256},
    {Field::per_layer_vocab, "vocab_size_per_layer_input", "", 262144},
    {Field::streams, "altup_num_inputs", "altup.num_inputs", 4},
    {Field::active_stream, "altup_active_idx", "altup.active_idx"},
    {Field::laurel_rank, "laurel_rank", "laurel_rank", 64},
};

/// Folders have a tensor for each stream but the first.
inline constexpr Fused gemma3n_projections{.pieces = "model.altup_projections.{e}.weight"}, gemma3n_unembeddings{.pieces = "model.altup_unembed_projections.{e}.weight"};

inline constexpr TensorKey gemma3n_layers[] = {
    {Role::stream_projection, "model.altup_projections.weight", "altup_proj.weight", Presence::required, Layers::all, false, gemma3n_projections},
    {Role::stream_unembedding, "model.altup_unembed_projections.weight", "altup_unembd_proj.weight", Presence::required, Layers::all, false, gemma3n_unembeddings},
    {Role::stream_router, "model.layers.{}.altup.modality_router.weight", "blk.{}.altup_router.weight"},
    {Role::stream_router_norm, "model.layers.{}.altup.router_norm.weight", "blk.{}.altup_router_norm.weight"},
    {Role::stream_prediction, "model.layers.{}.altup.prediction_coefs.weight", "blk.{}.altup_predict_coef.weight"},
    {Role::stream_correction, "model.layers.{}.altup.correction_coefs.weight", "blk.{}.altup_correct_coef.weight"},
    {Role::stream_scale, "model.layers.{}.altup.correct_output_scale", "blk.{}.altup_correct_scale.weight"},
    {Role::laurel_left, "model.layers.{}.laurel.linear_left.weight", "blk.{}.laurel_l.weight"},
    {Role::laurel_right, "model.layers.{}.laurel.linear_right.weight", "blk.{}.laurel_r.weight"},
    {Role::laurel_norm, "model.layers.{}.laurel.post_laurel_norm.weight", "blk.{}.laurel_post_norm.weight"},
};
inline constexpr auto gemma3n_tensors = joined(joined(gemma3_tensors, gemma_per_layer_tensors), gemma3n_layers);

/// E2B and E4B, and what MatFormer cuts out of them.
inline constexpr ConfigChoice gemma3n_choices[] = {{"altup_correct_scale", 1, 1}};

inline constexpr ArchSpec gemma3n{
    .name = "gemma3n_text",
    .hf_class = "Gemma3nForCausalLM",
    .paper = "https://ai.google.dev/gemma/docs/gemma-3n",
    .gguf = "gemma3n",
    .default_rope_base = 1000000,
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "hidden_activation",
    .full_attention_step = 5,
    .sparsity_key = "activation_sparsity_pattern",
    .window_rope = nn::LayerRope::local,
    .default_local_rope_base = 10000,
    .scales_embedding = true,
    .attention_scale = 1,
    .norms_values = true,
    .lists_shared_keys = true,
    .flags_windows = true,
    .default_tied = true,
    .choices = gemma3n_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = gemma3n_tensors,
    .more_config = gemma3n_config,
};

}  // namespace bantam::inline v0::archs
