// Hunyuan A13B (80B): experts beside a shared one; norms of q and k come after rope, whose base is scaled by alpha.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey hunyuan_moe_config[] = {
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "moe_topk", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "num_shared_expert", "expert_shared_count"},
    {Field::shared_ffn, "", "expert_shared_feed_forward_length"},
};

inline constexpr TensorKey hunyuan_norms[] = {
    {Role::q_norm, "model.layers.{}.self_attn.query_layernorm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.key_layernorm.weight", "blk.{}.attn_k_norm.weight"},
};

inline constexpr TensorKey hunyuan_experts[] = {
    {Role::gate, "model.layers.{}.mlp.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_mlp.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.mlp.gate.wg.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};

inline constexpr auto hunyuan_moe_tensors = joined(hunyuan_norms, hunyuan_experts);

inline constexpr ConfigChoice hunyuan_choices[] = {{"attention_bias", 0, 0}};

inline constexpr ArchSpec hunyuan_dense{
    .name = "hunyuan_v1_dense",
    .hf_class = "HunYuanDenseV1ForCausalLM",
    .paper = "https://github.com/Tencent-Hunyuan/Hunyuan-7B",
    .gguf = "hunyuan-dense",
    .head_norm = nn::HeadNorm::each_rotated,
    .default_norm_eps = 1e-5,
    .choices = hunyuan_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = hunyuan_norms,
};

inline constexpr ArchSpec hunyuan_moe{
    .name = "hunyuan_v1_moe",
    .hf_class = "HunYuanMoEV1ForCausalLM",
    .paper = "https://github.com/Tencent-Hunyuan/Hunyuan-A13B/blob/main/report/Hunyuan_A13B_Technical_Report.pdf",
    .gguf = "hunyuan-moe",
    .head_norm = nn::HeadNorm::each_rotated,
    .router = {.renormalize = true},
    .default_norm_eps = 1e-5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = hunyuan_moe_tensors,
    .more_config = hunyuan_moe_config,
};

}  // namespace bantam::inline v0::archs
