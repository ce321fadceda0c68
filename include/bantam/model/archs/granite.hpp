// Granite 3: Llama with scales of the embedding, the residual stream, scores and logits.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey granite_config[] = {
    {Field::embedding_scale, "embedding_multiplier", "embedding_scale"},
    {Field::residual_scale, "residual_multiplier", "residual_scale"},
    {Field::attention_scale, "attention_multiplier", "attention.scale"},
    {Field::logit_scale, "logits_scaling", "logit_scale"},
};

inline constexpr ArchSpec granite{
    .name = "granite",
    .hf_class = "GraniteForCausalLM",
    .paper = "https://github.com/ibm-granite/granite-3.0-language-models/blob/main/paper.pdf",
    .gguf_pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = llama_biases,
    .more_config = granite_config,
};

}  // namespace bantam::inline v0::archs
