"""Conversations with a model: sessions, and text streaming out of them."""

import asyncio
import json
from dataclasses import dataclass

from . import _bantam
from ._chat import messages_of, render
from ._errors import InvalidArgument
from ._model import adapters_of, model_of
from ._options import BeamOptions, GenerateOptions, RestoreOptions, SamplingOptions, SessionOptions, count_of, ids_of, path_of, prompt_of, shown, takes, text_of


@dataclass(frozen=True)
class Stats:
    """How a generation went."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    prompt_ms: float = 0.0
    generate_ms: float = 0.0
    guessed_tokens: int = 0
    right_guesses: int = 0

    @property
    def prompt_per_second(self):
        return 1000 * self.prompt_tokens / self.prompt_ms if self.prompt_ms else 0.0

    @property
    def tokens_per_second(self):
        return 1000 * self.generated_tokens / self.generate_ms if self.generate_ms else 0.0

    def __str__(self):
        return f"Stats(prompt={self.prompt_per_second:.1f} tok/s, generate={self.tokens_per_second:.1f} tok/s)"


@dataclass(frozen=True)
class Continuation:
    """One of several texts behind a prompt."""

    tokens: list  #: ids, the end token left out
    text: str
    finish_reason: str


@dataclass(frozen=True)
class Beam(Continuation):
    """A text that beam search found."""

    log_probability: float  #: of all its tokens, that of the end included
    score: float


class Generation:
    """Text as it is generated: an iterator of pieces, each whole characters. `async for` works too. Leaving the loop computes
    no further token, and the session stays usable."""

    def __init__(self, made):
        self._made = made

    def __iter__(self):
        return self

    def __next__(self):
        return self._made.__next__()

    def __aiter__(self):
        return self

    async def __anext__(self):
        piece = await asyncio.get_running_loop().run_in_executor(None, next, self, None)
        if piece is None:
            raise StopAsyncIteration
        return piece

    def text(self):
        """What is left of it, whole."""
        return "".join(self)

    @property
    def tokens(self):
        """Ids generated so far, the end token left out."""
        return self._made.tokens

    @property
    def finish_reason(self):
        """"running", "stop", "length" or "cancelled"."""
        return self._made.finish_reason

    @property
    def stats(self):
        return Stats(**self._made.stats)


def step(generations):
    """One token more for each of several generations that still run, in one pass over the weights: a batch costs little more
    than one of them. Their sessions are different ones of one model and of equal context. Returns what each gained, and how
    many run on."""
    return _bantam.step([g._made for g in generations])


class Sampler(_bantam.Sampler):
    """Chooses tokens from logits (vocab), as a session does: sample(), then accept() what was taken, for the penalties."""

    @takes(SamplingOptions)
    def __init__(self, vocab, **options):
        """See help(bantam.Sampler)."""
        super().__init__(count_of("vocab", vocab), **set_options(options))


class Grammar:
    """A set of texts: Grammar(gbnf), Grammar.from_json_schema(schema), Grammar.json_object(). Made once, it serves any number of
    generations; docs/grammars.md says what it understands."""

    def __init__(self, text, root="root"):
        """GBNF, as llama.cpp's grammars are written."""
        self._made = _bantam.Grammar.from_gbnf(text_of("text", text), text_of("root", root))

    @classmethod
    def _of(cls, made):
        self = cls.__new__(cls)
        self._made = made
        return self

    @classmethod
    def from_json_schema(cls, schema):
        """The JSON texts that a schema (a dict, or JSON as a text) allows."""
        return cls._of(_bantam.Grammar.from_json_schema(schema if isinstance(schema, str) else json.dumps(schema)))

    @classmethod
    def json_object(cls):
        """Any JSON object."""
        return cls._of(_bantam.Grammar.json_object())

    def matches(self, text):
        """Whether a whole text is allowed."""
        return self._made.matches(text_of("text", text))


def set_options(options):
    """Options without those that have no value, with the grammar that is meant."""
    given = {name: value for name, value in options.items() if value is not None}
    schema = given.pop("json_schema", None)
    grammar = given.pop("grammar", None)
    if schema is not None and grammar is not None:
        raise InvalidArgument("json_schema: expected no grammar beside it, found one")
    if schema is not None and not isinstance(schema, (str, dict, bool)):
        raise TypeError(f"json_schema: expected a schema as a dict or a text, found {shown(schema)}")
    if schema is not None:
        grammar = Grammar.from_json_schema(schema)
    if isinstance(grammar, str):
        grammar = Grammar(grammar)
    if grammar is not None:
        if not isinstance(grammar, Grammar):
            raise TypeError(f"grammar: expected a Grammar or a text, found {shown(grammar)}")
        given["grammar"] = grammar._made
    return given


def resolved(model, options):
    """Options of a session as the library takes them."""
    return {**options, "adapters": adapters_of(model, options["adapters"]), "memory_folder": path_of("memory_folder", options["memory_folder"])}


class Session:
    """What a model, or the one that a path names, has read, with its keys and values. Used by one thread at a time (others
    wait); the model is shared. In a child of fork() it goes on with what it has read, on threads of its own.
    """

    @takes(SessionOptions)
    def __init__(self, model, **options):
        """See help(bantam.Session)."""
        self._of(model_of(model), None, options)

    def _of(self, model, made, options=None, messages=(), reply_start=0):
        self.model = model
        self._made = made or _bantam.Session(model._made, **resolved(model, options))
        self._last = None
        self._messages = list(messages)
        self._reply_start = reply_start
        return self

    @classmethod
    @takes(RestoreOptions)
    def restore(cls, model, path, **options):
        """A session that save() wrote, into the model that it was saved from."""
        model = model_of(model)
        return cls.__new__(cls)._of(model, _bantam.Session.restore(model._made, path_of("path", path), **resolved(model, options)))

    def _open(self):
        if self._made is None:
            raise ValueError("session: expected an open one, this one is closed")
        return self._made

    def _begin(self, made):
        self._last = Generation(made)
        return self._last

    def prefill(self, prompt):
        """Reads text, or token ids, without generating."""
        self._open().prefill(prompt_of(prompt))

    @takes(GenerateOptions)
    def stream(self, prompt="", **options):
        """Reads a prompt (text or token ids) and returns a Generation of what follows."""
        return self._begin(self._open().stream(prompt_of(prompt), **set_options(options)))

    @takes(GenerateOptions)
    def _stream_whole(self, ids, **options):
        """The same from these ids, whatever was read before: what they begin with alike is not read again."""
        return self._begin(self._open().stream_whole(ids_of("ids", ids), **set_options(options)))

    @takes(GenerateOptions)
    def generate(self, prompt="", **options):
        """The same, whole: text."""
        return self.stream(prompt, **options).text()

    @takes(GenerateOptions)
    def continuations(self, prompt="", count=2, **options):
        """`count` texts drawn behind a prompt that is read once, in one pass over the weights for all of them. Each is what generate() gives
        with its seed: seed, seed + 1 and so on. Speculation plays no part. The session then holds the prompt."""
        count = count_of("count", count)
        return [Continuation(*made) for made in self._open().continuations(prompt_of(prompt), count, **set_options(options))]

    @takes(BeamOptions)
    def beam_search(self, prompt="", **options):
        """The most probable texts behind a prompt, the best first, as Hugging Face's generate() with num_beams finds them. The session then
        holds the prompt."""
        return [Beam(*found) for found in self._open().beam_search(prompt_of(prompt), **{"grammar": None, **set_options(options)})]

    @takes(GenerateOptions)
    def chat(self, messages, *, tools=None, chat_template_kwargs=None, **options):
        """A reply by the model's chat template. Only messages since the last call are given; the session remembers them and its
        replies. Messages that begin with the assistant's say the reply in other words: with its tool calls apart, for instance.

        tools, and variables in chat_template_kwargs={"enable_thinking": False}, are those of Tokenizer.apply_chat_template().
        """
        made, messages = self._open(), messages_of(messages)
        history = list(self._messages)
        said = made.tokens[self._reply_start:]
        if history and said and not (messages and messages[0]["role"] == "assistant"):
            history.append({"role": "assistant", "content": self.model.tokenizer.decode(said)})
        history += messages
        text = render(self.model.tokenizer, history, tools=tools, **(chat_template_kwargs or {}))
        # Templates write special tokens, BOS among them, so they are parsed and none is added.
        ids = self.model.tokenizer.encode(text, add_special=False, parse_special=True)
        run = made.stream_whole(ids, **set_options(options))
        self._messages, self._reply_start = history, len(ids)
        return self._begin(run)

    def logits(self):
        """Of the next token: float32 (vocab)."""
        return self._open().logits()

    def score(self, ids):
        """Reads token ids; the logits after each: float32 (len(ids), vocab)."""
        return self._open().score(ids_of("ids", ids))

    def states(self, ids):
        """Reads token ids; the hidden state after each, as the head would read it: float32 (len(ids), dim)."""
        return self._open().states(ids_of("ids", ids))

    def embed(self, prompt, *, pooling=None, normalize=None, dimensions=0):
        """The embedding of a text or of token ids: float32 (dim). Model.embed() reads several texts at once.

        pooling: "mean" of all hidden states, the first ("cls") or the last ("last"); None: what the model's files say, else the
        mean. normalize: to length 1; None: as the files say, else so. dimensions: the first so many numbers alone (0: all), of models that were
        trained for it (Matryoshka). The session then holds the text and nothing else.
        """
        return self._open().embed(prompt_of(prompt), pooling, normalize, count_of("dimensions", dimensions))

    def fork(self):
        """A session of its own with the same past; keys and values are shared until one of the two writes."""
        return Session.__new__(Session)._of(self.model, self._open().fork(), None, self._messages, self._reply_start)

    def set_adapters(self, adapters):
        """From here on these are added to the model for this session alone: a list of Adapter, paths, or pairs (one of these, scale);
        []: none. What the session holds is read again with them when it goes on."""
        self._open().set_adapters(adapters_of(self.model, adapters))

    def save(self, path):
        self._open().save(path_of("path", path))

    def clear(self):
        """Forgets everything."""
        self._open().clear()
        self._messages = []

    def truncate(self, count):
        """Forgets all tokens but the first `count`."""
        self._open().truncate(count)
        self._messages = []  # what was said can no longer be told apart from what was cut off

    def cancel(self):
        """Stops what another thread is doing with the session, within a step: it gets Cancelled."""
        self._open().cancel()

    @property
    def tokens(self):
        """Every id read or generated."""
        return self._open().tokens

    @property
    def context(self):
        return self._open().context

    @property
    def kv_bytes(self):
        return self._open().kv_bytes

    @property
    def stats(self):
        """Of the last generation."""
        return self._last.stats if self._last else Stats()

    def close(self):
        """Frees keys, values and threads. Generations that still run keep them."""
        self._made = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
