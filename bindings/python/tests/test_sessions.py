"""Sessions: streams, forks, batches, beams, threads, interrupts."""

import asyncio
import signal
import threading
import time
import unittest

import numpy as np

import bantam
from common import GREEDY, Folder, model


class Sessions(Folder):
    def test_streams(self):
        with bantam.Session(model, context=128) as session:
            run = session.stream("Once upon a time", max_tokens=10, **GREEDY)
            pieces = list(run)
            self.assertEqual(len(run.tokens), 10)
            self.assertEqual(run.finish_reason, "length")
            self.assertEqual(session.stats.generated_tokens, 10)
            self.assertRegex(str(session.stats), r"^Stats\(prompt=[\d.]+ tok/s, generate=[\d.]+ tok/s\)$")
            self.assertEqual(session.tokens[-10:], run.tokens)
            self.assertEqual(session.context, 128)
        with self.assertRaises(ValueError):
            session.tokens
        ids = model.tokenizer.encode("Once upon a time")
        self.assertEqual(bantam.Session(model).generate(ids, max_tokens=10, **GREEDY), "".join(pieces))

    def test_same_seed_same_text(self):
        texts = [bantam.Session(model, threads=n).generate("The", max_tokens=20, seed=5) for n in (1, 2)]
        self.assertEqual(*texts)
        self.assertNotEqual(texts[0], bantam.Session(model).generate("The", max_tokens=20, seed=6))

    def test_forks_saves_truncates(self):
        base = bantam.Session(model, context=64)
        base.prefill("In the morning")
        length = len(base.tokens)
        base.save(self.folder / "s")
        expected = base.fork().generate(max_tokens=8, **GREEDY)
        self.assertEqual(bantam.Session.restore(model, self.folder / "s", context=64).generate(max_tokens=8, **GREEDY), expected)
        self.assertEqual(base.generate(max_tokens=8, **GREEDY), expected)
        base.truncate(length)
        self.assertEqual(base.generate(max_tokens=8, **GREEDY), expected)
        base.clear()
        self.assertEqual(base.tokens, [])

    def test_logits_and_samplers_agree_with_streams(self):
        session = bantam.Session(model)
        run = session.stream("The sea", max_tokens=6, seed=3)
        list(run)
        by_hand = bantam.Session(model)
        by_hand.prefill("The sea")
        sampler = bantam.Sampler(model.config["vocab"], seed=3)
        for id in model.tokenizer.encode("The sea"):
            sampler.accept(id)
        for expected in run.tokens:
            id = sampler.sample(by_hand.logits())
            self.assertEqual(id, expected)
            sampler.accept(id)
            by_hand.prefill([id])
        rows = bantam.Session(model).score(model.tokenizer.encode("The sea"))
        fresh = bantam.Session(model)
        fresh.prefill("The sea")
        np.testing.assert_allclose(rows[-1], fresh.logits(), atol=1e-4)

    def test_batches(self):
        sessions = [bantam.Session(model, context=64, threads=1) for _ in range(3)]
        runs = [s.stream(p, max_tokens=9, **GREEDY) for s, p in zip(sessions, ("One", "Two", "One"))]
        texts, running = [""] * 3, 3
        while running:
            pieces, running = bantam.step(runs)
            texts = [t + p for t, p in zip(texts, pieces)]
        self.assertEqual(texts[0], texts[2])
        self.assertEqual(texts[1], bantam.Session(model).generate("Two", max_tokens=9, **GREEDY))
        again = sessions[0].stream("a", max_tokens=3)
        with self.assertRaises(bantam.InvalidArgument):
            bantam.step([again, again])

    def test_continuations_and_beams(self):
        session = bantam.Session(model, context=64)
        drawn = session.continuations("The old captain", 3, max_tokens=9, seed=5)
        self.assertEqual(session.tokens, model.tokenizer.encode("The old captain"))
        for i, one in enumerate(drawn):
            alone = bantam.Session(model).stream("The old captain", max_tokens=9, seed=5 + i)
            self.assertEqual((one.text, one.tokens, one.finish_reason), (alone.text(), alone.tokens, alone.finish_reason))
        with self.assertRaisesRegex(bantam.InvalidArgument, "continuations: expected 1 to 1024, found 0"):
            session.continuations("a", 0)
        with self.assertRaisesRegex(TypeError, "count"):
            session.continuations("a", "many")
        greedy = bantam.Session(model).generate("The old captain", max_tokens=9, **GREEDY)
        self.assertEqual(bantam.Session(model).beam_search("The old captain", beams=1, max_tokens=9)[0].text, greedy)
        best = bantam.Session(model).beam_search("The old captain", beams=4, results=4, max_tokens=9)
        self.assertEqual([b.score for b in best], sorted((b.score for b in best), reverse=True))
        self.assertTrue(all(b.log_probability < 0 for b in best))
        (found,) = bantam.Session(model).beam_search("It is", grammar='root ::= " good" | " bad"')
        self.assertIn(found.text, (" good", " bad"))
        for kind in (bantam.GrammarError, bantam.Unsupported):  # what it was before
            with self.assertRaisesRegex(kind, "expected a vocabulary with the token <no-such-token>"):
                bantam.Session(model).generate("a", grammar="root ::= <no-such-token>")
        with self.assertRaisesRegex(bantam.InvalidArgument, "mtp: expected a model with a layer that drafts"):
            bantam.Session(model).generate("a", mtp=2)

    def test_threads_generate_at_once(self):
        expected = bantam.Session(model, threads=1).generate("She looked", max_tokens=24, **GREEDY)
        found = []
        shared = bantam.Session(model, threads=1)

        def work():
            found.append(bantam.Session(model, threads=1).generate("She looked", max_tokens=24, **GREEDY))
            shared.prefill("a")  # one session: they wait for each other

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [expected] * 4)
        self.assertGreaterEqual(len(shared.tokens), 4)

    def test_async(self):
        async def text(prompt):
            with bantam.Session(model, threads=1) as session:
                return "".join([piece async for piece in session.stream(prompt, max_tokens=8, **GREEDY)])

        async def both():
            return await asyncio.gather(text("One"), text("Two"))

        self.assertEqual(asyncio.run(both()), [bantam.Session(model).generate(p, max_tokens=8, **GREEDY) for p in ("One", "Two")])

    def test_another_thread_cancels(self):
        session = bantam.Session(model)
        started = threading.Event()

        def work():
            with self.assertRaises(bantam.Cancelled):
                while True:
                    for _ in session.stream("It", max_tokens=200, ignore_end=True):
                        started.set()
                    session.clear()

        thread = threading.Thread(target=work)
        thread.start()
        started.wait(20)
        session.cancel()
        thread.join(20)
        self.assertFalse(thread.is_alive())
        session.clear()
        self.assertTrue(session.generate("It", max_tokens=2, ignore_end=True))

    def test_interrupt_stops_within_a_step(self):
        session = bantam.Session(model)
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() - began < 60:
                list(session.stream("It", max_tokens=100, ignore_end=True))
                session.clear()
        session.clear()
        self.assertTrue(session.generate("It", max_tokens=2, ignore_end=True))


if __name__ == "__main__":
    unittest.main()
