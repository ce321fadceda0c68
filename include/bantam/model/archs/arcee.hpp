// Arcee AFM 4.5B: Llama whose MLPs have no gate, and relu² between their matrices.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ArchSpec arcee{
    .name = "arcee",
    .hf_class = "ArceeForCausalLM",
    .paper = "https://huggingface.co/arcee-ai/AFM-4.5B",
    .gguf_pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::relu2,
    .config = llama_config,
    .tensors = gateless_tensors,
};

}  // namespace bantam::inline v0::archs
