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

/// Ministral 8B as transformers has it: a kind for each layer, with the window or without.
inline constexpr ArchSpec ministral = [] {
  ArchSpec spec = mistral;
  spec.name = "ministral";
  spec.hf_class = "MinistralForCausalLM";
  spec.paper = "https://mistral.ai/news/ministraux";
  spec.gguf = {};
  spec.gguf_pairs = spec.pairs;
  spec.full_attention_step = 4;
  spec.full_layers_lead = true;
  return spec;
}();

}  // namespace bantam::inline v0::archs
