"""The mixes of llama.cpp's names must give every matrix the type that llama.cpp's own quantizer gives it: for each mix, and for
models of several depths, of few and many key-value heads, with and without a head of their own.

usage: compare_mixes.py BANTAM SHARED_DATA SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where node-llama-cpp or the data is absent.
"""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf_file

# Numbers of llama.h's llama_ftype.
FILE_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14,
              "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20, "Q2_K_S": 21, "IQ3_XS": 22, "IQ3_XXS": 23,
              "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28, "IQ2_M": 29, "IQ4_XS": 30, "IQ1_M": 31}
# GGUF's type of each of our formats.
TYPES = {"i4.g32": "q4_0", "i4m.g32": "q4_1", "i5.g32": "q5_0", "i5m.g32": "q5_1", "i8.g32": "q8_0", "q2k.g16": "q2_K", "q3k.g16": "q3_K",
         "q4k.g32": "q4_K", "q5k.g32": "q5_K", "q6k.g16": "q6_K", "iq4nl.g32": "iq4_nl", "iq4xs.g32": "iq4_xs", "f16": "f16",
         "iq3_s.g32": "iq3_s", "iq3_xxs.g32": "iq3_xxs", "iq2_s.g16": "iq2_s", "iq2_xs.g16": "iq2_xs", "iq2_xxs.g32": "iq2_xxs",
         "iq1_m.g16": "iq1_m", "iq1_s.g32": "iq1_s"}
HEADS, HEAD_DIM = 8, 32
# (layers, key-value heads, has a head, columns of the down projection, experts): 80 layers, and 8 experts, are kinds of their own there.
MODELS = [(1, 8, False, 256, 0), (9, 4, True, 256, 0), (16, 2, False, 256, 0), (33, 8, True, 256, 0), (80, 1, True, 256, 0), (80, 8, False, 256, 0),
          (8, 4, True, 288, 0), (8, 4, True, 264, 0), (17, 4, True, 256, 8), (80, 2, False, 256, 8), (9, 8, True, 256, 3), (16, 2, True, 256, 16)]


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


class Parameters(ctypes.Structure):
    """llama_model_quantize_params"""

    _fields_ = [("threads", ctypes.c_int32), ("file_type", ctypes.c_int), ("output_type", ctypes.c_int), ("embedding_type", ctypes.c_int),
                *[(name, ctypes.c_bool) for name in ("allow_requantize", "quantize_output", "only_copy", "pure", "keep_split", "dry_run")],
                *[(name, ctypes.c_void_p) for name in ("imatrix", "overrides", "tensor_types", "prune_layers")]]


class Importance(ctypes.Structure):
    """llama_model_imatrix_data"""

    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


class Quantizer:
    """llama.cpp's, which is asked what it would do."""

    LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

    def __init__(self, folder):
        self.library = ctypes.CDLL(str(next(folder.glob("libllama.v*.so"))))
        self.library.llama_model_quantize_default_params.restype = Parameters
        self.library.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Parameters)]
        self.log = b""
        self.callback = self.LogCallback(self.note)  # kept: llama.cpp does not
        self.library.llama_log_set(self.callback, None)

    def note(self, _level, text, _user):
        self.log += text or b""

    def types(self, path, mix):
        """{tensor: type} of the matrices that it changes; None when it refuses."""
        parameters = self.library.llama_model_quantize_default_params()
        parameters.file_type, parameters.dry_run, parameters.threads = FILE_TYPES[mix], True, 1
        # These it makes with an importance matrix alone: one, and an empty entry that ends the list.
        some = (Importance * 2)(Importance(b"some", (ctypes.c_float * 1)(1), 1))
        if mix.startswith(("IQ1", "IQ2", "IQ3")):
            parameters.imatrix = ctypes.cast(some, ctypes.c_void_p)
        self.log = b""
        if self.library.llama_model_quantize(str(path).encode(), b"/dev/null", ctypes.byref(parameters)) != 0:
            return None
        # "[   3/  38] blk.0.attn_k.weight   - [   256,    128,   1,   1], type =    f16, size =   0.06 MiB ->   0.02 MiB (q4_K)"
        return dict(re.findall(r"\] (\S+)\.weight +- \[.*-> .*\((\w+)\)", self.log.decode(errors="replace")))


def our_name(name):
    """model.layers.3.mlp.down_proj of blk.3.ffn_down."""
    parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    experts = {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}
    if name.startswith("blk."):
        _, layer, part = name.split(".")
        return f"model.layers.{layer}." + (parts[part] if part in parts else f"block_sparse_moe.experts.0.{experts[part]}")
    return {"token_embd": "model.embed_tokens", "output": "lm_head"}[name]


def write_model(path, vocabulary, layers, kv_heads, head, ffn, experts):
    """A model of zeros with books4m's vocabulary."""
    dim = HEADS * HEAD_DIM
    metadata = dict(vocabulary)
    sizes = {"block_count": layers, "embedding_length": dim, "feed_forward_length": ffn, "attention.head_count": HEADS,
             "attention.head_count_kv": kv_heads, "rope.dimension_count": HEAD_DIM}
    if experts:
        sizes |= {"expert_count": experts, "expert_used_count": 2}
    metadata.update({f"llama.{key}": gguf_file.scalar("u32", value) for key, value in sizes.items()})
    shapes = {"token_embd": (4096, dim), "output_norm": (dim,)}
    if head:
        shapes["output"] = (4096, dim)
    for layer in range(layers):
        block = {"attn_norm": (dim,), "ffn_norm": (dim,), "attn_q": (dim, dim), "attn_k": (kv_heads * HEAD_DIM, dim), "attn_v": (kv_heads * HEAD_DIM, dim),
                 "attn_output": (dim, dim), "ffn_gate": (ffn, dim), "ffn_up": (ffn, dim), "ffn_down": (dim, ffn)}
        if experts:
            block = {f"{name}_exps" if "ffn_" in name and len(shape) == 2 else name: (experts, *shape) if "ffn_" in name and len(shape) == 2 else shape
                     for name, shape in block.items()}
            block["ffn_gate_inp"] = (experts, dim)
        shapes.update({f"blk.{layer}.{name}": shape for name, shape in block.items()})
    tensors = []
    for name, shape in shapes.items():
        kind = "f32" if len(shape) == 1 or name.endswith("ffn_gate_inp") else "f16"
        tensors.append((f"{name}.weight", kind, shape, [bytes(gguf_file.tensor_bytes(kind, shape))]))
    gguf_file.write(path, metadata, tensors)


def main():
    bantam, data, scripts = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    peers = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts)) / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
    if not peers.is_dir():
        skip("node-llama-cpp is not installed (tests/peers/README.md)")
    vocabulary = data / "models/books4m/books4m-f16.gguf"
    if not vocabulary.exists():
        skip("no shared models")
    metadata, _ = gguf_file.read(vocabulary)
    mixes = json.loads(subprocess.run([bantam, "formats", "--json"], check=True, capture_output=True).stdout)["mixes"]
    if missing := sorted(set(mixes) ^ set(FILE_TYPES)):
        sys.exit(f"mixes of one side only: {missing}")
    quantizer = Quantizer(peers)
    different = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for layers, kv_heads, head, ffn, experts in MODELS:
            path = pathlib.Path(folder) / "model.gguf"
            write_model(path, metadata, layers, kv_heads, head, ffn, experts)
            for mix in mixes:
                theirs = quantizer.types(path, mix)
                if theirs is None:
                    sys.exit(f"llama.cpp refuses {mix}: {quantizer.log.decode(errors='replace')[-500:]}")
                plan = json.loads(subprocess.run([bantam, "compress", path, "--dry-run", "--json", "--format", mix, "--to", "gguf"], check=True,
                                                 capture_output=True).stdout)
                # Routers stay as they are; the first expert stands for all of its layer.
                ours = {matrix["name"]: TYPES[matrix["format"]] for matrix in plan["layers"]
                        if not matrix["name"].endswith("block_sparse_moe.gate") and ("experts." not in matrix["name"] or "experts.0." in matrix["name"])}
                # It says nothing of what stays as it is, f16.
                expected = {**dict.fromkeys(ours, "f16"), **{our_name(name): kind for name, kind in theirs.items()}}
                compared += len(ours)
                for name in sorted(ours.keys() | expected.keys()):
                    if ours.get(name) != expected.get(name):
                        different += 1
                        print(f"{mix}, {layers} layers, {kv_heads} of {HEADS} heads, {'own' if head else 'no'} head, {experts} experts: {name}: {ours.get(name)}, llama.cpp {expected.get(name)}")
    print(f"{compared} matrices compared, {different} differ")
    sys.exit(1 if different or compared == 0 else 0)


if __name__ == "__main__":
    main()
