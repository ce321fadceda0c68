// OLMo 1 (1B, 7B): Llama with layer norms that have no weights; 7B keeps queries, keys and values within bounds.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey olmo_config[] = {
    {Field::norm_eps, "", "attention.layer_norm_epsilon"},
    {Field::qkv_clip, "clip_qkv", "attention.clamp_kqv"},
};

inline constexpr auto olmo_tensors = without(llama_tensors, Role::final_norm, Role::rope_divisors, Role::attention_norm, Role::ffn_norm);

inline constexpr ConfigChoice olmo_choices[] = {{"attention_bias", 0, 0}};

inline constexpr ArchSpec olmo{
    .name = "olmo",
    .hf_class = "OlmoForCausalLM",
    .paper = "arXiv:2402.00838",
    .norm = Norm::layer,
    .plain_norms = true,
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .choices = olmo_choices,
    .config = llama_config,
    .tensors = olmo_tensors,
    .more_config = olmo_config,
};

}  // namespace bantam::inline v0::archs
