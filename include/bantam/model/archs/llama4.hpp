// Llama 4 (Scout, Maverick), text: attention in chunks, every fourth layer without rope and chunks, its queries warmer where they stand late;
// experts whose inputs the router scales, beside a shared one, in all layers or in every other.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey llama4_config[] = {
    {Field::ffn, "intermediate_size_mlp", "feed_forward_length"},
    {Field::window, "attention_chunk_size", "attention.chunk_size", 8192},
    {Field::sparse_step, "interleave_moe_layer_step", "interleave_moe_layer_step", 1},
    {Field::experts, "num_local_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "intermediate_size", "expert_feed_forward_length"},
    {Field::shared_experts, "", "", 1},
};

inline constexpr Fused llama4_gate{"model.layers.{}.feed_forward.experts.gate_up_proj", 0, 2, false, true};
inline constexpr Fused llama4_up{"model.layers.{}.feed_forward.experts.gate_up_proj", 1, 2, false, true};
inline constexpr Fused llama4_down{"model.layers.{}.feed_forward.experts.down_proj", 0, 1, false, true};

/// Names of single experts are ours: native files have them so.
inline constexpr TensorKey llama4_tensors[] = {
    {Role::gate, "model.layers.{}.feed_forward.gate_proj.weight", "blk.{}.ffn_gate.weight", Presence::required, Layers::dense},
    {Role::up, "model.layers.{}.feed_forward.up_proj.weight", "blk.{}.ffn_up.weight", Presence::required, Layers::dense},
    {Role::down, "model.layers.{}.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight", Presence::required, Layers::dense},
    {Role::gate, "model.layers.{}.feed_forward.shared_expert.gate_proj.weight", "blk.{}.ffn_gate_shexp.weight", Presence::required, Layers::sparse},
    {Role::up, "model.layers.{}.feed_forward.shared_expert.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "model.layers.{}.feed_forward.shared_expert.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "model.layers.{}.feed_forward.router.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::expert_gate, "model.layers.{}.feed_forward.experts.{e}.gate_proj.weight", "blk.{}.ffn_gate_exps.weight", {}, {}, false, llama4_gate},
    {Role::expert_up, "model.layers.{}.feed_forward.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight", {}, {}, false, llama4_up},
    {Role::expert_down, "model.layers.{}.feed_forward.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight", {}, {}, false, llama4_down},
};

inline constexpr ArchSpec llama4{
    .name = "llama4_text",
    .hf_class = "Llama4ForCausalLM",
    .paper = "https://ai.meta.com/blog/llama-4-multimodal-intelligence",
    .gguf = "llama4",
    .router = {.score = nn::RouterScore::sigmoid, .scales_inputs = true},
    .pairs = nn::RopePairs::adjacent,
    .default_norm_eps = 1e-5,
    .default_rope_base = 500000,
    .full_attention_step = 4,
    .no_rope_step = 4,
    .sparse_layers_key = "moe_layers",
    .full_rope = nn::LayerRope::none,
    .temperature = {.scale = 0.1, .length = 8192, .offset = 1, .unturned = true},
    .norms_turned = true,
    .chunks_windows = true,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = llama4_tensors,
    .more_config = llama4_config,
};

}  // namespace bantam::inline v0::archs
