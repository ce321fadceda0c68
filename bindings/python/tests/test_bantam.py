"""The Python surface, as its users meet it: python3 -m unittest, no other package needed but NumPy."""

import asyncio
import copy
import doctest
import errno
import inspect
import os
import pickle
import re
import signal
import sys
import threading
import time
import unittest
import xml.dom.minidom
from pathlib import Path

import numpy as np

import bantam
from common import GREEDY, MODEL, QUICK, ROOT, TEXT, Folder, model


class Models(Folder):
    def test_loads_and_saves(self):
        model.save(self.folder / "m.bantam")
        again = bantam.load(self.folder / "m.bantam")
        from_bytes = bantam.Model.from_bytes((self.folder / "m.bantam").read_bytes())
        texts = {bantam.Session(m).generate("It was", max_tokens=12, **GREEDY) for m in (model, again, from_bytes)}
        self.assertEqual(len(texts), 1)
        self.assertEqual(again.config["layers"], 4)
        self.assertIn("llama", repr(model))

    def test_tensors_are_arrays(self):
        self.assertIn("layers.0.mlp.down", model)
        self.assertEqual(set(model), set(model.keys()))
        down = model["layers.0.mlp.down"]
        self.assertEqual(down.name, "model.layers.0.mlp.down_proj")
        self.assertEqual(down.numpy().shape, down.shape)
        np.testing.assert_array_equal(np.asarray(down), down.weights.dequantize())
        norm = model["model.norm"].numpy()
        self.assertFalse(norm.flags.writeable)
        self.assertFalse(norm.flags.owndata)
        self.assertFalse(down.data.flags.writeable)
        self.assertEqual(down.data.nbytes, down.nbytes)
        with self.assertRaises(KeyError):
            model["layers.9.mlp.down"]

    def test_views_keep_the_model(self):
        view = bantam.load(MODEL)["model.norm"].numpy()
        data = bantam.load(MODEL)["layers.0.mlp.up"].data
        self.assertTrue(np.isfinite(view).all())
        self.assertGreater(int(data.astype(np.int64).sum()), 0)

    def test_tokenizer(self):
        t = model.tokenizer
        ids = t.encode("Grüße aus dem Wald", add_special=False)
        self.assertEqual(t.decode(ids), "Grüße aus dem Wald")
        self.assertEqual(len(t), model.config["vocab"])
        self.assertEqual(bantam.Tokenizer.load(MODEL).encode("abc"), t.encode("abc"))
        self.assertEqual(t.find(t.token(ids[0])), ids[0])
        self.assertIsNone(t.find("no such entry anywhere"))
        with self.assertRaises(bantam.InvalidArgument):
            t.decode([1 << 30])
        with self.assertRaises(bantam.Unsupported):
            t.apply_chat_template([{"role": "user", "content": "x"}])

    def test_memory_limit(self):
        whole = bantam.load(MODEL)
        within = bantam.load(MODEL, memory_limit=whole.nbytes - 1)
        prompt = {"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}
        self.assertEqual(bantam.Session(within).generate(**prompt), bantam.Session(whole).generate(**prompt))
        with self.assertRaisesRegex(bantam.OutOfMemory, "expected at least [0-9]+ bytes for weights, found a limit of 1000"):
            bantam.load(MODEL, memory_limit=1000)

    def test_memory_of_a_text(self):
        prompt = {"prompt": "Once upon a time", "max_tokens": 150, "temperature": 0, "ignore_end": True}
        plain = bantam.Session(model)
        text = plain.generate(**prompt)
        # Room for the pages of a pass and two layers of the others.
        within = bantam.Session(model, memory_limit=3 * plain.kv_bytes // 4, memory_folder=Path("/var/tmp"))
        self.assertEqual(within.generate(**prompt), text)
        self.assertLessEqual(within.kv_bytes, 3 * plain.kv_bytes // 4)
        with self.assertRaisesRegex(bantam.OutOfMemory, "keys and values: expected room for at least [0-9]+ bytes"):
            bantam.Session(model, memory_limit=1000).prefill("Once")
        with self.assertRaisesRegex(bantam.NotFound, "keys and values in /no/such/folder: cannot create a file"):
            bantam.Session(model, memory_limit=1 << 40, memory_folder="/no/such/folder")

    def test_with_experts(self):
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected a mixture of experts, found llama"):
            bantam.load(MODEL).with_experts(1)
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected a mixture of experts, found llama"):
            bantam.load(MODEL).with_cold_experts(drop=0.1)
        with self.assertRaisesRegex(TypeError, "drop"):
            bantam.load(MODEL).with_cold_experts(drop="much")

    def test_errors_are_also_builtin(self):
        with self.assertRaisesRegex(FileNotFoundError, "no/such/model"):
            bantam.load("no/such/model")
        with self.assertRaises(ValueError):
            bantam.Session(model, kv="f7")
        with self.assertRaises(TypeError):
            bantam.Session(model).stream("x", temprature=1)
        with self.assertRaises(bantam.Error):
            bantam.Model.from_bytes(b"GGUF\3\0\0\0rubbish")
        self.assertIsInstance(pickle.loads(pickle.dumps(bantam.Corrupt("x"))), bantam.Corrupt)

    def test_errors_of_files_say_which(self):
        missing, empty = self.folder / "no\nmodel", self.folder / "empty"
        empty.mkdir()
        for work, path in ((lambda: bantam.load(missing), missing), (lambda: bantam.Tokenizer(empty), empty), (lambda: bantam.load(empty), empty),
                           (lambda: model.save(missing / "m.bantam"), missing / "m.bantam"),
                           (lambda: bantam.Session.restore(model, missing), missing)):
            with self.assertRaises(bantam.NotFound) as caught:
                work()
            for error in (caught.exception, pickle.loads(pickle.dumps(caught.exception)), copy.copy(caught.exception)):
                self.assertIs(type(error), bantam.NotFound)
                self.assertEqual((error.errno, error.filename, error.strerror), (errno.ENOENT, str(path), os.strerror(errno.ENOENT)))
                self.assertEqual(str(error), str(caught.exception))
                self.assertNotIn("\n", str(error))
        for code in bantam._errors.BY_CODE.values():
            error = code("one: line")
            self.assertEqual((str(error), str(pickle.loads(pickle.dumps(error)))), ("one: line", "one: line"))
        longest = self.folder / ("n" * 300)
        with self.assertRaises(bantam.FileError) as caught:
            model.save(longest)
        self.assertEqual((caught.exception.errno, caught.exception.filename), (errno.ENAMETOOLONG, str(longest)))

    def test_paths_stand_for_models(self):
        self.assertEqual(repr(bantam.Model(MODEL)), repr(model))
        self.assertEqual(bantam.Tokenizer(str(MODEL)).encode("abc"), model.tokenizer.encode("abc"))
        self.assertEqual(bantam.Session(MODEL, context=64).generate("It", max_tokens=4, **GREEDY),
                         bantam.Session(model).generate("It", max_tokens=4, **GREEDY))
        self.assertEqual(bantam.compress(str(MODEL), format="i8")[0].nbytes, bantam.compress(model, format="i8")[0].nbytes)
        self.assertEqual(bantam.perplexity(MODEL, TEXT, MODEL, context=64, limit=64).kl_mean, 0)
        with self.assertRaises(FileNotFoundError):
            bantam.Session("no/such/model")

    def test_notebooks_show_models(self):
        mixed, _ = bantam.compress(model, format="i8", keep={"*.down_proj": "nf4"})
        page = mixed._repr_html_()
        root = xml.dom.minidom.parseString(page)
        for format in ("i8.g32", "nf4.g64"):
            self.assertIn(f"</span> {format}</span>", page)
        bars = root.getElementsByTagName("rect")
        self.assertEqual({t.firstChild.data.split(":")[0] for t in root.getElementsByTagName("title")},
                         {"embeddings", *(f"layer {i}" for i in range(mixed.config["layers"]))})
        self.assertTrue(all(float(bar.getAttribute("width")) >= 0 for bar in bars))
        self.assertIn(f"{sum(np.prod(mixed[name].shape) for name in mixed):,}", page)


class Embeddings(Folder):
    def test_rows_are_those_of_texts_alone(self):
        texts = ["The captain", "The sea was calm and the wind was still", "a"]
        rows = model.embed(texts)
        self.assertEqual(rows.shape, (3, model.config["dim"]))
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
        for text, row in zip(texts, rows):
            np.testing.assert_array_equal(model.embed(text), row)
            np.testing.assert_array_equal(model.embed([model.tokenizer.encode(text)])[0], row)
            np.testing.assert_allclose(bantam.Session(model, kv="f32").embed(text), row, rtol=1e-5, atol=1e-6)
        last = model.embed(texts, pooling="last", normalize=False, threads=1)
        self.assertGreater(np.abs(last - rows).max(), 1e-3)
        self.assertEqual(model.embed([]).shape, (0, model.config["dim"]))
        self.assertEqual(model.embed("sea " * 100, truncate=True, context=8).shape, rows[0].shape)

    def test_encoders_and_classifiers(self):
        sys.path.insert(0, str(ROOT / "tests" / "cli"))
        from tiny_bert import Bert, ids_of

        bert = Bert(self.folder / "bert")
        encoder = bantam.load(self.folder / "bert")
        self.assertEqual((encoder.config["causal"], encoder.config["generates"], encoder.config["labels"], encoder.config["pooling"]), (False, False, 0, "cls"))
        ids = ids_of("[CLS]", "the", "owl", "##s", "[SEP]")
        first = bert.states(ids, [0] * len(ids))[0]
        np.testing.assert_allclose(encoder.embed("the owls", normalize=False), first, atol=1e-5)
        np.testing.assert_allclose(encoder.embed("the owls"), first / np.linalg.norm(first), atol=1e-5)
        np.testing.assert_array_equal(bantam.Session(encoder).embed("the owls"), encoder.embed("the owls"))
        with self.assertRaisesRegex(bantam.Unsupported, "found one of type bert, which makes embeddings"):
            bantam.Session(encoder).generate("the")
        bert = Bert(self.folder / "classifier", labels=1)
        score = bert.scores(ids + ids_of("sea", "[SEP]"), [0] * len(ids) + [1, 1])[0]
        classifier = bantam.load(self.folder / "classifier")
        np.testing.assert_allclose(classifier.rerank("the owls", ["sea", "", "sea"]), [score, bert.scores(ids + [3], [0] * len(ids) + [1])[0], score], atol=1e-5)
        self.assertEqual((classifier.config["labels"], classifier.rerank("the", [])), (1, []))

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected at most 8 tokens"):
            model.embed("sea " * 100, context=8)
        with self.assertRaisesRegex(bantam.InvalidArgument, "pooling"):
            model.embed("sea", pooling="max")
        with self.assertRaisesRegex(TypeError, "found both"):
            model.embed(["sea", [1, 2]])
        with self.assertRaisesRegex(bantam.Unsupported, "rerank: expected a model with a classifier"):
            model.rerank("who", ["the captain"])


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


class Compression(Folder):
    def test_formats_by_callable(self):
        seen = []

        def choose(layer):
            seen.append(layer)
            return "q8" if layer.name.endswith("down_proj") else "nf4"

        small, report = bantam.compress(model, "rtn", format=choose)
        self.assertEqual({layer.count for layer in seen}, {4})
        for layer in report.layers:
            self.assertEqual(layer.format, "i8.g32" if layer.name.endswith("down_proj") else "nf4.g64")
        self.assertLess(small.nbytes, model.nbytes)
        self.assertIn("bits a weight", str(report))
        page = report._repr_html_()
        self.assertEqual((page.count("<table>"), page.count("<svg "), "<script" in page), (2, 2, False))
        self.assertTrue(all(layer.name in page for layer in report.layers))
        self.assertEqual({layer.output_error for layer in report.layers}, {None})
        self.assertEqual(report.to_dict()["layers"][0]["name"], report.layers[0].name)
        with self.assertRaises(ValueError):
            report.perplexity_after

    def test_reports_are_plotted_where_matplotlib_is(self):
        _, report = bantam.compress(model)
        try:
            import matplotlib
        except ImportError:
            with self.assertRaisesRegex(ImportError, "matplotlib"):
                report.plot()
            return
        matplotlib.use("Agg")
        self.assertEqual(report.plot().get_ylabel(), "relative error, %")

    def test_progress_and_cancel(self):
        calls = []
        bantam.compress(model, progress=lambda *p: calls.append(p))
        self.assertEqual(calls[-1][0], calls[-1][1])
        with self.assertRaises(bantam.Cancelled):
            bantam.compress(model, progress=lambda *p: False)
        with self.assertRaisesRegex(RuntimeError, "mine"):
            def fails(*_):
                raise RuntimeError("mine")
            bantam.compress(model, progress=fails)
        bantam.compress(model, progress=True)  # a bar, where tqdm is

    def test_interrupt_stops_a_compression(self):
        out = self.folder / "never.bantam"
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() - began < 60:
                bantam.compress_file(MODEL, out, "gptq", calibration=ROOT / "models" / "calibration.txt", samples=64, tokens=256)
        self.assertEqual([path.name for path in self.folder.iterdir() if "partial" in path.name], [])

    def test_clip(self):
        def errors(**how):
            return [layer.relative_error for layer in bantam.compress(model, format="i3z.g64", **how)[1].layers]

        self.assertTrue(all(b <= a for a, b in zip(errors(clip="minmax"), errors(clip="mse"))))
        self.assertNotEqual(errors(clip="percentile:98"), errors(clip="minmax"))

    def test_prune(self):
        small, _ = bantam.compress(model, format="i4s", prune="magnitude:2:4")
        weights = np.asarray(small["layers.0.mlp.down"])
        self.assertTrue((np.count_nonzero(weights.reshape(-1, 4), axis=1) <= 2).all())
        with self.assertRaisesRegex(bantam.InvalidArgument, "wanda or sparsegpt"):
            bantam.compress(model, prune="half")

    def test_prune_parts(self):
        few = dict(calibration=ROOT / "models" / "paragraph.txt", samples=2, tokens=32)
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected a mixture of experts"):
            bantam.compress(model, prune="experts:0.5", **few)
        for part in bantam._bantam.prune_parts():
            if part == "experts":
                continue  # this model has none
            with self.subTest(part):
                removal = f"{part}:{1 if part == 'layers' else 0.5}"
                runs = ({"prune": (removal, "wanda:2:4"), "compensate": False}, {"prune": removal})
                for options in runs[:1] if QUICK else runs:
                    calls = []
                    small, report = bantam.compress(model, format="f16", progress=lambda *p: calls.append(p[2]), **options, **few)
                    by_file = bantam.compress_file(MODEL, self.folder / "small.bantam", format="f16", **options, **few)
                    again = bantam.load(self.folder / "small.bantam")
                    for name in again:
                        np.testing.assert_array_equal(small[name].numpy(), again[name].numpy())
                    self.assertEqual(report.pruned, by_file.pruned)
                    self.assertEqual(report.pruned["removals"], [removal])
                    self.assertEqual(report.pruned["before"]["parameters"], sum(np.prod(model[name].shape) for name in model))
                    self.assertEqual(report.pruned["after"]["parameters"], sum(np.prod(again[name].shape) for name in again))
                    self.assertEqual(report.pruned["after"]["bytes"], (self.folder / "small.bantam").stat().st_size)
                    self.assertEqual(by_file.bytes_before, (MODEL / "model.safetensors").stat().st_size)
                    self.assertEqual(report.bytes_before, by_file.bytes_before)
                    self.assertIn(removal, str(report))
                    self.assertEqual(len(report.pruned["layers"]), small.config["layers"])
                    self.assertTrue(any("pruned" in call or "sliced" in call for call in calls), calls)
                with self.assertRaises(bantam.Cancelled):
                    bantam.compress(model, prune=removal, progress=lambda *p: False, **few)
                with self.assertWarnsRegex(UserWarning, "bundled"):
                    bantam.compress(model, prune=removal, samples=1, tokens=16)
        kept, _ = bantam.compress(model, format="f16", prune="channels:0.5", **few)
        lost, _ = bantam.compress(model, format="f16", prune="channels:0.5", compensate=False, **few)
        self.assertFalse(np.array_equal(np.asarray(kept["layers.1.mlp.down"]), np.asarray(lost["layers.1.mlp.down"])))

    def test_prune_to(self):
        few = dict(samples=2, tokens=32, calibration=ROOT / "models" / "paragraph.txt")
        bantam.compress_file(MODEL, self.folder / "m.bantam", prune=["channels", "heads:0.5"], prune_to="bytes:0.8x", **few)
        report = bantam.compress_file(MODEL, self.folder / "m.bantam", prune=["channels", "heads"], prune_to="bytes:0.8x", **few)
        self.assertLessEqual((self.folder / "m.bantam").stat().st_size, 0.8 * report.pruned["before"]["bytes"])
        self.assertEqual({removal.split(":")[0] for removal in report.pruned["removals"]}, {"channels", "heads"})
        before_work = dict(progress=lambda *p: self.fail("there was work"), **few)
        for options, says in (({"prune": "channels:1"}, "prune channels:1: expected a share"), ({"prune": "channels"}, "prune: channels: expected"),
                              ({"prune": "channels", "prune_to": "size:1"}, "prune_to: expected parameters:N"),
                              ({"prune": "channels", "prune_to": "bytes:1kB"}, "expected at least"),
                              ({"prune": "channels", "prune_to": "latency:3600s"}, "what the model costs"),
                              ({"prune_to": "bytes:1kB"}, "prune_to: expected parts"),
                              ({"prune": "channels", "prune_to": "bytes:0.8x", "format": lambda layer: "i4"}, "prune_to: expected a format by name"),
                              ({"prune": ["wanda:0.5", "magnitude:0.5"]}, "expected one way")):
            with self.subTest(says):
                with self.assertRaisesRegex(bantam.InvalidArgument, says):
                    bantam.compress(model, **options, **before_work)
                with self.assertRaisesRegex(bantam.InvalidArgument, says):
                    bantam.compress_file(MODEL, self.folder / "never", **options, **before_work)
        seen = []
        bantam.compress(model, prune="layers:1", format=lambda layer: seen.append(layer), **few)
        self.assertEqual({layer.count for layer in seen}, {3})

    def test_importance(self):
        few = dict(samples=2, tokens=32, calibration=ROOT / "models" / "paragraph.txt", format="f32", compensate=False)
        kept = []

        def last_stay(part, layer, reader, mean_squares):
            kept.append((part, layer, reader, mean_squares))
            self.assertEqual(reader.shape[1], mean_squares.shape[0])
            self.assertEqual(reader.dtype, np.float32)
            return np.arange(reader.shape[1] if part == "channels" else model.config["kv_heads"])

        small, _ = bantam.compress(model, prune=["channels:0.5", "heads:0.5"], importance=last_stay, **few)
        layers, ffn = model.config["layers"], model.config["ffn"]
        self.assertEqual([(part, layer) for part, layer, _, _ in kept], [(part, i) for i in range(layers) for part in ("heads", "channels")])
        down = np.asarray(model["layers.0.mlp.down"])
        np.testing.assert_array_equal(np.asarray(small["layers.0.mlp.down"]), down[:, ffn // 2:])
        np.testing.assert_array_equal(kept[1][2], down)  # still there after the call
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            bantam.compress(model, prune="heads:0.5", importance=lambda *_: 1 / 0, **few)
        with self.assertRaisesRegex(bantam.InvalidArgument, "finite importances, found 2"):
            bantam.compress_file(MODEL, self.folder / "never", prune="channels:0.5", importance=lambda *_: [1, 2], **few)
        with self.assertRaisesRegex(bantam.InvalidArgument, "one dimension"):
            bantam.compress(model, prune="channels:0.5", importance=lambda *_: [[1, 2]], **few)
        self.assertFalse((self.folder / "never").exists())

    def test_interrupt_stops_pruning(self):
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            while time.monotonic() - began < 60:
                bantam.compress(model, prune=["hidden:0.25", "channels:0.5"], calibration=ROOT / "models" / "calibration.txt", samples=64, tokens=256)

    def test_calibrated_in_memory_and_by_file(self):
        corpus = bantam.Corpus(ROOT / "models" / "paragraph.txt", tokens=64 if QUICK else 512, sample_tokens=32 if QUICK else 128)
        small, report = bantam.compress(model, "gptq", format="i3", calibration=corpus)
        small.save(self.folder / "memory.bantam")
        bantam.compress_file(MODEL, self.folder / "file.bantam", "gptq", format="i3", calibration=corpus)
        prompt = dict(prompt="The", max_tokens=12, **GREEDY)
        texts = {bantam.Session(bantam.load(self.folder / f"{name}.bantam")).generate(**prompt) for name in ("memory", "file")}
        self.assertEqual(len(texts), 1)
        self.assertGreater(report.kl_mean, 0)
        self.assertLess(report.perplexity_before, report.perplexity_after * 1.5)

    def test_importance_matrices(self):
        few = dict(calibration=ROOT / "models" / "paragraph.txt", samples=2, tokens=32)
        self.assertEqual(bantam.save_imatrix(MODEL, self.folder / "file.gguf", **few), 28)  # seven matrices a block
        self.assertEqual(bantam.save_imatrix(model, str(self.folder / "memory.gguf"), **few), 28)
        self.assertEqual((self.folder / "file.gguf").read_bytes(), (self.folder / "memory.gguf").read_bytes())
        self.assertIn(b"paragraph.txt", (self.folder / "file.gguf").read_bytes())
        plain, weighed, calibrated = (bantam.compress(model, format="q3k", **options)[1] for options in
                                      ({}, {"imatrix": self.folder / "file.gguf"}, few))
        errors = [[layer.relative_error for layer in report.layers] for report in (plain, weighed, calibrated)]
        self.assertNotEqual(errors[1], errors[0])
        q = [layer.name.endswith("layers.0.self_attn.q_proj") for layer in plain.layers].index(True)
        self.assertEqual(errors[1][q], errors[2][q])  # the text's own mean squares
        with self.assertWarnsRegex(UserWarning, "bundled"):
            bantam.save_imatrix(MODEL, self.folder / "bundled.gguf", samples=1, tokens=8)
        with self.assertRaisesRegex(bantam.NotFound, "^imatrix: .*absent"):
            bantam.compress(model, imatrix=self.folder / "absent")
        with self.assertRaisesRegex(bantam.Corrupt, "^imatrix: "):
            bantam.compress(model, imatrix=ROOT / "models" / "paragraph.txt")

    def test_bundled_text(self):
        with self.assertWarnsRegex(UserWarning, "bundled"):
            bantam.compress(model, "gptq", samples=2, tokens=32)

    def test_other_containers(self):
        bantam.compress_file(MODEL, self.folder / "m.gguf", format="q8_0", to="gguf")
        self.assertTrue(bantam.Session(bantam.load(self.folder / "m.gguf")).generate("A", max_tokens=3))
        with self.assertRaisesRegex(bantam.InvalidArgument, "safetensors"):
            bantam.compress_file(MODEL, self.folder / "x", to="zip")
        with self.assertRaisesRegex(bantam.InvalidArgument, "gptq"):
            bantam.compress(model, "magic")

    def test_quantize(self):
        values = np.random.default_rng(0).standard_normal((48, 96), dtype=np.float32)
        x = np.random.default_rng(1).standard_normal((3, 96))
        for entry in bantam.formats():
            with self.subTest(entry["name"]):
                packed = bantam.quantize(values, entry["name"])
                self.assertEqual(packed.shape, values.shape)
                decoded = packed.dequantize()
                np.testing.assert_allclose(packed.matmul(x), x.astype(np.float32) @ decoded.T, atol=2e-4)
        np.testing.assert_array_equal(bantam.quantize(values.T[:, ::2], "f32").dequantize(), values.T[:, ::2])
        for wrong in (values[0], values[:0], np.full((4, 32), np.nan, np.float32)):
            with self.assertRaises(ValueError):
                bantam.quantize(wrong, "q4")

    def test_quality(self):
        small, _ = bantam.compress(model, format="i8")
        seen = bantam.perplexity(small, TEXT, model, context=128, limit=128 if QUICK else 0)
        self.assertGreater(seen.kl_mean, 0)
        self.assertLess(seen.kl_mean, 0.01)
        with self.assertRaises(bantam.Cancelled):
            bantam.perplexity(small, TEXT, progress=lambda done, total: False)

    def test_bench(self):
        seen = bantam.bench(model, prompt=16, generate=8, repetitions=1)
        self.assertGreater(seen["generate_tok_s"], 0)
        self.assertGreater(seen["read_gb_s_measured"], 0)


class Surface(unittest.TestCase):
    def test_stub_has_every_name_and_parameter(self):
        for module, stub in ((bantam, "__init__"), (bantam.llama_cpp, "llama_cpp")):
            with self.subTest(stub):
                self.compare(module, (Path(bantam.__file__).parent / f"{stub}.pyi").read_text())

    def compare(self, module, stub):
        for name in module.__all__:
            value = getattr(module, name)
            if name.endswith("Options") or (name == "Llama" and module is bantam):
                self.assertIn(f"import {name} as {name}", stub)  # typed where it is
                continue
            if inspect.isclass(value) and value.__name__ == name:  # not a second name
                self.assertRegex(stub, rf"(?m)^class {name}\b|^{name} = ", name)
                members = [m for m in vars(value) if not m.startswith("_")]
                body = re.split(rf"(?m)^class {name}\b[^\n]*\n", stub)[-1].split("\nclass ")[0]
                for member in members:
                    self.assertRegex(body, rf"\b{member}\b", f"{name}.{member}")
            elif inspect.isfunction(value):
                signature = re.search(rf"(?ms)^def {name}\((.*?)\) ->", stub)
                self.assertIsNotNone(signature, name)
                options = re.search(r"\*\*options: Unpack\[(\w+)\]", signature.group(1))
                known = set(bantam._options.table_of(getattr(bantam, options.group(1)))) if options else set()
                for parameter in set(inspect.signature(value).parameters) - known:
                    self.assertRegex(signature.group(1), rf"\b{parameter}\b", f"{name}({parameter})")
            else:
                self.assertRegex(stub, rf"(?m)^(def )?{name}\b", name)

    def test_stub_is_python(self):
        for path in Path(bantam.__file__).parent.glob("*.pyi"):
            compile(path.read_text(), path.name, "exec")

    def test_docstring_examples(self):
        for module in (bantam, bantam._model, bantam._session, bantam._compress):
            self.assertEqual(doctest.testmod(module).failed, 0, module.__name__)

    def test_version(self):
        self.assertRegex(bantam.__version__, r"^\d+\.\d+\.\d+$")
        self.assertIn(bantam.cpu_info()["isa"], bantam.cpu_info()["isas"])
        bantam.set_isa(bantam.cpu_info()["isa"])


if __name__ == "__main__":
    unittest.main()
