// BERT, RoBERTa, XLM-RoBERTa, ELECTRA and ERNIE, as embeddings and as classifiers: learned positions, tokens that all see each other, layer
// norms of sums.
#pragma once

#include "bantam/model/arch_spec.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey bert_config[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_hidden_layers", "block_count"},
    {Field::heads, "num_attention_heads", "attention.head_count"},
    {Field::kv_heads, "", ""},
    {Field::ffn, "intermediate_size", "feed_forward_length"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "max_position_embeddings", "context_length"},
    {Field::norm_eps, "layer_norm_eps", "attention.layer_norm_epsilon"},
};

inline constexpr TensorKey bert_tensors[] = {
    {Role::embedding, "embeddings.word_embeddings.weight", "token_embd.weight"},
    {Role::position_embedding, "embeddings.position_embeddings.weight", "position_embd.weight"},
    {Role::token_type_embedding, "embeddings.token_type_embeddings.weight", "token_types.weight", Presence::optional},
    {Role::embedding_norm, "embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {Role::embedding_norm_bias, "embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {Role::class_dense, "pooler.dense.weight", "cls.weight"},
    {Role::class_dense_bias, "pooler.dense.bias", "cls.bias"},
    {Role::class_head, "classifier.weight", "cls.output.weight"},
    {Role::class_head_bias, "classifier.bias", "cls.output.bias"},
    {Role::q, "encoder.layer.{}.attention.self.query.weight", "blk.{}.attn_q.weight"},
    {Role::q_bias, "encoder.layer.{}.attention.self.query.bias", "blk.{}.attn_q.bias"},
    {Role::k, "encoder.layer.{}.attention.self.key.weight", "blk.{}.attn_k.weight"},
    {Role::k_bias, "encoder.layer.{}.attention.self.key.bias", "blk.{}.attn_k.bias"},
    {Role::v, "encoder.layer.{}.attention.self.value.weight", "blk.{}.attn_v.weight"},
    {Role::v_bias, "encoder.layer.{}.attention.self.value.bias", "blk.{}.attn_v.bias"},
    {Role::o, "encoder.layer.{}.attention.output.dense.weight", "blk.{}.attn_output.weight"},
    {Role::o_bias, "encoder.layer.{}.attention.output.dense.bias", "blk.{}.attn_output.bias"},
    {Role::attention_out_norm, "encoder.layer.{}.attention.output.LayerNorm.weight", "blk.{}.attn_output_norm.weight"},
    {Role::attention_out_norm_bias, "encoder.layer.{}.attention.output.LayerNorm.bias", "blk.{}.attn_output_norm.bias"},
    {Role::up, "encoder.layer.{}.intermediate.dense.weight", "blk.{}.ffn_up.weight"},
    {Role::up_bias, "encoder.layer.{}.intermediate.dense.bias", "blk.{}.ffn_up.bias"},
    {Role::down, "encoder.layer.{}.output.dense.weight", "blk.{}.ffn_down.weight"},
    {Role::down_bias, "encoder.layer.{}.output.dense.bias", "blk.{}.ffn_down.bias"},
    {Role::ffn_out_norm, "encoder.layer.{}.output.LayerNorm.weight", "blk.{}.layer_output_norm.weight"},
    {Role::ffn_out_norm_bias, "encoder.layer.{}.output.LayerNorm.bias", "blk.{}.layer_output_norm.bias"},
};

/// A classifier's layers are not the pooler of its training there.
inline constexpr TensorKey roberta_tensors[] = {
    {Role::class_dense, "classifier.dense.weight", "cls.weight"},
    {Role::class_dense_bias, "classifier.dense.bias", "cls.bias"},
    {Role::class_head, "classifier.out_proj.weight", "cls.output.weight"},
    {Role::class_head_bias, "classifier.out_proj.bias", "cls.output.bias"},
};

inline constexpr std::string_view bert_classes[] = {"BertForSequenceClassification", "BertForMaskedLM", "BertForPreTraining"};
inline constexpr std::string_view bert_leftovers[] = {"embeddings.position_ids", "pooler.", "cls.predictions.", "cls.seq_relationship."};
inline constexpr std::string_view roberta_classes[] = {"RobertaForSequenceClassification", "RobertaForMaskedLM", "CamembertModel", "CamembertForSequenceClassification", "CamembertForMaskedLM"};
inline constexpr std::string_view xlm_roberta_classes[] = {"XLMRobertaForSequenceClassification", "XLMRobertaForMaskedLM"};
inline constexpr std::string_view roberta_leftovers[] = {"embeddings.position_ids", "pooler.", "lm_head."};

/// Decoders of such layers, which see what lies before a token alone, go by the same names.
inline constexpr ConfigChoice bert_choices[] = {{"is_decoder", 0, 0}, {"add_cross_attention", 0, 0}};
/// Positions of texts begin behind the padding's.
inline constexpr ConfigChoice roberta_choices[] = {{"is_decoder", 0, 0}, {"add_cross_attention", 0, 0}, {"pad_token_id", 1, 1, true}};

inline constexpr ArchSpec bert{
    .name = "bert",
    .hf_class = "BertModel",
    .paper = "arXiv:1810.04805, arXiv:1908.10084",
    .norm = Norm::layer,
    .causal = false,
    .norms_sums = true,
    .default_norm_eps = 1e-12,
    .gate = ops::Gate::gelu_erf,
    .choices = bert_choices,
    .config = bert_config,
    .tensors = bert_tensors,
    .more_classes = bert_classes,
    .prefix = "bert.",
    .leftovers = bert_leftovers,
};

inline constexpr ArchSpec roberta = [] {
  ArchSpec spec = bert;
  spec.name = "roberta";
  spec.hf_class = "RobertaModel";
  spec.paper = "arXiv:1907.11692";
  spec.gguf = "bert";
  spec.position_offset = 2;
  spec.pads_positions = true;
  spec.default_norm_eps = 1e-5;
  spec.choices = roberta_choices;
  spec.more_tensors = roberta_tensors;
  spec.more_classes = roberta_classes;
  spec.prefix = "roberta.";
  spec.leftovers = roberta_leftovers;
  return spec;
}();

inline constexpr ArchSpec xlm_roberta = [] {
  ArchSpec spec = roberta;
  spec.name = "xlm-roberta";
  spec.hf_class = "XLMRobertaModel";
  spec.paper = "arXiv:1911.02116, arXiv:2402.03216";
  spec.more_classes = xlm_roberta_classes;
  return spec;
}();

inline constexpr std::string_view electra_classes[] = {"ElectraForSequenceClassification", "ElectraForPreTraining", "ElectraForMaskedLM"};
inline constexpr std::string_view electra_leftovers[] = {"embeddings.position_ids", "discriminator_predictions.", "generator_predictions.", "generator_lm_head."};

/// A narrower embedding (the small ones) is refused.
inline constexpr ArchSpec electra = [] {
  ArchSpec spec = bert;
  spec.name = "electra";
  spec.hf_class = "ElectraModel";
  spec.paper = "arXiv:2003.10555";
  spec.gguf = "bert";
  spec.class_activation = ClassActivation::gelu;
  spec.more_tensors = roberta_tensors;
  spec.more_classes = electra_classes;
  spec.prefix = "electra.";
  spec.leftovers = electra_leftovers;
  return spec;
}();

inline constexpr std::string_view ernie_classes[] = {"ErnieForSequenceClassification", "ErnieForMaskedLM", "ErnieForPreTraining"};
/// A row of a third table, of the task, is refused.
inline constexpr ConfigChoice ernie_choices[] = {{"is_decoder", 0, 0}, {"add_cross_attention", 0, 0}, {"use_task_id", 0, 0}};

inline constexpr ArchSpec ernie = [] {
  ArchSpec spec = bert;
  spec.name = "ernie";
  spec.hf_class = "ErnieModel";
  spec.paper = "arXiv:1907.12412";
  spec.gguf = "bert";
  spec.choices = ernie_choices;
  spec.more_classes = ernie_classes;
  spec.prefix = "ernie.";
  return spec;
}();

}  // namespace bantam::inline v0::archs
