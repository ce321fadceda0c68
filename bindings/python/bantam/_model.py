"""Models, their tensors and their tokenizer."""

import json
import numbers
import os

from . import _bantam
from ._chat import parse_reply, render
from ._html import model_as_html
from ._options import LoadOptions, count_of, ids_of, number_of, path_of, shown, takes, text_of


class Tensor:
    """A tensor of a model. `numpy()` gives its numbers: vectors in place, matrices decoded from their format."""

    def __init__(self, name, layer, shape, format, value):
        self.name = name
        self.layer = layer  #: -1: of no layer
        self.shape = shape
        self.format = format  #: of matrices; None for vectors, which are float32
        self._value = value

    def __repr__(self):
        return f"Tensor({self.name!r}, shape={self.shape}, format={self.format!r})"

    @property
    def weights(self):
        """The matrix in its format, sharing the model's memory; None for vectors."""
        return self._value if self.format is not None else None

    @property
    def nbytes(self):
        return self._value.nbytes

    @property
    def data(self):
        """The bytes as they lie in memory, read-only and not copied: a matrix's panels (docs/formats.md), a vector's floats."""
        return self._value.data if self.format is not None else self._value.view("uint8")

    def numpy(self):
        """The numbers as float32: a read-only view for vectors, a fresh array for matrices."""
        return self._value.numpy() if self.format is not None else self._value

    def __array__(self, dtype=None, copy=None):
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)


class Tokenizer:
    """Text to token ids and back: Tokenizer("folder"), of a folder or file that may hold nothing but a vocabulary. Immutable; any
    number of threads may use one."""

    def __init__(self, path):
        self._made = path if isinstance(path, _bantam.Tokenizer) else _bantam.Tokenizer.load(path_of("path", path))

    @classmethod
    def load(cls, path):
        """The same as Tokenizer(path)."""
        return cls(path)

    def __len__(self):
        return self._made.vocab_size

    def __repr__(self):
        return f"Tokenizer({self._made.kind!r}, {len(self)} tokens)"

    def encode(self, text, *, add_special=True, parse_special=False):
        """Ids of a text. Text that spells a special token stays text unless `parse_special`."""
        return self._made.encode(text_of("text", text), add_special=bool(add_special), parse_special=bool(parse_special))

    def decode(self, ids, *, keep_special=False):
        return self._made.decode(ids_of("ids", ids), keep_special=bool(keep_special))

    def token_bytes(self, id):
        """The bytes of one token inside a text: perhaps a part of a character."""
        return self._made.token_bytes(ids_of("id", [id])[0])

    def token(self, id):
        """The token as the vocabulary spells it."""
        return self._made.piece(ids_of("id", [id])[0])

    def find(self, token):
        """The id of a vocabulary entry; None when there is none."""
        found = self._made.find(text_of("token", token))
        return None if found < 0 else found

    def ends_generation(self, id):
        return self._made.ends_generation(ids_of("id", [id])[0])

    @property
    def bos(self):
        return self._made.bos if self._made.bos >= 0 else None

    @property
    def eos(self):
        return self._made.eos if self._made.eos >= 0 else None

    @property
    def chat_template(self):
        """The model's Jinja template; None when it has none."""
        return self._made.chat_template or None

    @property
    def reply_form(self):
        """How the model writes reasoning and calls, by its template: "hermes", "harmony"; "text" without any marks."""
        return _bantam.reply_form_of(self._made.chat_template)

    def reply_tokens(self, form=None):
        """The special tokens among the marks of replies: generate with spell=tokenizer.reply_tokens() to parse what comes."""
        return _bantam.reply_tokens(self._made, form or self.reply_form)

    def parse_reply(self, text, *, form=None, prompt="", tools=None, calls=True):
        """A reply as a message: {"role": "assistant", "content": ...}, with "reasoning_content" and "tool_calls" where there are some.

        form: in place of reply_form. prompt: what is replied to, or its end: templates may open the reasoning. tools: what the
        template was given; they say which types arguments have. calls: False: no tools were offered, calls are text."""
        return parse_reply(text, form or self.reply_form, prompt=prompt, tools=tools, calls=calls)

    def apply_chat_template(self, messages, *, tools=None, documents=None, chat_template=None, add_generation_prompt=True,
                            continue_final_message=False, tokenize=False, **variables):
        """The prompt of a conversation, as transformers renders it: [{"role": "user", "content": "..."}].

        messages: dictionaries, or pairs (role, content). Content may be None, a text, or a list of parts {"type": "text", "text":
        "..."}; "tool_calls" and whatever else a template reads goes with it. tools: JSON schemas, or functions with type hints
        and a docstring of Google's style. chat_template: Jinja to take in place of the model's. continue_final_message: the prompt
        ends where the last message does, for the model to go on with it. tokenize: ids instead of text. Any other keyword is a
        variable of the template: enable_thinking=False.
        Without tokenize, encode the text with parse_special=True, add_special=False.
        """
        text = render(self, messages, tools=tools, documents=documents, chat_template=chat_template,
                      add_generation_prompt=add_generation_prompt, continue_final_message=continue_final_message, **variables)
        return self.encode(text, add_special=False, parse_special=True) if tokenize else text


class Adapter:
    """A LoRA adapter of a model: a folder as PEFT writes it, or a GGUF file as llama.cpp's converter does. Constant; sessions add it to
    the model's matrices while they run, Session(model, adapters=[adapter]), and compress(model, merge_lora=path) merges it."""

    def __init__(self, model, path):
        self.path = path_of("path", path)
        self._made = _bantam.Adapter.load(self.path, model_of(model)._made)

    @property
    def rank(self):
        """The largest of its matrices."""
        return self._made.rank

    @property
    def nbytes(self):
        return self._made.nbytes

    def __len__(self):
        """How many matrices it changes."""
        return self._made.matrices

    def __repr__(self):
        return f"Adapter({self.path!r}, {len(self)} matrices, rank {self.rank})"


def adapters_of(model, value):
    """[(adapter, scale), ...] for the module, of a list of adapters, paths, and pairs of one of these and a scale."""
    if value is not None and not isinstance(value, (list, tuple)):
        raise TypeError(f"adapters: expected a list, found {shown(value)}")
    made = []
    for one in value or []:
        adapter, scale = one if isinstance(one, tuple) and len(one) == 2 else (one, 1.0)
        if not isinstance(adapter, (str, os.PathLike, Adapter)):
            raise TypeError(f"adapters: expected a bantam.Adapter or a path, found {shown(adapter)}")
        if isinstance(scale, bool) or not isinstance(scale, numbers.Real):
            raise TypeError(f"adapters: expected a number as the scale, found {shown(scale)}")
        made.append(((adapter if isinstance(adapter, Adapter) else Adapter(model, adapter))._made, float(scale)))
    return made


class Model:
    """A model: constant, shared by any number of sessions and threads. Model(path) is load(path)."""

    def __init__(self, path, **options):
        self._made = path if isinstance(path, _bantam.Model) else load(path, **options)._made
        self._tensors = None
        self._engines = {}

    def _engine(self, context, threads):
        key = (count_of("context", context), count_of("threads", threads))
        if key not in self._engines:
            self._engines[key] = _bantam.Engine(self._made, context=key[0], threads=key[1])
        return self._engines[key]

    def embed(self, texts, *, pooling=None, normalize=None, dimensions=0, truncate=False, context=0, threads=0):
        """The embeddings of a list of texts, or of lists of token ids: float32 (texts, dim); of a single text (dim).

        pooling: "mean" of the hidden states, the first ("cls") or the last ("last"); None: what the model's files say, else the mean.
        normalize: to length 1; None: as the files say, else so. dimensions: the first so many numbers alone (0: all), of models that were trained
        for it (Matryoshka). truncate: leaves out the end of texts that are longer than the context, which raise InvalidArgument
        otherwise. Each row is what the text gives alone, bit for bit.
        """
        single = isinstance(texts, str)
        given = [texts] if single else [text if isinstance(text, str) else ids_of("texts", text) for text in texts]
        if len({isinstance(text, str) for text in given}) > 1:
            raise TypeError("texts: expected texts alone or lists of token ids alone, found both")
        rows = self._engine(context, threads).embed(given, pooling, normalize, count_of("dimensions", dimensions), bool(truncate))
        return rows[0] if single else rows

    def rerank(self, query, documents, *, instruction=None, truncate=True, context=0, threads=0):
        """A score of each document, higher for those that answer the query better: a list of floats in their order.

        Of a model with a classifier of one label its number, of which 1 / (1 + exp(-x)) makes a probability; of one that answers yes or
        no (Qwen3-Reranker) the probability of yes, where `instruction` may say what to look for. Others raise Unsupported.
        """
        texts = [text_of("documents", document) for document in documents]
        return self._engine(context, threads).rerank(text_of("query", query), texts, text_of("instruction", instruction or ""), bool(truncate))

    def classify(self, texts, *, second=None, truncate=True, context=0, threads=0):
        """What each label of a model with a classifier comes to: float32 (texts, labels); of a single text (labels).

        Probabilities, which sum to 1 where a text has one of the labels, or the numbers of a regression; config["label_names"] names
        them. second: what each text is read together with, as a pair. Each row is what the text gives alone, bit for bit. Others
        raise Unsupported.
        """
        single = isinstance(texts, str)
        given = [text_of("texts", text) for text in ([texts] if single else texts)]
        rows = self._engine(context, threads).classify(given, text_of("second", second or ""), bool(truncate))
        return rows[0] if single else rows

    @classmethod
    def from_bytes(cls, data):
        """From the bytes of a .gguf or .bantam file."""
        return cls(_bantam.Model.load_bytes(data))

    def load_adapter(self, path):
        """A LoRA adapter for sessions of this model."""
        return Adapter(self, path)

    def save(self, path):
        """Writes a .bantam file; complete under that name, or not there."""
        self._made.save(path_of("path", path))

    def with_experts(self, used):
        """The same weights with tokens that go to so many experts instead of the model's number: faster when fewer, and another model."""
        return Model(self._made.with_experts(used))

    def with_cold_experts(self, *, prefer_cached=0.0, drop=0.0):
        """The same weights with experts that are passed over where they would have to be read from the file first: faster, and another model.

        prefer_cached: an expert in memory takes the place of one that is not where it scores more than 1 - prefer_cached of it, but for the best quarter
        of a token's. drop: one that is not in memory is left out where it counts less than this share of the token's experts."""
        return Model(self._made.with_cold_experts(number_of("prefer_cached", prefer_cached), number_of("drop", drop)))

    @property
    def config(self):
        """Sizes by name: architecture, layers, dim, heads, vocab, context, ..."""
        return self._made.config

    @property
    def tokenizer(self):
        return Tokenizer(self._made.tokenizer)

    @property
    def nbytes(self):
        """Of all matrices."""
        return self._made.nbytes

    def _by_name(self):
        if self._tensors is None:
            self._tensors = {name: (name, layer, shape, format) for name, layer, shape, format in self._made.tensors()}
        return self._tensors

    def keys(self):
        return self._by_name().keys()

    def __iter__(self):
        return iter(self._by_name())

    def __len__(self):
        return len(self._by_name())

    def __contains__(self, name):
        return self._full_name(name) is not None

    def _full_name(self, name):
        for candidate in (name, f"model.{name}", f"{name}_proj", f"model.{name}_proj"):
            if candidate in self._by_name():
                return candidate
        return None

    def __getitem__(self, name):
        """A tensor by its name, "model.layers.0.mlp.down_proj", or short: "layers.0.mlp.down"."""
        full = self._full_name(name)
        if full is None:
            raise KeyError(name)
        return Tensor(*self._by_name()[full], self._made.tensor(full))

    def __repr__(self):
        c = self.config
        return f"Model({c['architecture']}, {c['layers']} layers of {c['dim']}, {self.nbytes / 1e6:.1f} MB)"

    def _repr_html_(self):
        return model_as_html(self)


@takes(LoadOptions)
def load(path, **options):
    """Loads a Hugging Face folder (quantized by GPTQ, AWQ, bitsandbytes, compressed-tensors or not), a .gguf or a .bantam file.

    Raises NotFound, Corrupt or Unsupported, naming the place.
    """
    devices = options.pop("device_map", None)
    if devices not in (None, "auto"):
        if isinstance(devices, str):
            devices = {"": devices}
        options["device_map"] = json.dumps(dict(devices))
    return Model(_bantam.Model.load(path_of("path", path), **options))


def model_of(value, name="model"):
    """A model, or one that a path names."""
    if isinstance(value, Model):
        return value
    if isinstance(value, (str, os.PathLike)):
        return load(value)
    raise TypeError(f"{name}: expected a bantam.Model or a path, found {value!r:.80} ({type(value).__name__})")
