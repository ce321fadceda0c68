// gpt-oss (20B, 120B): experts with biases and a clamped gate, chosen by logits; sinks in the attention, a window in every other layer.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey gpt_oss_config[] = {
    {Field::ffn, "", "feed_forward_length"},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "expert_feed_forward_length"},
};

inline constexpr Fused gpt_oss_gate{"model.layers.{}.mlp.experts.gate_up_proj", 0, 2, true, true};
inline constexpr Fused gpt_oss_up{"model.layers.{}.mlp.experts.gate_up_proj", 1, 2, true, true};
inline constexpr Fused gpt_oss_down{"model.layers.{}.mlp.experts.down_proj", 0, 1, false, true};
inline constexpr Fused gpt_oss_gate_bias{"model.layers.{}.mlp.experts.gate_up_proj_bias", 0, 2, true};
inline constexpr Fused gpt_oss_up_bias{"model.layers.{}.mlp.experts.gate_up_proj_bias", 1, 2, true};
inline constexpr Fused gpt_oss_down_bias{"model.layers.{}.mlp.experts.down_proj_bias"};

/// Names of single experts are ours: native files have them so.
inline constexpr TensorKey gpt_oss_tensors[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {Role::o_bias, "model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias"},
    {Role::sinks, "model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::router, "model.layers.{}.mlp.router.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::router_bias, "model.layers.{}.mlp.router.bias", "blk.{}.ffn_gate_inp.bias"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, gpt_oss_gate},
    {Role::expert_gate_bias, "model.layers.{}.mlp.experts.{e}.gate_proj.bias", "blk.{}.ffn_gate_exps.bias", {}, {}, false, gpt_oss_gate_bias},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, gpt_oss_up},
    {Role::expert_up_bias, "model.layers.{}.mlp.experts.{e}.up_proj.bias", "blk.{}.ffn_up_exps.bias", {}, {}, false, gpt_oss_up_bias},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false, gpt_oss_down},
    {Role::expert_down_bias, "model.layers.{}.mlp.experts.{e}.down_proj.bias", "blk.{}.ffn_down_exps.bias", {}, {}, false, gpt_oss_down_bias},
};

inline constexpr ArchSpec gpt_oss{
    .name = "gpt_oss",
    .hf_class = "GptOssForCausalLM",
    .paper = "arXiv:2508.10925",
    .gguf = "gpt-oss",
    .router = {.score = nn::RouterScore::softmax_of_chosen},
    .default_norm_eps = 1e-5,
    .default_rope_base = 150000,
    .gate = ops::Gate::clamped_silu,
    .full_attention_step = 2,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = gpt_oss_tensors,
    .more_config = gpt_oss_config,
};

}  // namespace bantam::inline v0::archs
