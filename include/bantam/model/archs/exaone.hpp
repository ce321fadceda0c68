// EXAONE 3, 3.5 and Deep: Llama under GPT-2's names.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey exaone_config[] = {
    {Field::layers, "num_layers", "block_count", 0, "num_hidden_layers"},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
};

inline constexpr TensorKey exaone_tensors[] = {
    {Role::embedding, "transformer.wte.weight", "token_embd.weight"},
    {Role::final_norm, "transformer.ln_f.weight", "output_norm.weight"},
    {Role::attention_norm, "transformer.h.{}.ln_1.weight", "blk.{}.attn_norm.weight"},
    {Role::q, "transformer.h.{}.attn.attention.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "transformer.h.{}.attn.attention.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "transformer.h.{}.attn.attention.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "transformer.h.{}.attn.attention.out_proj.weight", "blk.{}.attn_output.weight"},
    {Role::ffn_norm, "transformer.h.{}.ln_2.weight", "blk.{}.ffn_norm.weight"},
    {Role::gate, "transformer.h.{}.mlp.c_fc_0.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "transformer.h.{}.mlp.c_fc_1.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "transformer.h.{}.mlp.c_proj.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr ArchSpec exaone{
    .name = "exaone",
    .hf_class = "ExaoneForCausalLM",
    .paper = "arXiv:2408.03541, arXiv:2412.04862, arXiv:2503.12524",
    .default_norm_eps = 1e-5,
    .activation_key = "activation_function",
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = exaone_tensors,
    .more_config = exaone_config,
};

}  // namespace bantam::inline v0::archs
