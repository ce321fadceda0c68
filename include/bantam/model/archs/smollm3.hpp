// SmolLM3: Llama without rope in every fourth layer.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ArchSpec smollm3{
    .name = "smollm3",
    .hf_class = "SmolLM3ForCausalLM",
    .paper = "https://huggingface.co/blog/smollm3",
    .gguf_pairs = nn::RopePairs::adjacent,
    .no_rope_step = 4,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = llama_biases,
};

}  // namespace bantam::inline v0::archs
