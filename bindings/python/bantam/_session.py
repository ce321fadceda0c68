"""Conversations with a model: sessions, and text streaming out of them."""

import asyncio
import os
from dataclasses import dataclass

from . import _bantam
from ._model import pairs_of


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


class Session:
    """What a model has read, with its keys and values. Used by one thread at a time (others wait); the model is shared.

    context: most tokens that it may hold; 0: what the model was made for. kv: keys and values as "f16", "q8", "q4" or "f32".
    """

    def __init__(self, model, *, context=0, threads=0, kv="f16", _made=None):
        self.model = model
        self._made = _made or _bantam.Session(model._made, context=context, threads=threads, kv=kv)
        self._last = None

    @classmethod
    def restore(cls, model, path, *, context=0, threads=0):
        """A session that save() wrote, into the model that it was saved from."""
        return cls(model, _made=_bantam.Session.restore(model._made, os.fspath(path), context=context, threads=threads))

    def _open(self):
        if self._made is None:
            raise ValueError("session: expected an open one, this one is closed")
        return self._made

    def _begin(self, made):
        self._last = Generation(made)
        return self._last

    def prefill(self, prompt):
        """Reads text, or token ids, without generating."""
        self._open().prefill(prompt)

    def stream(self, prompt="", **options):
        """Reads a prompt (text or token ids) and returns a Generation of what follows.

        Options: max_tokens=256 (-1: to the end), temperature=0.8 (0: the most probable token), top_k=40, top_p=0.95,
        min_p=0.05, typical_p=1, repeat_penalty=1, frequency_penalty=0, presence_penalty=0, repeat_last_n=64, seed=0,
        logit_bias={id: value}, order=[stages], stop=[texts], ignore_end=False, lookup=0 (lossless speculation),
        add_special=True, parse_special=False, process=None: called as process(ids, logits) before each token is drawn, with
        every id of the session and an array of logits that it may change; False ends the generation.
        """
        return self._begin(self._open().stream(prompt, **options))

    def generate(self, prompt="", **options):
        """The same, whole: text."""
        return self.stream(prompt, **options).text()

    def chat(self, messages, **options):
        """A reply by the model's chat template. Only messages since the last call are given; the session remembers."""
        return self._begin(self._open().chat(pairs_of(messages), **options))

    def logits(self):
        """Of the next token: float32 (vocab)."""
        return self._open().logits()

    def score(self, ids):
        """Reads token ids; the logits after each: float32 (len(ids), vocab)."""
        return self._open().score(list(ids))

    def states(self, ids):
        """Reads token ids; the hidden state after each, as the head would read it: float32 (len(ids), dim)."""
        return self._open().states(list(ids))

    def embed(self, prompt, *, pooling="mean", normalize=True):
        """The embedding of a text or of token ids: float32 (dim), of length 1 unless normalize=False.

        pooling: "mean" of all hidden states, the first ("cls") or the last ("last"). The session then holds the text and
        nothing else.
        """
        return self._open().embed(prompt if isinstance(prompt, str) else list(prompt), pooling, normalize)

    def fork(self):
        """A session of its own with the same past; keys and values are shared until one of the two writes."""
        return Session(self.model, _made=self._open().fork())

    def save(self, path):
        self._open().save(os.fspath(path))

    def clear(self):
        """Forgets everything."""
        self._open().clear()

    def truncate(self, count):
        """Forgets all tokens but the first `count`."""
        self._open().truncate(count)

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
