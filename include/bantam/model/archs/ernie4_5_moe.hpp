// ERNIE 4.5 (21B-A3B, 300B-A47B): experts chosen by softmax and a bias, shared experts, the first layers dense; rope turns adjacent rows.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey ernie4_5_moe_config[] = {
    {Field::experts, "moe_num_experts", "expert_count"},
    {Field::experts_used, "moe_k", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "moe_num_shared_experts", "expert_shared_count"},
    {Field::shared_ffn, "", "expert_shared_feed_forward_length"},
    {Field::dense_layers, "moe_layer_start_index", "leading_dense_block_count"},
    {Field::sparse_step, "moe_layer_interval", "interleave_moe_layer_step"},
};

inline constexpr TensorKey ernie4_5_moe_tensors[] = {
    {Role::gate, "model.layers.{}.mlp.shared_experts.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.moe_statics.e_score_correction_bias", "blk.{}.exp_probs_b.bias", Presence::required, Layers::all, true},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};

inline constexpr ConfigChoice ernie4_5_choices[] = {{"use_bias", 0, 0}};

inline constexpr ArchSpec ernie4_5{
    .name = "ernie4_5",
    .hf_class = "Ernie4_5ForCausalLM",
    .older_class = "Ernie4_5_ForCausalLM",
    .paper = "https://yiyan.baidu.com/blog/publication/ERNIE_Technical_Report.pdf",
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .default_rope_base = 5e5,
    .default_tied = true,
    .choices = ernie4_5_choices,
    .config = llama_config,
    .tensors = llama_tensors,
};

inline constexpr ArchSpec ernie4_5_moe{
    .name = "ernie4_5_moe",
    .hf_class = "Ernie4_5_MoeForCausalLM",
    .paper = "https://yiyan.baidu.com/blog/publication/ERNIE_Technical_Report.pdf",
    .gguf = "ernie4_5-moe",
    .router = {.renormalize = true},
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .default_rope_base = 5e5,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = ernie4_5_moe_tensors,
    .more_config = ernie4_5_moe_config,
};

}  // namespace bantam::inline v0::archs
