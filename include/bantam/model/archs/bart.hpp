// BART: an encoder and a decoder with learned positions and norms of sums; mBART, whose norms come before.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey bart_config[] = {
    {Field::dim, "d_model", "embedding_length"},
    {Field::layers, "encoder_layers", "block_count"},
    {Field::decoder_layers, "decoder_layers", "decoder_block_count"},
    {Field::heads, "encoder_attention_heads", "attention.head_count"},
    {Field::decoder_heads, "decoder_attention_heads", ""},
    {Field::ffn, "encoder_ffn_dim", "feed_forward_length"},
    {Field::decoder_ffn, "decoder_ffn_dim", ""},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length", 1024},
    {Field::norm_eps, "", "attention.layer_norm_epsilon"},
    {Field::decoder_start, "decoder_start_token_id", "decoder_start_token_id", 2},
    {Field::forced_start, "forced_bos_token_id", "forced_bos_token_id"},
};

/// What all have. No other program reads their GGUF files.
inline constexpr TensorKey bart_tensors[] = {
    {Role::embedding, "model.shared.weight", "token_embd.weight"},
    {Role::encoder_position_embedding, "model.encoder.embed_positions.weight", "enc.position_embd.weight"},
    {Role::encoder_embedding_norm, "model.encoder.layernorm_embedding.weight", "enc.token_embd_norm.weight"},
    {Role::encoder_embedding_norm_bias, "model.encoder.layernorm_embedding.bias", "enc.token_embd_norm.bias"},
    {Role::position_embedding, "model.decoder.embed_positions.weight", "dec.position_embd.weight"},
    {Role::embedding_norm, "model.decoder.layernorm_embedding.weight", "dec.token_embd_norm.weight"},
    {Role::embedding_norm_bias, "model.decoder.layernorm_embedding.bias", "dec.token_embd_norm.bias"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::head_bias, "final_logits_bias", "output.bias", Presence::optional, {}, true},
    {Role::q, "model.encoder.layers.{}.self_attn.q_proj.weight", "enc.blk.{}.attn_q.weight", {}, Layers::encoder},
    {Role::q_bias, "model.encoder.layers.{}.self_attn.q_proj.bias", "enc.blk.{}.attn_q.bias", {}, Layers::encoder},
    {Role::k, "model.encoder.layers.{}.self_attn.k_proj.weight", "enc.blk.{}.attn_k.weight", {}, Layers::encoder},
    {Role::k_bias, "model.encoder.layers.{}.self_attn.k_proj.bias", "enc.blk.{}.attn_k.bias", {}, Layers::encoder},
    {Role::v, "model.encoder.layers.{}.self_attn.v_proj.weight", "enc.blk.{}.attn_v.weight", {}, Layers::encoder},
    {Role::v_bias, "model.encoder.layers.{}.self_attn.v_proj.bias", "enc.blk.{}.attn_v.bias", {}, Layers::encoder},
    {Role::o, "model.encoder.layers.{}.self_attn.out_proj.weight", "enc.blk.{}.attn_o.weight", {}, Layers::encoder},
    {Role::o_bias, "model.encoder.layers.{}.self_attn.out_proj.bias", "enc.blk.{}.attn_o.bias", {}, Layers::encoder},
    {Role::up, "model.encoder.layers.{}.fc1.weight", "enc.blk.{}.ffn_up.weight", {}, Layers::encoder},
    {Role::up_bias, "model.encoder.layers.{}.fc1.bias", "enc.blk.{}.ffn_up.bias", {}, Layers::encoder},
    {Role::down, "model.encoder.layers.{}.fc2.weight", "enc.blk.{}.ffn_down.weight", {}, Layers::encoder},
    {Role::down_bias, "model.encoder.layers.{}.fc2.bias", "enc.blk.{}.ffn_down.bias", {}, Layers::encoder},
    {Role::q, "model.decoder.layers.{}.self_attn.q_proj.weight", "dec.blk.{}.attn_q.weight", {}, Layers::decoder},
    {Role::q_bias, "model.decoder.layers.{}.self_attn.q_proj.bias", "dec.blk.{}.attn_q.bias", {}, Layers::decoder},
    {Role::k, "model.decoder.layers.{}.self_attn.k_proj.weight", "dec.blk.{}.attn_k.weight", {}, Layers::decoder},
    {Role::k_bias, "model.decoder.layers.{}.self_attn.k_proj.bias", "dec.blk.{}.attn_k.bias", {}, Layers::decoder},
    {Role::v, "model.decoder.layers.{}.self_attn.v_proj.weight", "dec.blk.{}.attn_v.weight", {}, Layers::decoder},
    {Role::v_bias, "model.decoder.layers.{}.self_attn.v_proj.bias", "dec.blk.{}.attn_v.bias", {}, Layers::decoder},
    {Role::o, "model.decoder.layers.{}.self_attn.out_proj.weight", "dec.blk.{}.attn_o.weight", {}, Layers::decoder},
    {Role::o_bias, "model.decoder.layers.{}.self_attn.out_proj.bias", "dec.blk.{}.attn_o.bias", {}, Layers::decoder},
    {Role::up, "model.decoder.layers.{}.fc1.weight", "dec.blk.{}.ffn_up.weight", {}, Layers::decoder},
    {Role::up_bias, "model.decoder.layers.{}.fc1.bias", "dec.blk.{}.ffn_up.bias", {}, Layers::decoder},
    {Role::down, "model.decoder.layers.{}.fc2.weight", "dec.blk.{}.ffn_down.weight", {}, Layers::decoder},
    {Role::down_bias, "model.decoder.layers.{}.fc2.bias", "dec.blk.{}.ffn_down.bias", {}, Layers::decoder},
    {Role::cross_q, "model.decoder.layers.{}.encoder_attn.q_proj.weight", "dec.blk.{}.cross_attn_q.weight"},
    {Role::cross_q_bias, "model.decoder.layers.{}.encoder_attn.q_proj.bias", "dec.blk.{}.cross_attn_q.bias"},
    {Role::cross_k, "model.decoder.layers.{}.encoder_attn.k_proj.weight", "dec.blk.{}.cross_attn_k.weight"},
    {Role::cross_k_bias, "model.decoder.layers.{}.encoder_attn.k_proj.bias", "dec.blk.{}.cross_attn_k.bias"},
    {Role::cross_v, "model.decoder.layers.{}.encoder_attn.v_proj.weight", "dec.blk.{}.cross_attn_v.weight"},
    {Role::cross_v_bias, "model.decoder.layers.{}.encoder_attn.v_proj.bias", "dec.blk.{}.cross_attn_v.bias"},
    {Role::cross_o, "model.decoder.layers.{}.encoder_attn.out_proj.weight", "dec.blk.{}.cross_attn_o.weight"},
    {Role::cross_o_bias, "model.decoder.layers.{}.encoder_attn.out_proj.bias", "dec.blk.{}.cross_attn_o.bias"},
};
/// Behind each part of a layer, of the sum.
inline constexpr TensorKey bart_norms[] = {
    {Role::attention_out_norm, "model.encoder.layers.{}.self_attn_layer_norm.weight", "enc.blk.{}.attn_output_norm.weight", {}, Layers::encoder},
    {Role::attention_out_norm_bias, "model.encoder.layers.{}.self_attn_layer_norm.bias", "enc.blk.{}.attn_output_norm.bias", {}, Layers::encoder},
    {Role::ffn_out_norm, "model.encoder.layers.{}.final_layer_norm.weight", "enc.blk.{}.layer_output_norm.weight", {}, Layers::encoder},
    {Role::ffn_out_norm_bias, "model.encoder.layers.{}.final_layer_norm.bias", "enc.blk.{}.layer_output_norm.bias", {}, Layers::encoder},
    {Role::attention_out_norm, "model.decoder.layers.{}.self_attn_layer_norm.weight", "dec.blk.{}.attn_output_norm.weight", {}, Layers::decoder},
    {Role::attention_out_norm_bias, "model.decoder.layers.{}.self_attn_layer_norm.bias", "dec.blk.{}.attn_output_norm.bias", {}, Layers::decoder},
    {Role::ffn_out_norm, "model.decoder.layers.{}.final_layer_norm.weight", "dec.blk.{}.layer_output_norm.weight", {}, Layers::decoder},
    {Role::ffn_out_norm_bias, "model.decoder.layers.{}.final_layer_norm.bias", "dec.blk.{}.layer_output_norm.bias", {}, Layers::decoder},
    {Role::cross_out_norm, "model.decoder.layers.{}.encoder_attn_layer_norm.weight", "dec.blk.{}.cross_attn_output_norm.weight"},
    {Role::cross_out_norm_bias, "model.decoder.layers.{}.encoder_attn_layer_norm.bias", "dec.blk.{}.cross_attn_output_norm.bias"},
};
/// Before each part, and behind the last layers.
inline constexpr TensorKey mbart_norms[] = {
    {Role::encoder_norm, "model.encoder.layer_norm.weight", "enc.output_norm.weight"},
    {Role::encoder_norm_bias, "model.encoder.layer_norm.bias", "enc.output_norm.bias"},
    {Role::final_norm, "model.decoder.layer_norm.weight", "dec.output_norm.weight"},
    {Role::final_norm_bias, "model.decoder.layer_norm.bias", "dec.output_norm.bias"},
    {Role::attention_norm, "model.encoder.layers.{}.self_attn_layer_norm.weight", "enc.blk.{}.attn_norm.weight", {}, Layers::encoder},
    {Role::attention_norm_bias, "model.encoder.layers.{}.self_attn_layer_norm.bias", "enc.blk.{}.attn_norm.bias", {}, Layers::encoder},
    {Role::ffn_norm, "model.encoder.layers.{}.final_layer_norm.weight", "enc.blk.{}.ffn_norm.weight", {}, Layers::encoder},
    {Role::ffn_norm_bias, "model.encoder.layers.{}.final_layer_norm.bias", "enc.blk.{}.ffn_norm.bias", {}, Layers::encoder},
    {Role::attention_norm, "model.decoder.layers.{}.self_attn_layer_norm.weight", "dec.blk.{}.attn_norm.weight", {}, Layers::decoder},
    {Role::attention_norm_bias, "model.decoder.layers.{}.self_attn_layer_norm.bias", "dec.blk.{}.attn_norm.bias", {}, Layers::decoder},
    {Role::ffn_norm, "model.decoder.layers.{}.final_layer_norm.weight", "dec.blk.{}.ffn_norm.weight", {}, Layers::decoder},
    {Role::ffn_norm_bias, "model.decoder.layers.{}.final_layer_norm.bias", "dec.blk.{}.ffn_norm.bias", {}, Layers::decoder},
    {Role::cross_norm, "model.decoder.layers.{}.encoder_attn_layer_norm.weight", "dec.blk.{}.cross_attn_norm.weight"},
    {Role::cross_norm_bias, "model.decoder.layers.{}.encoder_attn_layer_norm.bias", "dec.blk.{}.cross_attn_norm.bias"},
};

/// The table again.
inline constexpr std::string_view bart_leftovers[] = {"model.encoder.embed_tokens.", "model.decoder.embed_tokens."};

inline constexpr ConfigChoice bart_choices[] = {{"scale_embedding", 0, 0}, {"normalize_before", 0, 0}, {"add_final_layer_norm", 0, 0}, {"is_encoder_decoder", 1, 1}};
inline constexpr ConfigChoice mbart_choices[] = {{"scale_embedding", 1, 0}, {"is_encoder_decoder", 1, 1}};

inline constexpr ArchSpec bart{
    .name = "bart",
    .hf_class = "BartForConditionalGeneration",
    .paper = "arXiv:1910.13461",
    .norm = Norm::layer,
    .encodes = true,
    .norms_sums = true,
    .position_offset = 2,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::gelu_erf,
    .activation_key = "activation_function",
    .default_tied = true,
    .choices = bart_choices,
    .config = bart_config,
    .tensors = bart_tensors,
    .more_tensors = bart_norms,
    .leftovers = bart_leftovers,
};

inline constexpr ArchSpec mbart = [] {
  ArchSpec spec = bart;
  spec.name = "mbart";
  spec.hf_class = "MBartForConditionalGeneration";
  spec.paper = "arXiv:2001.08210, arXiv:2008.00401";
  spec.norms_sums = false;
  spec.scales_embedding = true;
  spec.choices = mbart_choices;
  spec.more_tensors = mbart_norms;
  return spec;
}();

}  // namespace bantam::inline v0::archs
