"""Speed, beside the machine's own limits."""

import random
import statistics

from . import _bantam
from ._model import model_of
from ._options import BenchOptions, takes
from ._session import Session


@takes(BenchOptions)
def bench(model, **options):
    """Tokens a second of reading a prompt and of decoding after `depth` tokens, medians, and what share of the machine's
    limits they reach: decoding reads every weight once a token; a prompt is two operations a weight and token."""
    model = model_of(model)
    prompt, generate, depth, threads = (options[name] for name in ("prompt", "generate", "depth", "threads"))
    how = {"threads": threads, "kv": options["kv"], "adapters": options["adapters"]}
    draw = random.Random(1)
    vocab = model.config["vocab"]

    def ids(count):
        return [draw.randrange(3, vocab) for _ in range(count)]

    reading, decoding = [], []
    for _ in range(options["repetitions"]):
        if prompt > 0:
            with Session(model, context=prompt + 1, **how) as session:
                run = session.stream(ids(prompt), max_tokens=0)
                list(run)
                reading.append(run.stats.prompt_per_second)
        if generate > 0:
            with Session(model, context=depth + generate + 2, **how) as session:
                run = session.stream(ids(depth + 1), max_tokens=generate, ignore_end=True, temperature=0)
                list(run)
                decoding.append(run.stats.tokens_per_second)
    read_gb_s = _bantam.measure_read_gb_s(threads)
    int8_gop_s = _bantam.measure_int8_gop_s(threads)
    result = {"read_gb_s_measured": read_gb_s, "int8_gop_s_measured": int8_gop_s, "weight_bytes": model.nbytes, **_bantam.cpu_info()}
    if reading:
        result["prompt_tok_s"] = statistics.median(reading)
    if decoding:
        result["generate_tok_s"] = statistics.median(decoding)
        result["read_gb_s"] = result["generate_tok_s"] * model.nbytes / 1e9
    return result
