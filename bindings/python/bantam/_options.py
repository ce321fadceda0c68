"""Options by name: their types, defaults and meaning, in one place. Type checkers and editors read the classes below, the
functions that take them check by them, and help() lists them.

`@takes(Options)` on a function with **options does the last two.
"""

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Optional, TypedDict, Union, get_args, get_origin, get_type_hints

from ._errors import InvalidArgument

_INT = (-(2**31), 2**31 - 1)
_SEED = (0, 2**64 - 1)
_BYTES = (0, 2**62)


@dataclass(frozen=True)
class Option:
    """What a type does not say of an option."""

    default: Any
    meaning: str
    low: int = _INT[0]  #: of integers
    high: int = _INT[1]


_COUNT = Option(0, "", low=0)


class SamplingOptions(TypedDict, total=False):
    """How the next token is chosen."""

    temperature: Annotated[float, Option(0.8, "divides the logits; 0: the most probable token")]
    top_k: Annotated[int, Option(40, "keep the k most probable tokens; 0: all", low=0)]
    top_p: Annotated[float, Option(0.95, "keep the fewest tokens that hold this much probability; 1: all")]
    min_p: Annotated[float, Option(0.05, "drop tokens less probable than this share of the most probable; 0: none")]
    typical_p: Annotated[float, Option(1.0, "locally typical sampling; 1: off")]
    repeat_penalty: Annotated[float, Option(1.0, "repeated tokens: positive logits are divided, others multiplied by it; 1: off")]
    frequency_penalty: Annotated[float, Option(0.0, "taken from a logit for each time that its token was seen")]
    presence_penalty: Annotated[float, Option(0.0, "taken from the logits of all tokens seen")]
    repeat_last_n: Annotated[int, Option(64, "the penalties see this many last tokens; 0: none, -1: all", low=-1)]
    seed: Annotated[int, Option(0, "the same seed, the same text", *_SEED)]
    mirostat: Annotated[int, Option(0, "1 or 2: Mirostat instead of top_k, top_p, min_p and typical_p", 0, 2)]
    mirostat_tau: Annotated[float, Option(5.0, "Mirostat's target: surprise of a token, in bits")]
    mirostat_eta: Annotated[float, Option(0.1, "Mirostat's learning rate")]
    dry_multiplier: Annotated[float, Option(0.0, "DRY: lowers what goes on with a repetition; 0: off")]
    dry_base: Annotated[float, Option(1.75, "DRY: by this to the power of what it is longer than allowed")]
    dry_allowed_length: Annotated[int, Option(2, "DRY: tokens that may be repeated", low=1)]
    dry_penalty_last_n: Annotated[int, Option(-1, "DRY: tokens that it looks back; 0: none, -1: all", low=-1)]
    dry_sequence_breakers: Annotated[Sequence[str], Option(("\n", ":", "\"", "*"), "DRY: repetitions end at tokens with one of these texts, in sessions")]
    top_n_sigma: Annotated[float, Option(0.0, "keep logits this many standard deviations below the highest; 0: all")]
    xtc_probability: Annotated[float, Option(0.0, "XTC: how often the most probable tokens are left out; 0: never")]
    xtc_threshold: Annotated[float, Option(0.1, "XTC: of tokens of this probability and more the least stays")]
    dynatemp_range: Annotated[float, Option(0.0, "the temperature goes by entropy, so far up and down; 0: off")]
    dynatemp_exponent: Annotated[float, Option(1.0, "exponent of the share of entropy in that")]
    logit_bias: Annotated[Optional[Mapping[int, float]], Option(None, "{id: value} added to logits; -inf forbids a token")]
    order: Annotated[Optional[Sequence[str]], Option(
        None, "stages in their order: penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature; one left out is off")]


class GenerateOptions(SamplingOptions, total=False):
    """How text is generated."""

    max_tokens: Annotated[int, Option(256, "-1: until the model ends or the context is full", low=-1)]
    stop: Annotated[Sequence[str], Option((), "texts that end the generation and are not part of it: a list, also of one")]
    ignore_end: Annotated[bool, Option(False, "go on after the model's end token")]
    spell: Annotated[Sequence[int], Option((), "ids of special tokens that the text spells out (Tokenizer.reply_tokens)")]
    lookup: Annotated[int, Option(0, "guess up to this many tokens from where the last ones stood before; the text is the same", 0, 16)]
    mtp: Annotated[int, Option(0, "the same by the layer that the model has for it (multi-token prediction)", 0, 16)]
    process: Annotated[Optional[Callable[..., Any]], Option(
        None, "called as process(ids, logits) before each token is drawn; it may change logits, and False ends the generation")]
    grammar: Annotated[Any, Option(None, "a Grammar, or GBNF as a text: nothing else comes out")]
    json_schema: Annotated[Any, Option(None, "a JSON schema, as a dict or a text: nothing but JSON that it allows comes out")]
    add_special: Annotated[bool, Option(True, "a text begins with what the tokenizer puts in front (BOS)")]
    parse_special: Annotated[bool, Option(False, "a text that spells a special token becomes that token")]


class BeamOptions(TypedDict, total=False):
    """How the most probable texts are searched."""

    beams: Annotated[int, Option(4, "beginnings that are followed at once, in one pass over the weights", 1, 1024)]
    results: Annotated[int, Option(1, "texts to give back, as many as beams at most", 1, 1024)]
    max_tokens: Annotated[int, Option(64, "of a text", low=1)]
    length_penalty: Annotated[float, Option(1.0, "scores are log probabilities over tokens to this power")]
    grammar: Annotated[Any, Option(None, "a Grammar, or GBNF as a text: nothing else comes out")]
    json_schema: Annotated[Any, Option(None, "a JSON schema, as a dict or a text: nothing but JSON that it allows comes out")]


class ThreadOptions(TypedDict, total=False):
    """How many threads."""

    threads: Annotated[int, Option(0, "0: the processor's cores", 0, 1024)]


class AdapterOptions(ThreadOptions, total=False):
    """What is added to a model."""

    adapters: Annotated[Any, Option(None, "a list of Adapter, paths of such, or pairs (one of these, scale); a saved session wants those that it had")]


class RunOptions(AdapterOptions, total=False):
    """What a model is run with."""

    kv: Annotated[str, Option("f16", 'keys and values as "f16", "q8", "q4", "q3" or "f32"')]


class StateOptions(TypedDict, total=False):
    """How much of a text is in memory."""

    memory_limit: Annotated[int, Option(0, "bytes for keys, values and recurrent states; older ones are in a file, and the text is the same; 0: all are in memory", *_BYTES)]
    memory_folder: Annotated[Union[str, os.PathLike], Option("", "where that file is, which nobody else sees; empty: $TMPDIR, or /var/tmp")]


class SessionOptions(RunOptions, StateOptions, total=False):
    """Of a session."""

    context: Annotated[int, Option(0, "most tokens that it may hold; 0: what the model was made for", low=0)]


class RestoreOptions(AdapterOptions, StateOptions, total=False):
    """Of a session from a file, which says how its keys and values are kept."""

    context: Annotated[int, Option(0, "most tokens that it may hold; 0: what the model was made for", low=0)]


class SchedulerOptions(SessionOptions, total=False):
    """Of a scheduler; those of sessions are each text's."""

    parallel: Annotated[int, Option(4, "texts that are generated at once", 1, 1024)]
    queue: Annotated[int, Option(-1, "requests that may be at hand beyond these; -1: four for each", low=-1)]
    kept: Annotated[int, Option(-1, "ended texts that are kept for prompts that begin like them; -1: as many as run at once", low=-1)]
    lookup: Annotated[int, Option(0, "guess up to this many tokens of each text from where the last ones stood before; texts are the same", 0, 16)]
    mtp: Annotated[int, Option(0, "the same by the layer that the model has for it (multi-token prediction)", 0, 16)]
    draft: Annotated[Any, Option(None, "the same by a smaller model of the same vocabulary: a Model, or its path")]
    step_ms: Annotated[int, Option(200, "long prompts are read in pieces that take about so long, beside texts that are generated", low=1)]


class RequestOptions(GenerateOptions, total=False):
    """Of a request to a scheduler."""

    logprobs: Annotated[Optional[int], Option(None, "log probabilities of tokens, and of so many of the most probable ones beside each", low=0)]
    prompt_logprobs: Annotated[Optional[int], Option(None, "the same of the prompt's tokens, which are then read from the first on", low=0)]
    priority: Annotated[int, Option(0, "the higher, the earlier; nobody waits for ever")]
    client: Annotated[str, Option("", "who asks: of those of equal priority places go to who has the fewest")]
    timeout: Annotated[Optional[float], Option(None, "seconds until the text has to be whole; then it ends as Late")]
    queue_timeout: Annotated[Optional[float], Option(None, "seconds that it waits for a place at most, in the same way")]
    reuse: Annotated[bool, Option(True, "goes on from what other texts read; the result is the same")]
    adapters: Annotated[Any, Option(None, "in the place of the scheduler's: a list of Adapter, paths of such, or pairs (one of these, scale)")]


class LoadOptions(TypedDict, total=False):
    """Of loading a model."""

    memory: Annotated[str, Option("automatic", 'where weights of .bantam files lie: "automatic", "mapped", "huge_pages" or "direct"')]
    gptq_zero: Annotated[str, Option("automatic", 'what GPTQ folders mean by zero points: "automatic", "v1" or "v2"')]
    memory_limit: Annotated[int, Option(0, "bytes for weights; what does not fit is read from the file as it is wanted; 0: seven eighths of what is free", *_BYTES)]
    device_map: Annotated[Union[str, Mapping[str, str], None], Option(
        None, '{part of the model: "cpu" or "disk"} as accelerate has it, "" being all of it, or one of both words: what stays in memory; None, "auto": what fits')]


class QuantizeOptions(TypedDict, total=False):
    """How a matrix is rounded."""

    group: Annotated[int, Option(-1, "weights that share a scale; -1: the format's usual, 0: a row", low=-1)]


class CompressCallbacks(TypedDict, total=False):
    """What compression asks and tells while it runs; what else it takes is a table of the library's (_compress_options)."""

    importance: Annotated[Optional[Callable[..., Any]], Option(
        None, "a callable (part, layer, reader, mean_squares) -> array, of what each of a layer's channels or heads is worth")]
    progress: Annotated[Union[bool, Callable[..., Optional[bool]], None], Option(
        None, "True for a bar (tqdm), or a callable (done, total, layer, relative_error, seconds_left); False cancels")]


class ImatrixOptions(TypedDict, total=False):
    """What an importance matrix is measured on."""

    calibration: Annotated[Any, Option(None, "text like what the model will read; without one a bundled text serves (a path or a Corpus)")]
    samples: Annotated[int, Option(128, "pieces of it", 1)]
    tokens: Annotated[int, Option(2048, "tokens a piece", 1)]


class PerplexityOptions(RunOptions, total=False):
    """How perplexity is measured."""

    context: Annotated[int, Option(512, "tokens of a window", low=2)]
    limit: Annotated[int, Option(0, "tokens of the text to use; 0: all", low=0)]
    progress: Annotated[Optional[Callable[[int, int], Optional[bool]]], Option(None, "called with (windows done, windows); False cancels")]


class BenchOptions(RunOptions, total=False):
    """What is measured."""

    prompt: Annotated[int, Option(512, "tokens of the prompt; 0: none is read", low=0)]
    generate: Annotated[int, Option(128, "tokens to generate; 0: none", low=0)]
    repetitions: Annotated[int, Option(3, "the median of them counts", low=1)]
    depth: Annotated[int, Option(0, "tokens that stand before the generated ones", low=0)]


def table_of(kind):
    """{name: (type, Option)} of a class of options."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: get_args(hint) for name, hint in hints.items()}


_PLURALS = {float: "numbers", int: "integers", str: "texts"}


def spelled(kind):
    """A type as messages and help() name it."""
    if get_origin(kind) is Union:
        return " or ".join(spelled(part) for part in get_args(kind))
    if kind is type(None):
        return "None"
    origin = get_origin(kind) or kind
    if origin is Callable:
        return "a function"
    if origin is Sequence:
        return f"a list of {_PLURALS[get_args(kind)[0]]}"
    if origin is Mapping:
        return "a dict of {} to {}".format(*(_PLURALS[part] for part in get_args(kind)))
    return {float: "a number", int: "an integer", str: "a text", bool: "True or False", os.PathLike: "a path"}.get(origin, "anything")


def shown(value):
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def _fitting(kind, value):
    """The value as `kind`, in Python's own types; raises TypeError where it is none."""
    if kind is Any:
        return value
    if get_origin(kind) is Union:
        for part in get_args(kind):
            try:
                return _fitting(part, value)
            except TypeError:
                continue
        raise TypeError
    origin = get_origin(kind) or kind
    is_bool = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")
    if kind is bool and is_bool:
        return bool(value)
    if kind is int and isinstance(value, numbers.Integral) and not is_bool:
        return int(value)
    if kind is float and isinstance(value, numbers.Real) and not is_bool:
        return float(value)
    if kind is str and isinstance(value, str):
        return str(value)
    if kind is type(None) and value is None:
        return None
    if origin is os.PathLike and isinstance(value, os.PathLike):
        return value
    if origin is Callable and callable(value):
        return value
    if origin is Sequence and not isinstance(value, (str, bytes, bytearray, Mapping)):
        (part,) = get_args(kind)
        return [_fitting(part, one) for one in value]
    if origin is Mapping and isinstance(value, Mapping):
        key, part = get_args(kind)
        return {_fitting(key, name): _fitting(part, one) for name, one in value.items()}
    raise TypeError


def check_one(name, value, kind, option):
    """The value of one option; TypeError or InvalidArgument with its name."""
    try:
        fitting = _fitting(kind, value)
    except TypeError:
        hint = f"; for one, write [{value!r}]" if get_origin(kind) is Sequence and isinstance(value, str) and len(value) <= 40 else ""
        raise TypeError(f"{name}: expected {spelled(kind)}, found {shown(value)}{hint}") from None
    if isinstance(fitting, int) and not isinstance(fitting, bool) and not option.low <= fitting <= option.high:
        raise InvalidArgument(f"{name}: expected {option.low} to {option.high}, found {fitting}")
    return fitting


def closest(name, names):
    """', did you mean top_k?', or nothing."""
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def check(function, table, options):
    """All options of a table: those given, checked, and the others at their defaults."""
    for name in options:
        if name not in table:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{closest(name, table)}")
    return {name: check_one(name, options[name], kind, option) if name in options else option.default
            for name, (kind, option) in table.items()}


def takes(kind):
    """Decorates a function with **options: they are checked by `kind`, filled with its defaults, and listed in help() and in the
    function's signature."""
    table = table_of(kind)

    def decorate(function):
        own = inspect.signature(function)
        parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = {p.name for p in parameters}

        @functools.wraps(function)
        def call(*args, **given):
            mine = {name: given.pop(name) for name in list(given) if name in named}
            return function(*args, **mine, **check(function.__name__, table, given))

        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=kind)
                for name, (kind, option) in table.items() if name not in named]
        call.__signature__ = own.replace(parameters=parameters + more)
        lines = [f"    {name}={option.default!r}: {spelled(kind)}. {option.meaning}" for name, (kind, option) in table.items()]
        call.__doc__ = inspect.cleandoc(function.__doc__ or "") + "\n\nOptions:\n" + "\n".join(lines)
        return call

    return decorate


def text_of(name, value):
    """A text, or TypeError with the argument's name."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, found {shown(value)}")
    return value


def number_of(name, value):
    """A number, or TypeError with the argument's name."""
    return check_one(name, value, float, None)


def count_of(name, value):
    """A number of something, 0 or more, or TypeError or InvalidArgument with the argument's name."""
    return check_one(name, value, int, _COUNT)


def ids_of(name, value):
    """Token ids as a list, or TypeError with the argument's name."""
    try:
        if isinstance(value, (str, bytes, bytearray, Mapping)):
            raise TypeError
        ids = [_fitting(int, id) for id in value]
    except TypeError:
        raise TypeError(f"{name}: expected token ids, found {shown(value)}") from None
    for id in ids:
        if not _INT[0] <= id <= _INT[1]:
            raise InvalidArgument(f"{name}: expected token ids, found {id}")
    return ids


def prompt_of(value):
    """A text, or token ids."""
    if isinstance(value, str):
        return value
    try:
        return ids_of("prompt", value)
    except TypeError:
        raise TypeError(f"prompt: expected a text or token ids, found {shown(value)}") from None


def path_of(name, value):
    """A path as text, or TypeError with the argument's name."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise TypeError(f"{name}: expected a path, found {shown(value)}")
