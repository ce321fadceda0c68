// Seed-OSS: Llama with biases of q, k and v, and heads wider than the residual stream.
#pragma once

#include "bantam/model/archs/qwen2.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey seed_oss_norm[] = {{Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"}};
inline constexpr auto seed_oss_tensors = joined(seed_oss_norm, qwen2_biases);

inline constexpr ConfigChoice seed_oss_choices[] = {{"attention_bias", 1, 1}, {"attention_out_bias", 0, 0}, {"mlp_bias", 0, 0}};

inline constexpr ArchSpec seed_oss{
    .name = "seed_oss",
    .hf_class = "SeedOssForCausalLM",
    .paper = "https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct",
    .choices = seed_oss_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = seed_oss_tensors,
};

}  // namespace bantam::inline v0::archs
