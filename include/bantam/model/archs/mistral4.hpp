// Mistral Small 4 (119B-A6B): DeepSeek's latent attention and experts, chosen by softmax; queries grow with their position as Ministral 3's do.
#pragma once

#include "bantam/model/archs/deepseek.hpp"
#include "bantam/model/archs/mistral3.hpp"

namespace bantam::inline v0::archs {

inline constexpr Fused mistral4_gate{.name = "model.layers.{}.mlp.experts.gate_up_proj", .part = 0, .parts = 2};
inline constexpr Fused mistral4_up{.name = "model.layers.{}.mlp.experts.gate_up_proj", .part = 1, .parts = 2};
inline constexpr Fused mistral4_down{.name = "model.layers.{}.mlp.experts.down_proj"};

/// Folders have an expert's matrices apart, or those of all in one tensor.
inline constexpr TensorKey mistral4_experts[] = {
    {Role::router, "model.layers.{}.mlp.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, mistral4_gate},
    {Role::expert_up, "model.layers.{}.mlp.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, mistral4_up},
    {Role::expert_down, "model.layers.{}.mlp.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false, mistral4_down},
};
inline constexpr auto mistral4_tensors = joined(mistral4_experts, joined(deepseek_attention, deepseek_experts));
inline constexpr auto mistral4_config = joined(mistral3_config, deepseek_config);

inline constexpr ArchSpec mistral4{
    .name = "mistral4",
    .hf_class = "Mistral4ForCausalLM",
    .paper = "https://huggingface.co/mistralai/Mistral-Small-4-119B-2603",
    .latent = true,
    .router = {.renormalize = true},
    .pairs = nn::RopePairs::adjacent,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = mistral4_tensors,
    .more_config = mistral4_config,
};

}  // namespace bantam::inline v0::archs
