// SmallThinker: experts with ReLU gates, chosen by what the layer reads before its norm; every fourth layer without window and rope (21B).
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey smallthinker_config[] = {
    {Field::ffn, "", "feed_forward_length"},
    {Field::window, "sliding_window_size", "attention.sliding_window", 4096},
    {Field::experts, "moe_num_primary_experts", "expert_count"},
    {Field::experts_used, "moe_num_active_primary_experts", "expert_used_count"},
    {Field::expert_ffn, "moe_ffn_hidden_size", "expert_feed_forward_length"},
};

inline constexpr TensorKey smallthinker_tensors[] = {
    {Role::router, "model.layers.{}.block_sparse_moe.primary_router.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.gate.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.up.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.down.weight", "blk.{}.ffn_down_exps.weight"},
};

/// Weights of the chosen sum to one, by softmax or sigmoid.
inline constexpr ArchSpec smallthinker{
    .name = "smallthinker",
    .hf_class = "SmallThinkerForCausalLM",
    .paper = "arXiv:2507.20984",
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_rope_base = 1000000,
    .gate = ops::Gate::relu,
    .full_attention_step = 4,
    .full_layers_lead = true,
    .rope_layers_key = "rope_layout",
    .window_layers_key = "sliding_window_layout",
    .softmax_key = "moe_primary_router_apply_softmax",
    .full_rope = nn::LayerRope::none,
    .routes_inputs = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = smallthinker_tensors,
    .more_config = smallthinker_config,
};

}  // namespace bantam::inline v0::archs
