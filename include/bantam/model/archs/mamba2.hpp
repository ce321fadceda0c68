// Mamba-2 and Codestral Mamba: state spaces alone.
#pragma once

#include "bantam/model/archs/nemotron_h.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey mamba2_config[] = {
    {Field::dim, "hidden_size", "embedding_length"},
    {Field::layers, "num_hidden_layers", "block_count"},
    {Field::vocab, "vocab_size", "vocab_size"},
    {Field::context, "", "context_length"},
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
    {Field::convolution_taps, "conv_kernel", "ssm.conv_kernel"},
    {Field::recurrent_key_heads, "n_groups", "ssm.group_count"},
    {Field::recurrent_key_dim, "state_size", "ssm.state_size"},
    {Field::recurrent_heads, "num_heads", "ssm.time_step_rank"},
    {Field::recurrent_value_dim, "head_dim", ""},
    {Field::recurrent_inner, "", "ssm.inner_size"},
};

inline constexpr ArchSpec mamba2{
    .name = "mamba2",
    .hf_class = "Mamba2ForCausalLM",
    .paper = "arXiv:2405.21060",
    .recurrent = MixerKind::state_space,
    .feeds = false,
    .default_norm_eps = 1e-5,
    .config = mamba2_config,
    .tensors = nemotron_h_tensors,
};

}  // namespace bantam::inline v0::archs
