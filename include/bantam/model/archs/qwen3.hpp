// Qwen3: Llama with an RMS norm on every head of q and k before they are rotated.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey qwen3_norms[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
};

inline constexpr TensorKey qwen3_tensors[] = {
    {Role::class_head, "score.weight", "cls.output.weight"},
    qwen3_norms[0],
    qwen3_norms[1],
};
inline constexpr std::string_view qwen3_classes[] = {"Qwen3ForSequenceClassification", "Qwen3Model"};

inline constexpr ArchSpec qwen3{
    .name = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .paper = "arXiv:2505.09388",
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen3_tensors,
    .more_classes = qwen3_classes,
};

}  // namespace bantam::inline v0::archs
