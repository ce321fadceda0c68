// Step-3.5-Flash (196B-A11B): GLM-4.5's experts, beside a shared one and behind dense layers; norms stored less one; a gate of each head; windows in
// three of four layers, which have more query heads and a rope of their own; limits of what gates make in the last layers.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

/// Published folders have words of their own for several; the others are transformers'.
inline constexpr ConfigKey step3p5_config[] = {
    {Field::kv_heads, "num_attention_groups", "attention.head_count_kv", 0, "num_key_value_heads"},
    {Field::rope_base, "", "rope.freq_base"},
    {Field::local_rope_base, "", "rope.freq_base_swa"},
    {Field::local_rope_dim, "", "rope.dimension_count_swa"},
    {Field::experts, "moe_num_experts", "expert_count", 0, "n_routed_experts"},
    {Field::experts_used, "moe_top_k", "expert_used_count", 0, "num_experts_per_tok"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_ffn, "share_expert_dim", "expert_shared_feed_forward_length"},
    {Field::dense_layers, "", "leading_dense_block_count"},
    {Field::drafting_layers, "num_nextn_predict_layers", "nextn_predict_layers"},
    {Field::router_scale, "moe_router_scaling_factor", "expert_weights_scale"},
};

/// Names of single experts are ours: native files have them so.
inline constexpr TensorKey step3p5_tensors[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::attention_gate, "model.layers.{}.self_attn.g_proj.weight", "blk.{}.attn_gate.weight"},
    {Role::gate, "model.layers.{}.share_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.share_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.share_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.moe.router_bias", "blk.{}.exp_probs_b.bias"},
    {Role::expert_gate, "model.layers.{}.moe.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, {"model.layers.{}.moe.gate_proj.weight"}},
    {Role::expert_up, "model.layers.{}.moe.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, {"model.layers.{}.moe.up_proj.weight"}},
    {Role::expert_down, "model.layers.{}.moe.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false, {"model.layers.{}.moe.down_proj.weight"}},
};

inline constexpr ConfigChoice step3p5_choices[] = {
    {"moe_router_activation", 0, 0, false, "sigmoid"},
    {"use_moe_router_bias", 1, 0},
    {"norm_expert_weight", 1, 1},
    {"use_head_wise_attn_gate", 1, 0},
    {"use_qk_norm", 1, 1},
    {"zero_centered", 1, 1},
    {"moe_every_n_layer", 1, 1, true},
    {"sink", 0, 0},
    {"attention_bias", 0, 0},
    {"mlp_bias", 0, 0},
};

inline constexpr std::string_view step3p5_limits[] = {"swiglu_limits", "swiglu_limits_shared"};

inline constexpr ArchSpec step3p5{
    .name = "step3p5",
    .hf_class = "Step3p5ForCausalLM",
    .paper = "arXiv:2602.10604",
    .gguf = "step35",
    .output_gate = nn::OutputGate::of_heads,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.5,
    .full_attention_step = 4,
    .full_layers_lead = true,
    .names_feed_forwards = true,
    .heads_key = "num_attention_heads_per_layer",
    .limit_keys = step3p5_limits,
    .window_rope = nn::LayerRope::local,
    .default_local_rope_base = 10000,
    .norm_offset = 1,
    .step_words = true,
    .halves_full_rope = true,
    .flags_windows = true,
    .choices = step3p5_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = step3p5_tensors,
    .more_config = step3p5_config,
};

}  // namespace bantam::inline v0::archs
