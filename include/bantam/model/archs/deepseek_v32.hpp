// DeepSeek V3.2 and GLM-5: DeepSeek V3 with an indexer that chooses which tokens a query sees (arXiv:2512.02556). In GLM-5.2 a layer in four has one, and the
// layers behind it see what it chose (arXiv:2603.12201).
#pragma once

#include "bantam/model/archs/deepseek.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey indexer_config[] = {
    {Field::index_heads, "index_n_heads", "attention.indexer.head_count"},
    {Field::index_dim, "index_head_dim", "attention.indexer.key_length"},
    {Field::index_used, "index_topk", "attention.indexer.top_k"},
};
inline constexpr auto deepseek_v32_config = joined(indexer_config, deepseek_config);

inline constexpr TensorKey indexer_tensors[] = {
    {Role::index_q, "model.layers.{}.self_attn.indexer.wq_b.weight", "blk.{}.indexer.attn_q_b.weight"},
    {Role::index_k, "model.layers.{}.self_attn.indexer.wk.weight", "blk.{}.indexer.attn_k.weight"},
    {Role::index_weights, "model.layers.{}.self_attn.indexer.weights_proj.weight", "blk.{}.indexer.proj.weight"},
    {Role::index_k_norm, "model.layers.{}.self_attn.indexer.k_norm.weight", "blk.{}.indexer.k_norm.weight"},
    {Role::index_k_norm_bias, "model.layers.{}.self_attn.indexer.k_norm.bias", "blk.{}.indexer.k_norm.bias"},
};
inline constexpr auto deepseek_v32_tensors = joined(indexer_tensors, deepseek_tensors);

inline constexpr ArchSpec deepseek_v32 = [] {
  ArchSpec spec = deepseek_v3;
  spec.name = "deepseek_v32";
  spec.hf_class = "DeepseekV32ForCausalLM";
  spec.paper = "arXiv:2512.02556";
  spec.gguf = "deepseek32";
  spec.names_feed_forwards = true;
  spec.more_tensors = deepseek_v32_tensors;
  spec.more_config = deepseek_v32_config;
  return spec;
}();

inline constexpr ArchSpec glm_moe_dsa = [] {
  ArchSpec spec = deepseek_v32;
  spec.name = "glm_moe_dsa";
  spec.hf_class = "GlmMoeDsaForCausalLM";
  spec.paper = "arXiv:2602.15763";
  spec.gguf = "glm-dsa";
  spec.index_pairs = nn::RopePairs::adjacent;
  spec.may_share_choices = true;
  spec.default_norm_eps = 1e-5;
  return spec;
}();

}  // namespace bantam::inline v0::archs
