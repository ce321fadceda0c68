#!/usr/bin/python3
"""Writes a model of a real shape with random weights, for benchmarks: speed does not depend on what the weights are.

Weights are drawn so that activations stay finite (root mean square about 1 / sqrt(inputs)), tensor by tensor in bounded
memory: the model may be larger than the machine. The vocabulary is made up, of the shape's size. Quantized files hold
random blocks; embeddings and output are of the same type as the rest. The same seed gives the same file.

  generate_model.py 1b-q4_0.gguf --shape llama-3.2-1b --type q4_0
  generate_model.py 8b-slice.gguf --shape llama-3.1-8b --layers 4 --type q8_0
  generate_model.py smollm --shape smollm-360m --format hf --type bf16
  generate_model.py tiny.gguf --dim 256 --layers 2 --ffn 768 --heads 4 --kv-heads 2 --vocab 4096 --vocab-type spm
"""

import argparse
import json
import math
import shutil
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "peers"))
import gguf_file  # noqa: E402
from generated_vocabulary import Vocabulary  # noqa: E402


@dataclass(frozen=True)
class Shape:
    """The numbers of a Llama-like model, as its config.json has them."""

    dim: int
    layers: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int = 2048
    tied: bool = False
    arch: str = "llama"  # GGUF's name: see HF_CLASSES
    eps: float = 1e-5
    rope_base: float = 10000.0
    vocab_type: str = "gpt2"
    pre: str = "llama-bpe"
    add_bos: bool = True
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0    # of the expert that all tokens go to
    dense_layers: int = 0  # before the first that has experts
    rope_dim: int = 0      # of each head; 0: all

    window: int = 0        # of every other layer, of Gemma 3n's four of five
    streams: int = 0       # residual streams, of Gemma 3n
    per_layer: int = 0     # width of its per-layer embeddings
    laurel: int = 0        # rank of the branch beside its attention
    shared_layers: int = 0  # at its end, that read the keys and values of others
    sparse_layers: int = 0  # at its beginning, with one gate in twenty left

    @property
    def has_head_norms(self):
        return self.arch in ("qwen3moe", "gemma3n")

    @property
    def has_biases(self):
        return self.arch in ("qwen2", "glm4moe", "gpt-oss")


# The class in Hugging Face's config.json, its model_type, what it calls numbers of experts, and its shared expert.
HF_CLASSES = {
    "llama": ("LlamaForCausalLM", "llama", "", ""),
    "qwen2": ("Qwen2ForCausalLM", "qwen2", "", ""),
    "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe", "num_experts", ""),
    "glm4moe": ("Glm4MoeForCausalLM", "glm4_moe", "n_routed_experts", "shared_experts"),
    "gpt-oss": ("GptOssForCausalLM", "gpt_oss", "num_local_experts", ""),
}

SHAPES = {
    "llama-3.2-1b": Shape(2048, 16, 8192, 32, 8, 64, 128256, 131072, tied=True, rope_base=500000.0),
    "llama-3.1-8b": Shape(4096, 32, 14336, 32, 8, 128, 128256, 131072, rope_base=500000.0),
    "llama-3.1-70b": Shape(8192, 80, 28672, 64, 8, 128, 128256, 131072, rope_base=500000.0),
    "smollm-360m": Shape(960, 32, 2560, 15, 5, 64, 49152, 2048, tied=True, pre="smollm", add_bos=False),
    "qwen2.5-0.5b": Shape(896, 24, 4864, 14, 2, 64, 151936, 32768, tied=True, arch="qwen2", eps=1e-6,
                          rope_base=1000000.0, pre="qwen2", add_bos=False),
    "qwen3-30b-a3b": Shape(2048, 48, 6144, 32, 4, 128, 151936, 32768, arch="qwen3moe", eps=1e-6, rope_base=1000000.0, pre="qwen2",
                           add_bos=False, experts=128, experts_used=8, expert_ffn=768),
    "gpt-oss-20b": Shape(2880, 24, 2880, 64, 8, 64, 201088, 131072, arch="gpt-oss", rope_base=150000.0, pre="gpt-4o", add_bos=False, experts=32,
                         experts_used=4, expert_ffn=2880, window=128),
    "gemma-3n-e2b": Shape(2048, 30, 8192, 8, 2, 256, 262400, 32768, tied=True, arch="gemma3n", eps=1e-6, rope_base=1000000.0, vocab_type="spm",
                          window=512, streams=4, per_layer=256, laurel=64, shared_layers=10, sparse_layers=10),
    "glm-4.5-air": Shape(4096, 46, 10944, 96, 8, 128, 151552, 131072, arch="glm4moe", rope_base=1000000.0, pre="glm4", add_bos=False,
                         experts=128, experts_used=8, expert_ffn=1408, shared_ffn=1408, dense_layers=1, rope_dim=64),
}

# Bytes drawn at once: large enough for full speed, small enough to be nothing beside a model.
CHUNK = 1 << 24


def random_bytes(rng, count):
    """A writable array of bytes, drawn eight at a time: three times as fast as one at a time."""
    return rng.integers(0, 1 << 64, -(-count // 8), np.uint64).view(np.uint8)[:count]


def random_floats(rng, kind, count, rms):
    """Little-endian floats of either sign whose magnitudes fill two powers of two around rms, made from random bits."""
    bits, mantissa, bias = {"f16": (16, 10, 15), "bf16": (16, 7, 127), "f32": (32, 23, 127)}[kind]
    # Magnitudes 2^e (1 to 4) have a root mean square of 2.4 2^e. The lowest exponent bit is random, hence even.
    exponent = max(round(math.log2(rms / 2.4)) + bias, 2) & ~1
    dtype = np.dtype(f"<u{bits // 8}")
    random_bits = dtype.type(1 << (bits - 1) | 1 << mantissa | (1 << mantissa) - 1)
    while count:
        n = min(count, CHUNK // dtype.itemsize)
        words = random_bytes(rng, n * dtype.itemsize).view(dtype)
        words &= random_bits
        words |= dtype.type(exponent << mantissa)
        yield words
        count -= n


def random_blocks(rng, kind, count, rms):
    """Blocks of quantized weights: random codes under a random f16 scale, of either sign where real files have it."""
    _, _, size = gguf_file.TENSOR_TYPES[kind]
    # Root mean squares of the codes: -8 to 7, and -127 to 127; of q4_K's, less their mean, times scales of 0 to 63.
    # Scales below 6.1e-5 would be subnormal, as real ones are not.
    if kind == "mxfp4":
        # An exponent, under which E2M1 numbers have a root mean square of 2.9.
        exponents = (np.array([126, 127]) + round(math.log2(rms / 2.9))).astype(np.uint8)
        while count:
            n = min(count, CHUNK // size)
            blocks = random_bytes(rng, n * size).reshape(n, size)
            blocks[:, 0] = exponents[blocks[:, 0] & 1]
            yield blocks
            count -= n
        return
    scale = max(rms / {"q4_0": 4.6, "q8_0": 73.6, "q4_K": 4.6 * 36}[kind], 1.25e-4)
    scales = scale * np.linspace(0.5, 1.5, 256)
    if kind == "q4_0":
        # Its codes reach from -8 to 7: with positive scales alone all weights together would lean to one side.
        scales[::2] *= -1
    scales = scales.astype("<f2").view(np.uint8).reshape(256, 2)
    while count:
        n = min(count, CHUNK // size)
        blocks = random_bytes(rng, n * size).reshape(n, size)
        blocks[:, :2] = scales[blocks[:, 0]]
        if kind == "q8_0":
            # Real files hold no -128, and kernels may rely on it.
            codes = blocks[:, 2:].view(np.int8)
            np.maximum(codes, -127, out=codes)
        if kind == "q4_K":
            # The minimums, of 0 to 63 as well, take out the codes' mean of 7.5.
            blocks[:, 2:4] = (blocks[:, :2].copy().view("<f2") * np.float16(7.5)).view(np.uint8)
        yield blocks
        count -= n


def matrix(rng, kind, shape):
    """Random weights (outputs, inputs) in chunks."""
    rms = 1.0 / math.sqrt(shape[-1])
    count = math.prod(shape)
    block = gguf_file.TENSOR_TYPES[kind][1]
    return random_blocks(rng, kind, count // block, rms) if block > 1 else random_floats(rng, kind, count, rms)


def vector(kind, size, value):
    """The same value in a vector: norms are ones."""
    if kind == "bf16":
        return [np.full(size, np.float32(value).view(np.uint32) >> 16, "<u2")]
    return [np.full(size, value, {"f16": "<f2", "f32": "<f4"}[kind])]


def tensors(shape, names, matrix_kind, vector_kind, seed):
    """(name, type, shape, chunks) of all tensors in layer order; names maps GGUF's names to the file's."""
    rng = np.random.Generator(np.random.SFC64(seed))
    result = []

    def add_matrix(name, outputs, inputs, kind=matrix_kind):
        kind = "f16" if inputs % gguf_file.TENSOR_TYPES[kind][1] else kind
        result.append((names(name), kind, (outputs, inputs), matrix(rng, kind, (outputs, inputs))))

    def add_experts(name, outputs, inputs):
        """One tensor of all experts in GGUF, one an expert for Hugging Face."""
        if names is str:
            kind = "mxfp4" if shape.arch == "gpt-oss" else matrix_kind
            kind = "f16" if inputs % gguf_file.TENSOR_TYPES[kind][1] else kind
            extents = (shape.experts, outputs, inputs)
            result.append((name, kind, extents, matrix(rng, kind, extents)))
        for e in range(0 if names is str else shape.experts):
            add_matrix(name.replace("_exps", f"_exps.{e}"), outputs, inputs)

    def add_mlp(block, ending, ffn):
        add_matrix(f"{block}ffn_gate{ending}.weight", ffn, shape.dim)
        add_matrix(f"{block}ffn_up{ending}.weight", ffn, shape.dim)
        add_matrix(f"{block}ffn_down{ending}.weight", shape.dim, ffn)

    def add_streams(block):
        """What a layer of Gemma 3n has beside attention and MLP."""
        for part, outputs, inputs in (("altup_router", shape.streams, shape.dim), ("altup_predict_coef", shape.streams**2, shape.streams),
                                      ("altup_correct_coef", shape.streams, shape.streams), ("laurel_l", shape.laurel, shape.dim), ("laurel_r", shape.dim, shape.laurel)):
            add_matrix(f"{block}{part}.weight", outputs, inputs, vector_kind)
        for part in ("altup_router_norm", "altup_correct_scale", "laurel_post_norm", "post_attention_norm", "post_ffw_norm", "post_norm"):
            add_vector(f"{block}{part}.weight", shape.dim, 1.0)
        add_matrix(block + "inp_gate.weight", shape.per_layer, shape.dim)
        add_matrix(block + "proj.weight", shape.dim, shape.per_layer)

    def add_vector(name, size, value):
        result.append((names(name), vector_kind, (size,), vector(vector_kind, size, value)))

    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    add_matrix("token_embd.weight", shape.vocab, shape.dim)
    if shape.streams:
        add_matrix("per_layer_token_embd.weight", shape.vocab, shape.layers * shape.per_layer)
        add_matrix("per_layer_model_proj.weight", shape.layers * shape.per_layer, shape.dim, "f16")
        add_vector("per_layer_proj_norm.weight", shape.per_layer, 1.0)
        for name in ("altup_proj.weight", "altup_unembd_proj.weight"):
            extents = (shape.streams - 1, shape.dim, shape.dim)
            result.append((name, "f16", extents, matrix(rng, "f16", extents)))
    for i in range(shape.layers):
        block = f"blk.{i}."
        add_vector(block + "attn_norm.weight", shape.dim, 1.0)
        for part, outputs in (("q", queries), ("k", keys), ("v", keys)):
            add_matrix(f"{block}attn_{part}.weight", outputs, shape.dim)
            if shape.has_biases:
                add_vector(f"{block}attn_{part}.bias", outputs, 0.125)
        add_matrix(block + "attn_output.weight", shape.dim, queries)
        if shape.arch == "gpt-oss":
            add_vector(block + "attn_output.bias", shape.dim, 0.125)
            add_vector(block + "attn_sinks.weight", shape.heads, 1.0)
        for part in ("q", "k") if shape.has_head_norms else ():
            add_vector(f"{block}attn_{part}_norm.weight", shape.head_dim, 1.0)
        if shape.streams:
            add_streams(block)
        add_vector(block + ("post_attention_norm" if shape.arch in ("glm4moe", "gpt-oss") else "ffn_norm") + ".weight", shape.dim, 1.0)
        if shape.experts == 0 or i < shape.dense_layers:
            add_mlp(block, "", shape.ffn)
            continue
        add_matrix(block + "ffn_gate_inp.weight", shape.experts, shape.dim, vector_kind)
        if shape.arch == "glm4moe":
            add_vector(block + "exp_probs_b.bias", shape.experts, 0.0)
        add_experts(block + "ffn_gate_exps.weight", shape.expert_ffn, shape.dim)
        add_experts(block + "ffn_up_exps.weight", shape.expert_ffn, shape.dim)
        add_experts(block + "ffn_down_exps.weight", shape.dim, shape.expert_ffn)
        if shape.arch == "gpt-oss":
            add_vector(block + "ffn_gate_inp.bias", shape.experts, 0.0)
            for part, outputs in (("gate", shape.expert_ffn), ("up", shape.expert_ffn), ("down", shape.dim)):
                result.append((f"{block}ffn_{part}_exps.bias", "f32", (shape.experts, outputs), vector("f32", shape.experts * outputs, 0.125)))
        if shape.shared_ffn:
            add_mlp(block, "_shexp", shape.shared_ffn)
    add_vector("output_norm.weight", shape.dim, 1.0)
    if not shape.tied:
        add_matrix("output.weight", shape.vocab, shape.dim)
    return result


def gguf_metadata(shape, kind, name):
    scalar, text, array = gguf_file.scalar, gguf_file.string, gguf_file.array
    vocabulary = Vocabulary(shape.vocab_type, shape.vocab)
    arch = shape.arch
    metadata = {
        "general.architecture": text(arch),
        "general.name": text(name),
        "general.file_type": scalar("u32", gguf_file.FILE_TYPES[kind]),
        "general.quantization_version": scalar("u32", 2),
        f"{arch}.context_length": scalar("u32", shape.context),
        f"{arch}.embedding_length": scalar("u32", shape.dim),
        f"{arch}.block_count": scalar("u32", shape.layers),
        f"{arch}.feed_forward_length": scalar("u32", shape.ffn),
        f"{arch}.attention.head_count": scalar("u32", shape.heads),
        f"{arch}.attention.head_count_kv": scalar("u32", shape.kv_heads),
        f"{arch}.attention.key_length": scalar("u32", shape.head_dim),
        f"{arch}.attention.value_length": scalar("u32", shape.head_dim),
        f"{arch}.attention.layer_norm_rms_epsilon": scalar("f32", shape.eps),
        f"{arch}.rope.dimension_count": scalar("u32", shape.rope_dim or shape.head_dim),
        f"{arch}.rope.freq_base": scalar("f32", shape.rope_base),
        f"{arch}.vocab_size": scalar("u32", shape.vocab),
        "tokenizer.ggml.tokens": array("string", vocabulary.tokens),
        "tokenizer.ggml.token_type": array("i32", vocabulary.gguf_types()),
        "tokenizer.ggml.bos_token_id": scalar("u32", vocabulary.bos),
        "tokenizer.ggml.eos_token_id": scalar("u32", vocabulary.eos),
        "tokenizer.ggml.add_bos_token": scalar("bool", shape.add_bos),
    }
    if shape.experts:
        metadata |= {
            f"{arch}.expert_count": scalar("u32", shape.experts),
            f"{arch}.expert_used_count": scalar("u32", shape.experts_used),
            f"{arch}.expert_feed_forward_length": scalar("u32", shape.expert_ffn),
            f"{arch}.expert_weights_norm": scalar("bool", True),
        }
    if shape.arch == "glm4moe":
        metadata |= {
            f"{arch}.expert_shared_count": scalar("u32", shape.shared_ffn // shape.expert_ffn),
            f"{arch}.leading_dense_block_count": scalar("u32", shape.dense_layers),
            f"{arch}.expert_gating_func": scalar("u32", 2),  # sigmoid
            f"{arch}.expert_weights_scale": scalar("f32", 1.0),
        }
    if shape.streams:
        # One gate in twenty is more than this many deviations above the mean.
        deviations = [1.6448536 if i < shape.sparse_layers else -math.inf for i in range(shape.layers)]
        metadata |= {
            f"{arch}.altup.num_inputs": scalar("u32", shape.streams),
            f"{arch}.altup.active_idx": scalar("u32", 0),
            f"{arch}.embedding_length_per_layer_input": scalar("u32", shape.per_layer),
            f"{arch}.attention.shared_kv_layers": scalar("u32", shape.shared_layers),
            f"{arch}.activation_sparsity_scale": array("f32", deviations),
            f"{arch}.attention.sliding_window_pattern": array("bool", [i % 5 != 4 for i in range(shape.layers)]),
            f"{arch}.rope.freq_base_swa": scalar("f32", 10000.0),
        }
    if shape.window:
        metadata[f"{arch}.attention.sliding_window"] = scalar("u32", shape.window)
    if shape.vocab_type == "spm":
        metadata["tokenizer.ggml.model"] = text("llama")
        metadata["tokenizer.ggml.scores"] = array("f32", vocabulary.gguf_scores())
        metadata["tokenizer.ggml.unknown_token_id"] = scalar("u32", vocabulary.unknown)
    else:
        metadata["tokenizer.ggml.model"] = text("gpt2")
        metadata["tokenizer.ggml.pre"] = text(shape.pre)
        metadata["tokenizer.ggml.merges"] = array("string", [f"{left} {right}" for left, right in vocabulary.merges])
    return metadata


def hf_name(shape, name):
    """GGUF's name of a tensor as Hugging Face has it; an expert's has its number behind _exps."""
    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
             "output.weight": "lm_head.weight"}
    if name in whole:
        return whole[name]
    _, layer, part, *expert, leaf = name.split(".")
    parts = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
             "post_attention_norm": "post_attention_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
             "ffn_gate_inp": "mlp.gate", "exp_probs_b": "mlp.gate.e_score_correction_bias"}
    if part == "exp_probs_b":
        return f"model.layers.{layer}.{parts[part]}"
    if part in parts:
        return f"model.layers.{layer}.{parts[part]}.{leaf}"
    _, kind, *where = part.split("_")
    inner = "" if not where else f"experts.{expert[0]}." if expert else HF_CLASSES[shape.arch][3] + "."
    return f"model.layers.{layer}.mlp.{inner}{kind}_proj.{leaf}"


def hf_config(shape, kind):
    vocabulary = Vocabulary(shape.vocab_type, shape.vocab)
    hf_class, model_type, experts_key, _ = HF_CLASSES[shape.arch]
    config = {
        "architectures": [hf_class], "model_type": model_type, "hidden_act": "silu", "hidden_size": shape.dim, "head_dim": shape.head_dim,
        "intermediate_size": shape.ffn, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "max_position_embeddings": shape.context, "vocab_size": shape.vocab,
        "rms_norm_eps": shape.eps, "rope_theta": shape.rope_base, "rope_scaling": None,
        "tie_word_embeddings": shape.tied, "bos_token_id": vocabulary.bos, "eos_token_id": vocabulary.eos,
        "torch_dtype": {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[kind],
    }
    if shape.experts:
        config |= {experts_key: shape.experts, "num_experts_per_tok": shape.experts_used, "moe_intermediate_size": shape.expert_ffn,
                   "norm_topk_prob": True}
    if shape.arch == "glm4moe":
        config |= {"n_shared_experts": shape.shared_ffn // shape.expert_ffn, "first_k_dense_replace": shape.dense_layers,
                   "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1, "attention_bias": True, "use_qk_norm": False,
                   "partial_rotary_factor": shape.rope_dim / shape.head_dim}
    return config


def write_hf(folder, shape, kind, seed):
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary(shape.vocab_type, shape.vocab)
    documents = {"config.json": hf_config(shape, kind), "tokenizer.json": vocabulary.tokenizer_json(shape.add_bos),
                 "tokenizer_config.json": vocabulary.tokenizer_config(shape.add_bos)}
    for name, document in documents.items():
        gguf_file.write_whole(folder / name, [json.dumps(document, ensure_ascii=False, indent=1).encode()])
    entries = tensors(shape, lambda name: hf_name(shape, name), kind, kind, seed)
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, _, extents, _ in entries:
        end = offset + gguf_file.tensor_bytes(kind, extents)
        header[name] = {"dtype": kind.upper(), "shape": list(extents), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def chunks():
        yield struct.pack("<Q", len(text)) + text
        for _, _, _, pieces in entries:
            yield from pieces

    gguf_file.write_whole(folder / "model.safetensors", chunks())


def read_shape(arguments):
    """The named shape, or none, with what the options say changed."""
    options = ["dim", "layers", "ffn", "heads", "kv_heads", "head_dim", "vocab", "context", "vocab_type", "experts", "expert_ffn"]
    given = {name: getattr(arguments, name) for name in options if getattr(arguments, name) is not None}
    for name, value in given.items():
        if name != "vocab_type" and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} is {value}, expected at least 1")
    if arguments.shape:
        shape = replace(SHAPES[arguments.shape], **given)
    else:
        missing = [name for name in ("dim", "layers", "ffn", "heads") if name not in given]
        if missing:
            raise ValueError(f"expected --shape, or else --{', --'.join(missing)} as well")
        defaults = {"kv_heads": given["heads"], "head_dim": given["dim"] // given["heads"], "vocab": 32000}
        shape = Shape(**{**defaults, **given, "tied": arguments.tied})
    if shape.heads % shape.kv_heads:
        raise ValueError(f"heads is {shape.heads}, expected a multiple of kv-heads, {shape.kv_heads}")
    if shape.head_dim % 2 or shape.head_dim < 2:
        raise ValueError(f"head-dim is {shape.head_dim}, expected an even number")
    return shape


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the GGUF file, or the folder for --format hf")
    parser.add_argument("--shape", choices=SHAPES, help="a real model's shape; the options below change parts of it")
    for name, what in {"dim": "width of the residual stream", "layers": "transformer blocks", "ffn": "inner width",
                       "heads": "attention heads", "kv-heads": "key and value heads (default: heads)",
                       "head-dim": "width of a head (default: dim / heads)", "vocab": "tokens (default 32000)",
                       "context": "context length in the metadata (default 2048)", "experts": "of each sparse layer of a shape with experts",
                       "expert-ffn": "inner width of one"}.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=what)
    parser.add_argument("--tied", action="store_true", help="without --shape: output weights are the embeddings")
    parser.add_argument("--vocab-type", choices=["gpt2", "spm"], help="byte-level or SentencePiece BPE (default gpt2)")
    parser.add_argument("--format", choices=["gguf", "hf"], default="gguf", help="default gguf")
    parser.add_argument("--type", choices=["q4_0", "q4_K", "q8_0", "f16", "bf16", "f32"],
                        help="of the matrices (default q4_0 for gguf, bf16 for hf, which has floats only)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        shape = read_shape(arguments)
        kind = arguments.type or ("q4_0" if arguments.format == "gguf" else "bf16")
        if arguments.format == "hf" and shape.arch == "gemma3n":
            raise ValueError("gemma-3n-e2b is written as a GGUF file alone: expected --format gguf")
        if arguments.format == "hf" and shape.arch == "gpt-oss":
            raise ValueError("gpt-oss has its experts in tensors of their own form in folders: expected --format gguf")
        if arguments.format == "hf" and kind.startswith("q"):
            raise ValueError(f"--type is {kind}, expected f16, bf16 or f32 for --format hf")
        vector_kind = "f32" if arguments.format == "gguf" else kind
        entries = tensors(shape, str, kind, vector_kind, arguments.seed)
        size = sum(gguf_file.tensor_bytes(entry[1], entry[2]) for entry in entries)
        target = arguments.output.absolute()
        free = shutil.disk_usage(next(p for p in (target, *target.parents) if p.exists())).free
        if size > free:
            raise ValueError(f"{arguments.output}: needs {size} bytes, the disk has {free} left")
        if arguments.format == "gguf":
            gguf_file.write(arguments.output, gguf_metadata(shape, kind, arguments.shape or "random"), entries)
        else:
            write_hf(arguments.output, shape, kind, arguments.seed)
    except (OSError, ValueError) as error:
        sys.exit(f"generate_model.py: {error}")
    weights = sum(math.prod(entry[2]) for entry in entries)
    print(f"{arguments.output}: {weights:,} weights, {size:,} bytes of {kind}")


if __name__ == "__main__":
    main()
