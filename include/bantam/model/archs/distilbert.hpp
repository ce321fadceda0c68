// DistilBERT: BERT without token types and by other names; a classifier of two layers with a ReLU between.
#pragma once

#include "bantam/model/archs/bert.hpp"

namespace bantam::inline v0::archs {

/// No published config says the epsilon: it is the default's.
inline constexpr ConfigKey distilbert_config[] = {
    {Field::dim, "dim", "embedding_length"},
    {Field::layers, "n_layers", "block_count"},
    {Field::heads, "n_heads", "attention.head_count"},
    {Field::kv_heads, "", ""},
    {Field::ffn, "hidden_dim", "feed_forward_length"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length"},
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
};

inline constexpr TensorKey distilbert_tensors[] = {
    {Role::embedding, "embeddings.word_embeddings.weight", "token_embd.weight"},
    {Role::position_embedding, "embeddings.position_embeddings.weight", "position_embd.weight"},
    {Role::embedding_norm, "embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {Role::class_dense, "pre_classifier.weight", "cls.weight"},
    {Role::class_dense_bias, "pre_classifier.bias", "cls.bias"},
    {Role::class_head, "classifier.weight", "cls.output.weight"},
    {Role::class_head_bias, "classifier.bias", "cls.output.bias"},
    {Role::q, "transformer.layer.{}.attention.q_lin.weight", "blk.{}.attn_q.weight"},
    {Role::q_bias, "transformer.layer.{}.attention.q_lin.bias", "blk.{}.attn_q.bias"},
    {Role::k, "transformer.layer.{}.attention.k_lin.weight", "blk.{}.attn_k.weight"},
    {Role::k_bias, "transformer.layer.{}.attention.k_lin.bias", "blk.{}.attn_k.bias"},
    {Role::v, "transformer.layer.{}.attention.v_lin.weight", "blk.{}.attn_v.weight"},
    {Role::v_bias, "transformer.layer.{}.attention.v_lin.bias", "blk.{}.attn_v.bias"},
    {Role::o, "transformer.layer.{}.attention.out_lin.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "transformer.layer.{}.attention.out_lin.bias", "blk.{}.attn_output.bias"},
    {Role::attention_out_norm, "transformer.layer.{}.sa_layer_norm.weight", "blk.{}.attn_output_norm.weight"},
    {Role::attention_out_norm_bias, "transformer.layer.{}.sa_layer_norm.bias", "blk.{}.attn_output_norm.bias"},
    {Role::up, "transformer.layer.{}.ffn.lin1.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "transformer.layer.{}.ffn.lin1.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "transformer.layer.{}.ffn.lin2.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "transformer.layer.{}.ffn.lin2.bias", "blk.{}.ffn_down.bias"},
    {Role::ffn_out_norm, "transformer.layer.{}.output_layer_norm.weight", "blk.{}.layer_output_norm.weight"},
    {Role::ffn_out_norm_bias, "transformer.layer.{}.output_layer_norm.bias", "blk.{}.layer_output_norm.bias"},
};

inline constexpr std::string_view distilbert_classes[] = {"DistilBertForSequenceClassification", "DistilBertForMaskedLM"};
inline constexpr std::string_view distilbert_leftovers[] = {"embeddings.position_ids", "vocab_transform.", "vocab_layer_norm.", "vocab_projector."};

inline constexpr ArchSpec distilbert = [] {
  ArchSpec spec = bert;
  spec.name = "distilbert";
  spec.hf_class = "DistilBertModel";
  spec.paper = "arXiv:1910.01108";
  spec.gguf = "bert";
  spec.class_activation = ClassActivation::relu;
  spec.activation_key = "activation";
  spec.choices = {};
  spec.config = distilbert_config;
  spec.tensors = distilbert_tensors;
  spec.more_classes = distilbert_classes;
  spec.prefix = "distilbert.";
  spec.leftovers = distilbert_leftovers;
  return spec;
}();

}  // namespace bantam::inline v0::archs
