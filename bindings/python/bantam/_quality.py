"""How good a model is on a text."""

from dataclasses import dataclass
from typing import Optional

from . import _bantam
from ._model import adapters_of, model_of
from ._options import PerplexityOptions, takes, text_of


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


@takes(PerplexityOptions)
def perplexity(model, text, base=None, **options):
    """Perplexity on a text, in windows of `context` tokens, and divergence from `base`, a model of the same vocabulary."""
    progress = options.pop("progress")
    wrapped = None if progress is None else (lambda done, total: progress(done, total) is not False)
    base = None if base is None else model_of(base, "base")._made
    model = model_of(model)
    options["adapters"] = adapters_of(model, options["adapters"])
    return Perplexity(**_bantam.perplexity(model._made, text_of("text", text), base, progress=wrapped, **options))
