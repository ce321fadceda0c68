// InternLM 2 and 2.5: Llama under other names, with queries, keys and values in one tensor, key-value head by key-value head.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

constexpr Fused internlm2_part(int part) { return {.name = "model.layers.{}.attention.wqkv.weight", .part = part, .parts = 3, .by_groups = true}; }

/// Names of queries, keys and values alone are ours.
inline constexpr TensorKey internlm2_tensors[] = {
    {Role::embedding, "model.tok_embeddings.weight", "token_embd.weight"},
    {Role::head, "output.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "model.layers.{}.attention_norm.weight", "blk.{}.attn_norm.weight"},
    {Role::q, "model.layers.{}.attention.wq.weight", "blk.{}.attn_q.weight", {}, {}, false, internlm2_part(0)},
    {Role::k, "model.layers.{}.attention.wk.weight", "blk.{}.attn_k.weight", {}, {}, false, internlm2_part(1)},
    {Role::v, "model.layers.{}.attention.wv.weight", "blk.{}.attn_v.weight", {}, {}, false, internlm2_part(2)},
    {Role::o, "model.layers.{}.attention.wo.weight", "blk.{}.attn_output.weight"},
    {Role::ffn_norm, "model.layers.{}.ffn_norm.weight", "blk.{}.ffn_norm.weight"},
    {Role::gate, "model.layers.{}.feed_forward.w1.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.feed_forward.w3.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.feed_forward.w2.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr ConfigChoice internlm2_choices[] = {{"bias", 0, 0}};

inline constexpr ArchSpec internlm2{
    .name = "internlm2",
    .hf_class = "InternLM2ForCausalLM",
    .paper = "arXiv:2403.17297",
    .gguf_pairs = nn::RopePairs::adjacent,
    .choices = internlm2_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = internlm2_tensors,
};

}  // namespace bantam::inline v0::archs
