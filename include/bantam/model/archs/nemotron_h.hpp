// Nemotron-H, Nemotron Nano 2 and Nemotron 3: each layer is one of a Mamba-2 state space, attention without rope, an MLP, or experts.
// Neither MLPs nor experts have gates; some experts work in a latent space.
#pragma once

#include "bantam/model/archs/llama.hpp"

namespace bantam::inline v0::archs {

inline constexpr ConfigKey nemotron_h_config[] = {
    {Field::norm_eps, "layer_norm_epsilon", "attention.layer_norm_rms_epsilon"},
    {Field::convolution_taps, "conv_kernel", "ssm.conv_kernel"},
    {Field::recurrent_key_heads, "n_groups", "ssm.group_count"},
    {Field::recurrent_key_dim, "ssm_state_size", "ssm.state_size"},
    {Field::recurrent_heads, "mamba_num_heads", "ssm.time_step_rank"},
    {Field::recurrent_value_dim, "mamba_head_dim", ""},
    {Field::recurrent_inner, "", "ssm.inner_size"},
};

inline constexpr ConfigKey nemotron_h_expert_numbers[] = {
    {Field::experts, "n_routed_experts", "expert_count"},
    {Field::experts_used, "num_experts_per_tok", "expert_used_count"},
    {Field::expert_ffn, "moe_intermediate_size", "expert_feed_forward_length"},
    {Field::expert_latent, "moe_latent_size", "moe_latent_size"},
    {Field::drafting_layers, "", "nextn_predict_layers"},
    {Field::shared_ffn, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {Field::router_groups, "n_group", "expert_group_count"},
    {Field::router_groups_used, "topk_group", "expert_group_used_count"},
    {Field::router_scale, "routed_scaling_factor", "expert_weights_scale"},
};
inline constexpr auto nemotron_h_moe_config = joined(nemotron_h_config, nemotron_h_expert_numbers);

inline constexpr TensorKey nemotron_h_tensors[] = {
    {Role::embedding, "backbone.embeddings.weight", "token_embd.weight"},
    {Role::final_norm, "backbone.norm_f.weight", "output_norm.weight"},
    {Role::head, "lm_head.weight", "output.weight", Presence::optional},
    {Role::attention_norm, "backbone.layers.{}.norm.weight", "blk.{}.attn_norm.weight"},
    {Role::ffn_norm, "backbone.layers.{}.norm.weight", "blk.{}.attn_norm.weight"},
    {Role::q, "backbone.layers.{}.mixer.q_proj.weight", "blk.{}.attn_q.weight"},
    {Role::k, "backbone.layers.{}.mixer.k_proj.weight", "blk.{}.attn_k.weight"},
    {Role::v, "backbone.layers.{}.mixer.v_proj.weight", "blk.{}.attn_v.weight"},
    {Role::o, "backbone.layers.{}.mixer.o_proj.weight", "blk.{}.attn_output.weight"},
    {Role::state_in, "backbone.layers.{}.mixer.in_proj.weight", "blk.{}.ssm_in.weight"},
    {Role::state_out, "backbone.layers.{}.mixer.out_proj.weight", "blk.{}.ssm_out.weight"},
    {Role::state_convolution, "backbone.layers.{}.mixer.conv1d.weight", "blk.{}.ssm_conv1d.weight"},
    {Role::state_convolution_bias, "backbone.layers.{}.mixer.conv1d.bias", "blk.{}.ssm_conv1d.bias"},
    {Role::state_decay, "backbone.layers.{}.mixer.A_log", "blk.{}.ssm_a"},
    {Role::state_decay_bias, "backbone.layers.{}.mixer.dt_bias", "blk.{}.ssm_dt.bias"},
    {Role::state_skip, "backbone.layers.{}.mixer.D", "blk.{}.ssm_d"},
    {Role::state_norm, "backbone.layers.{}.mixer.norm.weight", "blk.{}.ssm_norm.weight"},
};

inline constexpr TensorKey nemotron_h_mlp[] = {
    {Role::up, "backbone.layers.{}.mixer.up_proj.weight", "blk.{}.ffn_up.weight"},
    {Role::down, "backbone.layers.{}.mixer.down_proj.weight", "blk.{}.ffn_down.weight"},
};

inline constexpr TensorKey nemotron_h_experts[] = {
    {Role::up, "backbone.layers.{}.mixer.up_proj.weight", "blk.{}.ffn_up.weight", Presence::required, Layers::dense},
    {Role::down, "backbone.layers.{}.mixer.down_proj.weight", "blk.{}.ffn_down.weight", Presence::required, Layers::dense},
    {Role::up, "backbone.layers.{}.mixer.shared_experts.up_proj.weight", "blk.{}.ffn_up_shexp.weight", Presence::required, Layers::sparse},
    {Role::down, "backbone.layers.{}.mixer.shared_experts.down_proj.weight", "blk.{}.ffn_down_shexp.weight", Presence::required, Layers::sparse},
    {Role::router, "backbone.layers.{}.mixer.gate.weight", "blk.{}.ffn_gate_inp.weight"},
    {Role::selection_bias, "backbone.layers.{}.mixer.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
    {Role::latent_down, "backbone.layers.{}.mixer.fc1_latent_proj.weight", "blk.{}.ffn_latent_down.weight"},
    {Role::latent_up, "backbone.layers.{}.mixer.fc2_latent_proj.weight", "blk.{}.ffn_latent_up.weight"},
    {Role::expert_up, "backbone.layers.{}.mixer.experts.{e}.up_proj.weight", "blk.{}.ffn_up_exps.weight"},
    {Role::expert_down, "backbone.layers.{}.mixer.experts.{e}.down_proj.weight", "blk.{}.ffn_down_exps.weight"},
};
inline constexpr auto nemotron_h_dense_tensors = joined(nemotron_h_tensors, nemotron_h_mlp);
inline constexpr auto nemotron_h_moe_tensors = joined(nemotron_h_tensors, nemotron_h_experts);

inline constexpr ArchSpec nemotron_h{
    .name = "nemotron_h",
    .hf_class = "NemotronHForCausalLM",
    .paper = "arXiv:2504.03624, arXiv:2508.14444",
    .recurrent = MixerKind::state_space,
    .single_halves = true,
    .zero_heads = true,
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::relu2,
    .no_rope_step = 1,
    .config = llama_config,
    .tensors = nemotron_h_dense_tensors,
    .more_config = nemotron_h_config,
};

inline constexpr ArchSpec nemotron_h_moe{
    .name = "nemotron_h",
    .hf_class = "NemotronHForCausalLM",
    .paper = "https://research.nvidia.com/labs/nemotron/Nemotron-3",
    .gguf = "nemotron_h_moe",
    .recurrent = MixerKind::state_space,
    .single_halves = true,
    .zero_heads = true,
    .router = {.score = nn::RouterScore::sigmoid, .renormalize = true},
    .default_norm_eps = 1e-5,
    .gate = ops::Gate::relu2,
    .no_rope_step = 1,
    .config = llama_config,
    .tensors = nemotron_h_moe_tensors,
    .more_config = nemotron_h_moe_config,
};

}  // namespace bantam::inline v0::archs
