"""How good a model is on a text."""

from dataclasses import dataclass
from typing import Optional

from . import _bantam


@dataclass(frozen=True)
class Perplexity:
    perplexity: float
    nll: float  #: nats a token
    tokens: int
    windows: int
    seconds: float
    base_perplexity: Optional[float] = None
    kl_mean: Optional[float] = None  #: KL(base || model), nats a token
    kl_p99: Optional[float] = None
    top1_agreement: Optional[float] = None  #: share of positions with the same most probable token


def perplexity(model, text, base=None, *, context=512, limit=0, threads=0, kv="f16", progress=None):
    """Perplexity on a text, in windows of `context` tokens, and divergence from `base`, a model of the same vocabulary.

    limit: tokens of the text to use, 0: all. progress: called with (windows done, windows); False cancels.
    """
    wrapped = None if progress is None else (lambda done, total: progress(done, total) is not False)
    base = None if base is None else base._made
    return Perplexity(**_bantam.perplexity(model._made, text, base, context=context, limit=limit, threads=threads, kv=kv, progress=wrapped))
