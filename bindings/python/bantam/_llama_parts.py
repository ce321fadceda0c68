"""What llama-cpp-python's class hands out and takes: its tokenizer, states, caches, lists of functions, formats of chats."""

import abc
import hashlib
import json
import os
import tempfile
from collections import OrderedDict

import numpy as np

from ._errors import InvalidArgument, Unsupported
from ._model import Tokenizer
from ._options import ids_of
from ._session import Grammar, Session


class BaseLlamaTokenizer(abc.ABC):
    """What Llama(tokenizer=...) takes in the place of the model's own."""

    @abc.abstractmethod
    def tokenize(self, text, add_bos=True, special=True):
        """bytes -> ids"""

    @abc.abstractmethod
    def detokenize(self, tokens, prev_tokens=None, special=False):
        """ids -> bytes"""


class LlamaTokenizer(BaseLlamaTokenizer):
    """The tokenizer of a Llama, or of a bantam.Tokenizer."""

    def __init__(self, llama):
        self._vocab = llama if isinstance(llama, Tokenizer) else llama._vocab

    def tokenize(self, text, add_bos=True, special=True):
        text = text.decode("utf-8", errors="replace") if isinstance(text, bytes) else text
        return self._vocab.encode(text, add_special=add_bos, parse_special=special)

    def detokenize(self, tokens, prev_tokens=None, special=False):
        """The bytes of ids: also those of half a character. With prev_tokens those that the ids add to them."""
        tokens = ids_of("tokens", tokens)
        if prev_tokens:
            before = ids_of("prev_tokens", prev_tokens)
            return self._bytes(before + tokens, special)[len(self._bytes(before, special)):]
        return self._bytes(tokens, special)

    def _bytes(self, ids, special):
        known = self._vocab._made
        spelled = (lambda id: known.piece(id).encode()) if special else (lambda id: b"")
        made = b"".join(spelled(id) if known.is_special(id) else known.token_bytes(id) for id in ids)
        # SentencePiece puts a space in front of texts, which decode() knows is not part of them.
        text = self._vocab.decode(ids, keep_special=special)
        return made[1:] if len(made) - len(made.lstrip(b" ")) > len(text) - len(text.lstrip(" ")) else made

    def encode(self, text, add_bos=True, special=True):
        """str -> ids"""
        return self.tokenize(text, add_bos, special)

    def decode(self, tokens):
        """ids -> str, without what is no character"""
        return self.detokenize(tokens).decode("utf-8", errors="ignore")

    @classmethod
    def from_ggml_file(cls, path):
        return cls(Tokenizer(path))


class LlamaState:
    """A context that Llama.save_state() saved: what it has read, with keys and values. May be pickled."""

    def __init__(self, session, seed, ids=None, content=None):
        self._session = session
        self._bytes = content
        self.input_ids = np.array(session.tokens if ids is None else ids, dtype=np.intc)
        self.n_tokens = len(self.input_ids)
        self.llama_state_size = session.kv_bytes if content is None else len(content)
        self.seed = seed

    @property
    def llama_state(self):
        """The context as bytes."""
        if self._bytes is None:
            with tempfile.TemporaryDirectory() as folder:
                self._session.save(os.path.join(folder, "state"))
                with open(os.path.join(folder, "state"), "rb") as file:
                    self._bytes = file.read()
        return self._bytes

    def _resumed(self, model, context, threads, adapters):
        """A session of its own that goes on from here. One in memory reads again what others' adapters made."""
        if self._session is not None:
            session = self._session.fork()
            session.set_adapters(adapters)
            return session
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "state"), "wb") as file:
                file.write(self._bytes)
            return Session.restore(model, os.path.join(folder, "state"), context=context, threads=threads, adapters=adapters)

    def __getstate__(self):
        return {**self.__dict__, "_session": None, "_bytes": self.llama_state}


class BaseLlamaCache(abc.ABC):
    """States of contexts by what they have read; the one of the longest common beginning is found."""

    def __init__(self, capacity_bytes=2 << 30):
        self.capacity_bytes = capacity_bytes

    @property
    @abc.abstractmethod
    def cache_size(self):
        """Bytes of all states."""

    @abc.abstractmethod
    def __getitem__(self, key):
        """The state with the longest beginning of these ids; KeyError where there is none."""

    @abc.abstractmethod
    def __contains__(self, key):
        """Whether there is one."""

    @abc.abstractmethod
    def __setitem__(self, key, value):
        """Keeps a state."""


class LlamaRAMCache(BaseLlamaCache):
    """In memory; the state that was not asked for the longest goes first. States share keys and values."""

    def __init__(self, capacity_bytes=2 << 30):
        super().__init__(capacity_bytes)
        self.cache_state = OrderedDict()

    @property
    def cache_size(self):
        return sum(state.llama_state_size for state in self.cache_state.values())

    def _find(self, key):
        best = max(self.cache_state, key=lambda held: common_prefix(held, key), default=None)
        return best if best is not None and common_prefix(best, key) > 0 else None

    def __getitem__(self, key):
        found = self._find(tuple(key))
        if found is None:
            raise KeyError("Key not found")
        self.cache_state.move_to_end(found)
        return self.cache_state[found]

    def __contains__(self, key):
        return self._find(tuple(key)) is not None

    def __setitem__(self, key, value):
        key = tuple(key)
        self.cache_state.pop(key, None)
        self.cache_state[key] = value
        while self.cache_size > self.capacity_bytes and self.cache_state:
            self.cache_state.popitem(last=False)


class LlamaDiskCache(BaseLlamaCache):
    """In a folder, which programs may share one after the other; the state that was not asked for the longest goes first.
    A file is a line of JSON, ids and seed, and what Session.save() writes."""

    def __init__(self, cache_dir=".cache/llama_cache", capacity_bytes=2 << 30):
        super().__init__(capacity_bytes)
        self.cache_dir = cache_dir
        os.makedirs(cache_dir, exist_ok=True)

    def _files(self):
        """Paths, the one that was not used for the longest first."""
        files = [entry for entry in os.scandir(self.cache_dir) if entry.name.endswith(".state") and entry.is_file()]
        return [entry.path for entry in sorted(files, key=lambda entry: entry.stat().st_mtime_ns)]

    @property
    def cache_size(self):
        return sum(os.path.getsize(path) for path in self._files())

    def _find(self, key):
        """(ids in common, path) of the best state."""
        best = 0, None
        for path in self._files():
            with open(path, "rb") as file:
                held = json.loads(file.readline())["ids"]
            best = max(best, (common_prefix(held, key), path), key=lambda one: one[0])
        return best

    def __getitem__(self, key):
        common, path = self._find(key)
        if common == 0:
            raise KeyError("Key not found")
        os.utime(path)
        with open(path, "rb") as file:
            head = json.loads(file.readline())
            return LlamaState(None, head["seed"], head["ids"], file.read())

    def __contains__(self, key):
        return self._find(key)[0] > 0

    def __setitem__(self, key, value):
        ids = [int(id) for id in key]
        name = hashlib.sha256(repr(ids).encode()).hexdigest()[:32]
        with tempfile.NamedTemporaryFile(dir=self.cache_dir, delete=False) as file:
            file.write(json.dumps({"ids": ids, "seed": value.seed}).encode() + b"\n" + value.llama_state)
        os.replace(file.name, os.path.join(self.cache_dir, f"{name}.state"))
        for path in self._files():
            if self.cache_size <= self.capacity_bytes:
                break
            os.unlink(path)


LlamaCache = LlamaRAMCache


class LlamaDraftModel(abc.ABC):
    """What guesses the next tokens."""

    @abc.abstractmethod
    def __call__(self, input_ids, **kwargs):
        """ids -> ids that may follow"""


class LlamaPromptLookupDecoding(LlamaDraftModel):
    """Guesses from where the last tokens stood before. The library does so itself; the text is the same as without."""

    def __init__(self, max_ngram_size=2, num_pred_tokens=10):
        self.max_ngram_size = max_ngram_size
        self.num_pred_tokens = num_pred_tokens

    def __call__(self, input_ids, **kwargs):
        ids = np.asarray(input_ids, dtype=np.intc)
        for size in range(min(self.max_ngram_size, len(ids) - 1), 0, -1):
            last = ids[-size:]
            for at in range(len(ids) - size):
                if np.array_equal(ids[at:at + size], last):
                    return ids[at + size:at + size + self.num_pred_tokens]
        return np.array([], dtype=np.intc)


class LogitsProcessorList(list):
    """Functions (ids, scores) -> scores, one after the other."""

    def __call__(self, input_ids, scores):
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class StoppingCriteriaList(list):
    """Functions (ids, logits) -> bool: whether any says so."""

    def __call__(self, input_ids, logits):
        return any(stop(input_ids, logits) for stop in self)


class MinTokensLogitsProcessor:
    """Forbids the end before so many tokens were generated."""

    def __init__(self, min_tokens, token_eos):
        self.min_tokens = min_tokens
        self.token_eos = token_eos
        self.prompt_tokens = None

    def __call__(self, input_ids, scores):
        if self.prompt_tokens is None:
            self.prompt_tokens = len(input_ids)
        if len(input_ids) - self.prompt_tokens < self.min_tokens:
            scores[self.token_eos] = -np.inf
        return scores


class LlamaGrammar:
    """A grammar by llama-cpp-python's names: from_string(gbnf), from_file(path), from_json_schema(text)."""

    def __init__(self, _grammar, *_, **__):
        self._grammar = _grammar
        self._made = Grammar(_grammar)

    @classmethod
    def _of(cls, source, made):
        self = cls.__new__(cls)
        self._grammar, self._made = source, made
        return self

    @classmethod
    def from_string(cls, grammar, verbose=True):
        return cls(grammar)

    @classmethod
    def from_file(cls, file, verbose=True):
        with open(file, encoding="utf-8") as text:
            return cls(text.read())

    @classmethod
    def from_json_schema(cls, json_schema, verbose=True):
        return cls._of(json_schema, Grammar.from_json_schema(json_schema))

    def reset(self):
        """Each generation begins anew by itself."""


def grammar_of(grammar, response_format):
    """The Grammar that these arguments of llama-cpp-python ask for, or None."""
    made = grammar
    if isinstance(grammar, LlamaGrammar):
        made = grammar._made
    elif isinstance(grammar, str):
        made = Grammar(grammar)
    elif grammar is not None and not isinstance(grammar, Grammar):
        raise TypeError(f"grammar: expected a LlamaGrammar, found {type(grammar).__name__}")
    kind = (response_format or {}).get("type", "text")
    if kind == "text":
        return made
    if made is not None:
        raise InvalidArgument("response_format: expected no grammar beside it, found one")
    if kind == "json_object":
        schema = response_format.get("schema")
    elif kind == "json_schema":
        # OpenAI's shape, and the flat one that llama.cpp's server takes.
        schema = (response_format.get("json_schema") or {}).get("schema") or response_format.get("schema")
        if schema is None:
            raise InvalidArgument("response_format: expected json_schema.schema, found none")
    else:
        raise Unsupported(f"response_format: expected text, json_object or json_schema, found {kind!r:.40}")
    return Grammar.json_object() if schema is None else Grammar.from_json_schema(schema)


def common_prefix(a, b):
    """How many ids two sequences begin with alike."""
    count = 0
    for x, y in zip(a, b):
        if x != y:
            break
        count += 1
    return count


# Formats of chats for models whose files have no template, as their makers describe them.
_SYSTEM = "{% if messages and messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}" \
          "{% else %}{% set system = '' %}{% endif %}"
CHAT_FORMATS = {
    "chatml": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
              "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "gemma": "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else 'user' }}\n"
             "{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    "llama-2": _SYSTEM + "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {% if loop.first and system %}<<SYS>>\n"
                         "{{ system }}\n<</SYS>>\n\n{% endif %}{{ m.content | trim }} [/INST]"
                         "{% else %} {{ m.content | trim }} {{ eos_token }}{% endif %}{% endfor %}",
    "llama-3": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>"
               "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    "mistral-instruct": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
                        "{% elif m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    "vicuna": _SYSTEM + "{% if system %}{{ system }} {% endif %}{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} "
                        "{% else %}ASSISTANT: {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
                        "{% if add_generation_prompt %}ASSISTANT:{% endif %}",
    "zephyr": "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
              "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
}


def chat_template_of(name):
    """The Jinja of a format by name; None: the model's own."""
    if name is None or name in CHAT_FORMATS:
        return CHAT_FORMATS.get(name)
    raise Unsupported(f"Llama: chat_format: expected None (the model's own template) or one of {', '.join(CHAT_FORMATS)}, found {name!r}")


def from_hub_cache(repo_id, filename, local_dir=None, cache_dir=None, additional_files=None):
    """The path of a file that huggingface_hub has downloaded before; nothing is downloaded here. filename: a name or a pattern
    that fits one; None: the folder."""
    import fnmatch
    from pathlib import Path

    from ._errors import NotFound

    if local_dir is not None:
        folder = Path(local_dir)
    else:
        if cache_dir in (None, "auto"):
            home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface")
            cache_dir = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
        repository = Path(cache_dir) / f"models--{repo_id.replace('/', '--')}"
        revision = repository / "refs" / "main"
        folder = repository / "snapshots" / (revision.read_text().strip() if revision.is_file() else "main")
    hint = f"download it first: huggingface-cli download {repo_id} {filename or ''}".strip()
    if not folder.is_dir():
        raise NotFound(f"{folder}: expected a download of {repo_id}, found nothing; {hint}", 2, str(folder))
    if filename is None:
        return str(folder)

    def one(pattern):
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        fitting = [name for name in names if fnmatch.fnmatch(name, pattern)]
        if not fitting:
            raise NotFound(f"{folder}: expected a file like {pattern}, found {', '.join(names[:8]) or 'none'}; {hint}", 2, str(folder / pattern))
        if len(fitting) > 1:
            raise InvalidArgument(f"{folder}: expected one file like {pattern}, found {', '.join(fitting[:8])}")
        return str(folder / fitting[0])

    for pattern in additional_files or []:
        one(pattern)
    return one(filename)
