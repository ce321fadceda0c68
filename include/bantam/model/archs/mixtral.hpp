// Mixtral: Mistral with experts. Its GGUF files call themselves llama.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey mixtral_config[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
};

inline constexpr TensorKey mixtral_tensors[] = {
    {Role::router, "model.layers.{}.block_sparse_moe.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.w1.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.w3.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.w2.weight", "blk.{}.ffn_down_exps.weight"},
};

inline constexpr ArchSpec mixtral{
    .name = "mixtral",
    .hf_class = "MixtralForCausalLM",
    .paper = "arXiv:2401.04088",
    .gguf = "llama",
    .router = {.renormalize = true},
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_rope_base = 1e6,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = mixtral_tensors,
    .more_config = mixtral_config,
};

}  // namespace bantam::inline v0::archs
