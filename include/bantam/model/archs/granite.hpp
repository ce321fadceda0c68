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

inline constexpr TensorKey hyperclovax_tensors[] = {
    {Role::attention_out_norm, "model.layers.{}.post_norm1.weight", "blk.{}.post_attention_norm.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_norm2.weight", "blk.{}.post_ffw_norm.weight"},
};
inline constexpr ConfigChoice hyperclovax_choices[] = {{"use_post_norm", 1, 0}, {"attention_bias", 0, 0}, {"mlp_bias", 0, 0}};

/// HyperCLOVA X SEED Think 14B: Granite's scales, and norms behind the halves, too.
inline constexpr ArchSpec hyperclovax = [] {
  ArchSpec spec = granite;
  spec.name = "hyperclovax";
  spec.hf_class = "HyperCLOVAXForCausalLM";
  spec.paper = "arXiv:2506.22403";
  spec.gguf_pairs = spec.pairs;
  spec.choices = hyperclovax_choices;
  spec.more_tensors = hyperclovax_tensors;
  return spec;
}();

}  // namespace bantam::inline v0::archs
