"""The class of llama-cpp-python, on bantam: `from bantam import Llama`.

The constructor and the methods have its names, arguments and defaults, and return its dictionaries, which are OpenAI's. What
means nothing here (GPU layers, batch sizes) is accepted and ignored; what would change the text and is not there raises
Unsupported. docs/coming-from.md lists both.
"""

import time
import uuid
from collections import deque

import numpy as np

from . import _bantam
from ._chat import ReplyMessage, render
from ._errors import InvalidArgument, Unsupported
from ._llama_parts import (LlamaPromptLookupDecoding, LlamaState, LlamaTokenizer, chat_template_of, common_prefix,
                           from_hub_cache, grammar_of)
from ._model import Tokenizer, load
from ._options import closest, ids_of, path_of
from ._session import Sampler, Session

# What the constructor takes and this machine has no use for.
_IGNORED = {
    "n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "use_mmap", "use_mlock", "n_batch", "n_ubatch", "n_threads_batch",
    "offload_kqv", "flash_attn", "op_offload", "swa_full", "no_perf", "logits_all", "numa", "verbose", "model_alias",
}
# What would change the text, and where it does not: anything else is refused.
_NEUTRAL = {
    "kv_overrides": (None, {}), "rope_scaling_type": (-1, None), "attention_type": (-1, 0), "rope_freq_base": (0,), "rope_freq_scale": (0,),
    "yarn_ext_factor": (-1,), "yarn_attn_factor": (1,), "yarn_beta_fast": (32,), "yarn_beta_slow": (1,), "yarn_orig_ctx": (0,),
    "lora_base": (None,), "spm_infill": (False,),
    "tfs_z": (1,), "function_call": (None, "none", "auto"), "tool_choice": (None, "none", "auto"),
}
_INSTEAD = {
    "tool_choice": "give the tool's parameters as response_format, or describe its call with grammar",
    "function_call": "give the function's parameters as response_format, or describe its call with grammar",
}
_POOLINGS = {-1: None, 0: None, 1: "mean", 2: "cls", 3: "last"}
_KINDS = {None: "f16", 0: "f32", 1: "f16", 8: "q8", 2: "q4"}
# What vocabularies call the tokens around a gap to fill: before it, after it, in it.
_INFILL = (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
           ("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"), ("<PRE>", "<SUF>", "<MID>"))


def _refuse(options):
    """Raises Unsupported for options that are not where they change nothing."""
    for name, value in options.items():
        neutral = _NEUTRAL[name]
        if not any(value is one or (type(value) is not bool and value == one) for one in neutral):
            raise Unsupported(f"Llama: {name}: expected {neutral[0]!r}, found {value!r:.80}: {_INSTEAD.get(name, 'not yet')}")


def _process_of(processors, criteria):
    """What bantam calls before a token is drawn, of llama-cpp-python's two lists (or single functions); None of neither."""
    def listed(functions):
        return [] if functions is None else [functions] if callable(functions) else list(functions)

    processors, criteria = listed(processors), listed(criteria)
    if not processors and not criteria:
        return None

    def process(ids, logits):
        if any(stop(ids, logits) for stop in criteria):
            return False
        for change in processors:
            logits[:] = change(ids, logits)
        return True

    return process


class Llama:
    """A model with one context, as llama-cpp-python has it.

    model_path: any model that bantam.load() takes. n_ctx: 0 is the model's own. type_k, type_v: keys and values as llama.cpp
    numbers them: 0 f32, 1 f16, 8 q8_0, 2 q4_0. embedding: embed() and create_embedding() are wanted too; pooling_type:
    -1 what the model's files say, and where they say nothing, or with 0, an embedding for each token, 1 the mean, 2 the first token's, 3 the last one's. chat_format: the name of a format, in
    place of the model's template; chat_handler: a function that create_chat_completion() hands everything to. draft_model: a
    LlamaPromptLookupDecoding. lora_path: a GGUF adapter, or a folder of PEFT's, lora_scale times. vocab_only: only tokens. tokenizer: tokenize() and detokenize() of somebody else.
    """

    def __init__(self, model_path, *, seed=0xFFFFFFFF, n_ctx=512, n_threads=None, pooling_type=-1, embedding=False, last_n_tokens_size=64,
                 chat_format=None, chat_handler=None, draft_model=None, tokenizer=None, type_k=None, type_v=None, vocab_only=False, lora_path=None, lora_scale=1.0, **more):
        self._arguments = {
            "model_path": model_path, "seed": seed, "n_ctx": n_ctx, "n_threads": n_threads, "pooling_type": pooling_type,
            "embedding": embedding, "last_n_tokens_size": last_n_tokens_size, "chat_format": chat_format, "chat_handler": chat_handler,
            "draft_model": draft_model, "tokenizer": tokenizer, "type_k": type_k, "type_v": type_v, "vocab_only": vocab_only,
            "lora_path": lora_path, "lora_scale": lora_scale, **more}
        known = (set(self._arguments) - set(more)) | _IGNORED | set(_NEUTRAL)
        for name in set(more) - known:
            raise TypeError(f"Llama() got an unexpected keyword argument {name!r}{closest(name, known)}")
        _refuse({name: value for name, value in more.items() if name in _NEUTRAL})
        if pooling_type not in _POOLINGS:
            raise Unsupported(f"Llama: pooling_type: expected -1 to 3, found {pooling_type}")
        if draft_model is not None and not isinstance(draft_model, LlamaPromptLookupDecoding):
            raise Unsupported(f"Llama: draft_model: expected a LlamaPromptLookupDecoding, found {draft_model!r:.80}")
        if type_k not in _KINDS:
            raise InvalidArgument(f"Llama: type_k: expected one of {sorted(k for k in _KINDS if k is not None)}, found {type_k}")
        if type_v not in (None, type_k):
            raise Unsupported(f"Llama: type_v: expected that of type_k, found {type_v}")
        self._template = chat_template_of(chat_format)
        self.chat_handler = chat_handler
        self.draft_model = draft_model
        self.cache = None
        self.model_path = path_of("model_path", model_path)
        self._pooling = pooling_type
        self._embeds = embedding
        self._last_n = last_n_tokens_size
        self._n_threads = n_threads or 0
        self.set_seed(seed)
        if vocab_only:
            self.model, self._session, self._vocab = None, None, Tokenizer(model_path)
        else:
            self.model = load(model_path)
            self._vocab = self.model.tokenizer
            self._adapters = [] if lora_path is None else [(self.model.load_adapter(lora_path), lora_scale)]
            self._session = Session(self.model, context=n_ctx, threads=self._n_threads, kv=_KINDS[type_k], adapters=self._adapters)
        self.chat_format = chat_format or ("chat_template.default" if self._vocab.chat_template else None)
        self.tokenizer_ = tokenizer or LlamaTokenizer(self)
        self.metadata = self._metadata()
        self._scores_of = (), np.zeros((0, self.n_vocab()), np.float32)

    def __getstate__(self):
        return self._arguments

    def __setstate__(self, arguments):
        self.__init__(**arguments)

    @classmethod
    def from_pretrained(cls, repo_id, filename, additional_files=None, local_dir=None, local_dir_use_symlinks="auto", cache_dir=None, **options):
        """A model that huggingface_hub has downloaded before, from its cache or from local_dir; nothing is downloaded.
        filename: a name, a pattern that fits one file, or None for a folder of safetensors."""
        return cls(from_hub_cache(repo_id, filename, local_dir, cache_dir, additional_files), **options)

    def _held(self):
        if self._session is None:
            raise InvalidArgument("Llama: expected a model, found one made with vocab_only=True")
        return self._session

    def _metadata(self):
        """A GGUF file's single values, or what they would say of another file's model."""
        try:
            with open(self.model_path, "rb") as file:
                is_gguf = file.read(4) == b"GGUF"
        except OSError:
            is_gguf = False
        if is_gguf:
            return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in _bantam.gguf_metadata(self.model_path)}
        made = {} if self._vocab.chat_template is None else {"tokenizer.chat_template": self._vocab.chat_template}
        if self.model is not None:
            config = self.model.config
            arch = config["architecture"]
            names = {"vocab": "vocab_size", "context": "context_length", "layers": "block_count", "dim": "embedding_length",
                     "ffn": "feed_forward_length", "heads": "attention.head_count", "kv_heads": "attention.head_count_kv"}
            made |= {"general.architecture": arch, **{f"{arch}.{theirs}": str(config[ours]) for ours, theirs in names.items()}}
        return made

    # -- the vocabulary

    def tokenize(self, text, add_bos=True, special=False):
        """bytes (or str) -> ids"""
        return self.tokenizer_.tokenize(text, add_bos, special)

    def detokenize(self, tokens, prev_tokens=None, special=False):
        """ids -> bytes; with prev_tokens those that the ids add to them"""
        return self.tokenizer_.detokenize(tokens, prev_tokens=prev_tokens, special=special)

    def tokenizer(self):
        return LlamaTokenizer(self)

    def n_ctx(self):
        return self._held().context

    def n_vocab(self):
        return len(self._vocab) if self.model is None else self.model.config["vocab"]

    def n_embd(self):
        self._held()
        return self.model.config["dim"]

    def token_bos(self):
        return -1 if self._vocab.bos is None else self._vocab.bos

    def token_eos(self):
        return -1 if self._vocab.eos is None else self._vocab.eos

    def token_nl(self):
        return self._vocab.encode("\n", add_special=False)[-1]

    def pooling_type(self):
        return self._pooling

    # -- token by token

    @property
    def n_tokens(self):
        return len(self._held().tokens)

    @n_tokens.setter
    def n_tokens(self, count):
        self._held().truncate(count)

    @property
    def input_ids(self):
        return np.array(self._held().tokens, dtype=np.intc)

    _input_ids = input_ids

    @property
    def eval_tokens(self):
        return deque(self._held().tokens, maxlen=self.n_ctx())

    @property
    def eval_logits(self):
        return deque(self.scores.tolist(), maxlen=self.n_ctx())

    @property
    def scores(self):
        """Logits after each token that was read: float32 (n_tokens, vocab). Rows not asked for before are computed."""
        tokens = self._held().tokens
        held, rows = self._scores_of
        common = common_prefix(held, tokens)
        if common < len(tokens):
            past = self._session.fork()
            past.truncate(common)
            rows = np.concatenate([rows[:common], past.score(tokens[common:])])
        self._scores_of = tuple(tokens), rows[:len(tokens)]
        return self._scores_of[1]

    _scores = scores

    def reset(self):
        self._held().clear()

    def eval(self, tokens):
        self._held().prefill(ids_of("tokens", tokens))

    def set_seed(self, seed):
        """Of the next tokens; 0xFFFFFFFF or None: one of the clock's."""
        self._seed = None if seed in (None, -1, 0xFFFFFFFF) else seed
        self._draws = 0

    def set_cache(self, cache):
        """Completions begin from the state with the longest beginning of their prompt, and leave theirs there."""
        self.cache = cache

    def _next_seed(self, seed):
        if seed is not None:
            return seed
        self._draws += 1
        return (self._seed if self._seed is not None else time.time_ns()) + self._draws - 1 & 0xFFFFFFFFFFFFFFFF

    def _sampling(self, temperature, options, seed=None):
        """Options of a Sampler by llama-cpp-python's, where a negative temperature draws from the whole distribution."""
        options = dict(options)
        _refuse({name: options.pop(name) for name in ("tfs_z",) if name in options})
        options.pop("penalize_nl", None)  # ignored by llama.cpp, too
        whole = temperature < 0
        cut = {} if not whole else {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0}
        mode = options.pop("mirostat_mode", 0)
        bias = options.pop("logit_bias", None) or {}
        made = {"temperature": 1.0 if whole else temperature, "mirostat": 0 if whole else mode, **options, **cut,
                "seed": self._next_seed(seed), "repeat_last_n": self._last_n}
        made["top_k"] = max(made.get("top_k", 40), 0)
        if bias:
            made["logit_bias"] = {int(id): float(value) for id, value in bias.items()}
        return made

    def sample(self, top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.8, repeat_penalty=1.0, frequency_penalty=0.0,
               presence_penalty=0.0, tfs_z=1.0, mirostat_mode=0, mirostat_eta=0.1, mirostat_tau=5.0, penalize_nl=True,
               logits_processor=None, grammar=None, idx=None):
        """The next token after what was read, or after the token at idx."""
        sampler = self._sampler(temp, dict(
            top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p, repeat_penalty=repeat_penalty, frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty, tfs_z=tfs_z, mirostat_mode=mirostat_mode, mirostat_eta=mirostat_eta, mirostat_tau=mirostat_tau,
            grammar=grammar))
        ids = self._held().tokens
        logits = self._session.logits() if idx is None else self.scores[idx].copy()
        if process := _process_of(logits_processor, None):
            process(np.array(ids, dtype=np.intc), logits)
        for id in ids[-self._last_n:] if self._last_n > 0 else []:
            sampler.accept(id)
        return sampler.sample(logits)

    def _sampler(self, temperature, options):
        if options.pop("grammar", None) is not None:
            raise Unsupported("Llama: grammar: expected it of completions, found it of sample() or generate()")
        return Sampler(self.n_vocab(), **self._sampling(temperature, options))

    def generate(self, tokens, top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.8, repeat_penalty=1.0, reset=True,
                 frequency_penalty=0.0, presence_penalty=0.0, tfs_z=1.0, mirostat_mode=0, mirostat_tau=5.0, mirostat_eta=0.1,
                 penalize_nl=True, logits_processor=None, stopping_criteria=None, grammar=None):
        """Ids, one after the other, for as long as they are asked for; send(ids) reads more before the next."""
        process = _process_of(logits_processor, stopping_criteria)
        sampler = self._sampler(temp, dict(
            top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p, repeat_penalty=repeat_penalty, frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty, tfs_z=tfs_z, mirostat_mode=mirostat_mode, mirostat_eta=mirostat_eta, mirostat_tau=mirostat_tau,
            grammar=grammar))
        tokens = ids_of("tokens", tokens)
        if reset:
            common = min(common_prefix(self._held().tokens, tokens), max(len(tokens) - 1, 0))
            self._session.truncate(common)
            tokens = tokens[common:]
        for id in self._held().tokens:
            sampler.accept(id)
        while True:
            self.eval(tokens)
            for id in tokens:
                sampler.accept(id)
            logits = self._session.logits()
            if process and not process(self.input_ids, logits):
                return
            token = sampler.sample(logits)
            sent = yield token
            tokens = [token, *ids_of("tokens", sent or [])]

    def save_state(self):
        """What the context has read, for load_state(); may be pickled."""
        return LlamaState(self._held().fork(), self._seed)

    def load_state(self, state):
        self._session = state._resumed(self.model, self._held().context, self._n_threads, self._adapters)
        self._seed = state.seed

    def close(self):
        if self._session is not None:
            self._session.close()

    @staticmethod
    def logits_to_logprobs(logits, axis=-1):
        """Logarithms of the softmax of logits, float32."""
        logits = np.asarray(logits, dtype=np.float32)
        highest = logits.max(axis=axis, keepdims=True)
        shifted = logits - np.where(np.isfinite(highest), highest, 0)
        with np.errstate(divide="ignore"):
            return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    longest_token_prefix = staticmethod(common_prefix)

    # -- completions

    def _start(self, ids, max_tokens, stop, temperature, options, seed, processors, criteria, spell=()):
        options = dict(options)
        grammar = grammar_of(options.pop("grammar", None), None)
        made = self._sampling(temperature, options, seed)
        if grammar is not None:
            made["grammar"] = grammar
        if spell:
            made["spell"] = list(spell)
        process = _process_of(processors, criteria)
        if process is not None:
            made["process"] = process
        if self.draft_model is not None:
            made["lookup"] = min(self.draft_model.num_pred_tokens, 16)
        stop = [stop] if isinstance(stop, str) else list(stop or [])
        self._from_cache(ids)
        room = -1 if max_tokens is None or max_tokens <= 0 else max_tokens
        return self._held()._stream_whole(ids, max_tokens=room, stop=stop, **made)

    def _from_cache(self, ids):
        if self.cache is None:
            return
        try:
            state = self.cache[ids]
        except KeyError:
            return
        if common_prefix(state.input_ids, ids) > common_prefix(self._held().tokens, ids):
            self.load_state(state)

    def _to_cache(self):
        if self.cache is not None:
            self.cache[self._session.tokens] = self.save_state()

    def _best(self, values, count):
        """The log probability of each id, and those of the most probable ones."""
        values = self.logits_to_logprobs(values.astype(np.float64))
        return values, np.argsort(-values, kind="stable")[:count]

    def _score(self, logits, id, count):
        values, best = self._best(logits, count)
        return float(values[id]), {int(b): float(values[b]) for b in best}

    def _text(self, id):
        return self._vocab.token_bytes(id).decode("utf-8", errors="replace")

    def _pieces(self, run, logprobs):
        """(text, ids, log probabilities of them, finish reason or None), piece by piece."""
        done = 0
        if logprobs is None:
            for piece in run:
                tokens = run.tokens
                yield piece, tokens[done:], [], None
                done = len(tokens)
        else:
            running = 1
            while running:
                logits = self._session.logits()
                (piece,), running = _bantam.step([run._made])
                new = run.tokens[done:]
                done += len(new)
                yield piece, new, [self._score(logits, id, logprobs) for id in new], None
        self._to_cache()
        yield "", [], [], run.finish_reason

    def _infill(self, prompt, suffix):
        """The ids of a prompt with a gap before its suffix; None where the vocabulary has no tokens for that."""
        find = self._vocab.find
        for names in _INFILL:
            marks = [find(name) for name in names]
            if None not in marks:
                before, after, middle = marks
                head = [self.token_bos()] if self.token_bos() >= 0 else []
                text = prompt.decode("utf-8", errors="replace") if isinstance(prompt, bytes) else prompt
                return [*head, before, *self._vocab.encode(text, add_special=False), after, *self._vocab.encode(suffix, add_special=False), middle]
        return None

    def create_completion(self, prompt, suffix=None, max_tokens=16, temperature=0.8, top_p=0.95, min_p=0.05, typical_p=1.0, logprobs=None,
                          echo=False, stop=(), frequency_penalty=0.0, presence_penalty=0.0, repeat_penalty=1.0, top_k=40, stream=False,
                          seed=None, tfs_z=1.0, mirostat_mode=0, mirostat_tau=5.0, mirostat_eta=0.1, model=None, stopping_criteria=None,
                          logits_processor=None, grammar=None, logit_bias=None):
        """OpenAI's text_completion; with stream=True an iterator of its chunks.

        suffix: what comes after the text: models with tokens for it fill the gap, after others' texts it is put.
        """
        text_prompt = isinstance(prompt, (str, bytes))
        ids = self._infill(prompt, suffix) if suffix is not None and text_prompt else None
        ending = suffix if suffix is not None and ids is None else ""
        if ids is None:
            ids = self.tokenize(prompt) if text_prompt else ids_of("prompt", prompt)
        options = dict(top_p=top_p, min_p=min_p, typical_p=typical_p, frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
                       repeat_penalty=repeat_penalty, top_k=top_k, tfs_z=tfs_z, mirostat_mode=mirostat_mode, mirostat_tau=mirostat_tau,
                       mirostat_eta=mirostat_eta, grammar=grammar, logit_bias=logit_bias)
        head = {"id": f"cmpl-{uuid.uuid4()}", "object": "text_completion", "created": int(time.time()), "model": model or self.model_path}
        run = self._start(ids, max_tokens, stop, temperature, options, seed, logits_processor, stopping_criteria)
        opening = (prompt if isinstance(prompt, str) else self._vocab.decode(ids)) if echo else ""
        before = self._prompt_scores(ids, logprobs) if echo and logprobs is not None else ([], [])
        parts = self._pieces(run, logprobs)
        if stream:
            return self._completion_chunks(head, parts, opening, ending, logprobs)
        text, tokens, scores, reason = opening, [], [], None
        for piece, new, new_scores, finish in parts:
            text += piece
            tokens += new
            scores += new_scores
            reason = finish or reason
        found = None if logprobs is None else self._logprobs(before[0] + tokens, before[1] + scores, 0 if echo else len(self._vocab.decode(ids)))
        choice = {"text": text + ending, "index": 0, "logprobs": found, "finish_reason": reason}
        return {**head, "choices": [choice], "usage": self._usage(ids, tokens)}

    __call__ = create_completion

    def _prompt_scores(self, ids, count):
        """The prompt's tokens with their log probabilities, as OpenAI has them: without BOS, and the first has none."""
        shown = ids[1:] if ids and ids[0] == self.token_bos() else ids
        skipped = len(ids) - len(shown)
        rows = self.scores
        scores = [(None, None) if at == skipped else self._score(rows[at - 1], ids[at], count) for at in range(skipped, len(ids))]
        return shown, scores

    def _completion_chunks(self, head, parts, opening, ending, logprobs):
        offset = len(opening)
        for piece, tokens, scores, reason in parts:
            found = self._logprobs(tokens, scores, offset) if logprobs is not None and tokens else None
            offset += len(piece)
            text = opening + piece + (ending if reason else "")
            yield {**head, "choices": [{"text": text, "index": 0, "logprobs": found, "finish_reason": reason}]}
            opening = ""

    def _logprobs(self, tokens, scores, offset):
        texts = [self._text(id) for id in tokens]
        offsets = [offset + sum(map(len, texts[:at])) for at in range(len(texts))]
        return {"tokens": texts, "text_offset": offsets, "token_logprobs": [score for score, _ in scores],
                "top_logprobs": [None if top is None else {self._text(id): value for id, value in top.items()} for _, top in scores]}

    @staticmethod
    def _usage(ids, tokens):
        return {"prompt_tokens": len(ids), "completion_tokens": len(tokens), "total_tokens": len(ids) + len(tokens)}

    def create_chat_completion(self, messages, functions=None, function_call=None, tools=None, tool_choice=None, temperature=0.2,
                               top_p=0.95, top_k=40, min_p=0.05, typical_p=1.0, stream=False, stop=(), seed=None, response_format=None,
                               max_tokens=None, presence_penalty=0.0, frequency_penalty=0.0, repeat_penalty=1.0, tfs_z=1.0,
                               mirostat_mode=0, mirostat_tau=5.0, mirostat_eta=0.1, model=None, logits_processor=None, grammar=None,
                               logit_bias=None, logprobs=None, top_logprobs=None, chat_template_kwargs=None):
        """OpenAI's chat.completion by the model's own template; with stream=True an iterator of its chunks.

        Templates show tools to the model; what it calls comes as tool_calls, what it thinks as reasoning_content. chat_template_kwargs:
        variables of the template, {"enable_thinking": False} (not in llama-cpp-python).
        """
        arguments = dict(
            functions=functions, function_call=function_call, tools=tools, tool_choice=tool_choice, temperature=temperature, top_p=top_p,
            top_k=top_k, min_p=min_p, typical_p=typical_p, stream=stream, stop=stop, seed=seed, response_format=response_format,
            max_tokens=max_tokens, presence_penalty=presence_penalty, frequency_penalty=frequency_penalty, repeat_penalty=repeat_penalty,
            tfs_z=tfs_z, mirostat_mode=mirostat_mode, mirostat_tau=mirostat_tau, mirostat_eta=mirostat_eta, model=model,
            logits_processor=logits_processor, grammar=grammar, logit_bias=logit_bias, logprobs=logprobs, top_logprobs=top_logprobs)
        if self.chat_handler is not None:
            return self.chat_handler(llama=self, messages=messages, **arguments)
        _refuse({name: arguments[name] for name in ("tool_choice", "function_call")})
        arguments["grammar"] = grammar_of(grammar, response_format)
        variables = {**({} if functions is None else {"functions": functions}), **(chat_template_kwargs or {})}
        prompt = render(self._vocab, messages, tools=None if tool_choice == "none" else tools, chat_template=self._template, **variables)
        ids = self._vocab.encode(prompt, add_special=False, parse_special=True)
        names = ("top_p", "min_p", "typical_p", "frequency_penalty", "presence_penalty", "repeat_penalty", "top_k", "tfs_z", "mirostat_mode",
                 "mirostat_tau", "mirostat_eta", "grammar", "logit_bias")
        form = _bantam.reply_form_of(self._template or self._vocab.chat_template or "")
        offered = None if tool_choice == "none" else tools or [{"type": "function", "function": one} for one in functions or []]
        reply = ReplyMessage(form, prompt=prompt[-256:], tools=offered or None, calls=bool(offered))
        # Marks may be special tokens, which texts leave out.
        spell = self._vocab.reply_tokens(form)
        run = self._start(ids, max_tokens, stop, temperature, {name: arguments[name] for name in names}, seed, logits_processor, None, spell)
        head = {"id": f"chatcmpl-{uuid.uuid4()}", "created": int(time.time()), "model": model or self.model_path}
        parts = self._pieces(run, (top_logprobs or 0) if logprobs else None)
        if stream:
            return self._chat_chunks(head, parts, logprobs, reply)
        tokens, scores, reason = [], [], None
        for piece, new, new_scores, finish in parts:
            reply.feed(piece)
            tokens += new
            scores += new_scores
            reason = finish or reason
        reply.finish()
        choice = {"index": 0, "message": reply.message(), "finish_reason": "tool_calls" if reply.has_calls and reason == "stop" else reason,
                  "logprobs": self._chat_logprobs(tokens, scores) if logprobs else None}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": self._usage(ids, tokens)}

    def _chat_chunks(self, head, parts, logprobs, reply):
        def chunk(delta, reason=None, found=None):
            return {**head, "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "logprobs": found, "finish_reason": reason}]}

        yield chunk({"role": "assistant"})
        for piece, tokens, scores, reason in parts:
            found = self._chat_logprobs(tokens, scores) if logprobs and tokens else None
            deltas = reply.feed(piece) + (reply.finish() if reason else [])
            # Log probabilities go with the first delta of their tokens.
            for delta in deltas[:-1] if reason is None else deltas:
                yield chunk(delta, None, found)
                found = None
            if reason:
                yield chunk({}, "tool_calls" if reply.has_calls and reason == "stop" else reason, found)
            elif deltas or found:
                yield chunk(deltas[-1] if deltas else {}, None, found)

    def _chat_logprobs(self, tokens, scores):
        def entry(id, value):
            return {"token": self._text(id), "logprob": value, "bytes": list(self._vocab.token_bytes(id))}

        return {"content": [{**entry(id, score), "top_logprobs": [entry(*one) for one in top.items()]}
                            for id, (score, top) in zip(tokens, scores)]}

    def create_chat_completion_openai_v1(self, *args, **options):
        """The same as objects of the package openai."""
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        made = self.create_chat_completion(*args, **options)
        return (ChatCompletionChunk(**chunk) for chunk in made) if options.get("stream") else ChatCompletion(**made)

    # -- embeddings

    def embed(self, input, normalize=False, truncate=True, return_count=False):
        """The embedding of a text, or a list of those of several; without pooling each is a list of its tokens' ones.

        truncate: cuts texts that are longer than the context, which else raise InvalidArgument.
        """
        if not self._embeds:
            raise InvalidArgument("Llama: embed: expected a Llama made with embedding=True")
        single = isinstance(input, (str, bytes))
        embeddings, count = [], 0
        for text in [input] if single else input:
            ids = self.tokenize(text)
            ids = ids[:self.n_ctx()] if truncate else ids
            count += len(ids)
            embeddings.append(self._embed(ids, normalize))
        made = embeddings[0] if single else embeddings
        return (made, count) if return_count else made

    def _embed(self, ids, normalize):
        pooling = self.model.config["pooling"] if self._pooling == -1 else _POOLINGS[self._pooling]
        if pooling is not None:
            return self._held().embed(ids, pooling=pooling, normalize=normalize).tolist()
        self._held().clear()
        states = self._session.states(ids)
        if normalize:
            states = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return states.tolist()

    def create_embedding(self, input, model=None):
        """OpenAI's list of embeddings."""
        texts = [input] if isinstance(input, (str, bytes)) else list(input)
        embeddings, count = self.embed(texts, return_count=True)
        data = [{"object": "embedding", "embedding": embedding, "index": index} for index, embedding in enumerate(embeddings)]
        return {"object": "list", "data": data, "model": model or self.model_path, "usage": {"prompt_tokens": count, "total_tokens": count}}
