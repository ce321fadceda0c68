// OLMoE: experts, and RMS norms over all heads of q and of k.
#pragma once

#include "bantam/model/archs/olmo2.hpp"
#include "bantam/model/archs/qwen_moe.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey olmoe_config[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
};

inline constexpr ArchSpec olmoe{
    .name = "olmoe",
    .hf_class = "OlmoeForCausalLM",
    .paper = "arXiv:2409.02060",
    .head_norm = nn::HeadNorm::all,
    .default_norm_eps = 1e-5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen3_moe_tensors,
    .more_config = olmoe_config,
};

inline constexpr TensorKey flex_olmo_norms[] = {
    {Role::attention_out_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
};
inline constexpr auto flex_olmo_tensors = joined(flex_olmo_norms, qwen3_moe_tensors);

/// FlexOlmo 7x7B: OLMo 2 with experts in the place of MLPs.
inline constexpr ArchSpec flex_olmo = [] {
  ArchSpec spec = olmoe;
  spec.name = "flex_olmo";
  spec.hf_class = "FlexOlmoForCausalLM";
  spec.paper = "arXiv:2507.07024";
  spec.default_norm_eps = 1e-6;
  spec.default_rope_base = 500000;
  spec.tensors = olmo2_tensors;
  spec.more_tensors = flex_olmo_tensors;
  return spec;
}();

}  // namespace bantam::inline v0::archs
