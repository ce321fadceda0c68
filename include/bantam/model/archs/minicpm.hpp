// MiniCPM 1, 2 and 4: Llama with scales of the embedding, of what halves add and of the logits.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

/// Folders say what the scales are made of (arXiv:2404.06395, 3.1); GGUF files say the scales, and those of before autumn 2024 nothing.
inline constexpr ConfigKey minicpm_config[] = {
    {Field::embedding_scale, "scale_emb", "embedding_scale", 12},
    {Field::residual_scale, "", "residual_scale"},
    {Field::depth_scale, "scale_depth", "", 1.4},
    {Field::logit_scale, "", "logit_scale"},
    {Field::base_dim, "dim_model_base", "", 256},
};

inline constexpr ConfigChoice minicpm_choices[] = {{"num_experts", 0, 0, true}, {"attention_bias", 0, 0}};

inline constexpr ArchSpec minicpm{
    .name = "minicpm",
    .hf_class = "MiniCPMForCausalLM",
    .paper = "arXiv:2404.06395, arXiv:2506.07900",
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_tied = true,
    .choices = minicpm_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_config = minicpm_config,
};

}  // namespace bantam::inline v0::archs
