// Ling and Ring: Ling-lite and Ling-plus (290B), and Ling 2.0 (mini 16B-A1B, flash 100B-A6B, 1T), with queries, keys and values in one tensor.
#pragma once

#include "bantam/model/archs/llama.hpp"
#include "bantam/model/archs/nextn.hpp"
#include "bantam/model/archs/shared_experts.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey bailing_moe_config[] = {
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "num_shared_experts", "expert_shared_count"},
};
inline constexpr ConfigKey bailing_moe_v2_numbers[] = {
    {Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count"},
    {Field::drafting_layers, "num_nextn_predict_layers", "nextn_predict_layers"},
    {Field::router_groups, "n_group", "expert_group_count"},
    {Field::router_groups_used, "topk_group", "expert_group_used_count"},
    {Field::router_scale, "routed_scaling_factor", "expert_weights_scale"},
};
inline constexpr auto bailing_moe_v2_config = joined(bailing_moe_v2_numbers, bailing_moe_config);

constexpr Fused bailing_part(int part, std::string_view gguf) {
  return {.name = "model.layers.{}.attention.query_key_value.weight", .part = part, .parts = 3, .gguf = gguf};
}

/// Names of queries, keys and values alone are ours.
inline constexpr TensorKey bailing_attention[] = {
    {Role::embedding, "model.word_embeddings.weight", "token_embd.weight"},
    {Role::q, "model.layers.{}.attention.q_proj.weight", "blk.{}.attn_q.weight", {}, {}, false, bailing_part(0, "")},
    {Role::k, "model.layers.{}.attention.k_proj.weight", "blk.{}.attn_k.weight", {}, {}, false, bailing_part(1, "")},
    {Role::v, "model.layers.{}.attention.v_proj.weight", "blk.{}.attn_v.weight", {}, {}, false, bailing_part(2, "")},
    {Role::o, "model.layers.{}.attention.dense.weight", "blk.{}.attn_output.weight"},
};
inline constexpr auto bailing_moe_tensors = joined(bailing_attention, shared_experts_tensors);

inline constexpr std::string_view bailing_qkv = "blk.{}.attn_qkv.weight";
inline constexpr TensorKey bailing_moe_v2_names[] = {
    {Role::q, "model.layers.{}.attention.q_proj.weight", bailing_qkv, {}, {}, false, bailing_part(0, bailing_qkv)},
    {Role::k, "model.layers.{}.attention.k_proj.weight", bailing_qkv, {}, {}, false, bailing_part(1, bailing_qkv)},
    {Role::v, "model.layers.{}.attention.v_proj.weight", bailing_qkv, {}, {}, false, bailing_part(2, bailing_qkv)},
    {Role::q_norm, "model.layers.{}.attention.query_layernorm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.attention.key_layernorm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.mlp.gate.expert_bias", "blk.{}.exp_probs_b.bias"},
    // llama.cpp's files call the last norm of the layer that drafts that of a layer.
    {Role::draft_final_norm, "model.layers.{}.final_layernorm.weight", "blk.{}.layer_output_norm.weight"},
};
inline constexpr auto bailing_moe_v2_tensors = joined(bailing_moe_v2_names, joined(bailing_moe_tensors, nextn_tensors));

inline constexpr ConfigChoice bailing_moe_choices[] = {
    {"use_bias", 0, 0}, {"use_qkv_bias", 0, 0}, {"norm_head", 0, 0}, {"first_k_dense_replace", 0, 0, true}};
inline constexpr ConfigChoice bailing_moe_v2_choices[] = {
    {"use_bias", 0, 0}, {"use_qkv_bias", 0, 0}, {"use_qk_norm", 1, 1}, {"score_function", 0, 1, false, "sigmoid"}};

inline constexpr ArchSpec bailing_moe{
    .name = "bailing_moe",
    .hf_class = "BailingMoeForCausalLM",
    .paper = "arXiv:2503.05139",
    .gguf = "bailingmoe",
    .router = {.renormalize = true},
    .gguf_pairs = nn::RopePairs::adjacent,
    .choices = bailing_moe_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = bailing_moe_tensors,
    .more_config = bailing_moe_config,
};

inline constexpr ArchSpec bailing_moe_v2{
    .name = "bailing_moe_v2",
    .hf_class = "BailingMoeV2ForCausalLM",
    .paper = "arXiv:2510.22115",
    .gguf = "bailingmoe2",
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_rope_base = 600000,
    .default_rope_part = 0.5,
    .choices = bailing_moe_v2_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = bailing_moe_v2_tensors,
    .more_config = bailing_moe_v2_config,
};

}  // namespace bantam::inline v0::archs
