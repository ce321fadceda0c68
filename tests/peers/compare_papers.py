"""Random models of the architectures that llama.cpp does not run give the probabilities that NumPy computes in double precision, written from
the papers and from nothing of this project: GPT-J (rotary position embedding: arXiv:2104.09864), GPT-Neo (github.com/EleutherAI/gpt-neo), OPT (arXiv:2205.01068), Falcon-RW (linear
biases: arXiv:2108.12409), Phi-3.5-MoE (arXiv:2404.14219; its router as transformers' modeling_phimoe has it at inference), BART (arXiv:1910.13461)
and mBART (arXiv:2001.08210); and T5 (arXiv:1910.10683).

usage: compare_papers.py BANTAM WRITE_TINY_MODELS
Exits with 77 (skipped), saying why, where NumPy is absent.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian's python3-numpy)")
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import tensor_file  # noqa: E402

SEEDS = ["1", "2", "3"]
TOKENS = 96
VOCABULARY = 30
# Of log probabilities: f32 sums of 128 products, in three layers.
TOLERANCE = 1e-4


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


def gpt_neo(config, w, ids):
    heads, places = config["num_heads"], np.arange(len(ids))
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][places]
    split = lambda y: y.reshape(len(ids), heads, -1)
    far = places[:, None] - places[None, :] >= config["window_size"]
    for i, kind in enumerate(config["attention_layers"]):
        at = f"transformer.h.{i}."
        h = layer_norm(x, w, at + "ln_1")
        q, k, v = (split(linear(h, w, at + f"attn.attention.{name}_proj")) for name in "qkv")
        # attention() divides scores by sqrt(d); here they are not scaled.
        attended = attention(q * math.sqrt(q.shape[-1]), k, v, np.where(far, -np.inf, 0) if kind == "local" else 0)
        x = x + linear(attended, w, at + "attn.attention.out_proj")
        x = x + linear(gelu_tanh(linear(layer_norm(x, w, at + "ln_2"), w, at + "mlp.c_fc")), w, at + "mlp.c_proj")
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


def attend(x, source, w, at, names, heads, scale, biases, causal):
    """Multi-head attention of x to `source` (arXiv:1706.03762, 3.2); biases: (heads, tokens of x, tokens of source)."""
    q, k, v = (linear(y, w, at + name).reshape(len(y), heads, -1) for y, name in zip((x, source, source), names))
    scores = np.einsum("ihd,jhd->hij", q, k) * scale + biases
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return linear(np.einsum("hij,jhd->ihd", weights, v).reshape(len(x), -1), w, at + names[3])


def bart(config, w, source, ids):
    heads, before = config["encoder_attention_heads"], config["model_type"] == "mbart"
    scale = math.sqrt(heads / config["d_model"])
    names = ["q_proj", "k_proj", "v_proj", "out_proj"]

    def stack(side, ids, made):
        x = w["model.shared.weight"][ids] * (math.sqrt(config["d_model"]) if before else 1) + w[f"model.{side}.embed_positions.weight"][np.arange(len(ids)) + 2]
        x = layer_norm(x, w, f"model.{side}.layernorm_embedding")
        for i in range(config[f"{side}_layers"]):
            at = f"model.{side}.layers.{i}."

            def part(x, name, f):
                return x + f(layer_norm(x, w, at + name)) if before else layer_norm(x + f(x), w, at + name)

            x = part(x, "self_attn_layer_norm", lambda y: attend(y, y, w, at + "self_attn.", names, heads, scale, 0, side == "decoder"))
            if made is not None:
                x = part(x, "encoder_attn_layer_norm", lambda y: attend(y, made, w, at + "encoder_attn.", names, heads, scale, 0, False))
            x = part(x, "final_layer_norm", lambda y: linear(gelu_erf(linear(y, w, at + "fc1")), w, at + "fc2"))
        return layer_norm(x, w, f"model.{side}.layer_norm") if before else x

    return stack("decoder", ids, stack("encoder", source, None)) @ w.get("lm_head.weight", w["model.shared.weight"]).T + w.get("final_logits_bias", 0)


def t5_bucket(distance, both_sides, buckets, farthest):
    """2.1 of the paper, as its code has it: half of the buckets are of one distance, the others grow with its logarithm."""
    first = 0
    if both_sides:
        buckets //= 2
        first, distance = (buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(0, -distance)
    single = buckets // 2
    if distance < single:
        return first + distance
    return first + min(buckets - 1, single + int(math.log(distance / single) / math.log(farthest / single) * (buckets - single) + 1e-9))


def t5(config, w, source, ids):
    heads = config["num_heads"]
    gated = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" in w
    norm = lambda x, name: x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + config["layer_norm_epsilon"]) * w[name + ".weight"]

    def stack(side, ids, made):
        x = w["shared.weight"][ids]
        for i in range(config["num_layers" if side == "encoder" else "num_decoder_layers"]):
            at = f"{side}.block.{i}.layer."
            table = w.get(at + "0.SelfAttention.relative_attention_bias.weight", w[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"])
            bucket = lambda q, k: t5_bucket(k - q, side == "encoder", config["relative_attention_num_buckets"], config["relative_attention_max_distance"])
            biases = np.array([[table[bucket(q, k)] for k in range(len(ids))] for q in range(len(ids))]).transpose(2, 0, 1)
            h = norm(x, at + "0.layer_norm")
            x = x + attend(h, h, w, at + "0.SelfAttention.", "qkvo", heads, 1, biases, side == "decoder")
            if made is not None:
                x = x + attend(norm(x, at + "1.layer_norm"), made, w, at + "1.EncDecAttention.", "qkvo", heads, 1, 0, False)
            last = at + ("1." if made is None else "2.")
            h = norm(x, last + "layer_norm")
            last += "DenseReluDense."
            h = gelu_tanh(linear(h, w, last + "wi_0")) * linear(h, w, last + "wi_1") if gated else np.maximum(linear(h, w, last + "wi"), 0)
            x = x + linear(h, w, last + "wo")
        return norm(x, f"{side}.final_layer_norm")

    x = stack("decoder", ids, stack("encoder", source, None))
    return linear(x, w, "lm_head") if "lm_head.weight" in w else x @ w["shared.weight"].T / math.sqrt(config["d_model"])


ENCODER_DECODERS = {"bart-": bart, "mbart-": bart, "t5-": t5, "t5_2-": t5, "umt5-": t5}
MODELS = {"phimoe-": phi_moe, "gptj-": gpt_j, "gpt_neo-": gpt_neo, "opt-": opt, "falcon_3-": falcon_rw}


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
        models = {**MODELS, **ENCODER_DECODERS}
        for name in run([writer, folder, ",".join(SEEDS), *models]).split():
            model = next(model for beginning, model in models.items() if name.startswith(beginning))
            path = pathlib.Path(folder) / name
            config, tensors = json.loads((path / "config.json").read_text()), {name: array.astype(np.float64) for name, array in tensor_file.read_arrays(path / "model.safetensors").items()}
            if model in ENCODER_DECODERS.values():
                read = ids + ids[1:60]  # longer than what the decoder answers
                logits = model(config, tensors, read, [config["decoder_start_token_id"], *ids[:-1]])
                asked = ["--ids", json.dumps(read), "--decoder-ids", json.dumps(ids[:-1])]
            else:
                logits = model(config, tensors, ids)
                asked = ["--ids", json.dumps(ids)]
            expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
            gguf = path.with_suffix(".gguf")
            run([bantam, "compress", path, "-o", gguf, "--to", "gguf", "--format", "f32"])
            for source in (path, gguf):
                positions = json.loads(run([bantam, "logits", source, *asked, "--top", VOCABULARY, "--all-positions", "--kv", "f32", "--json"]))["positions"]
                worst = max(abs(entry["logprob"] - expected[t][entry["id"]]) for t, position in enumerate(positions) for entry in position["top"])
                verdict = "agrees" if worst < TOLERANCE and len(positions) == TOKENS else "DIFFERS"
                failures += verdict == "DIFFERS"
                compared += 1
                print(f"{source.name}: {verdict}, log probabilities at most {worst:.6f} apart over {len(positions)} tokens")
    sys.exit(1 if failures or compared != 2 * len(models) * len(SEEDS) else 0)


if __name__ == "__main__":
    main()
