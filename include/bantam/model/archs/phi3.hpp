// Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: Llama with q, k and v in one tensor, gate and up in one, and divisors of rope for long contexts.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr Fused phi3_q{.name = "model.layers.{}.self_attn.qkv_proj.weight", .part = 0, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"};
inline constexpr Fused phi3_k{.name = "model.layers.{}.self_attn.qkv_proj.weight", .part = 1, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"};
inline constexpr Fused phi3_v{.name = "model.layers.{}.self_attn.qkv_proj.weight", .part = 2, .parts = 3, .gguf = "blk.{}.attn_qkv.weight"};
inline constexpr Fused fused_gate{.name = "model.layers.{}.mlp.gate_up_proj.weight", .part = 0, .parts = 2, .gguf = "blk.{}.ffn_up.weight"};
inline constexpr Fused fused_up{.name = "model.layers.{}.mlp.gate_up_proj.weight", .part = 1, .parts = 2, .gguf = "blk.{}.ffn_up.weight"};

/// Names of single matrices in folders are ours: native files have them so.
inline constexpr TensorKey phi3_tensors[] = {
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight", {}, {}, false, phi3_q},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight", {}, {}, false, phi3_k},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight", {}, {}, false, phi3_v},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, fused_gate},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight", {}, {}, false, fused_up},
};

inline constexpr ArchSpec phi3{
    .name = "phi3",
    .hf_class = "Phi3ForCausalLM",
    .paper = "arXiv:2404.14219, arXiv:2412.08905, arXiv:2503.01743",
    .default_norm_eps = 1e-5,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = phi3_tensors,
};

}  // namespace bantam::inline v0::archs
