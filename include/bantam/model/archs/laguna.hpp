// Laguna (poolside): GLM-4.5's experts behind dense layers; norms of q and k; a gate of each head; windows in most layers, which have more query heads
// and a rope of their own.
#pragma once

#include "bantam/model/archs/dots1.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey laguna_config[] = {
    {Field::experts, "num_experts", "expert_count", 0, "num_local_experts"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_ffn, "shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {Field::dense_layers, "", "leading_dense_block_count"},
    {Field::router_scale, "moe_routed_scaling_factor", "expert_weights_scale"},
    {Field::rope_base, "", "rope.freq_base"},
    {Field::local_rope_base, "", "rope.freq_base_swa"},
    {Field::local_rope_dim, "", "rope.dimension_count_swa"},
};

inline constexpr TensorKey laguna_names[] = {
    {Role::attention_gate, "model.layers.{}.self_attn.g_proj.weight", "blk.{}.attn_gate.weight"},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.experts.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::gate, "model.layers.{}.mlp.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
};
inline constexpr auto laguna_tensors = joined(laguna_names, dots1_tensors);

inline constexpr ConfigChoice laguna_choices[] = {
    {"gating", 1, 1},
    {"attention_bias", 0, 0},
    {"moe_router_logit_softcapping", 0, 0, true},
    {"moe_apply_router_weight_on_input", 0, 0},
};

inline constexpr ArchSpec laguna{
    .name = "laguna",
    .hf_class = "LagunaForCausalLM",
    .paper = "https://huggingface.co/poolside",
    .output_gate = nn::OutputGate::of_heads_softplus,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_rope_base = 500000,
    .default_rope_part = 0.5,
    .full_attention_step = 4,
    .full_layers_lead = true,
    .names_feed_forwards = true,
    .heads_key = "num_attention_heads_per_layer",
    .window_rope = nn::LayerRope::local,
    .default_local_rope_base = 10000,
    .choices = laguna_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = laguna_tensors,
    .more_config = laguna_config,
};

}  // namespace bantam::inline v0::archs
