#!/usr/bin/env python3
"""Decodes quantized folders from the definitions of their formats and compares them with plain ones, value for value.

    read_quantized.py FOLDER PLAIN [FOLDER PLAIN...]

PLAIN is a Hugging Face folder in f32. One line for each pair that differs; exit status 1 if any does. Nothing here is shared
with the program under test: words are taken apart bit by bit, and what is looked for is what AutoGPTQ, GPTQModel, AutoAWQ,
transformers and bitsandbytes look for.
"""
import json
import re
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tensor_file  # noqa: E402

F32 = np.float32
LINEAR = re.compile(r"model\.layers\.\d+\.(self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj")


def read_safetensors(path):
    assert tensor_file.header(path)[0]["__metadata__"]["format"] == "pt", "transformers asks for this"
    return tensor_file.read_arrays(path)


def of_type(array, type, shape, what):
    assert array.dtype == np.dtype(type) and array.shape == tuple(shape), f"{what}: {array.dtype} {array.shape}, expected {type} {shape}"
    return array


def bit_stream(words, bits):
    """Numbers of `bits` bits along the first axis, lowest bits first."""
    stream = np.unpackbits(np.ascontiguousarray(words.T).view(np.uint8), axis=1, bitorder="little")
    numbers = stream.reshape(stream.shape[0], -1, bits).astype(np.int64)
    return (numbers << np.arange(bits)).sum(-1).T


# Families: (tensors of the module, shape, settings) -> values ----------------------------------------------------------

def gptq(parts, shape, o):
    rows, columns = shape
    bits, group = o["bits"], o["group_size"]
    groups = -(-columns // group)
    codes = bit_stream(of_type(parts.pop("qweight"), "<i4", (columns * bits // 32, rows), "qweight"), bits)
    zeros = bit_stream(of_type(parts.pop("qzeros"), "<i4", (groups, rows * bits // 32), "qzeros").T, bits).T
    scales = of_type(parts.pop("scales"), "<f2", (groups, rows), "scales").astype(F32)
    index = of_type(parts.pop("g_idx"), "<i4", (columns,), "g_idx")
    if not o["desc_act"]:  # readers pass g_idx over then
        assert (index == np.arange(columns) // group).all(), "g_idx of columns in order"
    if o["checkpoint_format"] == "gptq":
        # What old kernels read as 2^bits and new ones as 0 must not occur.
        assert (zeros < 2**bits - 1).all(), "a zero stored as all ones"
        zeros = zeros + 1
    else:
        assert o["checkpoint_format"] == "gptq_v2"
    if o["sym"]:
        assert (zeros == 2 ** (bits - 1)).all(), "zeros of a symmetric module"
    return (scales[index] * (codes - zeros[index]).astype(F32)).T


def gptq_settings(config, module):
    for pattern, changes in config.get("dynamic", {}).items():
        sign, expression = pattern[:2], pattern[2:]
        if re.match(expression, module):
            return None if sign == "-:" else config | changes
    return config


def awq_words(words):
    """Numbers along the last axis: nibble i of a word is number order[i]."""
    nibbles = (words.astype(np.int64)[..., None] >> (4 * np.arange(8))) & 15
    out = np.empty_like(nibbles)
    out[..., [0, 2, 4, 6, 1, 3, 5, 7]] = nibbles
    return out.reshape(*words.shape[:-1], -1)


def awq(parts, shape, o):
    rows, columns = shape
    groups = columns // o["group_size"]
    codes = awq_words(of_type(parts.pop("qweight"), "<i4", (columns, rows // 8), "qweight"))
    zeros = awq_words(of_type(parts.pop("qzeros"), "<i4", (groups, rows // 8), "qzeros"))
    scales = of_type(parts.pop("scales"), "<f2", (groups, rows), "scales").astype(F32)
    index = np.arange(columns) // o["group_size"]
    return ((codes - zeros[index]).astype(F32) * scales[index]).T


LEVELS = {
    "nf4": np.array([-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                     -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1], F32),
    "fp4": np.array([0, 0.0625, 8, 12, 4, 6, 2, 3, 0, -0.0625, -8, -12, -4, -6, -2, -3], F32) / F32(12),
}


def dynamic_map():
    data = [0.0, 1.0]
    for i in range(7):
        edges = np.linspace(0.1, 1, 2**i + 1)
        means = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (i - 6)
        data += [*means, *-means]
    return np.sort(np.array(data)).astype(F32)


def bnb4(parts, shape, o):
    rows, columns = shape
    kind = o["bnb_4bit_quant_type"]
    state = json.loads(parts.pop(f"weight.quant_state.bitsandbytes__{kind}").tobytes().decode("utf-8"))
    assert state["quant_type"] == kind and state["shape"] == [rows, columns] and state["dtype"] == "float16", state
    packed = of_type(parts.pop("weight"), "u1", (rows * columns // 2, 1), "weight")[:, 0]
    levels = of_type(parts.pop("weight.quant_map"), "<f4", (16,), "quant_map")
    assert (levels == LEVELS[kind]).all(), "levels"
    codes = np.stack([packed >> 4, packed & 15], 1).ravel()
    blocks = rows * columns // state["blocksize"]
    if o["bnb_4bit_use_double_quant"]:
        assert state["nested_dtype"] == "float32"
        numbers = of_type(parts.pop("weight.absmax"), "u1", (blocks,), "absmax")
        nested = of_type(parts.pop("weight.nested_absmax"), "<f4", (-(-blocks // state["nested_blocksize"]),), "nested_absmax")
        table = of_type(parts.pop("weight.nested_quant_map"), "<f4", (256,), "nested_quant_map")
        assert (table == dynamic_map()).all(), "nested_quant_map"
        absmax = table[numbers] * nested[np.arange(blocks) // state["nested_blocksize"]] + F32(state["nested_offset"])
    else:
        absmax = of_type(parts.pop("weight.absmax"), "<f4", (blocks,), "absmax")
    return (levels[codes] * np.repeat(absmax, state["blocksize"])).reshape(rows, columns)


def bnb8(parts, shape, o):
    codes = of_type(parts.pop("weight"), "i1", shape, "weight")
    scb = of_type(parts.pop("SCB"), "<f4", shape[:1], "SCB")
    assert of_type(parts.pop("weight_format"), "u1", (), "weight_format") == 0
    return codes.astype(F32) * (scb / F32(127))[:, None]


# Folders -------------------------------------------------------------------------------------------------------------

def module_reader(config, module):
    """(function, settings) for a linear module; None where it is stored as floats."""
    method = config["quant_method"]
    if method == "gptq":
        o = gptq_settings(config, module)
        return o and (gptq, o)
    if method == "awq":
        assert (config["bits"], config["version"], config["zero_point"]) == (4, "gemm", True), config
        return None if any(name in module for name in config["modules_to_not_convert"] or []) else (awq, config)
    assert method == "bitsandbytes" and config["load_in_4bit"] != config["load_in_8bit"], config
    if any(name == module or f"{name}." in module for name in config["llm_int8_skip_modules"]):
        return None
    return bnb4 if config["load_in_4bit"] else bnb8, config


def check(folder, plain):
    config = json.loads((folder / "config.json").read_text())
    settings = config["quantization_config"]
    if settings["quant_method"] == "gptq":
        assert json.loads((folder / "quantize_config.json").read_text()) == settings, "quantize_config.json"
    assert config["torch_dtype"] == "float16"
    tensors, expected = read_safetensors(folder / "model.safetensors"), read_safetensors(plain / "model.safetensors")
    quantized = 0
    for name, values in expected.items():
        module = name.removesuffix(".weight")
        reader = module_reader(settings, module) if LINEAR.fullmatch(module) else None
        if reader is None:
            found = tensors.pop(name).astype(F32)
        else:
            parts = {key[len(module) + 1:]: tensors.pop(key) for key in list(tensors) if key.startswith(module + ".") and not key.endswith(".bias")}
            function, options = reader
            found = function(parts, values.shape, options)
            assert not parts, f"{module}: more tensors: {sorted(parts)}"
            quantized += 1
        assert found.shape == values.shape, f"{name}: {found.shape}, expected {values.shape}"
        assert np.array_equal(found, values), f"{name}: {(found != values).sum()} of {values.size} values differ"
    assert not tensors, f"more tensors: {sorted(tensors)}"
    assert quantized > 0, "nothing is quantized"


def main():
    failed = False
    for folder, plain in zip(sys.argv[1::2], sys.argv[2::2]):
        try:
            check(Path(folder), Path(plain))
        except (AssertionError, KeyError, ValueError) as error:
            failed = True
            print(f"{folder}: {type(error).__name__}: {error}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
