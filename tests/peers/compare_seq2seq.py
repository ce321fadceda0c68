"""A random T5 of each kind gives llama.cpp's probabilities from the GGUF file that bantam writes of it: an encoder that reads a text, and a decoder
that answers token by token. node-llama-cpp drives no encoders before decoders, so its library is called by itself.

usage: compare_seq2seq.py BANTAM WRITE_TINY_MODELS SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where node-llama-cpp or NumPy is absent.
"""

import ctypes
import json
import os
import pathlib
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian's python3-numpy)")
    sys.exit(77)

import gguf_file
from compare_architectures import SEEDS, VOCABULARY, largest_difference, log_probabilities, run

NAMES = ("t5-", "t5_2-", "mt5-", "umt5-")
SOURCE, TOKENS = 150, 60  # beyond the last bucket of distances
# Of the likelier half of the tokens, in log probability.
TOLERANCE = 2e-4
# llama.cpp looks the GELU up in a table of halves.
TOLERANCE_OF_GELU = 4e-3


class Opaque(ctypes.Structure):
    """Room for any of llama.cpp's structures of parameters, which are asked of it and handed back as they are."""

    _fields_ = [("words", ctypes.c_uint64 * 64)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")]


def library(folder):
    """llama.cpp, with its backend for this processor."""
    ggml = ctypes.CDLL(str(next(folder.glob("libggml.v*.so"), folder / "libggml.so")), mode=ctypes.RTLD_GLOBAL)
    llama = ctypes.CDLL(str(next(folder.glob("libllama.v*.so"), folder / "libllama.so")), mode=ctypes.RTLD_GLOBAL)
    quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)
    llama.quiet = quiet  # lives as long as the library
    llama.llama_log_set(quiet, None)
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load_all_from_path(str(folder).encode())
    llama.llama_backend_init()
    for name in ("llama_model_default_params", "llama_context_default_params"):
        getattr(llama, name).restype = Opaque
    llama.llama_model_load_from_file.restype = llama.llama_init_from_model.restype = ctypes.c_void_p
    llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Opaque]
    llama.llama_init_from_model.argtypes = [ctypes.c_void_p, Opaque]
    llama.llama_batch_get_one.restype = Batch
    llama.llama_batch_get_one.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    llama.llama_encode.argtypes = llama.llama_decode.argtypes = [ctypes.c_void_p, Batch]
    llama.llama_get_logits_ith.restype = ctypes.POINTER(ctypes.c_float)
    llama.llama_get_logits_ith.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    llama.llama_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
    llama.llama_model_decoder_start_token.argtypes = llama.llama_free.argtypes = llama.llama_model_free.argtypes = [ctypes.c_void_p]
    return llama


def answers(llama, path, source, tokens):
    """Logits after the decoder's start and each of `tokens`, (1 + tokens, vocabulary)."""
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    parameters = llama.llama_context_default_params()
    # Keys and values as floats: their types, twice f16 (1), stand side by side, as no other numbers do. And no flash attention, which rounds to
    # halves: it is the last of four choices that are left open (-1).
    words = list(parameters.words)
    (kinds,) = [i for i, word in enumerate(words) if word == 0x100000001]
    (open_choices,) = [i for i in range(len(words) - 1) if words[i] == words[i + 1] == 2**64 - 1]
    parameters.words[kinds] = 0
    parameters.words[open_choices + 1] = 2**32 - 1
    context = llama.llama_init_from_model(model, parameters)
    if not model or not context:
        sys.exit(f"{path}: llama.cpp does not load it")
    llama.llama_set_n_threads(context, 1, 1)  # several wait for each other longer than they work
    read = (ctypes.c_int32 * len(source))(*source)
    if llama.llama_encode(context, llama.llama_batch_get_one(read, len(source))) != 0:
        sys.exit(f"{path}: llama.cpp's encoder fails")
    rows = []
    for token in [llama.llama_model_decoder_start_token(model), *tokens]:
        one = (ctypes.c_int32 * 1)(token)
        if llama.llama_decode(context, llama.llama_batch_get_one(one, 1)) != 0:
            sys.exit(f"{path}: llama.cpp's decoder fails")
        rows.append(np.ctypeslib.as_array(llama.llama_get_logits_ith(context, -1), (VOCABULARY,)).astype(np.float64).copy())
    llama.llama_free(context)
    llama.llama_model_free(model)
    return np.array(rows)


def main():
    bantam, writer, scripts = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    libraries = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts)) / "node_modules" / "@node-llama-cpp" / "linux-x64" / "bins" / "linux-x64"
    if not libraries.exists():
        print("skipped: node-llama-cpp is not installed (tests/peers/README.md)")
        sys.exit(77)
    llama = library(libraries)
    source = [1] + [(i * 7 + i * i) % VOCABULARY for i in range(1, SOURCE)]
    tokens = [(i * 5 + 3 * i * i + 1) % VOCABULARY for i in range(TOKENS)]
    failures = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in run([writer, folder, ",".join(SEEDS), *NAMES]).split():
            path = pathlib.Path(folder) / name
            gguf, plain = path.with_suffix(".gguf"), pathlib.Path(folder) / f"{name}-plain.gguf"
            run([bantam, "compress", path, "-o", gguf, "--to", "gguf", "--format", "f32"])
            # It stops at vocabularies of letters alone but for those of T5.
            metadata, tensors = gguf_file.read(gguf)
            metadata["tokenizer.ggml.model"] = gguf_file.string("t5")
            gguf_file.write(plain, metadata, [(t.name, t.kind, t.shape, [t.data]) for t in tensors])
            logits = answers(llama, plain, source, tokens)
            # T5 1.0 divides logits by the root of its width where its head is the embedding; llama.cpp does not.
            if json.loads((path / "config.json").read_text())["tie_word_embeddings"]:
                logits /= np.sqrt(metadata["t5.embedding_length"][1])
            expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
            theirs = [dict(enumerate(row)) for row in expected]
            for file in (gguf, path):
                positions = json.loads(run([bantam, "logits", file, "--ids", json.dumps(source), "--decoder-ids", json.dumps(tokens), "--top", VOCABULARY, "--all-positions",
                                            "--kv", "f32", "--json"]))["positions"]
                mine = log_probabilities([position["top"] for position in positions])
                difference = largest_difference(mine, theirs)
                verdict = "agrees" if difference < (TOLERANCE if name.startswith("t5-") else TOLERANCE_OF_GELU) and len(mine) == len(theirs) == TOKENS + 1 else "DIFFERS"
                failures += verdict == "DIFFERS"
                compared += 1
                print(f"{file.name}: {verdict}, log probabilities at most {difference:.5f} apart over {len(theirs)} tokens")
    sys.exit(1 if failures or compared != 2 * len(NAMES) * len(SEEDS) else 0)


if __name__ == "__main__":
    main()
