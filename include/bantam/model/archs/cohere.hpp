// Command R, R+ and R7B: attention and MLP side by side behind one layer norm, logits scaled; R7B with windows, and rope in those layers alone.
// North Mini Code: R7B with experts, the first layers dense, which see everything and are turned by rope, too.
#pragma once

#include "bantam/model/archs/llama.hpp"
#include "bantam/model/archs/shared_experts.hpp"

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

inline constexpr ConfigKey cohere2_moe_numbers[] = {
    {Field::ffn, "prefix_dense_intermediate_size", "feed_forward_length", 0, "intermediate_size"},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "num_shared_experts", "expert_shared_count"},
    {Field::shared_ffn, "", "expert_shared_feed_forward_length"},
    {Field::dense_layers, "first_k_dense_replace", "leading_dense_block_count"},
};
inline constexpr auto cohere2_moe_config = joined(cohere2_moe_numbers, cohere_config);

inline constexpr ConfigChoice cohere2_moe_choices[] = {
    {.key = "shared_expert_combination_strategy", .otherwise = 1, .text = "average"},
    {"prefix_dense_sliding_window_pattern", 1, 1, true},
    {"rms_norm_eps", 0, 0, true},
};

inline constexpr ArchSpec cohere2_moe = [] {
  ArchSpec spec = cohere2;
  spec.name = "cohere2_moe";
  spec.hf_class = "Cohere2MoeForCausalLM";
  spec.paper = "https://huggingface.co/CohereLabs";
  spec.gguf = "cohere2moe";
  spec.router = {.score = nn::RouterScore::softmax_of_chosen, .renormalize = true};
  spec.dense_see_all = true;
  spec.names_feed_forwards = true;
  spec.score_key = "expert_selection_fn";
  spec.averages_shared = true;
  spec.flags_windows = true;
  spec.choices = cohere2_moe_choices;
  spec.more_tensors = shared_experts_tensors;
  spec.more_config = cohere2_moe_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
