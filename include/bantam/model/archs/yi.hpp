// Yi: Llama with norms of other names.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey yi_tensors[] = {
    {Role::attention_norm, "model.layers.{}.ln1.weight", "blk.{}.attn_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.ln2.weight", "blk.{}.ffn_norm.weight"},
};

inline constexpr ArchSpec yi{
    .name = "Yi",
    .hf_class = "YiForCausalLM",
    .paper = "arXiv:2403.04652",
    .gguf = "llama",
    .gguf_pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = yi_tensors,
};

}  // namespace bantam::inline v0::archs
