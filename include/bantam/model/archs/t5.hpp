// T5: an encoder and a decoder that reads what it made, with biases by distance in the place of positions; mT5, UMT5, and encoders alone.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey t5_config[] = {
    {Field::dim, "d_model", "embedding_length"},
    {Field::layers, "num_layers", "block_count"},
    {Field::decoder_layers, "num_decoder_layers", "decoder_block_count"},
    {Field::heads, "num_heads", "attention.head_count"},
    {Field::head_dim, "d_kv", "attention.key_length"},
    {Field::value_dim, "", "attention.value_length"},
    {Field::ffn, "d_ff", "feed_forward_length"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "n_positions", "context_length", 512},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
    {Field::bias_buckets, "relative_attention_num_buckets", "attention.relative_buckets_count", 32},
    {Field::bias_distance, "relative_attention_max_distance", ""},
    {Field::decoder_start, "decoder_start_token_id", "decoder_start_token_id"},
};

/// What both have.
inline constexpr TensorKey t5_tensors[] = {
    {Role::embedding, "shared.weight", "token_embd.weight"},
    {Role::encoder_norm, "encoder.final_layer_norm.weight", "enc.output_norm.weight"},
    {Role::final_norm, "decoder.final_layer_norm.weight", "dec.output_norm.weight"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "encoder.block.{}.layer.0.layer_norm.weight", "enc.blk.{}.attn_norm.weight", {}, Layers::encoder},
    {Role::q, "encoder.block.{}.layer.0.SelfAttention.q.weight", "enc.blk.{}.attn_q.weight", {}, Layers::encoder},
    {Role::k, "encoder.block.{}.layer.0.SelfAttention.k.weight", "enc.blk.{}.attn_k.weight", {}, Layers::encoder},
    {Role::v, "encoder.block.{}.layer.0.SelfAttention.v.weight", "enc.blk.{}.attn_v.weight", {}, Layers::encoder},
    {Role::o, "encoder.block.{}.layer.0.SelfAttention.o.weight", "enc.blk.{}.attn_o.weight", {}, Layers::encoder},
    {Role::relative_bias, "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight", "enc.blk.{}.attn_rel_b.weight", {}, Layers::encoder},
    {Role::ffn_norm, "encoder.block.{}.layer.1.layer_norm.weight", "enc.blk.{}.ffn_norm.weight", {}, Layers::encoder},
    {Role::down, "encoder.block.{}.layer.1.DenseReluDense.wo.weight", "enc.blk.{}.ffn_down.weight", {}, Layers::encoder},
    {Role::attention_norm, "decoder.block.{}.layer.0.layer_norm.weight", "dec.blk.{}.attn_norm.weight", {}, Layers::decoder},
    {Role::q, "decoder.block.{}.layer.0.SelfAttention.q.weight", "dec.blk.{}.attn_q.weight", {}, Layers::decoder},
    {Role::k, "decoder.block.{}.layer.0.SelfAttention.k.weight", "dec.blk.{}.attn_k.weight", {}, Layers::decoder},
    {Role::v, "decoder.block.{}.layer.0.SelfAttention.v.weight", "dec.blk.{}.attn_v.weight", {}, Layers::decoder},
    {Role::o, "decoder.block.{}.layer.0.SelfAttention.o.weight", "dec.blk.{}.attn_o.weight", {}, Layers::decoder},
    {Role::relative_bias, "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight", "dec.blk.{}.attn_rel_b.weight", {}, Layers::decoder},
    {Role::cross_norm, "decoder.block.{}.layer.1.layer_norm.weight", "dec.blk.{}.cross_attn_norm.weight"},
    {Role::cross_q, "decoder.block.{}.layer.1.EncDecAttention.q.weight", "dec.blk.{}.cross_attn_q.weight"},
    {Role::cross_k, "decoder.block.{}.layer.1.EncDecAttention.k.weight", "dec.blk.{}.cross_attn_k.weight"},
    {Role::cross_v, "decoder.block.{}.layer.1.EncDecAttention.v.weight", "dec.blk.{}.cross_attn_v.weight"},
    {Role::cross_o, "decoder.block.{}.layer.1.EncDecAttention.o.weight", "dec.blk.{}.cross_attn_o.weight"},
    {Role::ffn_norm, "decoder.block.{}.layer.2.layer_norm.weight", "dec.blk.{}.ffn_norm.weight", {}, Layers::decoder},
    {Role::down, "decoder.block.{}.layer.2.DenseReluDense.wo.weight", "dec.blk.{}.ffn_down.weight", {}, Layers::decoder},
};
inline constexpr TensorKey t5_plain_tensors[] = {
    {Role::up, "encoder.block.{}.layer.1.DenseReluDense.wi.weight", "enc.blk.{}.ffn_up.weight", {}, Layers::encoder},
    {Role::up, "decoder.block.{}.layer.2.DenseReluDense.wi.weight", "dec.blk.{}.ffn_up.weight", {}, Layers::decoder},
};
inline constexpr TensorKey t5_gated_tensors[] = {
    {Role::gate, "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight", "enc.blk.{}.ffn_gate.weight", {}, Layers::encoder},
    {Role::up, "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight", "enc.blk.{}.ffn_up.weight", {}, Layers::encoder},
    {Role::gate, "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight", "dec.blk.{}.ffn_gate.weight", {}, Layers::decoder},
    {Role::up, "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight", "dec.blk.{}.ffn_up.weight", {}, Layers::decoder},
};

/// Of an encoder alone.
inline constexpr TensorKey t5_encoder_tensors[] = {
    {Role::embedding, "shared.weight", "token_embd.weight"},
    {Role::final_norm, "encoder.final_layer_norm.weight", "enc.output_norm.weight"},
    {Role::attention_norm, "encoder.block.{}.layer.0.layer_norm.weight", "enc.blk.{}.attn_norm.weight"},
    {Role::q, "encoder.block.{}.layer.0.SelfAttention.q.weight", "enc.blk.{}.attn_q.weight"},
    {Role::k, "encoder.block.{}.layer.0.SelfAttention.k.weight", "enc.blk.{}.attn_k.weight"},
    {Role::v, "encoder.block.{}.layer.0.SelfAttention.v.weight", "enc.blk.{}.attn_v.weight"},
    {Role::o, "encoder.block.{}.layer.0.SelfAttention.o.weight", "enc.blk.{}.attn_o.weight"},
    {Role::relative_bias, "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias.weight", "enc.blk.{}.attn_rel_b.weight"},
    {Role::ffn_norm, "encoder.block.{}.layer.1.layer_norm.weight", "enc.blk.{}.ffn_norm.weight"},
    {Role::down, "encoder.block.{}.layer.1.DenseReluDense.wo.weight", "enc.blk.{}.ffn_down.weight"},
};
inline constexpr TensorKey t5_plain_encoder_tensors[] = {{Role::up, "encoder.block.{}.layer.1.DenseReluDense.wi.weight", "enc.blk.{}.ffn_up.weight"}};
inline constexpr TensorKey t5_gated_encoder_tensors[] = {
    {Role::gate, "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight", "enc.blk.{}.ffn_gate.weight"},
    {Role::up, "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight", "enc.blk.{}.ffn_up.weight"},
};

/// The table again, and a bias of attention to the source that no published code reads.
inline constexpr std::string_view t5_leftovers[] = {"encoder.embed_tokens.", "decoder.embed_tokens.", "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.", "dec.blk.0.cross_attn_rel_b."};

inline constexpr ConfigChoice t5_choices[] = {{.key = "feed_forward_proj", .otherwise = 1, .text = "relu"}, {"is_encoder_decoder", 1, 1}};
inline constexpr ConfigChoice t5_gated_choices[] = {{.key = "feed_forward_proj", .text = "gated-gelu"}, {"is_encoder_decoder", 1, 1}};

inline constexpr ArchSpec t5{
    .name = "t5",
    .hf_class = "T5ForConditionalGeneration",
    .older_class = "T5WithLMHeadModel",
    .paper = "arXiv:1910.10683",
    .encodes = true,
    .relative_bias = {.buckets = 32, .distance = 128},
    .shares_bias = true,
    .scales_tied_logits = true,
    .gate = ops::Gate::relu,
    .activation_key = "dense_act_fn",
    .no_rope_step = 1,
    .attention_scale = 1,
    .default_tied = true,
    .choices = t5_choices,
    .config = t5_config,
    .tensors = t5_tensors,
    .more_tensors = t5_plain_tensors,
    .leftovers = t5_leftovers,
};

/// Version 1.1, Flan-T5.
inline constexpr ArchSpec t5_gated = [] {
  ArchSpec spec = t5;
  spec.paper = "arXiv:2002.05202, arXiv:2210.11416";
  spec.gguf_mark = "enc.blk.0.ffn_gate.weight";
  spec.gate = ops::Gate::gelu_tanh;
  spec.choices = t5_gated_choices;
  spec.more_tensors = t5_gated_tensors;
  return spec;
}();

inline constexpr ArchSpec mt5 = [] {
  ArchSpec spec = t5_gated;
  spec.name = "mt5";
  spec.hf_class = "MT5ForConditionalGeneration";
  spec.older_class = {};
  spec.paper = "arXiv:2010.11934";
  spec.gguf = "t5";
  return spec;
}();

/// Each layer has a bias of its own.
inline constexpr ArchSpec umt5 = [] {
  ArchSpec spec = mt5;
  spec.name = "umt5";
  spec.hf_class = "UMT5ForConditionalGeneration";
  spec.paper = "arXiv:2304.09151";
  spec.gguf_mark = "enc.blk.1.attn_rel_b.weight";
  spec.shares_bias = false;
  return spec;
}();

/// The encoder of a model, alone: what stands for a text is the mean (arXiv:2108.08877).
constexpr ArchSpec t5_encoder_of(ArchSpec spec, std::string_view hf_class) {
  spec.hf_class = hf_class;
  spec.older_class = {};
  spec.gguf = "t5encoder";
  spec.causal = false;
  spec.encodes = false;
  spec.scales_tied_logits = false;
  spec.choices = spec.choices.first(1);
  spec.tensors = t5_encoder_tensors;
  spec.more_tensors = spec.gate == ops::Gate::relu ? std::span<const TensorKey>(t5_plain_encoder_tensors) : t5_gated_encoder_tensors;
  return spec;
}
inline constexpr ArchSpec t5_encoder = t5_encoder_of(t5, "T5EncoderModel"), t5_gated_encoder = t5_encoder_of(t5_gated, "T5EncoderModel"),
                          mt5_encoder = t5_encoder_of(mt5, "MT5EncoderModel"), umt5_encoder = t5_encoder_of(umt5, "UMT5EncoderModel");

}  // namespace bantam::inline v0::archs
