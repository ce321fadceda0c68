// Falcon-H1: attention and a Mamba-2 state space side by side in every layer, and scales inside of both and of the MLP. With a norm behind the
// state space, or without (0.5B).
#pragma once

#include "bantam/model/archs/granite_hybrid.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey falcon_h1_scales[] = {
    {Field::embedding_scale, "embedding_multiplier", ""},
    {Field::logit_factor, "lm_head_multiplier", ""},
    {Field::attention_in_scale, "attention_in_multiplier", ""},
    {Field::attention_out_scale, "attention_out_multiplier", ""},
    {Field::key_scale, "key_multiplier", ""},
    {Field::space_in_scale, "ssm_in_multiplier", ""},
    {Field::space_out_scale, "ssm_out_multiplier", ""},
    {Field::space_gate_scale, "ssm_multipliers.0", ""},
    {Field::space_value_scale, "ssm_multipliers.1", ""},
    {Field::space_key_scale, "ssm_multipliers.2", ""},
    {Field::space_query_scale, "ssm_multipliers.3", ""},
    {Field::space_step_scale, "ssm_multipliers.4", ""},
    {Field::gate_scale, "mlp_multipliers.0", ""},
    {Field::down_scale, "mlp_multipliers.1", ""},
    {Field::recurrent_inner, "mamba_d_ssm", "ssm.inner_size"},
};
inline constexpr auto falcon_h1_config = joined(falcon_h1_scales, granite_hybrid_numbers);

inline constexpr TensorKey falcon_h1_names[] = {
    {Role::final_norm, "model.final_layernorm.weight", "output_norm.weight"},
    {Role::ffn_norm, "model.layers.{}.pre_ff_layernorm.weight", "blk.{}.ffn_norm"},
    {Role::gate, "model.layers.{}.feed_forward.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {Role::up, "model.layers.{}.feed_forward.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "model.layers.{}.feed_forward.down_proj.weight", "blk.{}.ffn_down.weight"},
};
inline constexpr auto falcon_h1_plain_tensors = joined(falcon_h1_names, granite_hybrid_space);
inline constexpr auto falcon_h1_tensors = joined(falcon_h1_plain_tensors, granite_hybrid_norm);

inline constexpr ConfigChoice falcon_h1_plain_choices[] = {
    {"mamba_rms_norm", 0, 0}, {"mamba_conv_bias", 1, 1}, {"mamba_proj_bias", 0, 0}, {"projectors_bias", 0, 0},
    {"attention_bias", 0, 0}, {"mlp_bias", 0, 0},
};
inline constexpr ConfigChoice falcon_h1_choices[] = {
    {"mamba_rms_norm", 1, 0}, {"mamba_norm_before_gate", 0, 1}, {"mamba_conv_bias", 1, 1}, {"mamba_proj_bias", 0, 0},
    {"projectors_bias", 0, 0}, {"attention_bias", 0, 0}, {"mlp_bias", 0, 0},
};

inline constexpr ArchSpec falcon_h1{
    .name = "falcon_h1",
    .hf_class = "FalconH1ForCausalLM",
    .paper = "arXiv:2507.22448",
    .gguf = "falcon-h1",
    .gguf_mark = "blk.0.ssm_norm.weight",
    .recurrent = MixerKind::attention_beside_space,
    .default_norm_eps = 1e-5,
    .folds_scales = true,
    .choices = falcon_h1_choices,
    .config = llama_config,
    .tensors = llama_tensors,
    .more_tensors = falcon_h1_tensors,
    .more_config = falcon_h1_config,
};

inline constexpr ArchSpec falcon_h1_plain = [] {
  ArchSpec spec = falcon_h1;
  spec.gguf_mark = {};
  spec.choices = falcon_h1_plain_choices;
  spec.more_tensors = falcon_h1_plain_tensors;
  return spec;
}();

}  // namespace bantam::inline v0::archs
