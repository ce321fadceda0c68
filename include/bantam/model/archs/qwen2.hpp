// Qwen2 and Qwen2.5: Llama with biases on q, k and v.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey qwen2_biases[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
};

inline constexpr ArchSpec qwen2{
    .name = "qwen2",
    .hf_class = "Qwen2ForCausalLM",
    .paper = "arXiv:2407.10671, arXiv:2412.15115",
    .asks_for_windows = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen2_biases,
};

}  // namespace bantam::inline v0::archs
