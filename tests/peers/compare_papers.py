"""Random models of the architectures that llama.cpp does not run give the probabilities that NumPy computes in double precision, written from
the papers and from nothing of this project: GPT-J (rotary position embedding: arXiv:2104.09864), OPT (arXiv:2205.01068), Falcon-RW (linear
biases: arXiv:2108.12409) and Phi-3.5-MoE (arXiv:2404.14219; its router as transformers' modeling_phimoe has it at inference).

usage: compare_papers.py BANTAM WRITE_TINY_MODELS
Exits with 77 (skipped), saying why, where NumPy is absent.
"""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian's python3-numpy)")
    sys.exit(77)

SEEDS = ["1", "2", "3"]
TOKENS = 96
VOCABULARY = 30
# Of log probabilities: f32 sums of 128 products, in three layers.
TOLERANCE = 1e-4


def tensors_of(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = np.frombuffer(data[begin:end], dtype=np.float32).reshape(entry["shape"]).astype(np.float64)
    return found


def layer_norm(x, w, name):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)


def attention(q, k, v, biases):
    """softmax(q kT / sqrt(d) + biases + causal mask) v, head by head; q, k, v: (tokens, heads, d); biases: (heads, tokens, tokens)."""
    tokens, heads, d = q.shape
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(d) + biases
    scores = np.where(np.tril(np.ones((tokens, tokens), dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", weights, v).reshape(tokens, heads * d)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def rotate_adjacent(x, width):
    """Equation 34 of arXiv:2104.09864, over the first `width` numbers of each head."""
    tokens = x.shape[0]
    theta = 10000.0 ** (-np.arange(0, width, 2) / width)
    angle = np.repeat(np.outer(np.arange(tokens), theta), 2, axis=1)[:, None, :]
    part = x[:, :, :width]
    turned = np.empty_like(part)
    turned[:, :, 0::2] = -part[:, :, 1::2]
    turned[:, :, 1::2] = part[:, :, 0::2]
    return np.concatenate([part * np.cos(angle) + turned * np.sin(angle), x[:, :, width:]], axis=-1)


def slopes_of(heads):
    """get_slopes of arXiv:2108.12409."""
    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return of_power(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return of_power(closest) + slopes_of(2 * closest)[0::2][: heads - closest]


def gpt_j(config, w, ids):
    heads = config["n_head"]
    x = w["transformer.wte.weight"][ids]
    split = lambda y: y.reshape(len(ids), heads, -1)
    for i in range(config["n_layer"]):
        at = f"transformer.h.{i}."
        h = layer_norm(x, w, at + "ln_1")
        q = rotate_adjacent(split(linear(h, w, at + "attn.q_proj")), config["rotary_dim"])
        k = rotate_adjacent(split(linear(h, w, at + "attn.k_proj")), config["rotary_dim"])
        attended = attention(q, k, split(linear(h, w, at + "attn.v_proj")), 0)
        x = x + linear(attended, w, at + "attn.out_proj") + linear(gelu_tanh(linear(h, w, at + "mlp.fc_in")), w, at + "mlp.fc_out")
    return linear(layer_norm(x, w, "transformer.ln_f"), w, "lm_head")


def opt(config, w, ids):
    heads = config["num_attention_heads"]
    x = w["model.decoder.embed_tokens.weight"][ids] + w["model.decoder.embed_positions.weight"][np.arange(len(ids)) + 2]
    split = lambda y: y.reshape(len(ids), heads, -1)
    for i in range(config["num_hidden_layers"]):
        at = f"model.decoder.layers.{i}."
        h = layer_norm(x, w, at + "self_attn_layer_norm")
        q, k, v = (split(linear(h, w, at + f"self_attn.{name}_proj")) for name in "qkv")
        x = x + linear(attention(q, k, v, 0), w, at + "self_attn.out_proj")
        h = layer_norm(x, w, at + "final_layer_norm")
        x = x + linear(np.maximum(linear(h, w, at + "fc1"), 0), w, at + "fc2")
    return linear(layer_norm(x, w, "model.decoder.final_layer_norm"), w, "lm_head")


def falcon_rw(config, w, ids):
    heads, tokens = config["num_attention_heads"], len(ids)
    distance = np.arange(tokens)[None, :] - np.arange(tokens)[:, None]
    x = w["transformer.word_embeddings.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        at = f"transformer.h.{i}."
        h = layer_norm(x, w, at + "input_layernorm")
        qkv = linear(h, w, at + "self_attention.query_key_value").reshape(tokens, heads, 3, -1)
        # Its class adds the biases before it divides by sqrt(d).
        biases = np.array(slopes_of(heads))[:, None, None] * distance / math.sqrt(qkv.shape[-1])
        x = x + linear(attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], biases), w, at + "self_attention.dense")
        h = layer_norm(x, w, at + "post_attention_layernorm")
        x = x + linear(gelu_erf(linear(h, w, at + "mlp.dense_h_to_4h")), w, at + "mlp.dense_4h_to_h")
    return linear(layer_norm(x, w, "transformer.ln_f"), w, "lm_head")


def rotate_halves(x, base):
    tokens, width = x.shape[0], x.shape[2]
    angle = np.outer(np.arange(tokens), base ** (-np.arange(0, width, 2) / width))[:, None, :]
    first, second = x[:, :, : width // 2], x[:, :, width // 2 :]
    return np.concatenate([first * np.cos(angle) - second * np.sin(angle), second * np.cos(angle) + first * np.sin(angle)], axis=-1)


def mix_sparsely(logits, used, jitter):
    """(expert, weight) of one token."""
    left, chosen = logits.copy(), []
    for _ in range(used):
        best = int(left.argmax())
        far = (left[best] - logits) / np.maximum(np.abs(logits), left[best]) > 2 * jitter
        near = np.exp(np.where(far, -np.inf, left) - left[best])
        chosen.append((best, near[best] / near.sum()))
        left[best] = -np.inf
    return chosen


def phi_moe(config, w, ids):
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    x = w["model.embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = layer_norm(x, w, at + "input_layernorm")
        q = linear(h, w, at + "self_attn.q_proj").reshape(len(ids), heads, -1)
        k, v = (linear(h, w, at + f"self_attn.{name}_proj").reshape(len(ids), groups, -1) for name in "kv")
        k = rotate_halves(k, config["rope_theta"])
        k, v = (np.repeat(y, heads // groups, axis=1) for y in (k, v))
        x = x + linear(attention(rotate_halves(q, config["rope_theta"]), k, v, 0), w, at + "self_attn.o_proj")
        h = layer_norm(x, w, at + "post_attention_layernorm")
        logits = linear(h, w, at + "block_sparse_moe.gate")
        for t in range(len(ids)):
            for expert, weight in mix_sparsely(logits[t], config["num_experts_per_tok"], config["router_jitter_noise"]):
                name = at + f"block_sparse_moe.experts.{expert}."
                gate = linear(h[t], w, name + "w1")
                x[t] += weight * linear(gate / (1 + np.exp(-gate)) * linear(h[t], w, name + "w3"), w, name + "w2")
    return linear(layer_norm(x, w, "model.norm"), w, "lm_head")


MODELS = {"phimoe-": phi_moe, "gptj-": gpt_j, "opt-": opt, "falcon_3-": falcon_rw}


def run(arguments):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))} failed: {result.stderr.strip()}")
    return result.stdout


def main():
    bantam, writer = sys.argv[1], sys.argv[2]
    ids = [1] + [(i * 7 + i * i) % VOCABULARY for i in range(1, TOKENS)]
    failures, compared = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in run([writer, folder, *SEEDS]).split():
            model = next((model for beginning, model in MODELS.items() if name.startswith(beginning)), None)
            if model is None:
                continue
            path = pathlib.Path(folder) / name
            logits = model(json.loads((path / "config.json").read_text()), tensors_of(path / "model.safetensors"), ids)
            expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
            gguf = path.with_suffix(".gguf")
            run([bantam, "compress", path, "-o", gguf, "--to", "gguf", "--format", "f32"])
            for source in (path, gguf):
                positions = json.loads(run([bantam, "logits", source, "--ids", json.dumps(ids), "--top", VOCABULARY, "--all-positions", "--kv", "f32", "--json"]))["positions"]
                worst = max(abs(entry["logprob"] - expected[t][entry["id"]]) for t, position in enumerate(positions) for entry in position["top"])
                verdict = "agrees" if worst < TOLERANCE and len(positions) == TOKENS else "DIFFERS"
                failures += verdict == "DIFFERS"
                compared += 1
                print(f"{source.name}: {verdict}, log probabilities at most {worst:.6f} apart over {len(positions)} tokens")
    sys.exit(1 if failures or compared != 2 * len(MODELS) * len(SEEDS) else 0)


if __name__ == "__main__":
    main()
