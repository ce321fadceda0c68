"""Tiny random models that chat: a dense one, one with windows, one with recurrent states; with tokens for turns, thoughts and calls, and a
template that writes calls in its own way and leaves out the thoughts of earlier turns, as Qwen's do."""
import json
from pathlib import Path

import numpy as np
import tensor_file

KINDS = ["dense", "windowed", "recurrent"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]
# Few, so that a text may be cut in several ways.
MERGES = ["t h", "h e", "th e", "i n", "a n", "an d", "e r", "o n"]
TEMPLATE = """{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == "user" %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == "assistant" %}
{%- if m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content.strip() }}
</think>

{% endif %}{{ (m.content or "").strip() }}
{%- for c in m.tool_calls or [] %}
<tool_call>
{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}
{%- else %}{{ m.content }}{% endif %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def letters():
    """The characters that stand for bytes in vocabularies of GPT-2's kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


PIECES = [*SPECIAL, *letters(), *(m.replace(" ", "") for m in MERGES)]


def write_tokenizer(folder, ends=()):
    """`ends`: more special tokens, in the place of bytes that no text has."""
    pieces = list(PIECES)
    first = pieces.index(letters()[0xF5])
    pieces[first: first + len(ends)] = ends
    special = {**{text: i < 3 for i, text in enumerate(SPECIAL)}, **{text: True for text in ends}}
    added = [{"id": pieces.index(text), "content": text, "special": kind, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False} for text, kind in special.items()]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": MERGES}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": TEMPLATE}))


def write_chat_model(folder, kind, seed=1, ends=()):
    folder = Path(folder)
    folder.mkdir()
    random = np.random.default_rng(seed)
    dim, layers, heads, kv_heads, head_dim, ffn, vocab = 64, 4, 4, 2, 16, 96, len(PIECES)
    weights = {}

    def add(name, *shape, mean=0.0, spread=0.2):
        weights[name] = (mean + spread * random.normal(size=shape)).astype("<f4")

    def norm(name, size=dim, mean=1.0):
        add(name + ".weight", size, mean=mean, spread=0.1)

    # Those that are stored less one.
    one = 1.0 if kind == "dense" else 0.0
    add("model.embed_tokens.weight", vocab, dim, spread=0.6)
    for i in range(layers):
        layer = f"model.layers.{i}."
        norm(layer + "input_layernorm", mean=one)
        norm(layer + "post_attention_layernorm", mean=one)
        if kind == "windowed":
            norm(layer + "pre_feedforward_layernorm", mean=one)
            norm(layer + "post_feedforward_layernorm", mean=one)
        for name, rows, columns in [("gate_proj", ffn, dim), ("up_proj", ffn, dim), ("down_proj", dim, ffn)]:
            add(f"{layer}mlp.{name}.weight", rows, columns)
        if kind == "recurrent" and i != layers - 1:
            keys, values, width = 2, 4, 16
            net = layer + "linear_attn."
            for name, rows in [("in_proj_qkv", (2 * keys + values) * width), ("in_proj_z", values * width), ("in_proj_a", values), ("in_proj_b", values)]:
                add(f"{net}{name}.weight", rows, dim)
            add(net + "out_proj.weight", dim, values * width)
            add(net + "conv1d.weight", (2 * keys + values) * width, 1, 4)
            add(net + "A_log", values)
            add(net + "dt_bias", values)
            norm(net + "norm", width)
            continue
        attention = layer + "self_attn."
        gates = 2 if kind == "recurrent" else 1
        for name, rows in [("q_proj", gates * heads * head_dim), ("k_proj", kv_heads * head_dim), ("v_proj", kv_heads * head_dim)]:
            add(f"{attention}{name}.weight", rows, dim)
        add(attention + "o_proj.weight", dim, heads * head_dim)
        if kind != "dense":
            norm(attention + "q_norm", head_dim, mean=one)
            norm(attention + "k_norm", head_dim, mean=one)
    norm("model.norm", mean=one)
    config = {"hidden_size": dim, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": ffn,
              "vocab_size": vocab, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "eos_token_id": 2}
    if kind == "dense":
        config |= {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": True}
    elif kind == "windowed":
        config |= {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "sliding_window": 24,
                   "sliding_window_pattern": 2, "query_pre_attn_scalar": head_dim, "rope_local_base_freq": 10000.0}
    else:
        config |= {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_act": "silu", "tie_word_embeddings": True, "full_attention_interval": 4,
                   "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_num_value_heads": 4, "linear_value_head_dim": 16,
                   "partial_rotary_factor": 0.5}
    (folder / "config.json").write_text(json.dumps(config))
    tensor_file.write(folder / "model.safetensors", weights)
    write_tokenizer(folder, ends)
    return folder
