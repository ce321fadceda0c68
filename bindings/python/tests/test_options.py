"""Options: every one is checked by name, listed in help(), and has the library's default."""

import collections.abc
import inspect
import unittest

import numpy as np

import bantam
from bantam import _bantam
from bantam._options import table_of
from common import GREEDY, MODEL, ROOT, Folder, first_layers, model, write_adapter

KINDS = [getattr(bantam, name) for name in bantam.__all__ if name.endswith("Options")]
# What takes the options of which class, and with what before them.
TAKERS = {
    bantam.GenerateOptions: lambda **o: bantam.Session(model).stream("x", **o),
    bantam.SamplingOptions: lambda **o: bantam.Sampler(8, **o),
    bantam.SessionOptions: lambda **o: bantam.Session(model, **o),
    bantam.RestoreOptions: lambda **o: bantam.Session.restore(model, "nothing", **o),
    bantam.LoadOptions: lambda **o: bantam.load(MODEL, **o),
    bantam.QuantizeOptions: lambda **o: bantam.quantize(np.ones((4, 32)), "q4", **o),
    bantam.CompressOptions: lambda **o: bantam.compress(model, **o),
    bantam.CompressFileOptions: lambda **o: bantam.compress_file(MODEL, "never", **o),
    bantam.ImatrixOptions: lambda **o: bantam.save_imatrix(MODEL, "never", **o),
    bantam.PerplexityOptions: lambda **o: bantam.perplexity(model, "x", **o),
    bantam.BeamOptions: lambda **o: bantam.Session(model).beam_search("x", **o),
    bantam.BenchOptions: lambda **o: bantam.bench(model, **o),
    bantam.SchedulerOptions: lambda **o: bantam.Scheduler(model, **o),
    bantam.RequestOptions: lambda **o: submit("x", **o),
}



def submit(prompt, **options):
    with bantam.Scheduler(model, context=64) as scheduler:
        return scheduler.submit(prompt, **options)


class Options(Folder):
    def test_wrong_types_and_values_are_named(self):
        for kind in KINDS:
            for name, (type_, option) in table_of(kind).items():
                with self.subTest(kind=kind.__name__, option=name):
                    if name != "calibration":  # a path or a Corpus
                        with self.assertRaisesRegex(TypeError, f"^{name}: expected .*found <object object at .* \\(object\\)"):
                            TAKERS[kind](**{name: object()})
                    listed = getattr(type_, "__origin__", None) is collections.abc.Sequence
                    for value in (option.low - 1, option.high + 1) if int in (type_, *getattr(type_, "__args__", ())) and not listed else ():
                        with self.assertRaisesRegex(bantam.InvalidArgument, f"^{name}: expected {option.low} to {option.high}, found {value}$"):
                            TAKERS[kind](**{name: value})
            with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'magic'"):
                TAKERS[kind](magic=1)

    def test_defects_that_were_accepted(self):
        session = bantam.Session(model)
        for error, options, says in ((TypeError, {"stop": "."}, r"stop: expected a list of texts, found '.' \(str\); for one, write \['.'\]"),
                                     (TypeError, {"temperature": "hot"}, "temperature: expected a number, found 'hot'"),
                                     (TypeError, {"temperature": True}, "temperature"), (TypeError, {"temperature": 1j}, "temperature"),
                                     (TypeError, {"top_k": 2.5}, "top_k"), (TypeError, {"stop": [b"."]}, "stop"),
                                     (TypeError, {"logit_bias": {"a": 1}}, "logit_bias: expected a dict of integers to numbers"),
                                     (ValueError, {"seed": -1}, "seed"), (ValueError, {"temperature": float("nan")}, "temperature"),
                                     (ValueError, {"top_p": 1.5}, "top_p"), (ValueError, {"order": ["magic"]}, "order"),
                                     (TypeError, {"temprature": 1}, "did you mean temperature")):
            with self.subTest(options), self.assertRaisesRegex(error, says):
                session.stream("x", **options)
        with self.assertRaisesRegex(bantam.InvalidArgument, "group"):
            bantam.compress(model, group=-7)
        for work in (lambda: bantam.quantize(np.ones((4, 32)) * 1j, "q4"), lambda: bantam.quantize([["a", "b"]], "q4"),
                     lambda: bantam.quantize(np.ones((4, 32)), "q4").matmul(np.ones((2, 32), np.complex64)),
                     lambda: bantam.Sampler(2).sample(np.array([1j, 2])), lambda: bantam.quantize(object(), "q4")):
            with self.assertRaisesRegex(TypeError, "^(values|x|logits): expected an array of real numbers, found "):
                work()
        with self.assertRaisesRegex(TypeError, "^importance: expected an array of real numbers"):
            bantam.compress(model, prune="channels:0.5", importance=lambda *_: [1j], calibration=ROOT / "models" / "paragraph.txt", samples=1, tokens=16)

    def test_arguments_are_named_too(self):
        session, tokenizer = bantam.Session(model), model.tokenizer
        for work, name in ((lambda: session.stream(5), "prompt"), (lambda: session.prefill([1.5]), "prompt"), (lambda: session.embed(b"x"), "prompt"),
                           (lambda: session.score("abc"), "ids"), (lambda: tokenizer.decode("abc"), "ids"), (lambda: tokenizer.encode(3), "text"),
                           (lambda: tokenizer.find(3), "token"), (lambda: bantam.load(3), "path"), (lambda: bantam.Tokenizer(3), "path"),
                           (lambda: bantam.Session(3), "model"), (lambda: bantam.compress(None), "model"), (lambda: bantam.perplexity(model, 3), "text"),
                           (lambda: bantam.perplexity(model, "x", 3), "base"), (lambda: bantam.compress(model, calibration=3), "calibration"),
                           (lambda: session.chat("Hi"), "messages"), (lambda: session.chat([{"content": "Hi"}]), "messages")):
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"^{name}: expected "):
                work()
        with self.assertRaisesRegex(bantam.InvalidArgument, "prompt: expected token ids, found 1099511627776"):
            session.stream([1 << 40])

    def test_numpy_numbers_are_numbers(self):
        options = dict(max_tokens=np.int64(6), temperature=np.float32(0.5), seed=np.uint64(3), ignore_end=np.bool_(True), stop=("zzz",),
                       logit_bias={np.int32(5): np.float16(1)})
        plain = dict(max_tokens=6, temperature=0.5, seed=3, ignore_end=True, stop=["zzz"], logit_bias={5: 1})
        self.assertEqual(bantam.Session(model).generate("It", **options), bantam.Session(model).generate("It", **plain))
        ids = np.array(model.tokenizer.encode("The sea"))
        self.assertEqual(bantam.Session(model).generate(ids, max_tokens=4, **GREEDY), bantam.Session(model).generate("The sea", max_tokens=4, **GREEDY))
        self.assertEqual(model.tokenizer.decode(ids), "The sea")

    def test_defaults_are_the_librarys(self):
        library = _bantam.default_options()
        table = table_of(bantam.GenerateOptions)
        self.assertEqual(set(table) - set(library), {"logit_bias", "order"})  # none of the one, all of the other
        for name, value in library.items():
            default = table[name][1].default
            self.assertEqual(list(default) if isinstance(default, tuple) else default, round(value, 6) if isinstance(value, float) else value, name)

    def test_every_option_of_compression_is_taken_and_named(self):
        paragraph, out = ROOT / "models" / "paragraph.txt", self.folder / "out"
        source = first_layers(self.folder / "source")
        write_adapter(self.folder / "lora", layers=2)
        bantam.save_imatrix(source, self.folder / "i.gguf", calibration=paragraph, samples=1, tokens=16)
        read = {"importance": lambda _: self.folder / "i.gguf", "adapters": lambda _: [f"{self.folder / 'lora'}:0.5"], "flag": lambda text: text == "on", "integer": int, "seed": int, "number": float, "exceptions": lambda text: dict([text.split("=")]),
                "file": lambda _: self.folder / "file", "corpus": lambda _: paragraph}
        wrong = {"number": float("nan"), "exceptions": {"*": "?!"}, **dict.fromkeys(("choice", "format", "text", "texts"), "?!")}
        rows = _bantam.compress_options()
        self.assertEqual({row["name"] for row in rows} - {"method"}, set(table_of(bantam.CompressFileOptions)) - {"importance", "progress"})
        for row in rows:
            name, kind, (needed, amount) = row["name"], row["kind"], row["needs"]
            example = {"on": "off", "off": "on"}[row["initial"]] if kind == "flag" else row["example"]
            options = {"samples": 1, "tokens": 16, "calibration": paragraph, **({needed: amount} if needed else {})}
            with self.subTest(name):
                bantam.compress_file(source, out, **{**options, name: read.get(kind, str)(example)})
                if kind in wrong:
                    with self.assertRaisesRegex(bantam.InvalidArgument, f"^{name}: "):
                        bantam.compress_file(source, out, **{**options, name: wrong[kind]})

    def test_help_lists_every_option(self):
        for function, kind in ((bantam.Session.stream, bantam.GenerateOptions), (bantam.Session.chat, bantam.GenerateOptions),
                               (bantam.Session.__init__, bantam.SessionOptions), (bantam.load, bantam.LoadOptions),
                               (bantam.Scheduler.__init__, bantam.SchedulerOptions), (bantam.Scheduler.submit, bantam.RequestOptions),
                               (bantam.compress, bantam.CompressOptions), (bantam.compress_file, bantam.CompressFileOptions), (bantam.save_imatrix, bantam.ImatrixOptions),
                               (bantam.perplexity, bantam.PerplexityOptions), (bantam.bench, bantam.BenchOptions)):
            parameters = inspect.signature(function).parameters
            for name, (_, option) in table_of(kind).items():
                self.assertIn(f"{name}={option.default!r}: ", function.__doc__)
                self.assertEqual(parameters[name].default, option.default)
        self.assertNotIn("options", inspect.signature(bantam.Session).parameters)


if __name__ == "__main__":
    unittest.main()
