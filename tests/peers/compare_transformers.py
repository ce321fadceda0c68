"""Folders of small random models that Hugging Face's transformers (5 or later, with torch) writes give here the probabilities that it computes:
every causal family that both know, with the variants of each that published models have.

usage: compare_transformers.py BANTAM [FAMILY...]
Exits with 77 (skipped), saying why, where transformers is absent: Debian has no package of it.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
try:
    import torch
    import transformers
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    transformers.utils.logging.disable_progress_bar()
    if int(transformers.__version__.split(".")[0]) < 5:
        raise ImportError
except ImportError:
    print("skipped: transformers 5 with torch is not installed")
    sys.exit(77)

VOCABULARY, TOKENS = 128, 48
# Of log probabilities: f32 sums in four layers; more where states decay over chunks.
TOLERANCE = 5e-4

WIDTHS = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=4, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA = dict(WIDTHS, num_attention_heads=4, num_key_value_heads=2, head_dim=16)
DERIVED = {name: value for name, value in LLAMA.items() if name != "head_dim"}  # classes that know no other head than hidden_size / heads
GPT2 = dict(vocab_size=VOCABULARY, n_embd=64, n_layer=4, n_head=4, n_positions=256)
FALCON = dict(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, bos_token_id=1, eos_token_id=2, bias=False, alibi=False)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32)
QWEN_EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
LOCAL_EXPERTS = dict(num_local_experts=8, num_experts_per_tok=2)
ROUTED_EXPERTS = dict(n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=1, first_k_dense_replace=1)
GROUPS = dict(n_group=4, topk_group=2, routed_scaling_factor=1.5)
NO_GROUPS = dict(n_group=1, topk_group=1)
LATENT = dict(WIDTHS, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=8, v_head_dim=32)
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4,
             layer_types=["linear_attention"] * 3 + ["full_attention"])
MAMBA_LAYERS = dict(layer_types=["mamba", "attention"] * 2, mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16, mamba_n_groups=1, mamba_expand=2, mamba_chunk_size=16,
                    shared_intermediate_size=48)
NEMOTRON = dict(LLAMA, mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=16, n_groups=2, conv_kernel=4, chunk_size=16, time_step_min=1e-9)
GRANITE = dict(embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22, attention_multiplier=0.1)
GEMMA4 = dict(LLAMA, sliding_window=8, global_head_dim=32, vocab_size_per_layer_input=VOCABULARY)
LONGROPE = dict(rope_type="longrope", long_factor=[1 + 0.3 * i for i in range(8)], short_factor=[1 + 0.05 * i for i in range(8)])

# Not Kimi Linear: transformers 5.17 calls the MLP of its dense layer by the name of experts, as no published folder does.
# config.json's numbers, by model_type, and after a colon what is particular.
FAMILIES = {
    "llama": LLAMA,
    "llama:tied": dict(LLAMA, tie_word_embeddings=True),
    "llama:llama3": dict(LLAMA, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    "llama:yarn": dict(LLAMA, rope_scaling=YARN),
    "llama:yarn, an attention factor": dict(LLAMA, rope_scaling=dict(YARN, attention_factor=0.8, beta_fast=16, beta_slow=2)),
    "llama:yarn, DeepSeek's scales": dict(LLAMA, rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=1.1, truncate=False)),
    "llama:linear": dict(LLAMA, rope_scaling=dict(rope_type="linear", factor=4.0)),
    "llama:dynamic": dict(LLAMA, rope_scaling=dict(rope_type="dynamic", factor=4.0)),
    "llama:wide heads": dict(LLAMA, head_dim=32, rope_theta=12345.0, rms_norm_eps=1e-3),
    "llama:biases": dict(LLAMA, attention_bias=True, mlp_bias=True),
    "apertus": LLAMA,
    "bitnet": LLAMA,
    "helium": LLAMA,
    "cwm": dict(LLAMA, sliding_window=8),
    "mistral": dict(LLAMA, sliding_window=8),
    "ministral": dict(LLAMA, sliding_window=8),
    "qwen2": DERIVED,
    "qwen2:windows": dict(DERIVED, use_sliding_window=True, sliding_window=8, max_window_layers=2),
    "qwen3": LLAMA,
    "mixtral": dict(LLAMA, **LOCAL_EXPERTS, sliding_window=8),
    "qwen2_moe": dict(DERIVED, **QWEN_EXPERTS, shared_expert_intermediate_size=48, decoder_sparse_step=2, mlp_only_layers=[3]),
    "qwen3_moe": dict(LLAMA, **QWEN_EXPERTS, norm_topk_prob=True),
    "qwen3_moe:some dense": dict(LLAMA, **QWEN_EXPERTS, decoder_sparse_step=2, mlp_only_layers=[1]),
    "olmoe": dict(DERIVED, **QWEN_EXPERTS, norm_topk_prob=True),
    "glm": dict(LLAMA, partial_rotary_factor=0.5),
    "glm4": dict(LLAMA, partial_rotary_factor=0.5),
    "glm4_moe": dict(LLAMA, **ROUTED_EXPERTS, n_group=2, topk_group=1, routed_scaling_factor=1.5, partial_rotary_factor=0.5, use_qk_norm=True, attention_bias=True),
    "afmoe": dict(LLAMA, **QWEN_EXPERTS, num_shared_experts=1, num_dense_layers=1, sliding_window=8, mup_enabled=True, route_scale=1.5),
    "mellum": dict(LLAMA, **QWEN_EXPERTS, sliding_window=8, layer_types=["sliding_attention"] * 3 + ["full_attention"]),
    "dots1": dict(LLAMA, **ROUTED_EXPERTS, **NO_GROUPS),
    "solar_open": dict(LLAMA, **ROUTED_EXPERTS, **NO_GROUPS, routed_scaling_factor=1.5),
    "exaone_moe": dict(LLAMA, **QWEN_EXPERTS, num_shared_experts=1, sliding_window=8),
    "laguna": dict(LLAMA, **QWEN_EXPERTS, sliding_window=8, layer_types=["full_attention"] + ["sliding_attention"] * 3, num_attention_heads_per_layer=[2, 4, 4, 4], shared_expert_intermediate_size=48),
    "mimo_v2_flash": dict(LLAMA, **{name: value for name, value in ROUTED_EXPERTS.items() if name not in ("n_shared_experts", "first_k_dense_replace")}, **NO_GROUPS, v_head_dim=8, sliding_window=8,
                          layer_types=["full_attention"] + ["sliding_attention"] * 3, attention_value_scale=0.707),
    "hy_v3": dict(LLAMA, **QWEN_EXPERTS, num_shared_experts=1),
    "minimax_m2": dict(LLAMA, **LOCAL_EXPERTS, rope_parameters=dict(rope_type="default", rope_theta=5e6, partial_rotary_factor=0.5)),
    "ernie4_5": LLAMA,
    "ernie4_5_moe": dict(DERIVED, moe_num_experts=8, moe_k=2, moe_intermediate_size=32, moe_num_shared_experts=1, moe_layer_start_index=1, moe_layer_end_index=3),
    "gpt_oss": dict(LLAMA, **LOCAL_EXPERTS, sliding_window=8, layer_types=["sliding_attention", "full_attention"] * 2),
    "hunyuan_v1_dense": LLAMA,
    "hunyuan_v1_moe": dict(LLAMA, num_experts=8, moe_topk=2, moe_intermediate_size=96, use_mixed_mlp_moe=True, num_shared_expert=1),
    "deepseek_v2": dict(LATENT, **ROUTED_EXPERTS, **GROUPS, topk_method="group_limited_greedy"),
    "deepseek_v2:lite": dict(LATENT, **ROUTED_EXPERTS, **NO_GROUPS, q_lora_rank=None, topk_method="greedy", rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=0.7)),
    "deepseek_v3": dict(LATENT, **ROUTED_EXPERTS, **GROUPS),
    "deepseek_v3:yarn": dict(LATENT, **ROUTED_EXPERTS, **NO_GROUPS, rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=1.0)),
    "deepseek_v32": dict(LATENT, **ROUTED_EXPERTS, **NO_GROUPS, index_topk=64, index_n_heads=4, index_head_dim=16),
    "glm_moe_dsa": dict(LATENT, **ROUTED_EXPERTS, **NO_GROUPS, index_topk=64, index_n_heads=4, index_head_dim=16),
    "mistral4": dict(LATENT, **ROUTED_EXPERTS, **NO_GROUPS),
    "youtu": LATENT,
    "glm4_moe_lite": dict(LATENT, **ROUTED_EXPERTS, **NO_GROUPS),
    "granite": dict(DERIVED, **GRANITE),
    "hyperclovax": dict(DERIVED, **GRANITE, use_post_norm=True),
    "granitemoe": dict(DERIVED, **LOCAL_EXPERTS, **GRANITE),
    "granitemoeshared": dict(DERIVED, **LOCAL_EXPERTS, **GRANITE, shared_intermediate_size=48),
    "granite_swa": dict(LLAMA, **GRANITE, sliding_window=8, layer_rope_theta=[0.0, 10000.0, 500.0, 10000.0]),
    "granitemoe_swa": dict(LLAMA, **LOCAL_EXPERTS, **GRANITE, sliding_window=8, shared_intermediate_size=48),
    "granitemoehybrid": dict(DERIVED, **MAMBA_LAYERS, **LOCAL_EXPERTS, position_embedding_type="nope"),
    "granitemoehybrid:dense": dict(DERIVED, **MAMBA_LAYERS, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="nope"),
    "smollm3": dict(LLAMA, no_rope_layers=[1, 1, 1, 0]),
    "olmo": DERIVED,
    "olmo:clipped": dict(DERIVED, clip_qkv=1.0),
    "olmo2": LLAMA,
    "flex_olmo": dict(LLAMA, num_experts=8, num_experts_per_tok=2),
    "olmo3": dict(LLAMA, sliding_window=8),
    "starcoder2": LLAMA,
    "cohere": dict(DERIVED, logit_scale=0.25),
    "cohere2_moe": dict(LLAMA, num_experts=8, num_experts_per_tok=2, num_shared_experts=2, sliding_window=8),
    "cohere:norms": dict(DERIVED, logit_scale=0.25, use_qk_norm=True),
    "cohere2": dict(LLAMA, sliding_window=8),
    "seed_oss": dict(LLAMA, attention_bias=True),
    "exaone4": dict(DERIVED, sliding_window=8, sliding_window_pattern=4),
    "exaone4:no windows": dict(DERIVED, sliding_window=None, layer_types=["full_attention"] * 4),
    "arcee": LLAMA,
    "jais2": LLAMA,
    "nemotron": dict(DERIVED, partial_rotary_factor=0.5),
    "ministral3": dict(LLAMA, sliding_window=None),
    "phi": dict(DERIVED, partial_rotary_factor=0.5),
    "phi3": dict(DERIVED, sliding_window=8),
    "phi3:longrope": dict(DERIVED, sliding_window=None, rope_scaling=LONGROPE, original_max_position_embeddings=32),
    "phimoe": dict(DERIVED, **LOCAL_EXPERTS, attention_bias=True, lm_head_bias=True, sliding_window=None),
    "stablelm": dict(DERIVED, partial_rotary_factor=0.25, use_qkv_bias=True),
    "gpt_neox": dict(WIDTHS, num_attention_heads=4, rotary_pct=0.25),
    "gpt_neox:halves in turn": dict(WIDTHS, num_attention_heads=4, use_parallel_residual=False),
    "gpt2": GPT2,
    "gpt_bigcode": dict(GPT2, multi_query=True),
    "gpt_neo": dict(vocab_size=VOCABULARY, hidden_size=64, num_layers=4, num_heads=4, max_position_embeddings=256, window_size=8, attention_types=[[["global", "local"], 2]], bos_token_id=1, eos_token_id=2),
    "gptj": dict(GPT2, rotary_dim=8),
    "falcon:7B": dict(FALCON, multi_query=True, parallel_attn=True),
    "falcon:40B": dict(FALCON, num_kv_heads=2, new_decoder_architecture=True),
    "falcon:11B": dict(FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1),
    "bloom": dict(vocab_size=VOCABULARY, hidden_size=64, n_layer=4, n_head=4),
    "opt": dict(vocab_size=VOCABULARY, hidden_size=64, ffn_dim=96, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=256, word_embed_proj_dim=64),
    "llama4_text": dict(LLAMA, num_local_experts=4, num_experts_per_tok=1, intermediate_size_mlp=80, interleave_moe_layer_step=2, attention_chunk_size=16,
                        no_rope_layers=[1, 1, 1, 0], use_qk_norm=True),
    "gemma": LLAMA,
    "gemma2": dict(LLAMA, sliding_window=8, query_pre_attn_scalar=24),
    "vaultgemma": dict(LLAMA, sliding_window=8, query_pre_attn_scalar=24),
    "gemma3_text": dict(LLAMA, sliding_window=8, num_hidden_layers=7, query_pre_attn_scalar=24),
    "gemma4_text": dict(GEMMA4, num_hidden_layers=12, hidden_size_per_layer_input=16, num_kv_shared_layers=6, use_double_wide_mlp=True),
    "gemma4_text:31B": dict(GEMMA4, num_hidden_layers=6, hidden_size_per_layer_input=0, num_kv_shared_layers=0, attention_k_eq_v=True, num_global_key_value_heads=1),
    "gemma4_text:26B-A4B": dict(GEMMA4, num_hidden_layers=6, hidden_size_per_layer_input=0, num_kv_shared_layers=0, attention_k_eq_v=True, enable_moe_block=True,
                                num_experts=8, top_k_experts=2, moe_intermediate_size=32),
    "gemma4_unified_text": LLAMA,
    "qwen3_5_text": dict(LLAMA, **DELTA, partial_rotary_factor=0.5),
    "qwen3_5_moe_text": dict(LLAMA, **DELTA, **QWEN_EXPERTS, shared_expert_intermediate_size=48),
    "qwen3_next": dict(LLAMA, **DELTA, **QWEN_EXPERTS, shared_expert_intermediate_size=48, partial_rotary_factor=0.5),
    "lfm2": dict(LLAMA, layer_types=["conv", "full_attention"] * 2, conv_L_cache=3),
    "lfm2_moe": dict(LLAMA, **QWEN_EXPERTS, layer_types=["conv", "full_attention"] * 2, num_dense_layers=1, use_expert_bias=True, norm_topk_prob=True),
    "mamba2": dict(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=4, num_heads=8, head_dim=16, state_size=16, n_groups=1, expand=2, chunk_size=16),
    "nemotron_h": dict(NEMOTRON, hybrid_override_pattern="M-M*"),
    "nemotron_h:latent experts": dict(NEMOTRON, hybrid_override_pattern="MEM*E", n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
                                      moe_shared_expert_intermediate_size=48, n_shared_experts=1, moe_latent_size=32, **NO_GROUPS),
    "falcon_h1": dict(LLAMA, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=16, mamba_chunk_size=16, mamba_expand=1,
                      embedding_multiplier=2.0, lm_head_multiplier=0.5, key_multiplier=0.7, attention_out_multiplier=1.1, ssm_in_multiplier=0.8,
                      ssm_multipliers=[0.5, 0.6, 0.7, 0.8, 0.9], mlp_multipliers=[0.8, 1.3]),
    "falcon_h1:norms": dict(LLAMA, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_chunk_size=16, mamba_expand=1,
                            mamba_rms_norm=True, mamba_norm_before_gate=False),
}


def randomize(model):
    """Weights that keep numbers near 1, and norms, biases and decays that are not what they begin with."""
    source = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=source)
            if weight.dim() == 1 or "A_log" in name:
                weight.add_(0.1 * noise)
            else:
                weight.copy_(noise * (0.4 if "conv" in name and weight.dim() == 3 else 1 / math.sqrt(max(weight.shape[-1], 48))))
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "expert_bias")):
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=source))
            elif name.endswith("layer_scalar"):
                buffer.copy_(0.6 + 0.5 * torch.rand(buffer.shape, generator=source))
    model.tie_weights()


def write_tokenizer(folder):
    """Words in the place of ids: folders that a model alone was saved to have no vocabulary."""
    model = dict(type="WordLevel", vocab={f"t{i}": i for i in range(VOCABULARY)}, unk_token="t0")
    (folder / "tokenizer.json").write_text(json.dumps(dict(version="1.0", added_tokens=[], normalizer=None, pre_tokenizer=dict(type="WhitespaceSplit"), post_processor=None,
                                                           decoder=None, model=model)))


def compare(bantam, name, folder):
    """How far log probabilities are apart at most, or what went wrong."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[name.split(":")[0]](**FAMILIES[name]), attn_implementation="eager").float().eval()
    randomize(model)
    ids = [(7 * i * i + 3 * i + 11) % 120 + 4 for i in range(TOKENS)]
    with torch.no_grad():
        expected = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0].double(), -1)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    result = subprocess.run([bantam, "logits", folder, "--ids", json.dumps(ids), "--all-positions", "--top", str(VOCABULARY), "--json"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None, result.stderr.strip()
    positions = json.loads(result.stdout)["positions"]
    return max(abs(entry["logprob"] - expected[t][entry["id"]].item()) for t, position in enumerate(positions) for entry in position["top"]), ""


def main():
    bantam, *wanted = sys.argv[1:]
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    failures = 0
    for name in FAMILIES:
        if wanted and name not in wanted and name.split(":")[0] not in wanted:
            continue
        if name.split(":")[0] not in CONFIG_MAPPING:
            print(f"{name}: not in this transformers")
            continue
        with tempfile.TemporaryDirectory() as folder:
            worst, trouble = compare(bantam, name, pathlib.Path(folder))
        agrees = worst is not None and worst < TOLERANCE
        failures += not agrees
        print(f"{name}: {'agrees' if agrees else 'DIFFERS'}, {trouble or f'log probabilities at most {worst:.1e} apart over {TOKENS} tokens'}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
