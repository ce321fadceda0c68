"""Requests of many at once: each gets the text that it has alone, in passes over the weights that they share."""

import asyncio
import itertools
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from . import _bantam
from ._chat import messages_of, render
from ._errors import BY_CODE, Cancelled, Error, Late, QueueFull
from ._model import adapters_of, model_of
from ._options import RequestOptions, SchedulerOptions, prompt_of, takes
from ._session import resolved, set_options


class TokenLogprob(NamedTuple):
    """A token, and how probable it was before anything of sampling."""

    id: int
    logprob: float
    top: list  #: (id, log probability) of the most probable tokens, the best first


@dataclass(frozen=True)
class RequestStats:
    """What a request took."""

    prompt_tokens: int = 0
    reused_tokens: int = 0  #: of the prompt, read for other texts before
    generated_tokens: int = 0
    guessed_tokens: int = 0  #: by speculation
    right_guesses: int = 0
    waited_ms: float = 0.0  #: until there was a place
    prompt_ms: float = 0.0  #: from there to the first token
    generate_ms: float = 0.0  #: from there on, known at the end


@dataclass(frozen=True)
class SchedulerStats:
    """What a scheduler does now, and has done since it began."""

    parallel: int
    running: int  #: texts that have a place
    waiting: int  #: texts that have none yet
    requests: int
    kept: int  #: ended texts that are kept
    kv_bytes: int  #: keys, values and states; what texts share counts in full
    context: int
    prompt_tokens: int  #: read
    reused_tokens: int  #: not read, because they were there
    generated_tokens: int
    guessed_tokens: int  #: by speculation
    right_guesses: int
    steps: int
    stepped_texts: int  #: texts in all steps
    refused: int  #: requests, for a full queue
    prompt_seconds: float
    generate_seconds: float


class Request:
    """A text that was asked for. Going through it gives pieces, each whole characters, and leaving the loop cancels what is left; `async
    for` does the same. result(), or `await`, gives the text whole, `future` is what concurrent.futures waits for. A text that did not end
    well raises Cancelled, Late or what failed; `text` is what there is of it. Any thread may use it."""

    def __init__(self, scheduler, process):
        self.future = Future()
        self.future.set_running_or_notify_cancel()
        self._scheduler = scheduler
        self._given_process = process
        self._raised = None  # by `process`
        self._number = None
        self._changed = threading.Condition()
        self._waiting = []  # (loop, asyncio's future) of who waits for a piece
        self._unread = []
        self._pieces = []
        self._tokens = []
        self._logprobs = []
        self._prompt_logprobs = []
        self._end = "running"
        self._stop_text = ""
        self._stats = RequestStats()

    def _process(self, ids, logits):
        try:
            return self._given_process(ids, logits)
        except BaseException as error:
            self._raised = error
            raise

    def _hear(self, piece, tokens, prompt, end, error, code, stop_text, stats):
        """On the thread that delivers. Whether it was the last."""
        with self._changed:
            if piece:
                self._unread.append(piece)
                self._pieces.append(piece)
            self._tokens += [id for id, _, _ in tokens]
            self._logprobs += [TokenLogprob(*token) for token in tokens]
            self._prompt_logprobs += [TokenLogprob(*token) for token in prompt]
            self._end, self._stop_text, self._stats = end, stop_text, RequestStats(**stats)
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for loop, waiter in waiting:
            try:
                loop.call_soon_threadsafe(_wake, waiter)
            except RuntimeError:  # the loop is closed: nobody waits there any more
                pass
        if end == "running":
            return False
        if end in ("stop", "length"):
            self.future.set_result(self.text)
        elif end == "failed":
            self.future.set_exception(self._raised or BY_CODE.get(code, Error)(error))
        elif end == "late":
            self.future.set_exception(Late("request: expected its end sooner, its timeout is over"))
        else:
            self.future.set_exception(Cancelled("request: cancelled"))
        return True

    def _take(self):
        """The text that was not taken yet; empty at the end, or what went wrong. With the lock."""
        piece = "".join(self._unread)
        self._unread.clear()
        if not piece and self._end not in ("stop", "length"):
            raise self.future.exception()
        return piece

    def __iter__(self):
        try:
            while True:
                self._scheduler._made.check_process()
                with self._changed:
                    while not self._unread and self._end == "running":
                        self._changed.wait()
                    piece = self._take()
                if not piece:
                    return
                yield piece
        finally:
            self.cancel()

    async def __aiter__(self):
        try:
            while True:
                self._scheduler._made.check_process()
                with self._changed:
                    waiter = None
                    if self._unread or self._end != "running":
                        piece = self._take()
                    else:
                        waiter = asyncio.get_running_loop().create_future()
                        self._waiting.append((asyncio.get_running_loop(), waiter))
                if waiter is not None:
                    await waiter
                    continue
                if not piece:
                    return
                yield piece
        finally:
            self.cancel()

    def __await__(self):
        return self._whole().__await__()

    async def _whole(self):
        self._scheduler._made.check_process()
        try:
            return await asyncio.wrap_future(self.future)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def result(self, timeout=None):
        """The whole text; waits for it, `timeout` seconds at most, then raises TimeoutError, and the request goes on."""
        self._scheduler._made.check_process()
        return self.future.result(timeout)

    def done(self):
        """Whether it ended."""
        return self.future.done()

    def cancel(self):
        """Ends it within a step; nothing where it ended already."""
        if not self.done() and self._number:
            self._scheduler._made.cancel(self._number)

    @property
    def text(self):
        """So far."""
        return "".join(self._pieces)

    @property
    def tokens(self):
        """Ids so far, the end token left out."""
        return list(self._tokens)

    @property
    def logprobs(self):
        """Of these, as TokenLogprob, where `logprobs` asked for them."""
        return list(self._logprobs)

    @property
    def prompt_logprobs(self):
        """Of the prompt's tokens from the second on, where `prompt_logprobs` asked for them, as far as they were read."""
        return list(self._prompt_logprobs)

    @property
    def finish_reason(self):
        """"running", "stop", "length", "cancelled", "late" or "failed"."""
        return self._end

    @property
    def stop_text(self):
        """The stop text that ended it; empty where none did."""
        return self._stop_text

    @property
    def stats(self):
        return self._stats


def _wake(waiter):
    if not waiter.done():
        waiter.set_result(None)


def _deliver(made, requests, changed):
    """Hands news to their requests until the scheduler ended. Holds no scheduler, which may go meanwhile."""
    while news := made.take():
        for key, *rest in news:
            if requests[key]._hear(*rest):
                with changed:
                    del requests[key]
                    changed.notify_all()
        del news, rest


def _end(made, thread):
    made.stop()
    if thread is not threading.current_thread():
        thread.join()


class Scheduler:
    """Runs the requests of many on a model, or the one that a path names: every step draws a token more of each, and reads pieces of prompts,
    in one pass over the weights. Each text is, bit for bit, what Session.generate() gives for its prompt and options alone. Any thread may
    use it, and any event loop. It belongs to the process that made it: in a child of fork() it says so."""

    @takes(SchedulerOptions)
    def __init__(self, model, **options):
        """See help(bantam.Scheduler)."""
        self.model = model_of(model)
        draft = options.pop("draft")
        draft = None if draft is None else model_of(draft, "draft")._made
        self._made = _bantam.Scheduler(self.model._made, draft=draft, **resolved(self.model, options))
        self._requests = {}
        self._changed = threading.Condition()
        self._keys = itertools.count(1)
        thread = threading.Thread(target=_deliver, args=(self._made, self._requests, self._changed), name="bantam scheduler", daemon=True)
        thread.start()
        # Before the interpreter ends, too: afterwards no thread of it may run.
        self._finalizer = weakref.finalize(self, _end, self._made, thread)

    @takes(RequestOptions)
    def submit(self, prompt, **options):
        """Asks for what follows a prompt (text or token ids) and returns a Request at once. QueueFull where there are as many as `queue` lets
        wait."""
        adapters = options.pop("adapters")
        if adapters is not None:
            options["adapters"] = adapters_of(self.model, adapters)
        return self._submit(prompt_of(prompt), set_options(options))

    def _submit(self, prompt, options):
        request = Request(self, options.get("process"))
        if "process" in options:
            options["process"] = request._process
        key = next(self._keys)
        self._made.check_process()
        with self._changed:
            self._requests[key] = request
        try:
            request._number = self._made.submit(key, prompt, **options)
            if not request._number:
                raise QueueFull("scheduler: expected room for a request, found a full queue")
        except BaseException:
            with self._changed:
                del self._requests[key]
                self._changed.notify_all()
            raise
        return request

    @takes(RequestOptions)
    def generate(self, prompt, **options):
        """The same, whole: text."""
        return self.submit(prompt, **options).result()

    @takes(RequestOptions)
    def chat(self, messages, *, tools=None, chat_template_kwargs=None, **options):
        """A Request for the reply to a whole conversation, by the model's chat template; what was read of it before is not read again. tools and
        chat_template_kwargs are those of Session.chat()."""
        text = render(self.model.tokenizer, messages_of(messages), tools=tools, **(chat_template_kwargs or {}))
        # Templates write special tokens, BOS among them, so they are parsed and none is added.
        return self.submit(text, **{**options, "add_special": False, "parse_special": True})

    def wait(self, timeout=None):
        """Waits until nothing is at hand, `timeout` seconds at most; whether that is so."""
        self._made.check_process()
        with self._changed:
            return self._changed.wait_for(lambda: not self._requests, timeout)

    @property
    def stats(self):
        return SchedulerStats(**self._made.stats())

    def close(self):
        """Ends what still runs as Cancelled, and frees keys, values and threads."""
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
