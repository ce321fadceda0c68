// Qwen3.5, 3.6 and 3.8: three layers of gated delta nets, then one of attention with a gate on its output. Dense, or with experts.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey qwen3_5_config[] = {
    {Field::convolution_taps, "linear_conv_kernel_dim", "ssm.conv_kernel"},
    {Field::recurrent_key_heads, "linear_num_key_heads", "ssm.group_count"},
    {Field::recurrent_key_dim, "linear_key_head_dim", "ssm.state_size"},
    {Field::recurrent_heads, "linear_num_value_heads", "ssm.time_step_rank"},
    {Field::recurrent_value_dim, "linear_value_head_dim", ""},
    {Field::recurrent_inner, "", "ssm.inner_size"},
    {Field::attention_step, "full_attention_interval", "full_attention_interval"},
    {Field::drafting_layers, "mtp_num_hidden_layers", "nextn_predict_layers"},
};

inline constexpr ConfigKey qwen3_5_expert_numbers[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_ffn, "shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
};
inline constexpr auto qwen3_5_moe_config = joined(qwen3_5_config, qwen3_5_expert_numbers);

inline constexpr TensorKey qwen3_5_tensors[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::delta_qkv, "model.layers.{}.linear_attn.in_proj_qkv.weight", "blk.{}.attn_qkv.weight"},
    {Role::delta_z, "model.layers.{}.linear_attn.in_proj_z.weight", "blk.{}.attn_gate.weight"},
    {Role::delta_a, "model.layers.{}.linear_attn.in_proj_a.weight", "blk.{}.ssm_alpha.weight"},
    {Role::delta_b, "model.layers.{}.linear_attn.in_proj_b.weight", "blk.{}.ssm_beta.weight"},
    {Role::delta_out, "model.layers.{}.linear_attn.out_proj.weight", "blk.{}.ssm_out.weight"},
    {Role::delta_convolution, "model.layers.{}.linear_attn.conv1d.weight", "blk.{}.ssm_conv1d.weight"},
    {Role::delta_decay, "model.layers.{}.linear_attn.A_log", "blk.{}.ssm_a"},
    {Role::delta_decay_bias, "model.layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::delta_norm, "model.layers.{}.linear_attn.norm.weight", "blk.{}.ssm_norm.weight"},
    {Role::draft_projection, "mtp.fc.weight", "blk.{}.nextn.eh_proj.weight"},
    {Role::draft_embedding_norm, "mtp.pre_fc_norm_embedding.weight", "blk.{}.nextn.enorm.weight"},
    {Role::draft_state_norm, "mtp.pre_fc_norm_hidden.weight", "blk.{}.nextn.hnorm.weight"},
    {Role::draft_final_norm, "mtp.norm.weight", "blk.{}.nextn.shared_head_norm.weight", Presence::optional},
};

inline constexpr TensorKey qwen3_5_experts[] = {
    {Role::gate, "model.layers.{}.mlp.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::shared_gate, "model.layers.{}.mlp.shared_expert_gate.weight", "blk.{}.ffn_gate_inp_shexp.weight", Presence::required, Layers::all, true},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", Presence::required, Layers::all, false,
     {"model.layers.{}.mlp.experts.gate_up_proj", 0, 2}},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", Presence::required, Layers::all, false,
     {"model.layers.{}.mlp.experts.gate_up_proj", 1, 2}},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", Presence::required, Layers::all, false,
     {"model.layers.{}.mlp.experts.down_proj"}},
};
inline constexpr auto qwen3_5_moe_tensors = joined(qwen3_5_tensors, qwen3_5_experts);

inline constexpr ArchSpec qwen3_5{
    .name = "qwen3_5",
    .hf_class = "Qwen3_5ForCausalLM",
    .paper = "https://qwen.ai/blog?id=qwen3.5, arXiv:2412.06464",
    .gguf = "qwen35",
    .recurrent = MixerKind::gated_delta,
    .attention_step = 4,
    .tiled_values = true,
    .output_gate = nn::OutputGate::beside_queries,
    .rope_sections = true,
    .default_rope_part = 0.25,
    .norm_offset = 1,
    .config = llama_config,
    .tensors = llama_tensors,
    .drafting_name = "mtp.layers.0.",
    .more_tensors = qwen3_5_tensors,
    .more_config = qwen3_5_config,
};

inline constexpr ArchSpec qwen3_5_moe{
    .name = "qwen3_5_moe",
    .hf_class = "Qwen3_5MoeForCausalLM",
    .paper = "https://qwen.ai/blog?id=qwen3.5, arXiv:2412.06464",
    .gguf = "qwen35moe",
    .recurrent = MixerKind::gated_delta,
    .attention_step = 4,
    .tiled_values = true,
    .output_gate = nn::OutputGate::beside_queries,
    .rope_sections = true,
    .router = {.renormalize = true},
    .default_rope_part = 0.25,
    .norm_offset = 1,
    .config = llama_config,
    .tensors = llama_tensors,
    .drafting_name = "mtp.layers.0.",
    .more_tensors = qwen3_5_moe_tensors,
    .more_config = qwen3_5_moe_config,
};

}  // namespace bantam::inline v0::archs
