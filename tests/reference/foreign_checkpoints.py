#!/usr/bin/env python3
"""Writes checkpoints as other projects quantize them, and what they mean as plain floats.

    foreign_checkpoints.py OUT [MODEL [CASE...]]

MODEL is a Hugging Face folder whose weights are used; a small random Llama without it. For each case there is a folder
OUT/CASE, a plain folder OUT/CASE.plain with the values that its definition gives in f32, and a line in OUT/cases.json
that says which format of ours must hold each matrix. Everything is packed bit by bit from the formats' definitions
(AutoGPTQ, GPTQModel, AutoAWQ, bitsandbytes, compressed-tensors); nothing here is shared with the readers under test.
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tensor_file  # noqa: E402

F32 = np.float32


class Typed:
    """Bytes of a type that numpy lacks."""

    def __init__(self, type, array):
        self.type, self.array = type, array


def bf16(x):
    """Rounded to bfloat16, as Typed and as the f32 that it stands for."""
    bits = np.ascontiguousarray(x, F32).view(np.uint32).astype(np.uint64)
    short = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return Typed("BF16", short), (short.astype(np.uint32) << 16).view(F32)


# Files ---------------------------------------------------------------------------------------------------------------

def write_safetensors(path, tensors):
    tensor_file.write(path, {name: (t.type, t.array.shape, t.array.tobytes()) if isinstance(t, Typed) else t for name, t in tensors.items()})


def read_safetensors(path):
    return {name: array.astype(F32) for name, array in tensor_file.read_arrays(path).items()}


def write_shards(folder, tensors, shards):
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors)
        return
    # Dealt out one by one: the tensors of a matrix lie in different files.
    names = list(tensors)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(folder / file, {name: tensors[name] for name in names[shard::shards]})
        weight_map |= {name: file for name in names[shard::shards]}
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


# Models --------------------------------------------------------------------------------------------------------------

def random_model(rng, tied=False):
    dim, heads, kv_heads, head_dim, ffn, vocab, layers = 128, 4, 2, 32, 352, 64, 2
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": dim, "num_hidden_layers": layers,
              "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": ffn,
              "vocab_size": vocab, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "hidden_act": "silu", "tie_word_embeddings": tied}
    tensors = {}

    def matrix(name, rows, columns):
        tensors[name + ".weight"] = (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(F32)

    def vector(name, size):
        tensors[name + ".weight"] = (1 + 0.3 * rng.standard_normal(size)).astype(F32)

    matrix("model.embed_tokens", vocab, dim)
    vector("model.norm", dim)
    if not tied:
        matrix("lm_head", vocab, dim)
    for i in range(layers):
        layer = f"model.layers.{i}."
        vector(layer + "input_layernorm", dim)
        matrix(layer + "self_attn.q_proj", heads * head_dim, dim)
        matrix(layer + "self_attn.k_proj", kv_heads * head_dim, dim)
        matrix(layer + "self_attn.v_proj", kv_heads * head_dim, dim)
        matrix(layer + "self_attn.o_proj", dim, heads * head_dim)
        vector(layer + "post_attention_layernorm", dim)
        matrix(layer + "mlp.gate_proj", ffn, dim)
        matrix(layer + "mlp.up_proj", ffn, dim)
        matrix(layer + "mlp.down_proj", dim, ffn)
    return config, tensors


def write_tokenizer(folder):
    pieces = ["<unk>", "<s>", "</s>", "\u2581"] + [chr(c) for c in range(ord("a"), ord("z") + 1)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0",
        "added_tokens": [{"id": i, "content": pieces[i], "special": True, "normalized": False} for i in range(3)],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": pieces[3]},
        "decoder": {"type": "Replace", "pattern": {"String": pieces[3]}, "content": " "},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "vocab": {p: i for i, p in enumerate(pieces)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text('{"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>","add_bos_token":true}')


# Bits ----------------------------------------------------------------------------------------------------------------

def bit_stream(numbers, bits):
    """Numbers along the last axis as one stream of bits, lowest first, in words of 32."""
    wide = (numbers.astype(np.uint32)[..., None] >> np.arange(bits, dtype=np.uint32)) & 1
    stream = wide.reshape(*numbers.shape[:-1], -1).astype(np.uint8)
    return np.ascontiguousarray(np.packbits(stream, axis=-1, bitorder="little")).view("<i4")


def words_of(numbers, bits, per_word):
    """`per_word` numbers a word along the last axis, lowest first, unused bits zero; padded to whole words."""
    padding = [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % per_word)]
    wide = np.pad(numbers.astype(np.uint64), padding)
    wide = wide.reshape(*wide.shape[:-1], -1, per_word)
    words = (wide << (bits * np.arange(per_word, dtype=np.uint64))).sum(-1)
    return words.astype("<u4").view("<i4")


def groups_of(columns, group, order=None):
    """The group of each column; `order`: columns in the order in which they were rounded."""
    group = columns if group < 0 else group
    index = np.arange(columns) // group
    if order is not None:
        index[order] = np.arange(columns) // group
    return index


def round_to_grid(w, bits, index, symmetric, zero_extremes=False):
    """Codes (rows, columns), scales (rows, groups) in f16, zeros (rows, groups)."""
    rows, count, largest = w.shape[0], int(index.max()) + 1, 2**bits - 1
    scales, zeros = np.zeros((rows, count), np.float16), np.zeros((rows, count), np.int64)
    codes = np.zeros(w.shape, np.int64)
    for g in range(count):
        part = w[:, index == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if symmetric:
            high = np.maximum(-low, high)
            low = -high
        if zero_extremes:  # zeros at both ends of their range: all weights above, or below
            low[0::3] = 0
            high[1::3] = 0
        scale = np.maximum((high - low) / largest, 1e-4).astype(np.float16)
        zero = np.full(rows, (largest + 1) // 2) if symmetric else np.clip(np.rint(-low / scale.astype(F32)), 0, largest).astype(np.int64)
        codes[:, index == g] = np.clip(np.rint(part / scale.astype(F32)[:, None]) + zero[:, None], 0, largest)
        scales[:, g], zeros[:, g] = scale, zero
    return codes, scales, zeros


def decode(codes, scales, zeros, index):
    return scales.astype(F32)[:, index] * (codes - zeros[:, index]).astype(F32)


# Families ------------------------------------------------------------------------------------------------------------
# Each takes (name, weights, options) and gives (tensors of the module, values in f32).

def gptq(w, o, rng):
    bits, order = o["bits"], o.get("order")
    index = groups_of(w.shape[1], o["group"], None if order is None else order(w.shape[1], rng))
    codes, scales, zeros = round_to_grid(w, bits, index, o["symmetric"], zero_extremes=not o["symmetric"])
    stored = zeros if o.get("version", 1) == 2 else (zeros - 1) % 2**bits
    return {"qweight": np.ascontiguousarray(bit_stream(codes, bits).T),  # (out, in b / 32), turned
            "qzeros": bit_stream(stored.T, bits), "scales": np.ascontiguousarray(scales.T), "g_idx": index.astype("<i4")
            } | ({"bias": np.zeros(w.shape[0], np.float16)} if o.get("biases") else {}), decode(codes, scales, zeros, index)


def awq_words(numbers):
    """Along the last axis: nibble i of a word holds number order[i]."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    return words_of(numbers.reshape(*numbers.shape[:-1], -1, 8)[..., order].reshape(numbers.shape), 4, 8)


def awq(w, o, rng):
    index = groups_of(w.shape[1], o["group"])
    codes, scales, zeros = round_to_grid(w, 4, index, False, zero_extremes=True)
    values = decode(codes, scales, zeros, index)
    if o["version"] == "gemm":
        return {"qweight": awq_words(codes.T), "qzeros": awq_words(zeros.T), "scales": np.ascontiguousarray(scales.T)}, values
    multiplier = {64: 2, 32: 4}.get(o["group"], 1)
    width = -(-(-(-scales.shape[1] // 8)) // multiplier) * multiplier
    pad = [(0, 0), (0, width * 8 - scales.shape[1])]
    return {"qweight": words_of(codes, 4, 8), "qzeros": words_of(np.pad(zeros, pad), 4, 8), "scales": np.pad(scales, pad)}, values


NF4 = np.array([-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022833334,
                -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1], F32)
FP4 = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3, 0, -0.0625, -8, -12, -4, -6, -2, -3], F32) / F32(12)


def dynamic_map():
    """create_dynamic_map(signed=True, max_exponent_bits=7, total_bits=8) of bitsandbytes."""
    data = [0.0, 1.0]
    for i in range(7):
        edges = np.linspace(0.1, 1, 2**i + 1)
        means = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (i - 6)
        data += [*means, *-means]
    return np.sort(np.array(data)).astype(F32)


def bnb4(w, o, rng):
    table, block = (NF4 if o["type"] == "nf4" else FP4), o["block"]
    flat = w.ravel()
    padded = np.pad(flat, (0, -flat.size % block)).reshape(-1, block)
    absmax = np.abs(padded).max(1).astype(F32)
    if o.get("halves"):  # as from weights that were f16
        absmax = absmax.astype(np.float16).astype(F32)
    codes = np.abs((padded / absmax[:, None])[..., None] - table).argmin(-1).ravel()[:flat.size]
    state = {"quant_type": o["type"], "blocksize": block, "dtype": "bfloat16", "shape": list(w.shape)}
    parts = {"weight.quant_map": table}
    if o.get("nested"):
        offset = absmax.mean(dtype=F32)
        centered = np.pad(absmax - offset, (0, -absmax.size % 256)).reshape(-1, 256)
        nested = np.abs(centered).max(1).astype(F32)
        table2 = dynamic_map()
        bytes_ = np.abs((centered / nested[:, None])[..., None] - table2).argmin(-1).ravel()[:absmax.size].astype(np.uint8)
        product = table2[bytes_] * nested[np.arange(absmax.size) // 256]
        absmax = product + offset
        state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}
        parts |= {"weight.absmax": bytes_, "weight.nested_absmax": nested, "weight.nested_quant_map": table2}
    else:
        parts["weight.absmax"] = absmax
    parts[f"weight.quant_state.bitsandbytes__{o['type']}"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    nibbles = np.pad(codes, (0, codes.size % 2)).astype(np.uint8)
    packed = (nibbles[0::2] << 4 | nibbles[1::2])[:, None]
    if o.get("storage") == "BF16":  # the same bytes under another name
        packed = Typed("BF16", packed.ravel().view("<u2"))
    parts["weight"] = packed
    values = table[codes] * absmax[np.arange(flat.size) // block]
    return parts, values.reshape(w.shape)


def bnb8(w, o, rng):
    scb = np.abs(w).max(1).astype(F32)
    codes = np.rint(w * (127 / scb)[:, None]).astype(np.int8)
    return {"weight": codes, "SCB": scb, "weight_format": np.zeros((), np.uint8)}, codes.astype(F32) * (scb / F32(127))[:, None]


def tiles(w, o):
    """For each weight the rectangle of scales that it lies in: (rows, columns) of numbers, and how many there are."""
    rows, columns = {"tensor": w.shape, "channel": (1, w.shape[1]), "group": (1, o.get("group")), "block": o.get("block")}[o["strategy"]]
    down, across = -(-w.shape[0] // rows), -(-w.shape[1] // columns)
    index = (np.arange(w.shape[0]) // rows)[:, None] * across + np.arange(w.shape[1]) // columns
    return index, (down, across)


def scale_type(scales, o):
    if o.get("scales", "BF16") == "BF16":
        return bf16(scales)
    scales = scales.astype({"F16": np.float16, "F32": F32}[o["scales"]])
    return scales, scales.astype(F32)


def compressed_integers(w, o, rng):
    bits = o["bits"]
    if o.get("sorted"):
        index, shape = groups_of(w.shape[1], o["group"], rng.permutation(w.shape[1])), (w.shape[0], -(-w.shape[1] // o["group"]))
        index = np.arange(w.shape[0])[:, None] * shape[1] + index
    else:
        index, shape = tiles(w, o)
    count = shape[0] * shape[1]
    low, high = np.zeros(count), np.zeros(count)
    np.minimum.at(low, index, w)
    np.maximum.at(high, index, w)
    half = 2 ** (bits - 1)
    if o["symmetric"]:
        scales, zeros = 2 * np.maximum(-low, high) / (2 * half - 1), np.zeros(count)
    else:
        scales = (high - low) / (2 * half - 1)
        zeros = np.clip(np.rint(-low / scales) - half, -half, half - 1)
    stored, scales = scale_type(scales.astype(F32), o)
    codes = np.clip(np.rint(w / scales[index]) + zeros[index], -half, half - 1).astype(np.int64)
    values = (codes - zeros[index]).astype(F32) * scales[index]

    def shaped(array, dimensions):
        return Typed(array.type, array.array.reshape(dimensions)) if isinstance(array, Typed) else array.reshape(dimensions)

    parts = {"weight_scale": shaped(stored, (1,) if o["strategy"] == "tensor" else shape)}
    zeros = zeros.astype(np.int64).reshape(shape)
    if o["format"] == "pack-quantized":
        each = 32 // bits
        parts |= {"weight_packed": words_of(codes + half, bits, each), "weight_shape": np.array(w.shape, "<i8")}
        if not o["symmetric"]:
            parts["weight_zero_point"] = np.ascontiguousarray(words_of((zeros + half).T, bits, each).T)
    else:
        parts["weight"] = codes.astype(np.int8)
        if not o["symmetric"]:
            parts["weight_zero_point"] = zeros.astype(np.int8)
    if o.get("sorted"):
        parts["weight_g_idx"] = index[0].astype("<i4")
    return parts, values


def e4m3_values():
    """The 256 numbers of FP8 E4M3 (OCP 8-bit floating point specification, section 5)."""
    byte = np.arange(256)
    exponent, fraction = byte >> 3 & 15, byte & 7
    values = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    values[(byte & 127) == 127] = np.nan
    return np.where(byte >= 128, -values, values).astype(F32)


def float8(w, o, rng):
    index, shape = tiles(w, o)
    largest = np.zeros(shape[0] * shape[1])
    np.maximum.at(largest, index, np.abs(w))
    scales = (largest / 448).astype(F32)
    if o.get("powers"):
        scales = np.exp2(np.ceil(np.log2(scales))).astype(F32)
    stored, scales = scale_type(scales, o)
    table = e4m3_values()[:127]  # positive, finite, ascending
    x = np.abs(w / scales[index])
    above = np.clip(np.searchsorted(table, x), 1, 126)
    codes = np.where(x - table[above - 1] <= table[above] - x, above - 1, above).astype(np.uint8)
    codes |= (np.signbit(w).astype(np.uint8) << 7)
    name = "weight_scale_inv" if o.get("inverse") else "weight_scale"
    dimensions = (1,) if o["strategy"] == "tensor" else shape
    stored = Typed(stored.type, stored.array.reshape(dimensions)) if isinstance(stored, Typed) else stored.reshape(dimensions)
    parts = {"weight": Typed("F8_E4M3", codes), name: stored, "input_scale": np.ones(1, F32)}
    return parts, e4m3_values()[codes] * scales[index]


def sparse(w, o, rng):
    typed, values = bf16(w)
    if o["pattern"] == "2of4":
        order = np.argsort(np.abs(values).reshape(w.shape[0], -1, 4), -1)
        there = np.zeros(order.shape, bool)
        np.put_along_axis(there, order[..., 2:], True, -1)
        there = there.reshape(w.shape)
    else:
        there = rng.random(w.shape) < 0.4
        there[0] = False  # a row of nothing
    parts = {"shape": np.array(w.shape, "<i8"), "bitmask": np.packbits(there, axis=1, bitorder="little")}
    kept = typed.array[there]
    if o["pattern"] == "2of4":
        parts["compressed"] = Typed("BF16", kept.reshape(w.shape[0], -1))
    else:
        parts["compressed"] = Typed("BF16", kept)
        parts["row_offsets"] = np.concatenate([[0], there.sum(1).cumsum()[:-1]]).astype("<i8")
    return parts, np.where(there, values, F32(0))


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F32)  # OCP microscaling formats, 5.3.3


def float4(w, o, rng):
    """MXFP4: an exponent each 32; NVFP4: a number of E4M3 each 16, times one of the matrix."""
    index, shape = tiles(w, o)
    largest = np.zeros(shape[0] * shape[1])
    np.maximum.at(largest, index, np.abs(w))
    parts = {"input_global_scale": np.ones(1, F32)} if o["codes"] == "weight_packed" else {"input_scale": np.ones((), F32)}
    if o["group"] == 32:
        exponents = (127 + np.ceil(np.log2(largest / 6))).astype(np.uint8)
        parts["weight_scale"] = exponents.reshape(shape)
        scales = np.exp2(exponents.astype(np.float64) - 127).astype(F32)
    else:
        factor = F32(np.abs(w).max() / (6 * 448))
        if o["codes"] == "weight_packed":
            parts["weight_global_scale"] = np.array([1 / factor], F32)
            factor = F32(1) / parts["weight_global_scale"][0]  # what loaders multiply by
        else:
            parts["weight_scale_2"] = np.array(factor, F32)
        table = e4m3_values()[:127]
        numbers = np.clip(np.searchsorted(table, largest / 6 / factor), 0, 126).astype(np.uint8)
        parts["weight_scale"] = Typed("F8_E4M3", numbers.reshape(shape))
        scales = table[numbers] * factor
    safe = np.where(scales == 0, 1, scales)
    codes = np.abs((w / safe[index])[..., None] - E2M1).argmin(-1).astype(np.uint8)
    parts[o["codes"]] = codes[:, ::2] | codes[:, 1::2] << 4
    return parts, E2M1[codes] * scales[index]


def float8_32(w, o, rng):
    """MXFP8: FP8 under an exponent each 32."""
    parts, values = float8(w, o | {"powers": True, "scales": "F32"}, rng)
    parts["weight_scale"] = (127 + np.log2(parts["weight_scale"])).astype(np.uint8)
    return parts, values


def ternary(w, o, rng):
    """BitNet's values under one scale a matrix, which is kept in half floats."""
    mean = F32(np.abs(w.astype(np.float64)).mean())
    codes = np.clip(np.rint(w / mean), -1, 1).astype(F32)
    if o["mode"] == "online":
        return {"weight": w}, codes * F32(np.float16(mean))
    stored, scale = bf16([1 / mean if o["divides"] else mean])
    packed = np.zeros((w.shape[0] // 4, w.shape[1]), np.uint8)
    for i, quarter in enumerate(np.split(codes + 1, 4)):
        packed |= quarter.astype(np.uint8) << 2 * i
    return {"weight": packed, "weight_scale": stored}, codes * (F32(np.float16(1 / scale[0])) if o["divides"] else scale[0])


# Cases ---------------------------------------------------------------------------------------------------------------

def linear(name):
    return name.endswith("_proj")


def gptq_config(o, **more):
    return {"quant_method": "gptq", "bits": o["bits"], "group_size": o["group"], "sym": o["symmetric"], "desc_act": "order" in o,
            "checkpoint_format": "gptq_v2" if o.get("version") == 2 else "gptq", "pack_dtype": "int32", **more}


def gptq_case(bits, group, symmetric, expected, **more):
    o = {"bits": bits, "group": group, "symmetric": symmetric, **more}
    return {"pack": gptq, "options": lambda name: o if linear(name) else None, "config": gptq_config(o), "formats": expected if callable(expected) else lambda name: expected}


def awq_case(version, group, expected):
    o = {"version": version, "group": group}
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": version.upper(),
              "modules_to_not_convert": None}
    return {"pack": awq, "options": lambda name: o if linear(name) else None, "config": config, "formats": lambda name: expected}


def mixed_case():
    """Settings by module, a quantized head, and modules left as they are."""
    base = {"bits": 4, "group": 32, "symmetric": True}
    down = {"bits": 8, "group": 64, "symmetric": True}

    def options(name):
        if "layers.0.self_attn" in name or name == "model.embed_tokens":
            return None
        return down if "down_proj" in name else base

    dynamic = {"-:.*layers\\.0\\.self_attn": {}, "+:.*\\.down_proj": {"bits": 8, "group_size": 64}, ".*_proj": {}}
    return {"pack": gptq, "options": options, "config": gptq_config(base, dynamic=dynamic, lm_head=True),
            "formats": lambda name: "i8.g32" if "down_proj" in name else "i4.g32", "tied": False}


def bnb_case(type, expected, **more):
    o = {"type": type, "block": 64, **more}
    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": type, "bnb_4bit_use_double_quant": bool(more.get("nested"))}

    def formats(name):  # down has 352 columns, in which blocks of 64 do not end
        return "f32" if "down_proj" in name else expected

    return {"pack": bnb4, "options": lambda name: o if linear(name) else None, "config": config, "formats": formats}


def compressed_case(format, expected, pack=compressed_integers, ignore=(), **o):
    o["format"] = format
    weights = {"num_bits": o.get("bits", 8), "type": "int" if pack is compressed_integers else "float", "symmetric": o.get("symmetric", True),
               "strategy": o["strategy"], "group_size": o.get("group"), "block_structure": list(o["block"]) if "block" in o else None,
               "dynamic": False, "actorder": "group" if o.get("sorted") else None}
    group = {"targets": [o.get("target", "Linear")], "weights": weights, "input_activations": None, "output_activations": None}
    config = {"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": group}, "ignore": ["lm_head", *ignore],
              "kv_cache_scheme": None, "quantization_status": "compressed", "sparsity_config": {"format": "dense"}}
    return {"pack": pack, "options": lambda name: o if linear(name) and name not in ignore else None, "config": config,
            "formats": expected if callable(expected) else lambda name: expected}


def modelopt_case(algorithm, expected, pack, **o):
    config = {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.40.0"}}
    return {"pack": pack, "options": lambda name: o if linear(name) else None, "config": config, "formats": lambda name: expected}


def sparse_case(pattern):
    config = {"quant_method": "compressed-tensors", "format": "dense", "config_groups": {},
              "sparsity_config": {"format": "sparse-24-bitmask" if pattern == "2of4" else "sparse-bitmask", "targets": ["Linear"], "ignore": ["lm_head"]}}
    return {"pack": sparse, "options": lambda name: {"pattern": pattern} if linear(name) else None, "config": config, "formats": lambda name: "bf16"}


def bytes_128(name):
    """A group of 128 is the whole row but in down."""
    return "i8.g128" if "down_proj" in name else "i8.row"


def shuffled(columns, rng):
    return rng.permutation(columns)


def one_order(columns, rng):
    """The same order for every matrix of a width, as q, k and v have it."""
    return np.random.default_rng(columns).permutation(columns)


def bitnet_case(layer, mode):
    o = {"mode": mode, "divides": layer == "bitlinear"}
    config = {"quant_method": "bitnet", "linear_class": layer, "quantization_mode": mode, "modules_to_not_convert": ["down_proj"]}
    return {"pack": ternary, "options": lambda name: o if linear(name) and "down_proj" not in name else None, "config": config, "formats": lambda name: "i2z.g128"}


CASES = {
    "bitnet-packed": bitnet_case("bitlinear", "offline"),
    "bitnet-auto": bitnet_case("autobitlinear", "offline"),
    "bitnet-online": bitnet_case("autobitlinear", "online"),
    "gptq-4-32-sorted": gptq_case(4, 32, True, "i4.g32", order=one_order),
    "gptq-4-128-sorted": gptq_case(4, 128, False, "i4z.g128", order=shuffled),
    "gptq-3-64-sorted": gptq_case(3, 64, True, "i3.g64", order=shuffled),
    "gptq-4-16-sorted": gptq_case(4, 16, True, "f32", order=shuffled),
    "bnb-nf4": bnb_case("nf4", "nf4w.g64"),
    "bnb-nf4-halves": bnb_case("nf4", "nf4.g64", halves=True, storage="BF16"),
    "bnb-nf4-nested": {**bnb_case("nf4", "nf4w.g64", nested=True), "shards": 2},
    "bnb-nf4-128": bnb_case("nf4", "nf4w.g64", block=128),
    "bnb-fp4": bnb_case("fp4", "fp4w.g64"),
    "bnb-fp4-nested": bnb_case("fp4", "fp4w.g64", nested=True),
    "bnb-nf4-4096": bnb_case("nf4", "nf4w.g64", block=4096),
    "bnb-int8": {"pack": bnb8, "options": lambda name: {} if linear(name) else None, "config": {"quant_method": "bitsandbytes", "load_in_8bit": True},
                 "formats": lambda name: "i8.row"},
    "packed-4-128": compressed_case("pack-quantized", "i4.g128", bits=4, strategy="group", group=128, symmetric=True,
                                    ignore=["model.layers.1.mlp.down_proj"]),
    "packed-4-32-zeros": compressed_case("pack-quantized", "i4z.g32", bits=4, strategy="group", group=32, symmetric=False, scales="F16"),
    "packed-4-channel": compressed_case("pack-quantized", "i4.g128", bits=4, strategy="channel", symmetric=True),
    "packed-4-f32": compressed_case("pack-quantized", "f32", bits=4, strategy="group", group=128, symmetric=True, scales="F32"),
    "packed-4-32-within": {**compressed_case("pack-quantized", "i4.g32", bits=4, strategy="group", group=32, symmetric=True), "within": True},
    "packed-3-64": compressed_case("pack-quantized", "i3.g64", bits=3, strategy="group", group=64, symmetric=True),
    "packed-3-64-zeros": compressed_case("pack-quantized", "i3z.g64", bits=3, strategy="group", group=64, symmetric=False),
    "packed-8-channel": compressed_case("pack-quantized", "i8.row", bits=8, strategy="channel", symmetric=True, target="re:.*_proj$"),
    "packed-5-128": compressed_case("pack-quantized", bytes_128, bits=5, strategy="group", group=128, symmetric=True),
    "packed-4-64-sorted": compressed_case("pack-quantized", "i4.g64", bits=4, strategy="group", group=64, symmetric=True, sorted=True),
    "int8-channel": compressed_case("int-quantized", "i8.row", bits=8, strategy="channel", symmetric=True, scales="F32"),
    "int8-channel-zeros": compressed_case("int-quantized", "f32", bits=8, strategy="channel", symmetric=False),
    "int8-old": {**compressed_case("int-quantized", "i8.row", bits=8, strategy="channel", symmetric=True), "key": "compression_config"},
    "int8-tensor": compressed_case("naive-quantized", "i8.row", bits=8, strategy="tensor", symmetric=True),
    "int8-group": compressed_case("int-quantized", "i8.g32", bits=8, strategy="group", group=32, symmetric=True),
    "int4-group": compressed_case("int-quantized", bytes_128, bits=4, strategy="group", group=128, symmetric=True),
    "int8-block": compressed_case("int-quantized", "i8.g32", bits=8, strategy="block", block=(48, 32), symmetric=True),
    "fp8-tensor": compressed_case("float-quantized", "f32", pack=float8, strategy="tensor"),
    "fp8-channel": compressed_case("naive-quantized", "f32", pack=float8, strategy="channel", scales="F32"),
    "fp8-powers": compressed_case("float-quantized", "bf16", pack=float8, strategy="channel", powers=True),
    "fp8-block": {"pack": float8, "options": lambda name: {"strategy": "block", "block": (128, 128), "scales": "F32", "inverse": True} if linear(name) else None,
                  "config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
                  "formats": lambda name: "f32", "shards": 2},
    "nvfp4": compressed_case("nvfp4-pack-quantized", "nvfp4.g16", pack=float4, bits=4, strategy="group", group=16, codes="weight_packed"),
    "mxfp4": compressed_case("mxfp4-pack-quantized", "mxfp4.g32", pack=float4, bits=4, strategy="group", group=32, codes="weight_packed"),
    "mxfp8": compressed_case("mxfp8-quantized", "bf16", pack=float8_32, bits=8, strategy="group", group=32),
    "modelopt-nvfp4": modelopt_case("NVFP4", "nvfp4.g16", float4, strategy="group", group=16, codes="weight"),
    "modelopt-mxfp8": modelopt_case("MXFP8", "bf16", float8_32, strategy="group", group=32),
    "modelopt-fp8": modelopt_case("FP8", "f32", float8, strategy="tensor", scales="F32"),
    "modelopt-fp8-rows": modelopt_case("FP8_PER_CHANNEL_PER_TOKEN", "f32", float8, strategy="channel", scales="F32"),
    "modelopt-fp8-blocks": modelopt_case("FP8_PB_WO", "f32", float8, strategy="block", block=(128, 128), scales="F32"),
    "modelopt-old": {**modelopt_case("NVFP4", "nvfp4.g16", float4, strategy="group", group=16, codes="weight"),
                     "config": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]}},
                     "config_file": "hf_quant_config.json"},
    "sparse-2of4": sparse_case("2of4"),
    "sparse-any": sparse_case("any"),
    "gptq-4-128": gptq_case(4, 128, True, "i4.g128", biases=True),
    "gptq-4-128-zeros": {**gptq_case(4, 128, False, "i4z.g128"), "shards": 3},
    "gptq-4-64-v2": gptq_case(4, 64, False, "i4z.g64", version=2),
    "gptq-4-row": gptq_case(4, -1, False, "i4z.g128"),
    "gptq-4-256": gptq_case(4, 256, True, "i4.g128"),
    "gptq-4-16": gptq_case(4, 16, True, "f32"),
    "gptq-3-32": gptq_case(3, 32, True, "i3.g32"),
    "gptq-3-128-zeros": gptq_case(3, 128, False, "i3z.g128"),
    "gptq-2-64": gptq_case(2, 64, False, "i2z.g64"),
    "gptq-2-32-v2": gptq_case(2, 32, True, "i2z.g32", version=2),
    "gptq-8-128": gptq_case(8, 128, True, bytes_128),
    "gptq-8-row": gptq_case(8, -1, True, "i8.row"),
    "gptq-8-64-zeros": gptq_case(8, 64, False, "f32"),
    "gptq-mixed": mixed_case(),
    "gptq-old": {**gptq_case(4, 128, True, "i4.g128"), "config": {"bits": 4, "group_size": 128, "desc_act": False}, "config_file": "quantize_config.json"},
    "awq-gemm-128": {**awq_case("gemm", 128, "i4z.g128"), "shards": 2},
    "awq-gemm-32": awq_case("gemm", 32, "i4z.g32"),
    "awq-gemm-row": awq_case("gemm", -1, "i4z.g128"),
    "awq-gemv-128": awq_case("gemv", 128, "i4z.g128"),
    "awq-gemv-64": awq_case("gemv", 64, "i4z.g64"),
    "awq-gemv-32": awq_case("gemv", 32, "i4z.g32"),
    "awq-old": {**awq_case("gemm", 64, "i4z.g64"), "config": {"zero_point": True, "q_group_size": 64, "w_bit": 4, "version": "GEMM"},
                "config_file": "quant_config.json"},
}


def within(config, tensors):
    """A model as the text of one that sees: its config and the names of its tensors."""
    whole = {"architectures": ["SeeingForConditionalGeneration"], "model_type": "seeing", "text_config": config}
    return whole, {f"language_model.{name}": values for name, values in tensors.items()} | {"vision_tower.weight": np.zeros((2, 3), F32)}


def write_case(out, name, case, model):
    rng = np.random.default_rng(len(name) * 1000 + sum(map(ord, name)))
    if model is None:
        config, tensors = random_model(rng, case.get("tied", True))
    else:
        config, tensors = json.loads((model / "config.json").read_text()), read_safetensors(model / "model.safetensors")
    foreign, plain, formats = {}, {}, {}
    for tensor, values in tensors.items():
        module = tensor.removesuffix(".weight")
        o = case["options"](module) if values.ndim == 2 else None
        if o is None:
            foreign[tensor] = plain[tensor] = values
            continue
        parts, plain[tensor] = case["pack"](values, o, rng)
        foreign |= {f"{module}.{part}": array for part, array in parts.items()}
        formats[tensor] = case["formats"](module)
    file = case.get("config_file")
    for folder, content, extra in [(out / name, foreign, {} if file else {case.get("key", "quantization_config"): case["config"]}), (out / f"{name}.plain", plain, {})]:
        folder.mkdir(parents=True)
        said, held = within(config | extra, content) if content is foreign and case.get("within") else (config | extra, content)
        (folder / "config.json").write_text(json.dumps(said))
        write_shards(folder, held, case.get("shards", 1) if content is foreign else 1)
        if model is None:
            write_tokenizer(folder)
        else:
            for companion in model.glob("*token*"):
                shutil.copy(companion, folder)
    if file:
        (out / name / file).write_text(json.dumps(case["config"]))
    return {"name": name, "formats": formats}


def main():
    out = Path(sys.argv[1])
    model = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    wanted = sys.argv[3:] or list(CASES)
    out.mkdir(parents=True, exist_ok=True)
    (out / "cases.json").write_text(json.dumps([write_case(out, name, CASES[name], model) for name in wanted]))


if __name__ == "__main__":
    main()
