// Granite 4: Mamba-2 in most layers, attention in some, mostly without rope, and Granite's scales. An MLP, or the same beside experts.
#pragma once

#include "bantam/model/archs/granite_moe.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey granite_hybrid_numbers[] = {
    {Field::convolution_taps, "mamba_d_conv", "ssm.conv_kernel"},
    {Field::recurrent_key_heads, "mamba_n_groups", "ssm.group_count"},
    {Field::recurrent_key_dim, "mamba_d_state", "ssm.state_size"},
    {Field::recurrent_heads, "mamba_n_heads", "ssm.time_step_rank"},
    {Field::recurrent_value_dim, "mamba_d_head", ""},
    {Field::recurrent_inner, "", "ssm.inner_size"},
};
inline constexpr ConfigKey granite_hybrid_mlp[] = {{Field::ffn, "shared_intermediate_size", "feed_forward_length"}};
inline constexpr ConfigKey granite_hybrid_experts[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
    {Field::shared_ffn, "shared_intermediate_size", "expert_shared_feed_forward_length"},
};
inline constexpr auto granite_hybrid_config = joined(joined(granite_hybrid_mlp, granite_config), granite_hybrid_numbers);
inline constexpr auto granite_moe_hybrid_config = joined(joined(granite_hybrid_experts, granite_config), granite_hybrid_numbers);

constexpr Fused granite_shared_part(int part) { return {.name = "model.layers.{}.shared_mlp.input_linear.weight", .part = part, .parts = 2}; }

/// Names of single gates and ups are ours: native files have them so.
inline constexpr TensorKey granite_hybrid_shared[] = {
    {Role::gate, "model.layers.{}.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate.weight", Presence::required, Layers::dense, false, granite_shared_part(0)},
    {Role::up, "model.layers.{}.shared_mlp.up_proj.weight", "blk.{}.ffn_up.weight", Presence::required, Layers::dense, false, granite_shared_part(1)},
    {Role::down, "model.layers.{}.shared_mlp.output_linear.weight", "blk.{}.ffn_down.weight", Presence::required, Layers::dense},
    {Role::gate, "model.layers.{}.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse, false, granite_shared_part(0)},
    {Role::up, "model.layers.{}.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse, false, granite_shared_part(1)},
    {Role::down, "model.layers.{}.shared_mlp.output_linear.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
};
inline constexpr TensorKey granite_hybrid_space[] = {
    {Role::state_in, "model.layers.{}.mamba.in_proj.weight", "blk.{}.ssm_in.weight"},
    {Role::state_out, "model.layers.{}.mamba.out_proj.weight", "blk.{}.ssm_out.weight"},
    {Role::state_convolution, "model.layers.{}.mamba.conv1d.weight", "blk.{}.ssm_conv1d.weight"},
    {Role::state_convolution_bias, "model.layers.{}.mamba.conv1d.bias", "blk.{}.ssm_conv1d.bias"},
    {Role::state_decay, "model.layers.{}.mamba.A_log", "blk.{}.ssm_a"},
    {Role::state_decay_bias, "model.layers.{}.mamba.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::state_skip, "model.layers.{}.mamba.D", "blk.{}.ssm_d"},
};
inline constexpr TensorKey granite_hybrid_norm[] = {{Role::state_norm, "model.layers.{}.mamba.norm.weight", "blk.{}.ssm_norm.weight"}};
inline constexpr auto granite_hybrid_layers = joined(joined(granite_hybrid_shared, granite_hybrid_space), granite_hybrid_norm);
inline constexpr auto granite_hybrid_tensors = joined(granite_hybrid_layers, llama_biases);
inline constexpr auto granite_moe_hybrid_tensors = joined(granite_hybrid_layers, granite_moe_tensors);

inline constexpr ArchSpec granite_hybrid{
    .name = "granitemoehybrid",
    .hf_class = "GraniteMoeHybridForCausalLM",
    .paper = "https://www.ibm.com/granite/docs/models/granite, arXiv:2405.21060",
    .gguf = "granitehybrid",
    .recurrent = MixerKind::state_space,
    .zero_heads = true,
    .single_group = true,
    .gguf_attending = "granite",
    .gguf_pairs = nn::RopePairs::adjacent,
    .says_rope = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = granite_hybrid_tensors,
    .more_config = granite_hybrid_config,
};

inline constexpr ArchSpec granite_moe_hybrid = [] {
  ArchSpec spec = granite_hybrid;
  spec.gguf_attending = {};
  spec.router = {.renormalize = true};
  spec.more_tensors = granite_moe_hybrid_tensors;
  spec.more_config = granite_moe_hybrid_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
