// OLMoE: experts, and RMS norms over all heads of q and of k.
#pragma once

#include "bantam/model/archs/qwen_moe.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey olmoe_config[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
};

inline constexpr ArchSpec olmoe{
    .name = "olmoe",
    .hf_class = "OlmoeForCausalLM",
    .paper = "arXiv:2409.02060",
    .head_norm = nn::HeadNorm::all,
    .default_norm_eps = 1e-5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen3_moe_tensors,
    .more_config = olmoe_config,
};

}  // namespace bantam::inline v0::archs
