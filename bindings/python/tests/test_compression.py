"""Compression, pruning, calibration, and what measures them."""

import signal
import threading
import time
import unittest

import numpy as np

import bantam
from common import GREEDY, MODEL, QUICK, ROOT, TEXT, Folder, first_layers, model


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
        short = bantam.load(first_layers(self.folder / "short"))
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
                    bantam.compress(short, prune=removal, samples=1, tokens=16)
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
        source = first_layers(self.folder / "source", 1) if QUICK else MODEL
        small, report = bantam.compress(bantam.load(source), "gptq", format="i3", calibration=corpus)
        small.save(self.folder / "memory.bantam")
        bantam.compress_file(source, self.folder / "file.bantam", "gptq", format="i3", calibration=corpus)
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
            bantam.compress(bantam.load(first_layers(self.folder / "source", 1)), "gptq", samples=2, tokens=32)

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


if __name__ == "__main__":
    unittest.main()
