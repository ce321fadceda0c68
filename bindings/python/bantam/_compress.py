"""Making models smaller, and the report of how."""

import dataclasses
import os
import warnings
from dataclasses import dataclass, field
from typing import List, Optional

from . import _bantam
from ._compress_options import CompressFileOptions, CompressOptions
from ._model import Model, model_of
from ._options import ImatrixOptions, path_of, takes, text_of
from ._quality import perplexity


@dataclass(frozen=True)
class Corpus:
    """Text to calibrate with: a file, cut into samples of `sample_tokens` that are spread evenly over it, `tokens` in all."""

    path: str
    tokens: int = 128 * 2048
    sample_tokens: int = 2048

    def read(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()


@dataclass(frozen=True)
class Layer:
    """One matrix, as a callable that chooses formats sees it."""

    name: str
    index: int  #: of its block; -1: of none
    count: int  #: blocks of the model
    shape: tuple


@dataclass(frozen=True)
class LayerReport:
    name: str
    format: str
    relative_error: float  #: ||W - W'|| / ||W||
    bytes_before: int
    bytes_after: int
    output_error: Optional[float] = None  #: ||X (W - W')T|| / ||X WT||, where a calibration text was read


def _size(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000


@dataclass
class Report:
    """What a compression did. print() gives a table, a notebook shows it as HTML, plot() draws it."""

    bytes_before: int
    bytes_after: int
    bits_per_weight: float
    seconds: float
    peak_rss_bytes: int
    warnings: List[str]
    layers: List[LayerReport]
    #: Where parts were removed: "removals", the "layers" that stayed, "influence" of each, and what the model costs "before" and
    #: "after": "parameters", "flops" and "bytes", with prune_to="latency:..." "latency" in seconds.
    pruned: Optional[dict] = None
    _html: str = field(default="", repr=False)
    _quality: Optional[object] = field(default=None, repr=False)
    _measured: Optional[object] = field(default=None, repr=False)

    @classmethod
    def _of(cls, made, quality=None):
        return cls(**{**made, "layers": [LayerReport(*layer) for layer in made["layers"]]}, _quality=quality)

    def _perplexities(self):
        if self._measured is None:
            if self._quality is None:
                raise ValueError("report: expected a compression in memory with a calibration text; use bantam.perplexity()")
            self._measured = self._quality()
        return self._measured

    @property
    def perplexity_before(self):
        """On the calibration text (the first 4096 tokens); measured when it is first asked for."""
        return self._perplexities().base_perplexity

    @property
    def perplexity_after(self):
        return self._perplexities().perplexity

    @property
    def kl_mean(self):
        """KL(before || after), nats a token, on the same text."""
        return self._perplexities().kl_mean

    @property
    def summary(self):
        text = f"{_size(self.bytes_before)} -> {_size(self.bytes_after)} ({self.bits_per_weight:.2f} bits a weight)"
        if self.layers:
            outputs = any(layer.output_error is not None for layer in self.layers)
            error = lambda layer: (layer.output_error or 0) if outputs else layer.relative_error
            worst = max(self.layers, key=error)
            text += f", worst {'output' if outputs else 'layer'} error {100 * error(worst):.1f} % ({worst.name})"
        if self.pruned:
            text += f", without {', '.join(self.pruned['removals'])}"
        return text

    def __str__(self):
        worst = sorted(self.layers, key=lambda layer: -layer.relative_error)[:8]
        width = max((len(layer.name) for layer in worst), default=0)
        rows = [f"  {layer.name:<{width}}  {layer.format:<10} {_size(layer.bytes_before):>8} -> {_size(layer.bytes_after):<8}"
                f" {100 * layer.relative_error:6.2f} %" for layer in worst]
        return "\n".join([self.summary, *rows, *self.warnings])

    def _repr_html_(self):
        return self._html

    def plot(self, axes=None):
        """Relative error of each matrix along the model, with matplotlib. Returns the axes."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("plot: matplotlib is not installed (python3-matplotlib)") from None
        axes = axes or pyplot.subplots()[1]
        by_kind = {}
        for place, layer in enumerate(self.layers):
            by_kind.setdefault(layer.name.rsplit(".", 1)[-1], []).append((place, 100 * layer.relative_error))
        for kind, points in by_kind.items():
            axes.plot(*zip(*points), marker=".", linewidth=0.8, label=kind)
        axes.set(xlabel="matrix", ylabel="relative error, %", title=self.summary)
        axes.legend(fontsize="small")
        return axes

    def to_dict(self):
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if not f.name.startswith("_") and f.name != "layers"} | {
            "layers": [dataclasses.asdict(layer) for layer in self.layers]}


def _text_of(calibration):
    if calibration is None:
        return None
    if isinstance(calibration, Corpus):
        return calibration.read()
    return Corpus(path_of("calibration", calibration)).read()


def _bar(progress):
    """The progress callable of the module: the caller's, or a bar of tqdm when that is there and asked for."""
    if progress is None or progress is False:
        return None, lambda: None
    if callable(progress):
        return (lambda done, total, layer, error, left: progress(done, total, layer, error, left) is not False), lambda: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None, lambda: None
    bar = tqdm(unit="matrix", leave=False)

    def show(done, total, layer, error, left):
        if done < bar.n:  # parts are removed, weights are next
            bar.reset()
        bar.total = total
        bar.set_postfix_str(f"{layer} {100 * error:.2f} %", refresh=False)
        bar.update(done - bar.n)
        return True

    return show, bar.close


def _texts(value):
    """A value in the words that the library's table of options reads; a function has none."""
    if value is None or callable(value):
        return []
    if isinstance(value, bool):
        return ["on" if value else "off"]
    return value if isinstance(value, list) else [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]


def _order(source, method, options):
    order = _bantam.Order()
    order.set("method", text_of("method", method))
    order.importance = options["importance"]
    for name, value in options.items():
        for text in [] if name in ("importance", "progress", "calibration", "keep") else _texts(value):
            order.set(name, text)
    if callable(options["format"]):
        matrices = order.matrices(source)
        count = 1 + max((layer for _, layer, _, _ in matrices), default=-1)
        chosen = [(name, options["format"](Layer(name, layer, count, (rows, columns)))) for name, layer, rows, columns in matrices]
        lines = [(name, text_of(f"format of {name}", choice)) for name, choice in chosen if choice is not None]
        for line in lines:
            order.keep(*line)
        # The body's format: what most matrices get; those for which nothing was chosen get it, too.
        names = [choice for _, choice in lines]
        if names:
            order.set("format", max(set(names), key=names.count))
    for line in (options["keep"] or {}).items():
        order.keep(*line)
    calibration = options["calibration"]
    _set_calibration(order, calibration)
    if order.text is None and order.calibration_text():
        _warn_of_bundled_text(5)
    return order


def _set_calibration(order, calibration):
    order.text = _text_of(calibration)
    if isinstance(calibration, Corpus):
        order.set("tokens", str(calibration.sample_tokens))
        order.set("samples", str(max(1, calibration.tokens // calibration.sample_tokens)))


def _warn_of_bundled_text(stacklevel):
    warnings.warn("no calibration text was given, a bundled one is used: one like what the model will read is better", stacklevel=stacklevel)


@takes(CompressOptions)
def compress(model, method="rtn", **options):
    """A smaller model and the report of how, in memory; the given model (or the one that a path names) is left as it is.

    method: "rtn", "gptq", "awq", "awq+gptq" or "hqq". prune: "wanda:0.5" and the like make weights 0: a share, or "2:4", or
    "16x4"; some matrices lose other shares with "wanda:0.5,*.layers.0.*=0,*.down_proj=0.3". Parts go that the calibration text
    needs least. importance: reader is the matrix that reads the channels or heads, (width, inputs), mean_squares those of its
    inputs; the least go.
    """
    model = model_of(model)
    order = _order(model._made, method, options)
    show, close = _bar(options["progress"])
    try:
        made, report = _bantam.compress(model._made, order, show)
    finally:
        close()
    small = Model(made)
    text = order.calibration_text()
    quality = (lambda: perplexity(small, text, model, limit=4096)) if text else None
    return small, Report._of(report, quality)


@takes(CompressFileOptions)
def compress_file(source, target, method="rtn", **options):
    """From file to file, in memory bounded by a block, whatever the model's size. Returns the report."""
    source, target = path_of("source", source), path_of("target", target)
    order = _order(source, method, options)
    show, close = _bar(options["progress"])
    try:
        made = _bantam.compress_file(source, target, order, show)
    finally:
        close()
    return Report._of(made)


@takes(ImatrixOptions)
def save_imatrix(model, target, **options):
    """Measures how large the inputs of a model's matrices are, and writes it for llama-quantize and `imatrix=` of compress().

    model: a Model, or the path of one, of which a block at a time is read. Returns the number of tensors.
    """
    made = model._made if isinstance(model, Model) else path_of("model", model)
    order, calibration = _bantam.Order(), options["calibration"]
    for name in ("samples", "tokens"):
        order.set(name, str(options[name]))
    _set_calibration(order, calibration)
    if order.text is None:
        _warn_of_bundled_text(4)
    name = "" if calibration is None else os.path.basename(calibration.path if isinstance(calibration, Corpus) else calibration)
    return _bantam.save_imatrix(order, made, path_of("target", target), name)
