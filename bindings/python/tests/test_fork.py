"""Sessions and models in child processes that fork() made: they work, or say so at once."""

import multiprocessing
import os
import signal
import threading
import time
import unittest

import bantam
from common import GREEDY, MODEL, ROOT, Folder, first_layers, model


def text_of(session):
    return session.generate(max_tokens=12, **GREEDY)


class Forks(Folder):
    def in_child(self, work):
        """Runs work() in a child of os.fork(); False of it, an exception, or a minute without an answer fail."""
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                os._exit(0 if work() else 1)
            except BaseException as error:  # nothing of the test's own may go on here
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_session_goes_on_in_both(self):
        session = bantam.Session(model, threads=3)
        session.prefill("The captain said that the ship")
        expected = text_of(session.fork())
        run = session.fork().stream(max_tokens=12, **GREEDY)
        head = next(run)
        self.in_child(lambda: text_of(session) == expected)
        self.in_child(lambda: head + run.text() == expected)
        self.in_child(lambda: text_of(session.fork()) == expected)
        self.in_child(lambda: (session.close(), True)[1])
        self.assertEqual(text_of(session), expected)
        self.assertEqual(head + run.text(), expected)

    def test_everything_else_in_a_child(self):
        bantam.compress(model, format="i8")  # starts the threads that a child will not have
        calibration = dict(calibration=ROOT / "models" / "paragraph.txt", samples=1, tokens=16)
        self.in_child(lambda: bantam.Session(bantam.load(MODEL)).generate("It", max_tokens=3, **GREEDY))
        small = bantam.load(first_layers(self.folder / "small", 1))
        self.in_child(lambda: bantam.compress(small, "gptq", format="i4", **calibration)[0].nbytes > 0)
        self.in_child(lambda: bantam.perplexity(model, "It was a dark night", context=16).tokens > 0)

    def test_multiprocessing(self):
        context = multiprocessing.get_context("fork")
        expected = bantam.Session(model).generate("One", max_tokens=6, **GREEDY)
        results = context.Queue()
        workers = [context.Process(target=lambda: results.put(bantam.Session(model).generate("One", max_tokens=6, **GREEDY))) for _ in range(2)]
        for worker in workers:
            worker.start()
        self.assertEqual([results.get(timeout=60) for _ in workers], [expected] * 2)
        for worker in workers:
            worker.join(60)

    def test_a_session_at_work_elsewhere_says_so(self):
        session = bantam.Session(model, threads=1)
        inside, forked = threading.Event(), threading.Event()

        def wait(ids, logits):
            inside.set()
            forked.wait(30)

        thread = threading.Thread(target=lambda: session.generate("It", max_tokens=1, process=wait))
        thread.start()
        inside.wait(30)

        def refused():
            try:
                session.tokens
            except bantam.InvalidArgument as error:
                return "forked" in str(error)

        try:
            began = time.monotonic()
            self.in_child(refused)
            self.assertLess(time.monotonic() - began, 60)
        finally:
            forked.set()
            thread.join(30)
        self.assertTrue(session.tokens)


if __name__ == "__main__":
    unittest.main()
