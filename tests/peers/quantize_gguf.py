#!/usr/bin/python3
"""Quantizes a GGUF model of f32, f16 or bf16 weights, for comparisons on one and the same file.

Matrices are quantized, embeddings and output included; vectors, and matrices whose rows are no multiple of a block of
the type, stay as they are. q8_0, q4_0 and q4_1 need nothing else: the arithmetic is the format's public definition in float32, block by block of 32 weights:
  q8_0  d = amax / 127; q = x / d rounded half away from zero; stored: d as f16, 32 x int8
  q4_0  d = (the weight of largest magnitude) / -8; q = floor(x / d + 8.5), at most 15; stored: d as f16, 16 bytes
  q4_1  d = (max - min) / 15; q = floor((x - min) / d + 0.5), at most 15; stored: d and min as f16, 16 bytes
where x / d is x times the float32 reciprocal of the unrounded d, and byte j of 16 holds the weights j (low) and j + 16.
The other types are rounded by llama.cpp's own library, out of the npm package node-llama-cpp in --peers.
"""

import argparse
import ctypes
import json
import os
import pathlib
import sys

import numpy as np

import gguf_file


def reciprocal(d):
    """1 / d in float32, 0 where d is 0."""
    return np.divide(np.float32(1), d, out=np.zeros_like(d), where=d != 0)


def nibbles(codes):
    """(blocks, 32) codes of 0 to 15 as (blocks, 16) bytes."""
    return codes[:, :16] | codes[:, 16:] << 4


def to_q8_0(x):
    """x: (blocks, 32) float32. Returns (blocks, 34) bytes."""
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    scaled = (x * reciprocal(d)).astype(np.float64)
    # In double precision adding a half is exact.
    q = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int8)
    return np.hstack([d.astype("<f2").view(np.uint8), q.view(np.uint8)])


def to_q4_0(x):
    """x: (blocks, 32) float32. Returns (blocks, 18) bytes."""
    largest = np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)
    d = largest / np.float32(-8)
    codes = np.minimum((x * reciprocal(d) + np.float32(8.5)).astype(np.int8), 15).astype(np.uint8)
    return np.hstack([d.astype("<f2").view(np.uint8), nibbles(codes)])


def to_q4_1(x):
    """x: (blocks, 32) float32. Returns (blocks, 20) bytes."""
    lowest = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - lowest) / np.float32(15)
    codes = np.minimum(((x - lowest) * reciprocal(d) + np.float32(0.5)).astype(np.int8), 15).astype(np.uint8)
    return np.hstack([d.astype("<f2").view(np.uint8), lowest.astype("<f2").view(np.uint8), nibbles(codes)])


CODERS = {"q8_0": to_q8_0, "q4_0": to_q4_0, "q4_1": to_q4_1}


LIBRARY = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so"


def ggml_coder(kind, peers):
    """What rounds (rows, columns) float32 to bytes with llama.cpp's library."""
    library = ctypes.CDLL(str(pathlib.Path(peers) / LIBRARY))
    quantize = library.ggml_quantize_chunk
    quantize.restype = ctypes.c_size_t
    quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                         ctypes.c_void_p]

    def code(x, importance=None):
        out = np.empty(gguf_file.tensor_bytes(kind, x.shape), np.uint8)
        x = np.ascontiguousarray(x)
        number = gguf_file.TENSOR_TYPES[kind][0]
        # Some types are refused without the importance of each column: all alike here.
        if importance is None and library.ggml_quantize_requires_imatrix(number):
            importance = np.ones(x.shape[1], np.float32)
        written = quantize(number, x.ctypes.data, out.ctypes.data, 0, *x.shape,
                           None if importance is None else importance.ctypes.data)
        assert written == out.size, (kind, written, out.size)
        return out

    return code


def convert(tensor, kind, code, importance):
    """(type, bytes) of a tensor in the new file."""
    block = gguf_file.TENSOR_TYPES[kind][1]
    if len(tensor.shape) < 2 or tensor.shape[-1] % block or tensor.kind not in ("f32", "f16", "bf16"):
        return tensor.kind, tensor.data
    weights = tensor.to_f32()
    if not np.isfinite(weights).all():
        raise ValueError(f"{tensor.name}: holds weights that are not finite")
    if kind in CODERS:
        return kind, code(weights.reshape(-1, block)).tobytes()
    of_columns = importance.get(tensor.name)
    return kind, code(weights, None if of_columns is None else np.array(of_columns, np.float32)).tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", help="a GGUF file with float weights")
    parser.add_argument("output", help="the file to write")
    types = [kind for kind, (_, block, _) in gguf_file.TENSOR_TYPES.items() if block > 1]
    parser.add_argument("--type", choices=types, default="q8_0", help="what matrices become (default q8_0)")
    parser.add_argument("--peers", default=os.environ.get("BANTAM_PEERS", pathlib.Path(__file__).parent),
                        help="where node-llama-cpp is installed (default: BANTAM_PEERS, or beside this script)")
    parser.add_argument("--importance", help="JSON: mean square of every input, by tensor (benchmarks/importance.cpp makes it)")
    parser.add_argument("--tables", choices=list(CODERS), help="what embeddings and output become (default: what the rest does)")
    arguments = parser.parse_args()
    try:
        importance = json.loads(pathlib.Path(arguments.importance).read_text()) if arguments.importance else {}
        metadata, tensors = gguf_file.read(arguments.input)
        code = CODERS.get(arguments.type) or ggml_coder(arguments.type, arguments.peers)
        metadata["general.file_type"] = gguf_file.scalar("u32", gguf_file.FILE_TYPES[arguments.type])
        metadata["general.quantization_version"] = gguf_file.scalar("u32", 2)
        out = []
        for tensor in tensors:
            table = arguments.tables if tensor.name in ("token_embd.weight", "output.weight") else None
            kind, data = convert(tensor, table or arguments.type, CODERS[table] if table else code, importance)
            out.append((tensor.name, kind, tensor.shape, [data]))
        gguf_file.write(arguments.output, metadata, out)
    except (OSError, ValueError) as error:
        sys.exit(f"quantize_gguf.py: {error}")
    kept = [name for name, kind, shape, _ in out if kind != arguments.type and len(shape) > 1]
    print(f"{arguments.output}: {len(out)} tensors" + (f"; not quantized: {', '.join(kept)}" if kept else ""))


if __name__ == "__main__":
    main()
