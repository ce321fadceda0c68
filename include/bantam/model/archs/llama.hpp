// Llama 1 to 3, and the tables that its family shares.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey llama_config[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_hidden_layers", "block_count"},
    {Field::heads, "num_attention_heads", "attention.head_count"},
    {Field::kv_heads, "num_key_value_heads", "attention.head_count_kv"},
    {Field::head_dim, "head_dim", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "intermediate_size", "feed_forward_length"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length"},
    {Field::norm_eps, "rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {Field::rope_base, "rope_theta", "rope.freq_base"},
    {Field::rope_dim, "", "rope.dimension_count"},
    {Field::window, "sliding_window", "attention.sliding_window"},
};

inline constexpr TensorKey llama_tensors[] = {
    {Role::embedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::final_norm, "model.norm.weight", "output_norm.weight"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::rope_divisors, "", "rope_freqs.weight", Presence::optional},
    {Role::attention_norm, "model.layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {Role::q, "model.layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "model.layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "model.layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "model.layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::ffn_norm, "model.layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {Role::gate, "model.layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
};

/// Of MLPs without gates.
inline constexpr auto gateless_tensors = without(llama_tensors, Role::gate);

/// Hugging Face's Llama has them when attention_bias is set.
inline constexpr TensorKey llama_biases[] = {
    {Role::q_bias, "model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", Presence::optional},
    {Role::k_bias, "model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", Presence::optional},
    {Role::v_bias, "model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", Presence::optional},
    {Role::o_bias, "model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias", Presence::optional},
};

inline constexpr ConfigChoice llama_choices[] = {{"mlp_bias", 0, 0}}, llama_biased_choices[] = {{"mlp_bias", 1, 0}};

/// InternLM 1 has biases of q, k, v and o, as Llama may have.
inline constexpr std::string_view llama_classes[] = {"InternLMForCausalLM", "InternLM3ForCausalLM", "XverseForCausalLM", "AquilaForCausalLM"};

inline constexpr ArchSpec llama{
    .name = "llama",
    .hf_class = "LlamaForCausalLM",
    .same_classes = llama_classes,
    .paper = "arXiv:2302.13971, arXiv:2407.21783",
    .gguf_pairs = nn::RopePairs::adjacent,
    .choices = llama_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = llama_biases,
};

inline constexpr TensorKey llama_mlp_biases[] = {
    {Role::gate_bias, "model.layers.{}.mlp.gate_proj.bias", "blk.{}.ffn_gate.bias"},
    {Role::up_bias, "model.layers.{}.mlp.up_proj.bias", "blk.{}.ffn_up.bias"},
    {Role::down_bias, "model.layers.{}.mlp.down_proj.bias", "blk.{}.ffn_down.bias"},
};
inline constexpr auto llama_all_biases = joined(llama_mlp_biases, llama_biases);

/// Granite Code 3B and 8B: Llama with biases of MLPs, too.
inline constexpr ArchSpec llama_biased = [] {
  ArchSpec spec = llama;
  spec.paper = "arXiv:2405.04324";
  spec.gguf_mark = "blk.0.ffn_down.bias";
  spec.choices = llama_biased_choices;
  spec.more_tensors = llama_all_biases;
  return spec;
}();

/// Helium 2B: Llama whose folders have the elements that rope turns beside each other.
inline constexpr ArchSpec helium = [] {
  ArchSpec spec = llama;
  spec.name = "helium";
  spec.hf_class = "HeliumForCausalLM";
  spec.same_classes = {};
  spec.paper = "https://huggingface.co/kyutai/helium-1-2b";
  spec.pairs = nn::RopePairs::adjacent;
  spec.default_norm_eps = 1e-8;
  spec.default_rope_base = 100000;
  return spec;
}();

/// Code World Model 32B: the first of four layers sees everything, the others have a window.
inline constexpr ArchSpec cwm = [] {
  ArchSpec spec = llama;
  spec.name = "cwm";
  spec.hf_class = "CwmForCausalLM";
  spec.same_classes = {};
  spec.paper = "arXiv:2510.02387";
  spec.gguf_pairs = spec.pairs;
  spec.default_norm_eps = 1e-5;
  spec.default_rope_base = 1000000;
  spec.full_attention_step = 4;
  spec.full_layers_lead = true;
  spec.more_tensors = {};
  return spec;
}();

}  // namespace bantam::inline v0::archs
