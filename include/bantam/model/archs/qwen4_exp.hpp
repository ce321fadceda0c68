// Qwen4's preview (Qwen3.8-Flash-Next): Qwen3.5's layers with experts on several residual streams, a table of n-grams, and an indexer that chooses which
// tokens attention sees.
#pragma once

#include "bantam/model/archs/qwen3_5.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey qwen4_exp_numbers[] = {
    {Field::streams, "hc_count", "hyper_connection.count", 4},
    {Field::stream_rank, "hc_lowrank", "hyper_connection.low_rank", 320},
    {Field::index_heads, "indexer_n_heads", "attention.indexer.head_count"},
    {Field::index_dim, "indexer_head_dim", "attention.indexer.key_length"},
    {Field::index_used, "indexer_budget", "attention.indexer.top_k"},
    {Field::index_block, "indexer_compress_ratio", ""},
    {Field::window, "", ""},
};
inline constexpr auto qwen4_exp_config = joined(qwen4_exp_numbers, qwen3_5_moe_config);

/// Folders have queries and the key of the indexer in one tensor.
constexpr Fused qwen4_exp_index(int part) { return {.name = "model.layers.{}.self_attn.indexer.index_qk_proj.weight", .part = part, .parts = 2}; }

/// Names of indexer.q_proj and k_proj are ours: native files have them so.
inline constexpr TensorKey qwen4_exp_layers[] = {
    {Role::head_streams_norm, "model.hyper_connection_mixer.hc_norm.weight", "output_hc_norm.weight"},
    {Role::head_streams_down, "model.hyper_connection_mixer.input_mix_weight_down.weight", "output_hc_down.weight"},
    {Role::head_streams_up, "model.hyper_connection_mixer.input_mix_weight_up.weight", "output_hc_up.weight"},
    {Role::mixer_streams_norm, "model.layers.{}.attn_hyper_connection.hc_norm.weight", "blk.{}.hc_attn_norm.weight"},
    {Role::mixer_streams_down, "model.layers.{}.attn_hyper_connection.input_mix_weight_down.weight", "blk.{}.hc_attn_down.weight"},
    {Role::mixer_streams_up, "model.layers.{}.attn_hyper_connection.input_mix_weight_up.weight", "blk.{}.hc_attn_up.weight"},
    {Role::mixer_streams_inject, "model.layers.{}.attn_hyper_connection.block_inject_weight.weight", "blk.{}.hc_attn_inject.weight"},
    {Role::ffn_streams_norm, "model.layers.{}.mlp_hyper_connection.hc_norm.weight", "blk.{}.hc_ffn_norm.weight"},
    {Role::ffn_streams_down, "model.layers.{}.mlp_hyper_connection.input_mix_weight_down.weight", "blk.{}.hc_ffn_down.weight"},
    {Role::ffn_streams_up, "model.layers.{}.mlp_hyper_connection.input_mix_weight_up.weight", "blk.{}.hc_ffn_up.weight"},
    {Role::ffn_streams_inject, "model.layers.{}.mlp_hyper_connection.block_inject_weight.weight", "blk.{}.hc_ffn_inject.weight"},
    {Role::ngram_embedding, "ngram_embedding.weight", "per_layer_token_embd.weight", Presence::required, Layers::all, false,
     {.pieces = "model.layers.{}.ple.ple_embedding.ngram_embedding.shard_{e}.weight"}},
    {Role::ngram_key, "model.layers.{}.ple.key_proj.weight", "blk.{}.ple_key.weight"},
    {Role::ngram_value, "model.layers.{}.ple.value_proj.weight", "blk.{}.ple_value.weight"},
    {Role::ngram_key_norm, "model.layers.{}.ple.norm_key.weight", "blk.{}.ple_norm_key.weight"},
    {Role::ngram_query_norm, "model.layers.{}.ple.norm_query.weight", "blk.{}.ple_norm_query.weight"},
    {Role::ngram_value_norm, "model.layers.{}.ple.norm_conv.weight", "blk.{}.ple_norm_conv.weight"},
    {Role::ngram_convolution, "model.layers.{}.ple.conv1d.weight", "blk.{}.ple_conv1d.weight"},
    {Role::index_q_stream, "model.layers.{}.self_attn.indexer.q_proj.weight", "blk.{}.indexer.q_proj.weight", Presence::required, Layers::all, false, qwen4_exp_index(0)},
    {Role::index_k, "model.layers.{}.self_attn.indexer.k_proj.weight", "blk.{}.indexer.k_proj.weight", Presence::required, Layers::all, false, qwen4_exp_index(1)},
    {Role::index_q_norm, "model.layers.{}.self_attn.indexer.q_layernorm.weight", "blk.{}.indexer.q_norm.weight"},
    {Role::index_k_norm, "model.layers.{}.self_attn.indexer.k_layernorm.weight", "blk.{}.indexer.k_norm.weight"},
};
/// Of Qwen3.5's the norms of heads and the delta nets.
inline constexpr auto qwen4_exp_mixers = without(qwen3_5_tensors, Role::ffn_norm, Role::draft_projection, Role::draft_embedding_norm, Role::draft_state_norm, Role::draft_final_norm);
inline constexpr auto qwen4_exp_more = joined(joined(qwen4_exp_layers, qwen4_exp_mixers), qwen3_5_experts);
inline constexpr auto qwen4_exp_tensors = without(llama_tensors, Role::final_norm, Role::attention_norm, Role::ffn_norm);

/// The layer that drafts, which reads all streams, is left out.
inline constexpr ArchSpec qwen4_exp = [] {
  ArchSpec spec = qwen3_5_moe;
  spec.name = "qwen4_exp";
  spec.hf_class = "Qwen4ExpForCausalLM";
  spec.paper = "https://huggingface.co/Qwen/Qwen3.8-Flash-Next, arXiv:2409.19606";
  spec.gguf = "qwen4exp";
  spec.delta_gate_key = "output_gate_type";
  spec.tensors = qwen4_exp_tensors;
  spec.drafting_name = {};
  spec.more_tensors = qwen4_exp_more;
  spec.more_config = qwen4_exp_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
