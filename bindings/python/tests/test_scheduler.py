"""Schedulers: many requests at once, each with the text that it has alone."""

import asyncio
import concurrent.futures
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import bantam
from common import GREEDY, MODEL, Folder, chat_model, model, write_adapter

PROMPTS = ["Once upon a time", "The captain", "The sea was", "It was a dark night, and", "A", "The captain said", "One", "Nothing"]
ENDLESS = {"max_tokens": -1, "ignore_end": True, **GREEDY}
# Slower and slower: 40 tokens come at once, the context is full after 20 seconds, however late a busy machine calls us.
SLOW = {"process": lambda ids, logits: time.sleep(0.005 if len(ids) < 48 else 0.1), **ENDLESS}


def alone(prompt, **options):
    return bantam.Session(model, context=256).generate(prompt, **options)


def scheduler(**options):
    return bantam.Scheduler(model, **{"context": 256, "threads": 2, **options})


def begun(s):
    """A slow request that has its place in the batch: until then, what is submitted behind it may overtake it."""
    request = s.submit("The", **SLOW)
    while not request.text and not request.done():
        time.sleep(0.001)
    return request


class Schedulers(Folder):
    def test_eight_at_once_are_each_as_alone(self):
        with scheduler(parallel=8) as s:
            requests = [s.submit(prompt, max_tokens=24, seed=i) for i, prompt in enumerate(PROMPTS)]
            for i, (prompt, request) in enumerate(zip(PROMPTS, requests)):
                expected = alone(prompt, max_tokens=24, seed=i)
                self.assertEqual("".join(request), expected)
                self.assertEqual(request.result(), expected)
                self.assertEqual(request.finish_reason, "length")
                self.assertEqual(len(request.tokens), 24)
                self.assertEqual(request.stats.generated_tokens, 24)
                self.assertEqual(request.stats.prompt_tokens, len(model.tokenizer.encode(prompt)))
            self.assertTrue(s.wait(10))
            self.assertEqual(s.stats.generated_tokens, 8 * 24)
            self.assertEqual((s.stats.parallel, s.stats.requests, s.stats.context), (8, 0, 256))

    def test_guesses_change_no_text(self):
        with scheduler(parallel=8, draft=model, lookup=4) as s:
            requests = [s.submit(prompt, max_tokens=24, seed=i) for i, prompt in enumerate(PROMPTS)]
            self.assertEqual([request.result() for request in requests], [alone(prompt, max_tokens=24, seed=i) for i, prompt in enumerate(PROMPTS)])
            self.assertGreater(s.stats.guessed_tokens, 0)
            self.assertEqual(s.stats.right_guesses, sum(request.stats.right_guesses for request in requests))
        with self.assertRaisesRegex(bantam.InvalidArgument, "mtp"):
            scheduler(mtp=2)

    def test_from_many_threads(self):
        with scheduler(parallel=4, queue=100) as s, concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda prompt: s.generate(prompt, max_tokens=12, **GREEDY), PROMPTS * 3))
        self.assertEqual(found[:8], [alone(prompt, max_tokens=12, **GREEDY) for prompt in PROMPTS])
        self.assertEqual(found[8:], found[:8] * 2)

    def test_options_are_those_of_sessions(self):
        write_adapter(self.folder / "lora")
        seen = []
        cases = [{"stop": [" the"]}, {"grammar": 'root ::= "yes" | "no"'}, {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                 {"mirostat": 2}, {"logit_bias": {5: 3.0}}, {"order": ["temperature"]}, {"add_special": False}, {"lookup": 4},
                 {"process": lambda ids, logits: (seen.append(len(ids)), len(ids) < 12)[1]}, {"dry_multiplier": 0.8, "repeat_penalty": 1.2}]
        with scheduler(parallel=8, queue=100) as s:
            for case, request in [(case, s.submit("The old captain", max_tokens=20, seed=3, **case)) for case in cases]:
                with self.subTest(case):
                    self.assertEqual(request.result(), alone("The old captain", max_tokens=20, seed=3, **case))
            self.assertTrue(seen)
            adapted = bantam.Session(model, context=256, adapters=[self.folder / "lora"]).generate("The sea", max_tokens=12, **GREEDY)
            self.assertEqual(s.generate("The sea", max_tokens=12, adapters=[self.folder / "lora"], **GREEDY), adapted)
            self.assertEqual(s.generate("The sea", max_tokens=12, **GREEDY), alone("The sea", max_tokens=12, **GREEDY))
            request = s.submit(model.tokenizer.encode("It was"), stop=["e"], max_tokens=40, **GREEDY)
            self.assertEqual((request.result(), request.finish_reason, request.stop_text), (alone("It was", stop=["e"], max_tokens=40, **GREEDY), "stop", "e"))

    def test_log_probabilities(self):
        import numpy as np

        with scheduler() as s:
            request = s.submit("The old captain", max_tokens=6, logprobs=3, prompt_logprobs=1, **GREEDY)
            request.result()
            self.assertEqual(s.submit("The", max_tokens=1, **GREEDY).logprobs, [])
        ids = model.tokenizer.encode("The old captain")
        logits = bantam.Session(model, context=256).score(ids + request.tokens).astype(np.float64)[:-1]
        expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        self.assertEqual([token.id for token in request.prompt_logprobs], ids[1:])
        for row, token in zip(expected, request.prompt_logprobs):
            self.assertAlmostEqual(token.logprob, row[token.id], places=4)
            self.assertEqual(token.top[0][0], np.argmax(row))
        expected = expected[len(ids) - 1:]
        self.assertEqual([token.id for token in request.logprobs], request.tokens)
        for row, token in zip(expected, request.logprobs):
            self.assertAlmostEqual(token.logprob, row[token.id], places=4)
            self.assertEqual([id for id, _ in token.top], list(np.argsort(-row, kind="stable")[:3]))

    def test_asyncio(self):
        async def streamed(s, prompt):
            return "".join([piece async for piece in s.submit(prompt, max_tokens=16, **GREEDY)])

        async def whole(s, prompt):
            return await s.submit(prompt, max_tokens=16, **GREEDY)

        async def main():
            with scheduler(parallel=4, queue=100) as s:
                found = await asyncio.gather(*(work(s, prompt) for prompt in PROMPTS for work in (streamed, whole)))
                # Whoever stops waiting stops the work.
                slow = s.submit("The", **SLOW)
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(slow._whole(), 0.05)
                with self.assertRaises(bantam.Cancelled):
                    await slow
                left = s.submit("The sea", **SLOW)
                async for piece in left:
                    break
                gc.collect()
                with self.assertRaises(bantam.Cancelled):
                    await left
                # Nothing turns round while nothing comes: the loop sleeps.
                blocked = s.submit("The", process=lambda ids, logits: time.sleep(1) or False)
                before = time.process_time()
                task = asyncio.get_running_loop().create_task(blocked._whole())
                ticks = 0
                while not task.done():
                    await asyncio.sleep(0.02)
                    ticks += 1
                self.assertEqual(await task, "")
                self.assertGreater(ticks, 5)
                self.assertLess(time.process_time() - before, 0.5)
                return found

        found = asyncio.run(main())
        expected = [alone(prompt, max_tokens=16, **GREEDY) for prompt in PROMPTS]
        self.assertEqual(found[0::2], expected)
        self.assertEqual(found[1::2], expected)

    def test_cancelled(self):
        with scheduler(parallel=1) as s:
            first, second = s.submit("The", **SLOW), s.submit("A", **SLOW)
            pieces = iter(first)
            head = next(pieces) + next(pieces)
            second.cancel()
            self.assertFalse(first.done())
            with self.assertRaises(bantam.Cancelled):
                second.result(10)
            self.assertEqual((second.text, second.finish_reason), ("", "cancelled"))
            first.cancel()
            with self.assertRaises(bantam.Cancelled):
                head += "".join(pieces)
            self.assertTrue(first.text.startswith(head))
            self.assertTrue(alone("The", max_tokens=250, ignore_end=True, **GREEDY).startswith(first.text))
            third = s.submit("The sea", **SLOW)
            for _ in third:
                break  # leaving the loop is enough
            self.assertIsInstance(third.future.exception(10), bantam.Cancelled)
            fourth = s.submit("The", **SLOW)
            with self.assertRaises((TimeoutError, concurrent.futures.TimeoutError)):
                fourth.result(0.01)  # which goes on
            self.assertFalse(s.wait(0.01))
        with self.assertRaises(bantam.Cancelled):
            fourth.result(10)  # closed
        for work in (lambda: s.submit("x"), lambda: s.stats):
            with self.assertRaisesRegex(bantam.InvalidArgument, "closed"):
                work()
        s.close()

    def test_late_and_full(self):
        with scheduler(parallel=1, queue=1) as s:
            first = begun(s)
            waiting = s.submit("A", **SLOW)
            with self.assertRaises(bantam.QueueFull):
                s.submit("A")
            waiting.cancel()
            self.assertIsInstance(waiting.future.exception(10), bantam.Cancelled)
            with self.assertRaises(bantam.Late):
                s.submit("A", queue_timeout=0.001, **SLOW).result(10)
            first.cancel()
            slow = s.submit("A", timeout=0.02, **SLOW)
            with self.assertRaises(TimeoutError):
                "".join(slow)
            self.assertEqual(slow.finish_reason, "late")
            self.assertTrue(alone("A", max_tokens=200, ignore_end=True, **GREEDY).startswith(slow.text))
            self.assertEqual(s.stats.refused, 1)
            for timeout in (0, -1.0, float("nan")):
                with self.assertRaisesRegex(bantam.InvalidArgument, "timeout"):
                    s.submit("x", timeout=timeout)

    def test_exceptions_come_out_where_the_text_is_wanted(self):
        class Mine(Exception):
            pass

        def process(ids, logits):
            if len(ids) > 8:
                raise Mine("broken")

        with scheduler() as s:
            broken, well = s.submit("The", process=process, **ENDLESS), s.submit("The old", max_tokens=20, **GREEDY)
            with self.assertRaisesRegex(Mine, "broken"):
                broken.result(10)
            with self.assertRaises(Mine):
                "".join(broken)
            self.assertEqual(broken.finish_reason, "failed")
            self.assertEqual(well.result(10), alone("The old", max_tokens=20, **GREEDY))
            for error, options, says in ((TypeError, {"stop": "."}, "stop"), (ValueError, {"top_p": 2.0}, "top_p"), (TypeError, {"priorty": 1}, "priority"),
                                         (ValueError, {"grammar": "root"}, "grammar|root"), (TypeError, {"adapters": 5}, "adapters")):
                with self.assertRaisesRegex(error, says):
                    s.submit("x", **options)
            with self.assertRaisesRegex(TypeError, "prompt"):
                s.submit(5)
            with self.assertRaisesRegex(bantam.InvalidArgument, "prompt"):
                s.submit([])
            with self.assertRaisesRegex(bantam.InvalidArgument, "context"):
                s.submit([5] * 300)
            self.assertTrue(s.wait(10))
        with self.assertRaisesRegex(bantam.InvalidArgument, "parallel"):
            scheduler(parallel=0)

    def test_priorities_and_clients(self):
        with scheduler(parallel=1, queue=20) as s:
            first, order = begun(s), []
            for name, options in (("c", {}), ("d", {"priority": -1}), ("b", {"priority": 2, "client": "x"}), ("a", {"priority": 3})):
                s.submit("A", max_tokens=1, **options).future.add_done_callback(lambda _, name=name: order.append(name))
            first.cancel()
            self.assertTrue(s.wait(10))
        self.assertEqual(order, list("abcd"))

    def test_chat(self):
        path = chat_model(self.folder / "chat")
        messages = [{"role": "user", "content": "Good morning"}]
        with bantam.Scheduler(path, context=256) as s:
            first = s.chat(messages, max_tokens=12, **GREEDY)
            self.assertEqual(first.result(), bantam.Session(path, context=256).chat(messages, max_tokens=12, **GREEDY).text())
            more = [*messages, {"role": "assistant", "content": first.text}, {"role": "user", "content": "And?"}]
            second = s.chat(more, max_tokens=12, **GREEDY)
            second.result()
            self.assertGreater(second.stats.reused_tokens, 8)

    def test_children_of_fork_are_told(self):
        with scheduler() as s:
            request = s.submit("The", **SLOW)
            next(iter(request), None)
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                wrong = 0
                for work in (lambda: s.submit("x"), lambda: s.stats, lambda: request.result(), lambda: list(request), lambda: s.wait()):
                    try:
                        work()
                        wrong += 1
                    except bantam.InvalidArgument as error:
                        wrong += "child" not in str(error)
                s.close()
                del request, s
                gc.collect()
                with scheduler() as own:  # which works
                    wrong += own.generate("The", max_tokens=6, **GREEDY) != alone("The", max_tokens=6, **GREEDY)
                os._exit(wrong)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(s.generate("A", max_tokens=3, **GREEDY), alone("A", max_tokens=3, **GREEDY))

    def test_ends_with_its_owner_and_with_the_interpreter(self):
        threads = threading.active_count()
        s = scheduler()
        self.assertEqual(threading.active_count(), threads + 1)
        s.submit("The", max_tokens=2).result()
        del s
        for _ in range(100):
            gc.collect()
            if threading.active_count() == threads:
                break
            time.sleep(0.02)
        self.assertEqual(threading.active_count(), threads)
        program = f"import bantam; s = bantam.Scheduler({str(MODEL)!r}, context=256); r = s.submit('The', max_tokens=-1, ignore_end=True); next(iter(r))"
        done = subprocess.run([sys.executable, "-c", program + "; q = s.submit('A', max_tokens=-1, ignore_end=True, process=lambda i, l: True)"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
