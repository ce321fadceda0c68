"""Embeddings, pairs and classes."""

import sys
import unittest

import numpy as np

import bantam
from common import ROOT, Folder, model


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
        raw = model.embed(texts, normalize=False)
        np.testing.assert_array_equal(model.embed(texts, normalize=False, dimensions=8), raw[:, :8])
        np.testing.assert_allclose(model.embed(texts, dimensions=8), raw[:, :8] / np.linalg.norm(raw[:, :8], axis=1, keepdims=True), rtol=1e-5)
        self.assertEqual(bantam.Session(model).embed(texts[0], dimensions=8).shape, (8,))
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
        bert = Bert(self.folder / "labels", labels=3)
        scores = bert.scores(ids, [0] * len(ids))
        probabilities = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        classifier = bantam.load(self.folder / "labels")
        np.testing.assert_allclose(classifier.classify("the owls"), probabilities, atol=1e-5)
        np.testing.assert_array_equal(classifier.classify(["the owls", "sea"])[0], classifier.classify("the owls"))
        self.assertEqual(classifier.config["label_names"], ["LABEL_0", "LABEL_1", "LABEL_2"])
        pair = bert.scores(ids + ids_of("sea", "[SEP]"), [0] * len(ids) + [1, 1])
        self.assertEqual(classifier.classify("the owls", second="sea").argmax(), pair.argmax())

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(bantam.InvalidArgument, "expected at most 8 tokens"):
            model.embed("sea " * 100, context=8)
        with self.assertRaisesRegex(bantam.InvalidArgument, "pooling"):
            model.embed("sea", pooling="max")
        with self.assertRaisesRegex(bantam.InvalidArgument, "dimensions: expected 1 to"):
            model.embed("sea", dimensions=100_000)
        with self.assertRaisesRegex(bantam.InvalidArgument, "dimensions: expected 0 to"):
            model.embed("sea", dimensions=-1)
        with self.assertRaisesRegex(TypeError, "dimensions: expected"):
            model.embed("sea", dimensions="8")
        with self.assertRaisesRegex(TypeError, "found both"):
            model.embed(["sea", [1, 2]])
        with self.assertRaisesRegex(bantam.Unsupported, "rerank: expected a model with a classifier"):
            model.rerank("who", ["the captain"])
        with self.assertRaisesRegex(bantam.Unsupported, "classify: expected a model with a classifier"):
            model.classify("the captain")


if __name__ == "__main__":
    unittest.main()
