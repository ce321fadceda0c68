// MiniMax M2 (230B-A10B): experts chosen by sigmoid and a bias, RMS norms over all heads of q and of k, half of each head rotated.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey minimax_m2_config[] = {
    {Field::ffn, "", "feed_forward_length"},
    {Field::rope_dim, "rotary_dim", "rope.dimension_count"},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "expert_feed_forward_length"},
};

inline constexpr TensorKey minimax_m2_tensors[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::router, "model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "model.layers.{}.block_sparse_moe.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", "blk.{}.ffn_down_exps.weight"},
};

inline constexpr ArchSpec minimax_m2{
    .name = "minimax_m2",
    .hf_class = "MiniMaxM2ForCausalLM",
    .paper = "https://huggingface.co/MiniMaxAI/MiniMax-M2",
    .gguf = "minimax-m2",
    .head_norm = nn::HeadNorm::all,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_rope_base = 5e6,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = minimax_m2_tensors,
    .more_config = minimax_m2_config,
};

}  // namespace bantam::inline v0::archs
