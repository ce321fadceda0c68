"""llama.cpp through its C functions, from node-llama-cpp's prebuilt library: JavaScript would be most of a small step.

Its option structs are passed as it returns them, by value and larger than they can be, so that no layout is copied here but the four numbers
that a context begins with.
"""

import ctypes
import os
import sys
from pathlib import Path

HOME = Path(os.environ.get("BANTAM_PEERS", Path(__file__).resolve().parent.parent.parent / "tests" / "peers"))


class Options(ctypes.Structure):
    """A struct of options of any layout: more than 16 bytes travel in memory, and the callee reads what it knows."""
    _fields_ = [("bytes", ctypes.c_char * 1024)]


class Batch(ctypes.Structure):
    """token, embd, pos, n_seq_id, seq_id, logits"""
    _fields_ = [("n_tokens", ctypes.c_int32), ("arrays", ctypes.c_void_p * 6)]


def function(library, name, result, *arguments):
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


class Peer:
    """A model and a context of llama.cpp. `sequences`: how many it holds, each of `length` tokens; 0: the library's defaults."""

    def __init__(self, path, threads, sequences=0, length=0):
        folder = next((HOME / "node_modules/@node-llama-cpp").glob("*/bins/*/libggml.*")).parent
        find = lambda stem: str(next(folder.glob(stem)))
        ctypes.CDLL(find("libggml-base.so*"), mode=ctypes.RTLD_GLOBAL)
        ggml = ctypes.CDLL(find("libggml.*"), mode=ctypes.RTLD_GLOBAL)
        llama = ctypes.CDLL(find("libllama.*"))
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        function(llama, "llama_log_set", None, ctypes.c_void_p, ctypes.c_void_p)(ctypes.cast(self.quiet, ctypes.c_void_p), None)
        function(ggml, "ggml_backend_load_all_from_path", None, ctypes.c_char_p)(os.fsencode(folder))
        defaults = function(llama, "llama_model_default_params", Options)
        load = function(llama, "llama_model_load_from_file", ctypes.c_void_p, ctypes.c_char_p, Options)
        model = load(os.fsencode(path), defaults())
        options = function(llama, "llama_context_default_params", Options)()
        if sequences:  # n_ctx, n_batch, n_ubatch, n_seq_max
            numbers = (ctypes.c_uint32 * 4).from_buffer(options)
            numbers[:] = sequences * length, 512, 512, sequences
        self.context = function(llama, "llama_init_from_model", ctypes.c_void_p, ctypes.c_void_p, Options)(model, options)
        function(llama, "llama_set_n_threads", None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(self.context, threads, threads)
        self.vocabulary = function(llama, "llama_vocab_n_tokens", ctypes.c_int32, ctypes.c_void_p)(
            function(llama, "llama_model_get_vocab", ctypes.c_void_p, ctypes.c_void_p)(model))
        memory = function(llama, "llama_get_memory", ctypes.c_void_p, ctypes.c_void_p)(self.context)
        clear = function(llama, "llama_memory_clear", None, ctypes.c_void_p, ctypes.c_bool)
        self.clear = lambda: clear(memory, True)
        self._decode = function(llama, "llama_decode", ctypes.c_int32, ctypes.c_void_p, Batch)
        self._logits = function(llama, "llama_get_logits_ith", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)

    def decode(self, tokens):
        """Evaluates (token, position, sequence, whether its logits are wanted), and waits for the logits of those that are."""
        n = len(tokens)
        sequences = [(ctypes.c_int32 * 1)(sequence) for _, _, sequence, _ in tokens]
        arrays = [(ctypes.c_int32 * n)(*(token for token, *_ in tokens)), None, (ctypes.c_int32 * n)(*(position for _, position, *_ in tokens)),
                  (ctypes.c_int32 * n)(*[1] * n), (ctypes.c_void_p * n)(*map(ctypes.addressof, sequences)),
                  (ctypes.c_int8 * n)(*(bool(wanted) for *_, wanted in tokens))]
        if self._decode(self.context, Batch(n, (ctypes.c_void_p * 6)(*(array and ctypes.addressof(array) for array in arrays)))):
            sys.exit("llama.cpp could not decode")
        for number, (*_, wanted) in enumerate(tokens):
            if wanted:
                self._logits(self.context, number)
