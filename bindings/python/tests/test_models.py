"""Models: loading, tensors, tokenizers, bounds, errors, notebooks."""

import copy
import errno
import os
import pickle
import unittest
import xml.dom.minidom
from pathlib import Path

import numpy as np

import bantam
from common import GREEDY, MODEL, TEXT, Folder, model


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

    def test_device_map(self):
        whole = bantam.load(MODEL)
        prompt = {"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0}
        expected = bantam.Session(whole).generate(**prompt)
        for devices in ("auto", "cpu", "disk", {"": "cpu", "model.layers.1": "disk"}):
            with self.subTest(devices=devices):
                self.assertEqual(bantam.Session(bantam.load(MODEL, device_map=devices)).generate(**prompt), expected)
        for devices, error, line in ((3, TypeError, "device_map"), ({"": 0}, TypeError, "found {'': 0}"), ("cuda", bantam.InvalidArgument, 'found "cuda"'),
                                     ({"model.layers": "disk"}, bantam.InvalidArgument, "expected a device for model.embed_tokens")):
            with self.subTest(devices=devices), self.assertRaisesRegex(error, line):
                bantam.load(MODEL, device_map=devices)

    def test_memory_of_a_text(self):
        prompt = {"prompt": "Once upon a time", "max_tokens": 150, "temperature": 0, "ignore_end": True}
        plain = bantam.Session(model)
        text = plain.generate(**prompt)
        # Room for the pages of a pass and twice 512 tokens of a layer of the others.
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


if __name__ == "__main__":
    unittest.main()
