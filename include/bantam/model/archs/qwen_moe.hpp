// Qwen2-MoE (Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B) and Qwen3-MoE (Qwen3-30B-A3B, Qwen3-235B-A22B): Qwen with experts.
#pragma once

#include "bantam/model/archs/qwen2.hpp"
#include "bantam/model/archs/qwen3.hpp"

namespace bantam::inline v0::archs {

/// transformers 5 writes num_local_experts.
inline constexpr ConfigKey qwen3_moe_config[] = {
    {Field::sparse_step, "decoder_sparse_step", ""},
    {Field::experts, "num_experts", "expert_count", 0, "num_local_experts"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
};

inline constexpr ConfigKey qwen2_moe_config[] = {
    {Field::sparse_step, "decoder_sparse_step", ""},
    {Field::experts, "num_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::shared_ffn, "shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
};

/// Experts beside a shared one.
inline constexpr TensorKey qwen2_moe_experts[] = {
    {Role::gate, "model.layers.{}.mlp.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.mlp.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.mlp.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::shared_gate, "model.layers.{}.mlp.shared_expert_gate.weight", "blk.{}.ffn_gate_inp_shexp.weight", Presence::required, Layers::all, true},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight"},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};
inline constexpr auto qwen2_moe_tensors = joined(qwen2_biases, qwen2_moe_experts);

/// Folders of Qwen3-VL stack experts, transposed.
inline constexpr Fused qwen3_vl_gate{.name = "model.layers.{}.mlp.experts.gate_up_proj", .part = 0, .parts = 2, .transposed = true, .only_read = true};
inline constexpr Fused qwen3_vl_up{.name = "model.layers.{}.mlp.experts.gate_up_proj", .part = 1, .parts = 2, .transposed = true, .only_read = true};
inline constexpr Fused qwen3_vl_down{.name = "model.layers.{}.mlp.experts.down_proj", .transposed = true, .only_read = true};
inline constexpr TensorKey qwen3_moe_tensors[] = {
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, qwen3_vl_gate},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, qwen3_vl_up},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false, qwen3_vl_down},
};

inline constexpr ArchSpec qwen2_moe{
    .name = "qwen2_moe",
    .hf_class = "Qwen2MoeForCausalLM",
    .paper = "arXiv:2407.10671",
    .gguf = "qwen2moe",
    .asks_for_windows = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen2_moe_tensors,
    .more_config = qwen2_moe_config,
};

inline constexpr ArchSpec qwen3_moe{
    .name = "qwen3_moe",
    .hf_class = "Qwen3MoeForCausalLM",
    .paper = "arXiv:2505.09388",
    .gguf = "qwen3moe",
    .router = {.renormalize = true},
    .asks_for_windows = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = qwen3_moe_tensors,
    .more_config = qwen3_moe_config,
};

inline constexpr ConfigKey mellum_numbers[] = {
    {Field::sparse_step, "", ""},
    {Field::rope_base, "", "rope.freq_base"},
    {Field::local_rope_base, "", "rope.freq_base_swa"},
};
inline constexpr auto mellum_config = joined(mellum_numbers, qwen3_moe_config);

/// Mellum 2 (12B-A2.5B): Qwen3-MoE with windows, whose layers have a rope of their own.
inline constexpr ArchSpec mellum = [] {
  ArchSpec spec = qwen3_moe;
  spec.name = "mellum";
  spec.hf_class = "MellumForCausalLM";
  spec.paper = "https://huggingface.co/JetBrains";
  spec.gguf = {};
  spec.default_rope_base = 500000;
  spec.full_attention_step = 4;
  spec.window_rope = nn::LayerRope::local;
  spec.default_local_rope_base = 10000;
  spec.names_feed_forwards = true;
  spec.more_config = mellum_config;
  spec.asks_for_windows = false;
  return spec;
}();

}  // namespace bantam::inline v0::archs
