// GLM-4.5 (355B), GLM-4.5-Air (106B), GLM-4.6 and 4.7: experts chosen by sigmoid and a bias, the first layers dense, half of each head rotated.
#pragma once

#include "bantam/model/archs/llama.hpp"
#include "bantam/model/archs/nextn.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey glm4_moe_config[] = {
    {Field::experts, "n_routed_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "n_shared_experts", "expert_shared_count"},
    {Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count"},
    {Field::drafting_layers, "num_nextn_predict_layers", "nextn_predict_layers"},
    {Field::router_groups, "n_group", "expert_group_count"},
    {Field::router_groups_used, "topk_group", "expert_group_used_count"},
    {Field::router_scale, "routed_scaling_factor", "expert_weights_scale"},
};

inline constexpr TensorKey glm4_moe_trunk[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Presence::optional},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Presence::optional},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Presence::optional},
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight", Presence::optional},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight", Presence::optional},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::gate, "model.layers.{}.mlp.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};
inline constexpr auto glm4_moe_tensors = joined(glm4_moe_trunk, nextn_tensors);

inline constexpr ArchSpec glm4_moe{
    .name = "glm4_moe",
    .hf_class = "Glm4MoeForCausalLM",
    .paper = "arXiv:2508.06471",
    .gguf = "glm4moe",
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .default_rope_part = 0.5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = glm4_moe_tensors,
    .more_config = glm4_moe_config,
};

}  // namespace bantam::inline v0::archs
