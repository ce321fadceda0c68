// Llamas that a search made smaller layer by layer: Nemotron Super 49B and Ultra 253B (Puzzle), DeciLM. Layers have key-value heads and widths of their own, and
// may lack attention, the MLP, or both.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ArchSpec deci{
    .name = "nemotron-nas",
    .hf_class = "DeciLMForCausalLM",
    .paper = "arXiv:2411.19146",
    .gguf = "deci",
    .drops_halves = true,
    .gguf_pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = llama_biases,
};

}  // namespace bantam::inline v0::archs
