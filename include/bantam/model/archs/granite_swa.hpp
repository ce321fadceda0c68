// Granite SWA, dense and with experts: Granite's scales, sinks in the attention, windows in three of four layers, and a base of rope for each layer.
#pragma once

#include "bantam/model/archs/granite.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey granite_swa_sinks[] = {{Role::sinks, "model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"}};
inline constexpr auto granite_swa_tensors = joined(granite_swa_sinks, llama_biases);

inline constexpr ConfigChoice granite_swa_choices[] = {{"mlp_bias", 0, 0}};

inline constexpr ArchSpec granite_swa = [] {
  ArchSpec spec = granite;
  spec.name = "granite_swa";
  spec.hf_class = "GraniteSWAForCausalLM";
  spec.paper = "https://huggingface.co/ibm-granite";
  spec.default_norm_eps = 1e-5;
  spec.full_attention_step = 4;
  spec.full_layers_lead = true;
  spec.rope_bases_key = "layer_rope_theta";
  spec.flags_windows = true;
  spec.default_tied = true;
  spec.choices = granite_swa_choices;
  spec.more_tensors = granite_swa_tensors;
  return spec;
}();

inline constexpr ConfigKey granite_moe_swa_numbers[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
    {Field::shared_ffn, "shared_intermediate_size", "expert_shared_feed_forward_length"},
};
inline constexpr auto granite_moe_swa_config = joined(granite_moe_swa_numbers, granite_config);

constexpr Fused granite_moe_swa_part(int part) { return {.name = "model.layers.{}.block_sparse_moe.experts.gate_up_proj", .part = part, .parts = 2}; }
constexpr Fused granite_moe_swa_shared(int part) {
  return {.name = "model.layers.{}.shared_mlp.input_linear.weight", .part = part, .parts = 2, .gguf = "blk.{}.ffn_up_shexp.weight"};
}

/// Names of single experts, and of the halves of the shared one, are ours: native files have them so.
inline constexpr TensorKey granite_moe_swa_experts[] = {
    {Role::gate, "model.layers.{}.shared_mlp.gate_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse, false, granite_moe_swa_shared(0)},
    {Role::up, "model.layers.{}.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse, false, granite_moe_swa_shared(1)},
    {Role::down, "model.layers.{}.shared_mlp.output_linear.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.block_sparse_moe.router.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, granite_moe_swa_part(0)},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, granite_moe_swa_part(1)},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false,
     {.name = "model.layers.{}.block_sparse_moe.experts.down_proj"}},
};
inline constexpr auto granite_moe_swa_tensors = joined(granite_moe_swa_experts, granite_swa_tensors);

/// Its softmax is over the chosen experts, as that of Granite's other mixtures.
inline constexpr ArchSpec granite_moe_swa = [] {
  ArchSpec spec = granite_swa;
  spec.name = "granitemoe_swa";
  spec.hf_class = "GraniteMoeSWAForCausalLM";
  spec.gguf = "granite_swa";
  spec.router = {.renormalize = true};
  spec.default_norm_eps = 1e-6;
  spec.default_tied = false;
  spec.choices = {};
  spec.more_tensors = granite_moe_swa_tensors;
  spec.more_config = granite_moe_swa_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
