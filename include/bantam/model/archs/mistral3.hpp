// Ministral 3: Llama with YaRN, and queries that grow with their position.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey mistral3_config[] = {
    {Field::temperature_scale, "", "attention.temperature_scale"},
};

inline constexpr ArchSpec ministral3{
    .name = "ministral3",
    .hf_class = "Ministral3ForCausalLM",
    .paper = "https://huggingface.co/mistralai/Ministral-3-8B-Instruct-2512",
    .gguf = "mistral3",
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = {},
    .more_config = mistral3_config,
};

}  // namespace bantam::inline v0::archs
