"""bantam compresses large language models and runs them on a CPU::

    import bantam

    model = bantam.load("Qwen3-0.6B")                    # a Hugging Face folder, a .gguf or a .bantam file
    small, report = bantam.compress(model, "gptq", format="q4", calibration="wiki.txt")
    small.save("qwen3-q4.bantam")

    with bantam.Session(small, context=4096) as session:
        for piece in session.stream("The capital of France is", max_tokens=64):
            print(piece, end="", flush=True)

Models may be used by several threads at once, a Session by one at a time; a Scheduler runs requests of many together. Errors are bantam.Error and Python's own.
"""

from . import _built  # first
from . import _bantam, llama_cpp
from ._bantam import Weights, __version__, cpu_info, formats, set_isa
from ._bench import bench
from ._chat import ReplyEvent, ReplyParser, parse_reply
from ._compress import Corpus, Layer, LayerReport, Report, compress, compress_file, save_imatrix
from ._compress_options import CompressFileOptions, CompressOptions
from ._errors import Cancelled, Corrupt, Error, FileError, GrammarError, InvalidArgument, Late, NotFound, OutOfMemory, QueueFull, Unsupported
from ._llama import Llama
from ._model import Adapter, Model, Tensor, Tokenizer, load
from ._options import (BeamOptions, BenchOptions, GenerateOptions, ImatrixOptions, LoadOptions, PerplexityOptions, QuantizeOptions, RequestOptions,
                       RestoreOptions, SamplingOptions, SchedulerOptions, SessionOptions)
from ._quality import Perplexity, perplexity
from ._scheduler import Request, RequestStats, Scheduler, SchedulerStats, TokenLogprob
from ._session import Beam, Continuation, Generation, Grammar, Sampler, Session, Stats, step
from ._weights import quantize

__all__ = [
    "Adapter", "Beam", "BeamOptions", "BenchOptions", "Cancelled", "CompressFileOptions", "CompressOptions", "Continuation", "Corpus", "Corrupt", "Error", "FileError", "GenerateOptions",
    "Generation", "Grammar", "GrammarError", "ImatrixOptions", "InvalidArgument", "Late", "Layer", "LayerReport", "Llama", "LoadOptions", "Model", "NotFound", "OutOfMemory", "Perplexity",
    "PerplexityOptions", "QuantizeOptions", "QueueFull", "ReplyEvent", "ReplyParser", "Report", "Request", "RequestOptions", "RequestStats", "RestoreOptions",
    "Sampler", "SamplingOptions", "Scheduler", "SchedulerOptions", "SchedulerStats", "Session", "SessionOptions", "Stats",
    "Tensor", "TokenLogprob", "Tokenizer", "Unsupported", "Weights", "__version__", "bench", "compress", "compress_file", "cpu_info", "formats", "load",
    "parse_reply", "perplexity", "quantize", "save_imatrix", "set_isa", "step",
]
