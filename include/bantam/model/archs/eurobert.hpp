// EuroBERT: Llama whose tokens all see each other.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr auto eurobert_tensors = without(llama_tensors, Role::head, Role::rope_divisors);

inline constexpr std::string_view eurobert_classes[] = {"EuroBertForMaskedLM"};
inline constexpr std::string_view eurobert_leftovers[] = {"lm_head."};
inline constexpr ConfigChoice eurobert_choices[] = {{"attention_bias", 0, 0}, {"mlp_bias", 0, 0}};

inline constexpr ArchSpec eurobert{
    .name = "eurobert",
    .hf_class = "EuroBertModel",
    .paper = "arXiv:2503.05500",
    .causal = false,
    .default_norm_eps = 1e-5,
    .choices = eurobert_choices,
    .config = llama_config,
    .tensors = eurobert_tensors,
    .more_tensors = {},
    .more_classes = eurobert_classes,
    .leftovers = eurobert_leftovers,
};

}  // namespace bantam::inline v0::archs
