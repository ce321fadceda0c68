// MiMo-V2 (Flash 309B-A15B): GLM-4.5's experts without shared ones behind a dense layer; values shorter than keys; windows in five of six layers,
// which have more key-value heads, sinks and a rope of their own.
#pragma once

#include "bantam/model/archs/dots1.hpp"

namespace bantam::inline v0::archs {

/// Published folders name the numbers of layers with a window, and which layers have experts, in keys of their own; transformers' class in its usual ones.
inline constexpr ConfigKey mimo_v2_config[] = {
    {Field::kv_heads, "swa_num_key_value_heads", "attention.head_count_kv"},
    {Field::full_kv_heads, "num_key_value_heads", ""},
    {Field::value_dim, "v_head_dim", "attention.value_length"},
    {Field::value_scale, "attention_value_scale", "attention.value_scale"},
    {Field::norm_eps, "rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, "layernorm_epsilon"},
    {Field::local_rope_base, "", "rope.freq_base_swa", 0, "swa_rope_theta"},
    {Field::experts, "n_routed_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::dense_layers, "", ""},
    {Field::drafting_layers, "", "nextn_predict_layers"},
    {Field::router_groups, "n_group", ""},
    {Field::router_groups_used, "topk_group", ""},
    {Field::router_scale, "routed_scaling_factor", "expert_weights_scale"},
};

inline constexpr TensorKey mimo_v2_tensors[] = {
    {Role::sinks, "model.layers.{}.self_attn.attention_sink_bias", "blk.{}.attn_sinks.weight"},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};

inline constexpr ConfigChoice mimo_v2_choices[] = {
    {"attention_bias", 0, 0},
    {"add_swa_attention_sink_bias", 1, 1},
    {"add_full_attention_sink_bias", 0, 0},
};

/// Layers that draft.
inline constexpr std::string_view mimo_v2_leftovers[] = {"model.mtp."};

inline constexpr ArchSpec mimo_v2{
    .name = "mimo_v2_flash",
    .hf_class = "MiMoV2FlashForCausalLM",
    .paper = "https://github.com/XiaomiMiMo/MiMo-V2-Flash",
    .gguf = "mimo2",
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .default_rope_base = 5000000,
    .default_rope_part = 0.334,
    .full_attention_step = 6,
    .window_layers_key = "hybrid_layer_pattern",
    .sparse_flags_key = "moe_layer_freq",
    .names_feed_forwards = true,
    .window_rope = nn::LayerRope::local,
    .window_sinks = true,
    .window_kv_factor = 2,
    .default_local_rope_base = 10000,
    .flags_windows = true,
    .choices = mimo_v2_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = mimo_v2_tensors,
    .more_config = mimo_v2_config,
    .leftovers = mimo_v2_leftovers,
};

}  // namespace bantam::inline v0::archs
