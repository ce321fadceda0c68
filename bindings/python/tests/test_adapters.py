"""Adapters: of sessions while they run, merged, and in the words of llama-cpp-python."""

import unittest

import numpy as np

import bantam
from bantam.llama_cpp import LlamaRAMCache
from common import GREEDY, MODEL, TEXT, Folder, model, write_adapter

PROMPT = "It was a dark night, and"


def logits(of, adapters):
    session = bantam.Session(of, kv="f32", adapters=adapters)
    session.prefill(PROMPT)
    return session.logits()


class Adapters(Folder):
    def setUp(self):
        super().setUp()
        self.path = write_adapter(self.folder / "one")
        self.adapter = model.load_adapter(self.path)

    def test_an_adapter_says_what_it_is(self):
        self.assertEqual((len(self.adapter), self.adapter.rank), (20, 4))
        self.assertGreater(self.adapter.nbytes, 4 * 4 * 20 * 256)
        self.assertIn("20 matrices", repr(self.adapter))

    def test_sessions_take_adapters_paths_and_scales(self):
        plain, once = logits(model, None), logits(model, [self.adapter])
        self.assertGreater(np.abs(plain - once).max(), 0.05)
        np.testing.assert_array_equal(logits(model, [self.path]), once)
        np.testing.assert_array_equal(logits(model, [(str(self.path), 1)]), once)
        np.testing.assert_array_equal(logits(model, [(self.adapter, 0.0)]), plain)
        other = model.load_adapter(write_adapter(self.folder / "two", seed=2))
        both = logits(model, [self.adapter, (other, -0.5)])
        self.assertGreater(np.abs(both - once).max(), 0.02)

    def test_sessions_change_adapters(self):
        session = bantam.Session(model, kv="f32")
        session.prefill(PROMPT)
        session.set_adapters([(self.adapter, 0.5)])
        np.testing.assert_array_equal(session.logits(), logits(model, [(self.adapter, 0.5)]))
        np.testing.assert_array_equal(session.fork().logits(), session.logits())
        session.save(self.folder / "saved")
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected a session without adapters"):
            bantam.Session.restore(model, self.folder / "saved")
        same = bantam.Session.restore(model, self.folder / "saved", adapters=[(self.path, 0.5)])
        np.testing.assert_array_equal(same.logits(), session.logits())
        session.set_adapters([])
        np.testing.assert_array_equal(session.logits(), logits(model, None))

    def test_several_sessions_of_a_pass_have_their_own(self):
        sets = [None, [self.adapter], [(self.adapter, -1)]]
        alone = [bantam.Session(model, adapters=one).generate(PROMPT, max_tokens=12, **GREEDY) for one in sets]
        runs = [bantam.Session(model, adapters=one).stream(PROMPT, max_tokens=12, **GREEDY) for one in sets]
        texts, running = [""] * 3, 3
        while running:
            pieces, running = bantam.step(runs)
            texts = [text + piece for text, piece in zip(texts, pieces)]
        self.assertEqual(texts, alone)

    def test_merged_is_what_runs(self):
        merged, _ = bantam.compress(model, format="f32", merge_lora=f"{self.path}:0.5")
        np.testing.assert_allclose(logits(merged, None), logits(model, [(self.adapter, 0.5)]), atol=2e-3)
        bantam.compress_file(MODEL, self.folder / "m.bantam", format="f32", merge_lora=[f"{self.path}:0.5"])
        np.testing.assert_array_equal(logits(bantam.load(self.folder / "m.bantam"), None), logits(merged, None))
        text = TEXT[:400]
        here, there = bantam.perplexity(model, text, adapters=[(self.adapter, 0.5)], kv="f32"), bantam.perplexity(merged, text, kv="f32")
        self.assertAlmostEqual(here.nll, there.nll, places=4)

    def test_what_is_wrong_is_said(self):
        for wrong in ("x", [3], [(self.adapter, "x")], [(3, 1.0)], self.adapter):
            with self.assertRaisesRegex(TypeError, "^adapters: "):
                bantam.Session(model, adapters=wrong)
        with self.assertRaises(bantam.NotFound):
            model.load_adapter(self.folder / "nothing")
        with self.assertRaisesRegex(bantam.Unsupported, "use_dora: expected none"):
            model.load_adapter(write_adapter(self.folder / "dora", use_dora=True))
        with self.assertRaisesRegex(bantam.InvalidArgument, "finite scales"):
            bantam.Session(model, adapters=[(self.adapter, float("nan"))])
        with self.assertRaisesRegex(bantam.NotFound, "^merge_lora: "):
            bantam.compress(model, merge_lora="nothing")

    def test_llama_takes_lora_path_and_scale(self):
        llama = bantam.Llama(MODEL, n_ctx=64, lora_path=str(self.path), lora_scale=0.5)
        expected = bantam.Session(model, context=64, adapters=[(self.adapter, 0.5)]).generate(PROMPT, max_tokens=10, **GREEDY)
        self.assertEqual(llama(PROMPT, max_tokens=10, temperature=0)["choices"][0]["text"], expected)
        # States of others are not taken for its own.
        plain = bantam.Llama(MODEL, n_ctx=64)
        before = plain(PROMPT, max_tokens=10, temperature=0)["choices"][0]["text"]
        self.assertNotEqual(before, expected)
        cache = LlamaRAMCache()
        for one, text in ((plain, before), (llama, expected), (plain, before)):
            one.set_cache(cache)
            self.assertEqual(one(PROMPT, max_tokens=10, temperature=0)["choices"][0]["text"], text)
        state = plain.save_state()
        llama.load_state(state)
        self.assertEqual(llama(PROMPT, max_tokens=10, temperature=0)["choices"][0]["text"], expected)


if __name__ == "__main__":
    unittest.main()
