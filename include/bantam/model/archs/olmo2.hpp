// OLMo 2 and 3: norms behind the blocks and none before them, norms of q and k over all heads; 3 with windows, whose rope is not scaled.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey olmo2_tensors[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::final_norm, "model.norm.weight", "output_norm.weight"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::q_norm, "model.layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {Role::attention_out_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
    {Role::ffn_out_norm, "model.layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
};

inline constexpr ArchSpec olmo2{
    .name = "olmo2",
    .hf_class = "Olmo2ForCausalLM",
    .paper = "arXiv:2501.00656",
    .head_norm = nn::HeadNorm::all,
    .config = llama_config,
    .tensors = olmo2_tensors,
    .more_tensors = {},
};

inline constexpr ArchSpec olmo3{
    .name = "olmo3",
    .hf_class = "Olmo3ForCausalLM",
    .paper = "arXiv:2512.13961",
    .gguf = "olmo2",
    .head_norm = nn::HeadNorm::all,
    .full_attention_step = 4,
    .window_rope = nn::LayerRope::local,
    .config = llama_config,
    .tensors = olmo2_tensors,
    .more_tensors = {},
};

}  // namespace bantam::inline v0::archs
