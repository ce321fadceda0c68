// DeepSeekMoE 16B, whose attention is Llama's; DeepSeek V2 (and Lite), V3 and R1, Kimi K2, GLM-4.7-Flash: latent attention, experts beside shared ones, the first layers dense.
#pragma once

#include "bantam/model/archs/llama.hpp"
#include "bantam/model/archs/nextn.hpp"
#include "bantam/model/archs/shared_experts.hpp"

namespace bantam::inline v0::archs {

/// Sizes of latent attention.
inline constexpr ConfigKey latent_sizes[] = {
    {Field::kv_heads, "num_key_value_heads", ""},
    {Field::q_rank, "q_lora_rank", "attention.q_lora_rank"},
    {Field::kv_rank, "kv_lora_rank", "attention.kv_lora_rank"},
    {Field::nope_dim, "qk_nope_head_dim", ""},
    {Field::rope_dim, "qk_rope_head_dim", "rope.dimension_count"},
    {Field::head_dim, "", "attention.key_length_mla"},
    {Field::value_dim, "v_head_dim", "attention.value_length_mla"},
    {Field::latent_key_dim, "", "attention.key_length"},
    {Field::latent_value_dim, "", "attention.value_length"},
};
inline constexpr ConfigKey latent_heads[] = {{Field::latent_heads, "", "attention.head_count_kv"}};
inline constexpr auto latent_config = joined(latent_heads, latent_sizes);
inline constexpr ConfigKey deepseek_experts_config[] = {
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
inline constexpr auto deepseek_config = joined(latent_config, deepseek_experts_config);

/// Of each head, what makes keys and what makes values of the latent vector; the first absorbed into the queries, transposed.
inline constexpr Fused deepseek_k_b{"model.layers.{}.self_attn.kv_b_proj.weight", 0, 2, false, true, "blk.{}.attn_kv_b.weight"};
inline constexpr Fused deepseek_v_b{"model.layers.{}.self_attn.kv_b_proj.weight", 1, 2, false, false, "blk.{}.attn_kv_b.weight"};

/// Names of k_b_proj and v_b_proj are ours: native files have them so.
inline constexpr TensorKey deepseek_attention[] = {
    {Role::q_a, "model.layers.{}.self_attn.q_a_proj.weight", "blk.{}.attn_q_a.weight"},
    {Role::q_a_norm, "model.layers.{}.self_attn.q_a_layernorm.weight", "blk.{}.attn_q_a_norm.weight"},
    {Role::q_b, "model.layers.{}.self_attn.q_b_proj.weight", "blk.{}.attn_q_b.weight"},
    {Role::kv_a, "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", "blk.{}.attn_kv_a_mqa.weight"},
    {Role::kv_a_norm, "model.layers.{}.self_attn.kv_a_layernorm.weight", "blk.{}.attn_kv_a_norm.weight"},
    {Role::k_b, "model.layers.{}.self_attn.k_b_proj.weight", "blk.{}.attn_k_b.weight", {}, {}, false, deepseek_k_b},
    {Role::v_b, "model.layers.{}.self_attn.v_b_proj.weight", "blk.{}.attn_v_b.weight", {}, {}, false, deepseek_v_b},
};
inline constexpr TensorKey deepseek_experts[] = {
    {Role::gate, "model.layers.{}.mlp.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias", Presence::optional},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};
inline constexpr auto deepseek_tensors = joined(joined(deepseek_attention, deepseek_experts), nextn_tensors);

inline constexpr ArchSpec deepseek_v2{
    .name = "deepseek_v2",
    .hf_class = "DeepseekV2ForCausalLM",
    .paper = "arXiv:2405.04434",
    .gguf = "deepseek2",
    .latent = true,
    .router = {.group_best = 1},
    .pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = deepseek_tensors,
    .more_config = deepseek_config,
};

inline constexpr ArchSpec deepseek_v3{
    .name = "deepseek_v3",
    .hf_class = "DeepseekV3ForCausalLM",
    .paper = "arXiv:2412.19437, arXiv:2501.12948, arXiv:2507.20534",
    .gguf = "deepseek2",
    .latent = true,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = deepseek_tensors,
    .more_config = deepseek_config,
};

inline constexpr ArchSpec glm4_moe_lite{
    .name = "glm4_moe_lite",
    .hf_class = "Glm4MoeLiteForCausalLM",
    .paper = "arXiv:2508.06471",
    .gguf = "deepseek2",
    .latent = true,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = deepseek_tensors,
    .more_config = deepseek_config,
};

inline constexpr ConfigKey deepseek_moe_config[] = {
    {Field::experts, "n_routed_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "n_shared_experts", "expert_shared_count"},
    {Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count"},
    {Field::router_scale, "", "expert_weights_scale"},
};
inline constexpr ConfigChoice deepseek_moe_choices[] = {{"moe_layer_freq", 1, 1, true}, {"scoring_func", 0, 1, false, "softmax"}, {"attention_bias", 0, 0}};

/// DeepSeekMoE 16B.
inline constexpr ArchSpec deepseek_moe{
    .name = "deepseek",
    .hf_class = "DeepseekForCausalLM",
    .paper = "arXiv:2401.06066",
    .gguf_pairs = nn::RopePairs::adjacent,
    .choices = deepseek_moe_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = shared_experts_tensors,
    .more_config = deepseek_moe_config,
};

/// GGUF files count all layers of a model without experts as DeepSeek's first, dense ones.
inline constexpr ConfigKey all_dense_config[] = {{Field::dense_layers, "", "leading_dense_block_count"}};
inline constexpr auto youtu_config = joined(latent_config, all_dense_config);

/// Youtu-LLM 2B: latent attention and MLPs.
inline constexpr ArchSpec youtu{
    .name = "youtu",
    .hf_class = "YoutuForCausalLM",
    .paper = "arXiv:2512.24618",
    .gguf = "deepseek2",
    .latent = true,
    .pairs = nn::RopePairs::adjacent,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = deepseek_attention,
    .more_config = youtu_config,
};

}  // namespace bantam::inline v0::archs
