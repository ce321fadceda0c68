// LFM2 and LFM2.5: short convolutions in most layers, attention in some. Dense, or with experts behind the first layers.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey lfm2_config[] = {
    {Field::ffn, "intermediate_size", "feed_forward_length", 0, "block_ff_dim"},
    {Field::norm_eps, "norm_eps", "attention.layer_norm_rms_epsilon"},
    {Field::convolution_taps, "conv_L_cache", "shortconv.l_cache"},
};

inline constexpr ConfigKey lfm2_expert_numbers[] = {
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::dense_layers, "num_dense_layers", "leading_dense_block_count"},
};
inline constexpr auto lfm2_moe_config = joined(lfm2_config, lfm2_expert_numbers);

inline constexpr TensorKey lfm2_tensors[] = {
    {Role::final_norm, "model.embedding_norm.weight", "token_embd_norm.weight"},
    {Role::attention_norm, "model.layers.{}.operator_norm.weight", "blk.{}.attn_norm.weight"},
    {Role::o, "model.layers.{}.self_attn.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::q_norm, "model.layers.{}.self_attn.q_layernorm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_layernorm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::short_in, "model.layers.{}.conv.in_proj.weight", "blk.{}.shortconv.in_proj.weight"},
    {Role::short_out, "model.layers.{}.conv.out_proj.weight", "blk.{}.shortconv.out_proj.weight"},
    {Role::short_convolution, "model.layers.{}.conv.conv.weight", "blk.{}.shortconv.conv.weight"},
    {Role::ffn_norm, "model.layers.{}.ffn_norm.weight", "blk.{}.ffn_norm.weight"},
    {Role::gate, "model.layers.{}.feed_forward.w1.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.feed_forward.w3.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.feed_forward.w2.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr TensorKey lfm2_experts[] = {
    {Role::router, "model.layers.{}.feed_forward.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.feed_forward.expert_bias", "blk.{}.exp_probs_b.bias"},
    {Role::expert_gate, "model.layers.{}.feed_forward.experts.{e}.w1.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.feed_forward.experts.{e}.w3.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.feed_forward.experts.{e}.w2.weight", "blk.{}.ffn_down_exps.weight"},
};
inline constexpr auto lfm2_moe_tensors = joined(lfm2_tensors, lfm2_experts);

inline constexpr ArchSpec lfm2{
    .name = "lfm2",
    .hf_class = "Lfm2ForCausalLM",
    .paper = "arXiv:2511.23404",
    .recurrent = MixerKind::short_convolution,
    .zero_heads = true,
    .default_norm_eps = 1e-5,
    .default_rope_base = 1000000,
    .trims_ffn = true,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = lfm2_tensors,
    .more_config = lfm2_config,
};

inline constexpr ArchSpec lfm2_moe{
    .name = "lfm2_moe",
    .hf_class = "Lfm2MoeForCausalLM",
    .paper = "arXiv:2511.23404",
    .gguf = "lfm2moe",
    .recurrent = MixerKind::short_convolution,
    .zero_heads = true,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .default_rope_base = 1000000,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = lfm2_moe_tensors,
    .more_config = lfm2_moe_config,
};

}  // namespace bantam::inline v0::archs
