"""The class of llama-cpp-python, on bantam: `from bantam import Llama`.

The constructor and the methods have its names and return its dictionaries, which are OpenAI's. What means nothing here (GPU
layers, batch sizes) is accepted and ignored; what would change the text and is not there raises Unsupported.
"""

import time
import uuid

import numpy as np

from . import _bantam
from ._errors import InvalidArgument, Unsupported
from ._model import load
from ._session import Session

_IGNORED = {
    "n_gpu_layers", "split_mode", "main_gpu", "tensor_split", "use_mmap", "use_mlock", "n_batch", "n_ubatch", "n_threads_batch",
    "offload_kqv", "flash_attn", "swa_full", "op_offload", "no_perf", "last_n_tokens_size", "numa", "verbose", "logits_all", "kv_overrides",
    "model_alias",
}
# Options that change the text when they are not at these values.
_NEUTRAL = {
    "suffix": (None,), "tfs_z": (1.0,), "mirostat_mode": (0,), "mirostat_tau": None, "mirostat_eta": None, "grammar": (None,),
    "model": None, "functions": (None,), "function_call": (None,),
    "tools": (None,), "tool_choice": (None, "none", "auto"), "response_format": (None, {"type": "text"}), "user": None,
}
_POOLINGS = {-1: None, 0: None, 1: "mean", 2: "cls", 3: "last"}
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "frequency_penalty", "presence_penalty")


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
    -1 or 0 an embedding for each token, 1 the mean, 2 the first token's, 3 the last one's.
    """

    def __init__(self, model_path, *, seed=None, n_ctx=512, n_threads=None, type_k=None, type_v=None, draft_model=None, chat_format=None,
                 vocab_only=False, embedding=False, pooling_type=-1, **more):
        unknown = set(more) - _IGNORED
        if unknown:
            raise Unsupported(f"Llama: expected options of a CPU, found {', '.join(sorted(unknown))}")
        if vocab_only or draft_model or chat_format:
            raise Unsupported("Llama: not yet: vocab_only, draft_model and chat_format (the model's own template is used)")
        if pooling_type not in _POOLINGS:
            raise Unsupported(f"Llama: pooling_type: expected -1 to 3, found {pooling_type}")
        self._pooling = _POOLINGS[pooling_type]
        self._embeds = embedding
        if type_v not in (None, type_k):
            raise Unsupported("Llama: expected type_k and type_v alike")
        kinds = {None: "f16", 0: "f32", 1: "f16", 8: "q8", 2: "q4"}
        if type_k not in kinds:
            raise InvalidArgument(f"Llama: type_k: expected one of {sorted(k for k in kinds if k is not None)}, found {type_k}")
        self.model_path = str(model_path)
        self.model = load(model_path)
        self.tokenizer_ = self.model.tokenizer
        self._session = Session(self.model, context=n_ctx, threads=n_threads or 0, kv=kinds[type_k])
        self._seed = seed
        self._draws = 0

    # -- the vocabulary

    def tokenize(self, text, add_bos=True, special=False):
        """bytes -> ids"""
        text = text.decode("utf-8", errors="replace") if isinstance(text, bytes) else text
        return self.tokenizer_.encode(text, add_special=add_bos, parse_special=special)

    def detokenize(self, tokens, prev_tokens=None, special=False):
        """ids -> bytes"""
        return self.tokenizer_.decode(tokens, keep_special=special).encode("utf-8")

    def n_ctx(self):
        return self._session.context

    def n_vocab(self):
        return self.model.config["vocab"]

    def n_embd(self):
        return self.model.config["dim"]

    def token_bos(self):
        return -1 if self.tokenizer_.bos is None else self.tokenizer_.bos

    def token_eos(self):
        return -1 if self.tokenizer_.eos is None else self.tokenizer_.eos

    @property
    def n_tokens(self):
        return len(self._session.tokens)

    # -- token by token

    def reset(self):
        self._session.clear()

    def eval(self, tokens):
        self._session.prefill(list(tokens))

    def _read(self, tokens):
        """Brings the session to these tokens, reading only what it does not hold yet; the last is always read."""
        held = self._session.tokens
        common = 0
        while common < min(len(held), len(tokens) - 1) and held[common] == tokens[common]:
            common += 1
        self._session.truncate(common)
        return list(tokens[common:])

    def _next_seed(self, seed):
        if seed is not None:
            return seed
        self._draws += 1
        return (self._seed if self._seed is not None else time.time_ns()) + self._draws - 1 & 0xFFFFFFFFFFFFFFFF

    def sample(self, logits_processor=None, **options):
        """The next token after what was read."""
        sampler = self._sampler(options)
        logits = self._session.logits()
        if process := _process_of(logits_processor, None):
            process(np.array(self._session.tokens, dtype=np.int32), logits)
        return sampler.sample(logits)

    def _sampler(self, options):
        options = dict(options)
        seed = self._next_seed(options.pop("seed", None))
        self._refuse(options)
        return _bantam.Sampler(self.n_vocab(), seed=seed, **options)

    def generate(self, tokens, reset=True, logits_processor=None, stopping_criteria=None, **options):
        """Ids, one after the other, for as long as they are asked for."""
        process = _process_of(logits_processor, stopping_criteria)
        if reset:
            tokens = self._read(tokens)
        self.eval(tokens)
        sampler = self._sampler(options)
        while True:
            logits = self._session.logits()
            if process and not process(np.array(self._session.tokens, dtype=np.int32), logits):
                return
            token = sampler.sample(logits)
            sampler.accept(token)
            yield token
            self.eval([token])

    def save_state(self):
        """A copy of the context."""
        return self._session.fork()

    def load_state(self, state):
        self._session = state.fork()

    def close(self):
        self._session.close()

    # -- completions

    @staticmethod
    def _refuse(options):
        for name in list(options):
            if name not in _NEUTRAL:
                continue
            neutral = _NEUTRAL[name]
            value = options.pop(name)
            if neutral is not None and value not in neutral:
                raise Unsupported(f"Llama: {name}: not yet; expected {neutral[0]}, found {value!r}")

    def _start(self, ids, max_tokens, stop, options):
        self._refuse(options)
        process = _process_of(options.pop("logits_processor", None), options.pop("stopping_criteria", None))
        unknown = set(options) - set(_SAMPLING) - {"logit_bias", "seed"}
        if unknown:
            raise TypeError(f"unexpected keyword argument: {', '.join(sorted(unknown))}")
        if options.get("logit_bias"):
            options["logit_bias"] = {int(id): float(value) for id, value in options["logit_bias"].items()}
        else:
            options.pop("logit_bias", None)
        stop = [stop] if isinstance(stop, str) else list(stop or [])
        room = -1 if max_tokens is None or max_tokens < 0 else max_tokens
        if process is not None:
            options["process"] = process
        return self._session.stream(self._read(ids), max_tokens=room, stop=stop, **options)

    def _log_probabilities(self, count):
        logits = self._session.logits().astype(np.float64)
        values = logits - logits.max()
        values -= np.log(np.exp(values).sum())
        best = np.argsort(-values, kind="stable")[:count]
        return values, best

    def _text(self, id):
        return self.tokenizer_.token_bytes(id).decode("utf-8", errors="replace")

    def _stream(self, ids, max_tokens, stop, logprobs, options):
        """(text, ids, log probabilities of them, finish reason or None), piece by piece."""
        run = self._start(ids, max_tokens, stop, options)
        done = 0
        if logprobs is None:
            for piece in run:
                tokens = run.tokens
                yield piece, tokens[done:], [], None
                done = len(tokens)
        else:
            running = 1
            while running:
                values, best = self._log_probabilities(logprobs)
                (piece,), running = _bantam.step([run._made])
                new = run.tokens[done:]
                done += len(new)
                scores = [(float(values[id]), {int(b): float(values[b]) for b in best}) for id in new]
                yield piece, new, scores, None
        yield "", [], [], run.finish_reason

    def create_completion(self, prompt, suffix=None, max_tokens=16, temperature=0.8, top_p=0.95, min_p=0.05, typical_p=1.0, logprobs=None,
                          echo=False, stop=None, frequency_penalty=0.0, presence_penalty=0.0, repeat_penalty=1.0, top_k=40, stream=False,
                          seed=None, logit_bias=None, **more):
        """OpenAI's text_completion; with stream=True an iterator of its chunks."""
        ids = self.tokenize(prompt) if isinstance(prompt, (str, bytes)) else list(prompt)
        options = dict(temperature=temperature, top_p=top_p, min_p=min_p, typical_p=typical_p, frequency_penalty=frequency_penalty,
                       presence_penalty=presence_penalty, repeat_penalty=repeat_penalty, top_k=max(top_k, 0), seed=self._next_seed(seed),
                       logit_bias=logit_bias, suffix=suffix, **more)
        head = {"id": f"cmpl-{uuid.uuid4()}", "object": "text_completion", "created": int(time.time()), "model": self.model_path}
        parts = self._stream(ids, max_tokens, stop, logprobs, options)
        opening = self.tokenizer_.decode(ids) if echo else ""
        if stream:
            return self._completion_chunks(head, parts, opening)
        text, tokens, scores, reason = opening, [], [], None
        for piece, new, new_scores, finish in parts:
            text += piece
            tokens += new
            scores += new_scores
            reason = finish or reason
        choice = {"text": text, "index": 0, "logprobs": self._logprobs(tokens, scores, logprobs), "finish_reason": reason}
        return {**head, "choices": [choice], "usage": self._usage(ids, tokens)}

    __call__ = create_completion

    def _completion_chunks(self, head, parts, opening):
        for piece, tokens, scores, reason in parts:
            logprobs = self._logprobs(tokens, scores, None if not scores else 1)
            yield {**head, "choices": [{"text": opening + piece, "index": 0, "logprobs": logprobs, "finish_reason": reason}]}
            opening = ""

    def _logprobs(self, tokens, scores, wanted):
        if wanted is None:
            return None
        return {"tokens": [self._text(id) for id in tokens], "token_logprobs": [score for score, _ in scores],
                "top_logprobs": [{self._text(id): value for id, value in top.items()} for _, top in scores]}

    @staticmethod
    def _usage(ids, tokens):
        return {"prompt_tokens": len(ids), "completion_tokens": len(tokens), "total_tokens": len(ids) + len(tokens)}

    def create_chat_completion(self, messages, temperature=0.2, top_p=0.95, top_k=40, min_p=0.05, typical_p=1.0, stream=False, stop=None,
                               seed=None, max_tokens=None, presence_penalty=0.0, frequency_penalty=0.0, repeat_penalty=1.0,
                               logit_bias=None, logprobs=None, top_logprobs=None, **more):
        """OpenAI's chat.completion by the model's own template; with stream=True an iterator of its chunks."""
        prompt = self.tokenizer_.apply_chat_template(messages)
        ids = self.tokenizer_.encode(prompt, add_special=False, parse_special=True)
        options = dict(temperature=temperature, top_p=top_p, top_k=max(top_k, 0), min_p=min_p, typical_p=typical_p, presence_penalty=presence_penalty,
                       frequency_penalty=frequency_penalty, repeat_penalty=repeat_penalty, seed=self._next_seed(seed), logit_bias=logit_bias,
                       **more)
        head = {"id": f"chatcmpl-{uuid.uuid4()}", "created": int(time.time()), "model": self.model_path}
        parts = self._stream(ids, max_tokens, stop, (top_logprobs or 0) if logprobs else None, options)
        if stream:
            return self._chat_chunks(head, parts)
        text, tokens, scores, reason = "", [], [], None
        for piece, new, new_scores, finish in parts:
            text += piece
            tokens += new
            scores += new_scores
            reason = finish or reason
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason,
                  "logprobs": self._chat_logprobs(tokens, scores) if logprobs else None}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": self._usage(ids, tokens)}

    def _chat_chunks(self, head, parts):
        def chunk(delta, reason=None):
            return {**head, "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}

        yield chunk({"role": "assistant"})
        for piece, _, _, reason in parts:
            if piece or reason:
                yield chunk({"content": piece} if piece else {}, reason)

    def _chat_logprobs(self, tokens, scores):
        return {"content": [{"token": self._text(id), "logprob": score, "bytes": list(self.tokenizer_.token_bytes(id)),
                             "top_logprobs": [{"token": self._text(other), "logprob": value, "bytes": list(self.tokenizer_.token_bytes(other))}
                                              for other, value in top.items()]}
                            for id, (score, top) in zip(tokens, scores)]}

    def create_chat_completion_openai_v1(self, *args, **options):
        """The same as objects of the package openai."""
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        made = self.create_chat_completion(*args, **options)
        return (ChatCompletionChunk(**chunk) for chunk in made) if options.get("stream") else ChatCompletion(**made)

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
        if self._pooling is not None:
            return self._session.embed(ids, pooling=self._pooling, normalize=normalize).tolist()
        self._session.clear()
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
