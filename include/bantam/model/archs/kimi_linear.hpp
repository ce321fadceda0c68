// Kimi Linear: delta nets with a decay of each channel in three of four layers, latent attention without rope in the fourth, DeepSeek's experts.
#pragma once

#include "bantam/model/archs/deepseek.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey kimi_linear_numbers[] = {
    {Field::context, "model_max_length", "context_length", 0, "max_position_embeddings"},
    {Field::convolution_taps, "linear_attn_config.short_conv_kernel_size", "ssm.conv_kernel"},
    {Field::recurrent_heads, "linear_attn_config.num_heads", ""},
    {Field::recurrent_key_dim, "linear_attn_config.head_dim", "kda.head_dim"},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_token", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "num_shared_experts", "expert_shared_count"},
    {Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count"},
    {Field::router_groups, "num_expert_group", "expert_group_count"},
    {Field::router_groups_used, "topk_group", "expert_group_used_count"},
    {Field::router_scale, "routed_scaling_factor", "expert_weights_scale"},
};
inline constexpr auto kimi_linear_config = joined(latent_sizes, kimi_linear_numbers);

inline constexpr TensorKey kimi_linear_layers[] = {
    {Role::channel_q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::channel_k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::channel_v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::channel_f_a, "model.layers.{}.self_attn.f_a_proj.weight", "blk.{}.ssm_f_a.weight"},
    {Role::channel_f_b, "model.layers.{}.self_attn.f_b_proj.weight", "blk.{}.ssm_f_b.weight"},
    {Role::channel_g_a, "model.layers.{}.self_attn.g_a_proj.weight", "blk.{}.ssm_g_a.weight"},
    {Role::channel_g_b, "model.layers.{}.self_attn.g_b_proj.weight", "blk.{}.ssm_g_b.weight"},
    {Role::channel_b, "model.layers.{}.self_attn.b_proj.weight", "blk.{}.ssm_beta.weight"},
    {Role::channel_out, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::channel_q_convolution, "model.layers.{}.self_attn.q_conv1d.weight", "blk.{}.ssm_conv1d_q.weight"},
    {Role::channel_k_convolution, "model.layers.{}.self_attn.k_conv1d.weight", "blk.{}.ssm_conv1d_k.weight"},
    {Role::channel_v_convolution, "model.layers.{}.self_attn.v_conv1d.weight", "blk.{}.ssm_conv1d_v.weight"},
    {Role::channel_decay, "model.layers.{}.self_attn.A_log", "blk.{}.ssm_a"},
    {Role::channel_decay_bias, "model.layers.{}.self_attn.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::channel_norm, "model.layers.{}.self_attn.o_norm.weight", "blk.{}.ssm_norm.weight"},
    {Role::gate, "model.layers.{}.block_sparse_moe.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.block_sparse_moe.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.block_sparse_moe.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.block_sparse_moe.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", "blk.{}.ffn_down_exps.weight"},
};

inline constexpr auto kimi_linear_tensors = joined(deepseek_attention, kimi_linear_layers);

/// Kimi K3 has the class's name, too, and other gates.
inline constexpr ConfigChoice kimi_linear_choices[] = {
    {"linear_attn_config.use_full_rank_gate", 0, 0}, {"mla_use_output_gate", 0, 0}, {"mla_use_nope", 1, 1}, {"moe_renormalize", 1, 1}, {"moe_layer_freq", 1, 1, true}};

inline constexpr ArchSpec kimi_linear{
    .name = "kimi_linear",
    .hf_class = "KimiLinearForCausalLM",
    .paper = "arXiv:2510.26692",
    .gguf = "kimi-linear",
    .latent = true,
    .recurrent = MixerKind::channel_delta,
    .zero_heads = true,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .no_rope_step = 1,
    .choices = kimi_linear_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = kimi_linear_tensors,
    .more_config = kimi_linear_config,
};

}  // namespace bantam::inline v0::archs
