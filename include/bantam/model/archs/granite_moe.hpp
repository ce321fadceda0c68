// Granite 3 with experts: Granite's scales, and experts whose gates and ups lie in one tensor.
#pragma once

#include "bantam/model/archs/granite.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey granite_moe_numbers[] = {
    {Field::ffn, "", ""},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "feed_forward_length"},
};
inline constexpr auto granite_moe_config = joined(granite_moe_numbers, granite_config);

inline constexpr Fused granite_moe_gate{.name = "model.layers.{}.block_sparse_moe.input_linear.weight", .part = 0, .parts = 2};
inline constexpr Fused granite_moe_up{.name = "model.layers.{}.block_sparse_moe.input_linear.weight", .part = 1, .parts = 2};
inline constexpr Fused granite_moe_down{.name = "model.layers.{}.block_sparse_moe.output_linear.weight"};

/// Names of single experts are ours: native files have them so.
inline constexpr TensorKey granite_moe_tensors[] = {
    {Role::router, "model.layers.{}.block_sparse_moe.router.layer.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.block_sparse_moe.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, granite_moe_gate},
    {Role::expert_up, "model.layers.{}.block_sparse_moe.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, granite_moe_up},
    {Role::expert_down, "model.layers.{}.block_sparse_moe.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false, granite_moe_down},
};

/// Its softmax is over the chosen experts: the same as over all of them, divided by the sum of the chosen.
inline constexpr ArchSpec granite_moe{
    .name = "granitemoe",
    .hf_class = "GraniteMoeForCausalLM",
    .paper = "https://github.com/ibm-granite/granite-3.0-language-models/blob/main/paper.pdf",
    .router = {.renormalize = true},
    .gguf_pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = granite_moe_tensors,
    .more_config = granite_moe_config,
};

inline constexpr ConfigKey granite_moe_shared_numbers[] = {{Field::shared_ffn, "shared_intermediate_size", "expert_shared_feed_forward_length"}};
inline constexpr auto granite_moe_shared_config = joined(granite_moe_shared_numbers, granite_moe_config);

constexpr Fused granite_moe_shared_part(int part) { return {.name = "model.layers.{}.shared_mlp.input_linear.weight", .part = part, .parts = 2}; }

/// Names of the halves of the shared expert are ours.
inline constexpr TensorKey granite_moe_shared_experts[] = {
    {Role::gate, "model.layers.{}.shared_mlp.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse, false, granite_moe_shared_part(0)},
    {Role::up, "model.layers.{}.shared_mlp.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse, false, granite_moe_shared_part(1)},
    {Role::down, "model.layers.{}.shared_mlp.output_linear.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
};
inline constexpr auto granite_moe_shared_tensors = joined(granite_moe_shared_experts, granite_moe_tensors);

/// With an expert that all tokens share.
inline constexpr ArchSpec granite_moe_shared = [] {
  ArchSpec spec = granite_moe;
  spec.name = "granitemoeshared";
  spec.hf_class = "GraniteMoeSharedForCausalLM";
  spec.gguf = "granitemoe";
  spec.gguf_mark = "blk.0.ffn_gate_shexp.weight";
  spec.more_tensors = granite_moe_shared_tensors;
  spec.more_config = granite_moe_shared_config;
  return spec;
}();

}  // namespace bantam::inline v0::archs
