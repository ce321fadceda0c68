// Command R, R+ and R7B: attention and MLP side by side behind one layer norm, logits scaled; R7B with windows, and rope in those layers alone.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey cohere_config[] = {
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
    {Field::logit_factor, "logit_scale", "logit_scale"},
};

inline constexpr auto cohere_tensors = without(llama_tensors, Role::rope_divisors, Role::ffn_norm);

/// Of Command R+, layer norms without biases.
inline constexpr TensorKey cohere_head_norms[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight", Presence::optional},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight", Presence::optional},
};

inline constexpr ArchSpec cohere{
    .name = "cohere",
    .hf_class = "CohereForCausalLM",
    .paper = "https://huggingface.co/CohereLabs/c4ai-command-r-v01",
    .gguf = "command-r",
    .norm = Norm::layer,
    .parallel = true,
    .head_norm = nn::HeadNorm::own,
    .head_layer_norms = true,
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .default_tied = true,
    .config = llama_config,
    .tensors = cohere_tensors,
    .more_tensors = cohere_head_norms,
    .more_config = cohere_config,
};

inline constexpr ArchSpec cohere2{
    .name = "cohere2",
    .hf_class = "Cohere2ForCausalLM",
    .paper = "arXiv:2504.00698",
    .norm = Norm::layer,
    .parallel = true,
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .full_attention_step = 4,
    .full_rope = nn::LayerRope::none,
    .default_tied = true,
    .config = llama_config,
    .tensors = cohere_tensors,
    .more_tensors = {},
    .more_config = cohere_config,
};

}  // namespace bantam::inline v0::archs
