// Ling 3 (tiny 7.9B-A1.3B, flash 124B-A5B): delta nets with a decay of each channel, bounded and of full rank, in most layers, latent attention with a gate
// of each head in the others; Ling 2's experts, with limits of what gates make.
#pragma once

#include "bantam/model/archs/bailing_moe.hpp"
#include "bantam/model/archs/deepseek.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey bailing_moe_v3_numbers[] = {
    {Field::recurrent_key_dim, "head_dim", "kda.head_dim"},
    {Field::convolution_taps, "short_conv_kernel_size", "ssm.conv_kernel"},
    {Field::decay_bound, "kda_lower_bound", "kda.gate_lower_bound", -5},
};
inline constexpr auto bailing_moe_v3_config = joined(bailing_moe_v3_numbers, joined(latent_sizes, bailing_moe_v2_config));

inline constexpr Fused bailing_k_b{"model.layers.{}.attention.kv_b_proj.weight", 0, 2, false, true, "blk.{}.attn_kv_b.weight"};
inline constexpr Fused bailing_v_b{"model.layers.{}.attention.kv_b_proj.weight", 1, 2, false, false, "blk.{}.attn_kv_b.weight"};

/// Names of k_b_proj and v_b_proj are ours.
inline constexpr TensorKey bailing_moe_v3_attention[] = {
    {Role::embedding, "model.word_embeddings.weight", "token_embd.weight"},
    {Role::q, "model.layers.{}.attention.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::q_a, "model.layers.{}.attention.q_a_proj.weight", "blk.{}.attn_q_a.weight"},
    {Role::q_a_norm, "model.layers.{}.attention.q_a_layernorm.weight", "blk.{}.attn_q_a_norm.weight"},
    {Role::q_b, "model.layers.{}.attention.q_b_proj.weight", "blk.{}.attn_q_b.weight"},
    {Role::kv_a, "model.layers.{}.attention.kv_a_proj_with_mqa.weight", "blk.{}.attn_kv_a_mqa.weight"},
    {Role::kv_a_norm, "model.layers.{}.attention.kv_a_layernorm.weight", "blk.{}.attn_kv_a_norm.weight"},
    {Role::k_b, "model.layers.{}.attention.k_b_proj.weight", "blk.{}.attn_k_b.weight", {}, {}, false, bailing_k_b},
    {Role::v_b, "model.layers.{}.attention.v_b_proj.weight", "blk.{}.attn_v_b.weight", {}, {}, false, bailing_v_b},
    {Role::attention_gate, "model.layers.{}.attention.g_proj.weight", "blk.{}.attn_gate.weight"},
    {Role::o, "model.layers.{}.attention.dense.weight", "blk.{}.attn_output.weight"},
    {Role::channel_q, "model.layers.{}.attention.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::channel_k, "model.layers.{}.attention.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::channel_v, "model.layers.{}.attention.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::channel_f_a, "model.layers.{}.attention.f_proj.weight", "blk.{}.ssm_f_a.weight"},
    {Role::channel_g_a, "model.layers.{}.attention.g_proj.weight", "blk.{}.ssm_g_a.weight"},
    {Role::channel_b, "model.layers.{}.attention.b_proj.weight", "blk.{}.ssm_beta.weight"},
    {Role::channel_out, "model.layers.{}.attention.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::channel_q_convolution, "model.layers.{}.attention.q_conv1d.weight", "blk.{}.ssm_conv1d_q.weight"},
    {Role::channel_k_convolution, "model.layers.{}.attention.k_conv1d.weight", "blk.{}.ssm_conv1d_k.weight"},
    {Role::channel_v_convolution, "model.layers.{}.attention.v_conv1d.weight", "blk.{}.ssm_conv1d_v.weight"},
    {Role::channel_decay, "model.layers.{}.attention.A_log", "blk.{}.ssm_a"},
    {Role::channel_decay_bias, "model.layers.{}.attention.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::channel_norm, "model.layers.{}.attention.o_norm.weight", "blk.{}.ssm_norm.weight"},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.gate.expert_bias", "blk.{}.exp_probs_b.bias"},
};
inline constexpr auto bailing_moe_v3_tensors = joined(bailing_moe_v3_attention, shared_experts_tensors);

inline constexpr ConfigChoice bailing_moe_v3_choices[] = {
    {"no_kda_lora", 1, 0},
    {"kda_safe_gate", 1, 1},
    {"gated_attention_proj_granularity_type", 0, 0, false, "head_wise"},
    {"score_function", 0, 1, false, "sigmoid"},
    {"use_mla_nope", 0, 0},
    {"use_bias", 0, 0},
    {"use_qkv_bias", 0, 0},
    {"up_proj_norm", 0, 0},
    {"value_norm", 0, 0},
    {"scale_router_input", 0, 0},
    {"use_nGPT", 0, 0},
    {"pregate_inference", 0, 0},
};
inline constexpr std::string_view bailing_moe_v3_limits[] = {"expert_swiglu_limit_list", "share_expert_swiglu_limit_list"};
inline constexpr std::string_view bailing_moe_v3_leftovers[] = {"model.mtp."};

inline constexpr ArchSpec bailing_moe_v3{
    .name = "bailing_hybrid",
    .hf_class = "BailingMoeV3ForCausalLM",
    .paper = "https://huggingface.co/inclusionAI/Ling-3.0-flash",
    .gguf = "bailingmoe3",
    .latent = true,
    .recurrent = MixerKind::channel_delta,
    .zero_heads = true,
    .output_gate = nn::OutputGate::of_heads,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .pairs = nn::RopePairs::adjacent,
    .default_rope_base = 6000000,
    .limit_keys = bailing_moe_v3_limits,
    .group_key = "layer_group_size",
    .choices = bailing_moe_v3_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = bailing_moe_v3_tensors,
    .more_config = bailing_moe_v3_config,
    .leftovers = bailing_moe_v3_leftovers,
};

}  // namespace bantam::inline v0::archs
