// BitNet b1.58 (2B4T): Llama with an RMS norm of what attention's and the MLP's last matrices read, and squared ReLU. Its matrices are ternary.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr TensorKey bitnet_norms[] = {
    {Role::o_norm, "model.layers.{}.self_attn.attn_sub_norm.weight", "blk.{}.attn_sub_norm.weight"},
    {Role::down_norm, "model.layers.{}.mlp.ffn_sub_norm.weight", "blk.{}.ffn_sub_norm.weight"},
};
inline constexpr auto bitnet_tensors = joined(bitnet_norms, llama_biases);

inline constexpr ArchSpec bitnet{
    .name = "bitnet",
    .hf_class = "BitNetForCausalLM",
    .paper = "arXiv:2402.17764, arXiv:2504.12285",
    .default_norm_eps = 1e-5,
    .default_rope_base = 500000,
    .gate = ops::Gate::relu2,
    .gguf_activation_key = "hidden_activation",
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = bitnet_tensors,
};

}  // namespace bantam::inline v0::archs
