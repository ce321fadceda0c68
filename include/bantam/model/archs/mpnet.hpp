// MPNet: RoBERTa without token types, with a bias of scores by distance that all layers share.
#pragma once

#include "bantam/model/archs/bert.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey mpnet_config[] = {{Field::bias_buckets, "relative_attention_num_buckets", "attention.relative_buckets_count", 32}};

/// GGUF's name and those of its tensors are ours: llama.cpp knows no MPNet.
inline constexpr TensorKey mpnet_tensors[] = {
    {Role::embedding, "embeddings.word_embeddings.weight", "token_embd.weight"},
    {Role::position_embedding, "embeddings.position_embeddings.weight", "position_embd.weight"},
    {Role::embedding_norm, "embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {Role::relative_bias, "encoder.relative_attention_bias.weight", "blk.{}.attn_rel_b.weight"},
    {Role::q, "encoder.layer.{}.attention.attn.q.weight", "blk.{}.attn_q.weight"},
    {Role::q_bias, "encoder.layer.{}.attention.attn.q.bias", "blk.{}.attn_q.bias"},
    {Role::k, "encoder.layer.{}.attention.attn.k.weight", "blk.{}.attn_k.weight"},
    {Role::k_bias, "encoder.layer.{}.attention.attn.k.bias", "blk.{}.attn_k.bias"},
    {Role::v, "encoder.layer.{}.attention.attn.v.weight", "blk.{}.attn_v.weight"},
    {Role::v_bias, "encoder.layer.{}.attention.attn.v.bias", "blk.{}.attn_v.bias"},
    {Role::o, "encoder.layer.{}.attention.attn.o.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "encoder.layer.{}.attention.attn.o.bias", "blk.{}.attn_output.bias"},
    {Role::attention_out_norm, "encoder.layer.{}.attention.LayerNorm.weight", "blk.{}.attn_output_norm.weight"},
    {Role::attention_out_norm_bias, "encoder.layer.{}.attention.LayerNorm.bias", "blk.{}.attn_output_norm.bias"},
    {Role::up, "encoder.layer.{}.intermediate.dense.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "encoder.layer.{}.intermediate.dense.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "encoder.layer.{}.output.dense.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "encoder.layer.{}.output.dense.bias", "blk.{}.ffn_down.bias"},
    {Role::ffn_out_norm, "encoder.layer.{}.output.LayerNorm.weight", "blk.{}.layer_output_norm.weight"},
    {Role::ffn_out_norm_bias, "encoder.layer.{}.output.LayerNorm.bias", "blk.{}.layer_output_norm.bias"},
};

inline constexpr std::string_view mpnet_classes[] = {"MPNetForSequenceClassification", "MPNetForMaskedLM"};
inline constexpr ConfigChoice mpnet_choices[] = {{"pad_token_id", 1, 1, true}};

inline constexpr ArchSpec mpnet = [] {
  ArchSpec spec = roberta;
  spec.name = "mpnet";
  spec.hf_class = "MPNetModel";
  spec.paper = "arXiv:2004.09297";
  spec.gguf = {};
  spec.relative_bias = {.buckets = 32, .distance = 128};
  spec.shares_bias = true;
  spec.default_norm_eps = 1e-12;
  spec.choices = mpnet_choices;
  spec.more_config = mpnet_config;
  spec.tensors = mpnet_tensors;
  spec.more_classes = mpnet_classes;
  spec.prefix = "mpnet.";
  return spec;
}();

}  // namespace bantam::inline v0::archs
