// Qwen3: Llama with an RMS norm on every head of q and k before they are rotated.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey qwen3_norms[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
};

inline constexpr ArchSpec qwen3{
    .name = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .paper = "arXiv:2505.09388",
    .asks_for_windows = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen3_norms,
};

}  // namespace bantam::inline v0::archs
