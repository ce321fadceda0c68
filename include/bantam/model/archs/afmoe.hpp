// Arcee Trinity (AFMoE): Nano, Mini, Large. GLM-4.5's experts; norms around both halves and of q and k; a gate of heads' outputs; windows and rope in
// three of four layers, neither in the others; the embedding times sqrt(dim).
#pragma once

#include "bantam/model/archs/dots1.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey afmoe_config[] = {
    {Field::experts, "num_experts", "expert_count", 0, "num_local_experts"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "num_shared_experts", "expert_shared_count"},
    {Field::dense_layers, "num_dense_layers", "leading_dense_block_count"},
    {Field::router_scale, "route_scale", "expert_weights_scale"},
};

inline constexpr TensorKey afmoe_names[] = {
    {Role::attention_gate, "model.layers.{}.self_attn.gate_proj.weight", "blk.{}.attn_gate.weight"},
    {Role::attention_out_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.pre_mlp_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_mlp_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
    {Role::router, "model.layers.{}.mlp.router.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.expert_bias", "blk.{}.exp_probs_b.bias"},
};
inline constexpr auto afmoe_tensors = joined(afmoe_names, dots1_tensors);

inline constexpr ConfigChoice afmoe_choices[] = {{"mup_enabled", 1, 0}, {"attention_bias", 0, 0}, {"route_norm", 1, 1}};

inline constexpr ArchSpec afmoe{
    .name = "afmoe",
    .hf_class = "AfmoeForCausalLM",
    .paper = "arXiv:2602.17004",
    .output_gate = nn::OutputGate::own,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .full_attention_step = 4,
    .full_rope = nn::LayerRope::none,
    .scales_embedding = true,
    .choices = afmoe_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = afmoe_tensors,
    .more_config = afmoe_config,
};

}  // namespace bantam::inline v0::archs
