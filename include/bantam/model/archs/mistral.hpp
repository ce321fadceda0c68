// Mistral: Llama with a sliding window. Its GGUF files call themselves llama.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ArchSpec mistral{
    .name = "mistral",
    .hf_class = "MistralForCausalLM",
    .paper = "arXiv:2310.06825",
    .gguf = "llama",
    .gguf_pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = {},
};

}  // namespace bantam::inline v0::archs
