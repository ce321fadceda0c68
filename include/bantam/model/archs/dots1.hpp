// dots.llm1 (142B-A14B), Solar Open (102B-A12B), Hy3 (295B-A21B) and K-EXAONE (236B-A23B): experts chosen by sigmoid and a bias, beside shared ones,
// as GLM-4.5 has them, over plain attention.
#pragma once

#include "bantam/model/archs/glm4_moe.hpp"

namespace bantam::inline v0::archs {

/// Solar Open's: all layers have experts, whatever a folder says.
inline constexpr ConfigKey solar_open_config[] = {
    {Field::experts, "n_routed_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "n_shared_experts", "expert_shared_count"},
    {Field::router_groups, "n_group", "expert_group_count"},
    {Field::router_groups_used, "topk_group", "expert_group_used_count"},
    {Field::router_scale, "routed_scaling_factor", "expert_weights_scale"},
};
inline constexpr ConfigKey dots1_dense[] = {{Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count"}};
inline constexpr auto dots1_config = joined(dots1_dense, solar_open_config);
/// The newest name some otherwise, and the kind of each layer's second half.
inline constexpr ConfigKey exaone_moe_numbers[] = {
    {Field::experts, "num_experts", "expert_count", 0, "num_local_experts"},
    {Field::shared_experts, "num_shared_experts", "expert_shared_count", 1},
    {Field::shared_ffn, "", "expert_shared_feed_forward_length"},
    {Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count", 1},
};
inline constexpr auto exaone_moe_config = joined(exaone_moe_numbers, solar_open_config);
inline constexpr ConfigKey hy_v3_numbers[] = {{Field::router_scale, "router_scaling_factor", "expert_weights_scale"}, {Field::router_groups, "", ""}, {Field::router_groups_used, "", ""}};
inline constexpr auto hy_v3_config = joined(hy_v3_numbers, exaone_moe_config);

inline constexpr TensorKey dots1_norms[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
};
inline constexpr auto dots1_tensors = joined(dots1_norms, glm4_moe_trunk);

inline constexpr TensorKey exaone_moe_router[] = {
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
};
inline constexpr auto exaone_moe_tensors = joined(exaone_moe_router, dots1_tensors);

inline constexpr TensorKey hy_v3_names[] = {
    {Role::gate, "model.layers.{}.mlp.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_mlp.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.mlp.router.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.expert_bias", "blk.{}.exp_probs_b"},
};
inline constexpr auto hy_v3_tensors = joined(hy_v3_names, dots1_tensors);

inline constexpr ArchSpec dots1{
    .name = "dots1",
    .hf_class = "Dots1ForCausalLM",
    .paper = "arXiv:2506.05767",
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = dots1_tensors,
    .more_config = dots1_config,
};

/// Without norms of queries and keys. Its GGUF files are GLM-4.5's.
inline constexpr ArchSpec solar_open = [] {
  ArchSpec spec = glm4_moe;
  spec.name = "solar_open";
  spec.hf_class = "SolarOpenForCausalLM";
  spec.paper = "https://huggingface.co/upstage/Solar-Open-100B";
  spec.default_rope_base = 1e6;
  spec.default_rope_part = 1;
  spec.more_tensors = glm4_moe_trunk;
  spec.more_config = solar_open_config;
  return spec;
}();

/// Rope turns the layers with a window alone.
inline constexpr std::string_view exaone_moe_leftovers[] = {"mtp."};
inline constexpr ArchSpec exaone_moe = [] {
  ArchSpec spec = dots1;
  spec.name = "exaone_moe";
  spec.hf_class = "ExaoneMoEForCausalLM";
  spec.older_class = "ExaoneMoeForCausalLM";
  spec.paper = "https://huggingface.co/LGAI-EXAONE/K-EXAONE-236B-A23B";
  spec.gguf = "exaone-moe";
  spec.default_norm_eps = 1e-5;
  spec.full_attention_step = 4;
  spec.full_rope = nn::LayerRope::none;
  spec.names_feed_forwards = true;
  spec.leftovers = exaone_moe_leftovers;
  spec.more_tensors = exaone_moe_tensors;
  spec.more_config = exaone_moe_config;
  return spec;
}();

inline constexpr ArchSpec hy_v3 = [] {
  ArchSpec spec = dots1;
  spec.name = "hy_v3";
  spec.hf_class = "HYV3ForCausalLM";
  spec.paper = "https://huggingface.co/tencent/Hy3-preview";
  spec.default_norm_eps = 1e-5;
  spec.default_rope_base = 11158840;
  spec.names_feed_forwards = true;
  spec.more_tensors = hy_v3_tensors;
  spec.more_config = hy_v3_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
