// Gemma 4: layers with a window and layers without, of other heads; keys that later layers read; per-layer embeddings; experts beside the MLP.
#pragma once

#include "bantam/model/archs/gemma.hpp"

namespace bantam::inline v0::archs {

/// Published configs may leave out what transformers' class has as defaults.
inline constexpr ConfigKey gemma4_numbers[] = {
    {Field::dim, "hidden_size", "embedding_length", 2304},
    {Field::layers, "num_hidden_layers", "block_count", 30},
    {Field::heads, "num_attention_heads", "attention.head_count", 8},
    {Field::kv_heads, "num_key_value_heads", "attention.head_count_kv", 4},
    {Field::head_dim, "head_dim", "attention.key_length_swa", 256},
    {Field::value_dim, "", "attention.value_length_swa"},
    {Field::full_head_dim, "global_head_dim", "attention.key_length", 512},
    {Field::full_value_dim, "", "attention.value_length"},
    {Field::full_kv_heads, "num_global_key_value_heads", ""},
    {Field::vocab, "vocab_size", "vocab_size", 262144},
    {Field::context, "max_position_embeddings", "context_length", 131072},
    {Field::local_rope_dim, "", "rope.dimension_count_swa"},
    {Field::local_rope_base, "", "rope.freq_base_swa"},
    {Field::window, "sliding_window", "attention.sliding_window", 512},
    {Field::shared_layers, "num_kv_shared_layers", "attention.shared_kv_layers"},
    {Field::per_layer_dim, "hidden_size_per_layer_input", "embedding_length_per_layer_input", 256},
    {Field::final_softcap, "final_logit_softcapping", "final_logit_softcapping"},
};
inline constexpr ConfigKey gemma4_ffn[] = {{Field::ffn, "intermediate_size", "feed_forward_length", 9216}};
inline constexpr auto gemma4_config = joined(gemma4_numbers, gemma4_ffn);

/// The MLP that is beside experts counts as a shared expert.
inline constexpr ConfigKey gemma4_expert_numbers[] = {
    {Field::ffn, "", ""},
    {Field::shared_ffn, "intermediate_size", "feed_forward_length", 9216},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "top_k_experts", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
};
inline constexpr auto gemma4_moe_config = joined(gemma4_numbers, gemma4_expert_numbers);

inline constexpr TensorKey gemma4_layers[] = {
    {Role::rope_divisors, "", "rope_freqs.weight"},
    {Role::layer_scale, "model.layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight"},
};
inline constexpr auto gemma4_tensors = joined(joined(gemma3_tensors, gemma_per_layer_tensors), gemma4_layers);

/// Names of single experts are ours: native files have them so.
inline constexpr TensorKey gemma4_experts[] = {
    {Role::mlp_out_norm, "model.layers.{}.post_feedforward_layernorm_1.weight", "blk.{}.post_ffw_norm_1.weight"},
    {Role::expert_norm, "model.layers.{}.pre_feedforward_layernorm_2.weight", "blk.{}.pre_ffw_norm_2.weight"},
    {Role::expert_out_norm, "model.layers.{}.post_feedforward_layernorm_2.weight", "blk.{}.post_ffw_norm_2.weight"},
    {Role::router, "model.layers.{}.router.proj.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::router_scale, "model.layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale"},
    {Role::expert_scale, "model.layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale"},
    {Role::expert_gate, "model.layers.{}.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", Presence::required, Layers::all, false,
     {.name = "model.layers.{}.experts.gate_up_proj", .part = 0, .parts = 2, .gguf = "blk.{}.ffn_gate_up_exps.weight"}},
    {Role::expert_up, "model.layers.{}.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", Presence::required, Layers::all, false,
     {.name = "model.layers.{}.experts.gate_up_proj", .part = 1, .parts = 2, .gguf = "blk.{}.ffn_gate_up_exps.weight"}},
    {Role::expert_down, "model.layers.{}.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", Presence::required, Layers::all, false,
     {"model.layers.{}.experts.down_proj"}},
};
inline constexpr auto gemma4_moe_tensors = joined(gemma4_tensors, gemma4_experts);

inline constexpr ArchSpec gemma4{
    .name = "gemma4_text",
    .hf_class = "Gemma4ForCausalLM",
    .paper = "https://ai.google.dev/gemma/docs/core/model_card_4",
    .gguf = "gemma4",
    .default_rope_base = 1000000,
    .gate = ops::Gate::gelu_tanh,
    .activation_key = "hidden_activation",
    .full_attention_step = 6,
    .window_rope = nn::LayerRope::local,
    .default_local_rope_base = 10000,
    .scales_embedding = true,
    .attention_scale = 1,
    .norms_values = true,
    .may_share_values = true,
    .proportional_rope = true,
    .flags_windows = true,
    .default_tied = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = gemma4_tensors,
    .more_config = gemma4_config,
};

inline constexpr ConfigKey gemma4_12b_numbers[] = {
    {Field::context, "max_position_embeddings", "context_length", 262144},
    {Field::window, "sliding_window", "attention.sliding_window", 1024},
    {Field::per_layer_dim, "hidden_size_per_layer_input", "embedding_length_per_layer_input"},
};
inline constexpr auto gemma4_12b_config = joined(gemma4_12b_numbers, gemma4_config);

/// 12B, whose one transformer reads images and sound, too: text alone. Its class has other defaults.
inline constexpr ArchSpec gemma4_12b = [] {
  ArchSpec spec = gemma4;
  spec.name = "gemma4_unified_text";
  spec.hf_class = "Gemma4UnifiedForCausalLM";
  spec.more_config = gemma4_12b_config;
  return spec;
}();

/// 26B-A4B. Weights of the chosen experts sum to one before they are scaled.
inline constexpr ArchSpec gemma4_moe = [] {
  ArchSpec spec = gemma4;
  spec.router = {.renormalize = true};
  spec.more_tensors = gemma4_moe_tensors;
  spec.more_config = gemma4_moe_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
