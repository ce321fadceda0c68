"""A tiny BERT in a folder as sentence-transformers or a trainer of classifiers writes it, and what it computes, in double precision by its paper
(arXiv:1810.04805)."""
import json
import math
from pathlib import Path

import numpy as np
import tensor_file

DIM, HEADS, FFN, LAYERS, POSITIONS, EPS = 32, 2, 48, 2, 64, 1e-12
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "owl", "##s", "sea", "was", "calm", "hunt", "at", "night", "?", "."]


class Bert:
    """Random weights under the names of BertForSequenceClassification, in a folder of sentence-transformers."""

    def __init__(self, folder, labels=0, seed=1):
        self.folder, self.labels, random = Path(folder), labels, np.random.default_rng(seed)
        self.weights = {}

        def add(name, *shape, mean=0.0, spread=0.3):
            self.weights[name] = (mean + spread * random.normal(size=shape)).astype("<f4")

        def norm(name):
            add(name + ".weight", DIM, mean=1)
            add(name + ".bias", DIM)

        for name, rows in [("word", len(PIECES)), ("position", POSITIONS), ("token_type", 2)]:
            add(f"embeddings.{name}_embeddings.weight", rows, DIM)
        norm("embeddings.LayerNorm")
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}."
            for name, rows, columns in [("attention.self.query", DIM, DIM), ("attention.self.key", DIM, DIM), ("attention.self.value", DIM, DIM),
                                        ("attention.output.dense", DIM, DIM), ("intermediate.dense", FFN, DIM), ("output.dense", DIM, FFN)]:
                add(layer + name + ".weight", rows, columns)
                add(layer + name + ".bias", rows)
            norm(layer + "attention.output.LayerNorm")
            norm(layer + "output.LayerNorm")
        if labels:
            add("pooler.dense.weight", DIM, DIM)
            add("pooler.dense.bias", DIM)
            add("classifier.weight", labels, DIM)
            add("classifier.bias", labels)
        self.write()

    def write(self):
        self.folder.mkdir()
        config = {"architectures": ["BertForSequenceClassification" if self.labels else "BertModel"], "model_type": "bert", "hidden_size": DIM, "num_hidden_layers": LAYERS,
                  "num_attention_heads": HEADS, "intermediate_size": FFN, "max_position_embeddings": POSITIONS, "vocab_size": len(PIECES), "type_vocab_size": 2,
                  "layer_norm_eps": EPS, "hidden_act": "gelu", "id2label": {str(i): f"LABEL_{i}" for i in range(self.labels)}}
        (self.folder / "config.json").write_text(json.dumps(config))
        tensor_file.write(self.folder / "model.safetensors",
                          {("bert." if self.labels and not name.startswith("classifier") else "") + name: values for name, values in self.weights.items()})
        special = [{"id": i, "content": PIECES[i], "special": True} for i in range(4)]
        (self.folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": special, "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(PIECES)}}}))
        if not self.labels:
            (self.folder / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{type_}"}
                                                                  for i, (path, type_) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])]))
            (self.folder / "1_Pooling").mkdir()
            (self.folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": DIM, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))

    def add_dense(self, outputs, seed=5):
        """A layer behind pooling, with a tanh, in a folder of its own: its weight and bias."""
        random = np.random.default_rng(seed)
        weight, bias = ((0.3 * random.normal(size=shape)).astype("<f4") for shape in ((outputs, DIM), (outputs,)))
        modules = json.loads((self.folder / "modules.json").read_text())
        modules.insert(2, {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})
        (self.folder / "modules.json").write_text(json.dumps(modules))
        (self.folder / "2_Dense").mkdir()
        (self.folder / "2_Dense" / "config.json").write_text(json.dumps({"in_features": DIM, "out_features": outputs, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}))
        tensor_file.write(self.folder / "2_Dense" / "model.safetensors", {"linear.weight": weight, "linear.bias": bias})
        return weight.astype(np.float64), bias.astype(np.float64)

    def states(self, ids, types):
        w = {name: values.astype(np.float64) for name, values in self.weights.items()}

        def norm(x, name):
            x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w[name + ".weight"] + w[name + ".bias"]

        def linear(x, name):
            return x @ w[name + ".weight"].T + w[name + ".bias"]

        def heads(x):
            return x.reshape(len(ids), HEADS, DIM // HEADS).swapaxes(0, 1)

        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][types]
        x = norm(x, "embeddings.LayerNorm")
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}."
            q, k, v = (heads(linear(x, layer + "attention.self." + name)) for name in ("query", "key", "value"))
            scores = q @ k.swapaxes(1, 2) / math.sqrt(DIM / HEADS)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(ids), DIM)
            x = norm(x + linear(mixed, layer + "attention.output.dense"), layer + "attention.output.LayerNorm")
            h = linear(x, layer + "intermediate.dense")
            h = h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
            x = norm(x + linear(h, layer + "output.dense"), layer + "output.LayerNorm")
        return x

    def scores(self, ids, types):
        first = self.states(ids, types)[0]
        pooled = np.tanh(self.weights["pooler.dense.weight"].astype(np.float64) @ first + self.weights["pooler.dense.bias"])
        return self.weights["classifier.weight"].astype(np.float64) @ pooled + self.weights["classifier.bias"]


def ids_of(*words):
    return [PIECES.index(word) for word in words]
