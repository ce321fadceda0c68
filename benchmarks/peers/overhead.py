#!/usr/bin/python3
"""What a step costs beside its arithmetic: greedy decoding of a tiny model with one thread, bantam and llama.cpp.

  benchmarks/peers/overhead.py ../shared/data/models/stories260k/stories260k-f32.gguf

llama.cpp is called through its C functions (run.py goes through JavaScript, which would be most of such a step). Its
option structs are passed as it returns them, by value and larger than they can be, so that no layout is copied here.
Rounds alternate; medians in tokens a second.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = Path(os.environ.get("BANTAM_PEERS", ROOT / "tests" / "peers"))


class Options(ctypes.Structure):
    """A struct of options of any layout: more than 16 bytes travel in memory, and the callee reads what it knows."""
    _fields_ = [("bytes", ctypes.c_char * 1024)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("arrays", ctypes.c_void_p * 6)]


def function(library, name, result, *arguments):
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


class Peer:
    """A model and a context of llama.cpp: its own defaults, one thread."""

    def __init__(self, path):
        folder = next((HOME / "node_modules/@node-llama-cpp").glob("*/bins/*/libggml.*")).parent
        find = lambda stem: str(next(folder.glob(stem)))
        ctypes.CDLL(find("libggml-base.so*"), mode=ctypes.RTLD_GLOBAL)
        ggml = ctypes.CDLL(find("libggml.*"), mode=ctypes.RTLD_GLOBAL)
        llama = ctypes.CDLL(find("libllama.*"))
        quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.quiet = quiet
        function(llama, "llama_log_set", None, ctypes.c_void_p, ctypes.c_void_p)(ctypes.cast(quiet, ctypes.c_void_p), None)
        function(ggml, "ggml_backend_load_all_from_path", None, ctypes.c_char_p)(os.fsencode(folder))
        defaults = function(llama, "llama_model_default_params", Options)
        load = function(llama, "llama_model_load_from_file", ctypes.c_void_p, ctypes.c_char_p, Options)
        model = load(os.fsencode(path), defaults())
        context_defaults = function(llama, "llama_context_default_params", Options)
        self.context = function(llama, "llama_init_from_model", ctypes.c_void_p, ctypes.c_void_p, Options)(model, context_defaults())
        function(llama, "llama_set_n_threads", None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(self.context, 1, 1)
        self.vocabulary = function(llama, "llama_vocab_n_tokens", ctypes.c_int32, ctypes.c_void_p)(
            function(llama, "llama_model_get_vocab", ctypes.c_void_p, ctypes.c_void_p)(model))
        memory = function(llama, "llama_get_memory", ctypes.c_void_p, ctypes.c_void_p)(self.context)
        clear = function(llama, "llama_memory_clear", None, ctypes.c_void_p, ctypes.c_bool)
        self.clear = lambda: clear(memory, True)
        self.decode = function(llama, "llama_decode", ctypes.c_int32, ctypes.c_void_p, Batch)
        self.batch = function(llama, "llama_batch_get_one", Batch, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32)
        self.logits = function(llama, "llama_get_logits_ith", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)

    def speed(self, tokens):
        """Tokens a second: a step and a look at its logits; choosing the token is left out, in the peer's favour."""
        self.clear()
        token = (ctypes.c_int32 * 1)(1)
        begin = time.perf_counter()
        for step in range(tokens):
            if self.decode(self.context, self.batch(token, 1)):
                sys.exit("llama.cpp could not decode")
            self.logits(self.context, -1)
            token[0] = 300 + step % 100
        return tokens / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file of a small model")
    parser.add_argument("--bantam", default=ROOT / "build/release/bantam", type=Path, help="the program [%(default)s]")
    parser.add_argument("--tokens", default=256, type=int, help="[%(default)s]")
    parser.add_argument("--rounds", default=9, type=int, help="[%(default)s]")
    options = parser.parse_args()
    peer = Peer(options.model)
    pairs = []
    for _ in range(options.rounds):
        seen = json.loads(subprocess.run([options.bantam, "bench", options.model, "-p", "0", "-n", str(options.tokens), "-r", "1",
                                          "--threads", "1", "--json"], capture_output=True, text=True, check=True).stdout)
        pairs.append((seen["generate"]["tok_s"]["median"], max(peer.speed(options.tokens) for _ in range(2))))
    ours, theirs = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{options.model.name}: bantam {ours:.0f}, llama.cpp {theirs:.0f} tokens a second, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
