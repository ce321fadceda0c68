"""`bantam embed` and `rerank`, and what encoders are not for: a tiny BERT, computed here in double precision by its paper (arXiv:1810.04805)."""
import json
import math
import struct
from pathlib import Path

import numpy as np

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
        header, bytes_ = {}, b""
        for name, values in self.weights.items():
            name = ("bert." if self.labels and not name.startswith("classifier") else "") + name
            header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(bytes_), len(bytes_) + values.nbytes]}
            bytes_ += values.tobytes()
        text = json.dumps(header).encode()
        (self.folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes_)
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


def containers(h, bert, name):
    """The same weights as a folder, a GGUF file and a native one."""
    files = [str(bert.folder)]
    for to, out in [("gguf", h.temporary(f"{name}.gguf")), ("native", h.temporary(f"{name}.bantam")), ("safetensors", h.temporary(f"{name}-again"))]:
        h.succeeds("compress", bert.folder, "-o", out, "--format", "f32", "--to", to)
        files.append(out)
    return files


def far(found, expected):
    return max(abs(a - b) for a, b in zip(found, expected, strict=True))


def facts_encoder(h):
    bert = Bert(h.temporary("bert"))
    texts = {"the owls hunt at night.": ids_of("[CLS]", "the", "owl", "##s", "hunt", "at", "night", ".", "[SEP]"), "The SEA was calm": ids_of("[CLS]", "the", "sea", "was", "calm", "[SEP]"),
             "": ids_of("[CLS]", "[SEP]")}
    states = [bert.states(ids, [0] * len(ids)) for ids in texts.values()]
    for source in containers(h, bert, "bert"):
        h.equal(f"{source}: the model's pooling", h.json("inspect", source)["config"]["pooling"], "cls")
        seen = h.json("embed", source, input="\n".join(texts) + "\n")
        h.equal(f"{source}: a vector a line of standard input", len(seen["embeddings"]), 3)
        for pooling, of in [(None, lambda x: x[0]), ("mean", lambda x: x.mean(0)), ("last", lambda x: x[-1])]:
            seen = h.json("embed", source, *texts, "--no-normalize", *(["--pooling", pooling] if pooling else []))
            worst = max(far(row, of(x)) for row, x in zip(seen["embeddings"], states, strict=True))
            h.fact(f"{source}: {pooling}: numbers of the paper within 1e-5", worst < 1e-5 and seen["pooling"] == (pooling or "cls"), worst)
        whole = h.json("embed", source, *texts)
        h.fact(f"{source}: of length 1", all(abs(sum(x * x for x in row) - 1) < 1e-5 for row in whole["embeddings"]))
        h.equal(f"{source}: within a bound of memory", h.json("embed", source, *texts, "--memory", "64MiB"), whole)
    source = str(bert.folder)
    h.equal("ids of a text", h.json("tokenize", source, "-f", h.write("text", "the owls?")), ids_of("[CLS]", "the", "owl", "##s", "?", "[SEP]"))
    h.equal("--truncate keeps what is around a text", h.json("embed", source, "the owls hunt at night.", "--context", 4, "--truncate"), h.json("embed", source, "the owl"))
    h.refuses(1, "embed", source, "the " * POSITIONS, says=f"expected at most {POSITIONS} tokens")
    h.refuses(1, "embed", source, "the", "--context", POSITIONS + 1, says="learned positions")
    # What generates is not for it.
    text = h.write("long", "the owls hunt at night. " * 20)
    for verb in [["run", source, "-p", "the"], ["run", source, "-p", "the", "--beams", 2], ["run", source, "-p", "the", "--continuations", 2], ["logits", source, "-p", "the"],
                 ["perplexity", source, text, "--context", 16], ["bench", source, "-p", 8, "-n", 2, "-r", 1]]:
        h.refuses(1, *verb, says="expected a model that makes some, found one of type bert, which makes embeddings")
    h.refuses(1, "run", source, "-p", "the", "--draft", source, says="expected a model that makes some")
    h.refuses(1, "rerank", source, "the", "owl", says="expected a model with a classifier, found one of type bert, which makes embeddings")
    h.refuses(1, "compress", source, "-o", h.temporary("fit.bantam"), "--fit", "10kB", "--calibration", text, says="expected a model that makes logits")
    planned = h.json("plan", source, "--read-gb-s", 10, "--int8-gop-s", 500)
    h.equal("it is planned without generating", (planned["generate_tok_s"], planned["prompt_tok_s"] > 0, planned["kv_bytes_per_token"]), (None, True, 2 * DIM * 4))
    h.fact("and says so", "of texts that are read" in h.succeeds("plan", source, "--read-gb-s", 10, "--int8-gop-s", 500).text)


def facts_classifier(h):
    bert = Bert(h.temporary("classifier"), labels=1, seed=2)
    query, documents = "owls?", ["the owls hunt at night.", "The sea was calm.", "night"]
    begin = ids_of("[CLS]", "owl", "##s", "?", "[SEP]")
    ends = [ids_of("the", "owl", "##s", "hunt", "at", "night", ".", "[SEP]"), ids_of("the", "sea", "was", "calm", ".", "[SEP]"), ids_of("night", "[SEP]")]
    expected = [float(bert.scores(begin + end, [0] * len(begin) + [1] * len(end))[0]) for end in ends]
    order = sorted(range(3), key=lambda i: -expected[i])
    for source in containers(h, bert, "classifier"):
        seen = h.json("rerank", source, query, *documents)
        h.fact(f"{source}: scores of pairs are the paper's within 1e-5", far(seen["scores"], expected) < 1e-5, (seen, expected))
        h.equal(f"{source}: the best first", seen["order"], order)
        h.equal(f"{source}: within a bound of memory", h.json("rerank", source, query, *documents, "--memory", "64MiB"), seen)
    lines = h.succeeds("rerank", bert.folder, query, "-f", h.write("documents", "\n".join(documents) + "\n")).text.splitlines()
    h.equal("score and document, the best first", [line.split("\t") for line in lines], [[f"{expected[i]:.4f}", documents[i]] for i in order])
    h.refuses(1, "run", bert.folder, "-p", "the", says="found one of type bert, which makes scores")
    h.refuses(2, "rerank", bert.folder, says="QUERY")
    h.refuses(2, "rerank", bert.folder, query, "a", "-f", "b")
    two = Bert(h.temporary("two"), labels=2)
    h.refuses(1, "rerank", two.folder, query, *documents, says="expected a classifier of one label, found one of 2")


def facts_decoder(h, models):
    model = h.model("stories260k")
    texts = ["Once upon a time", "The dog", "Once upon a time"]
    seen = h.json("embed", model, *texts)
    h.equal("keys", set(seen), {"embeddings", "dim", "pooling"})
    h.equal("a vector a text", [len(row) for row in seen["embeddings"]], [seen["dim"]] * 3)
    h.fact("the same text, the same vector", seen["embeddings"][0] == seen["embeddings"][2] != seen["embeddings"][1])
    h.fact("of length 1", all(abs(sum(x * x for x in row) - 1) < 1e-5 for row in seen["embeddings"]))
    h.equal("lines of standard input", h.json("embed", model, input="\n".join(texts) + "\n"), seen)
    lines = h.succeeds("embed", model, *texts).text.splitlines()
    h.fact("a line a vector", [len(line.split()) for line in lines] == [seen["dim"]] * 3 and abs(float(lines[0].split()[0]) - seen["embeddings"][0][0]) < 1e-4, lines[0])
    ids = json.loads(h.succeeds("tokenize", model, input=texts[0]).text)
    h.equal("--ids is exactly these", h.json("embed", model, "--ids", json.dumps(ids))["embeddings"][0], seen["embeddings"][0])
    last = h.json("embed", model, texts[0], "--pooling", "last", "--no-normalize")
    h.fact("--pooling and --no-normalize", last["pooling"] == "last" and abs(sum(x * x for x in last["embeddings"][0]) - 1) > 1e-3)
    h.equal("--truncate", len(h.json("embed", model, "a " * 100, "--context", 8, "--truncate")["embeddings"]), 1)
    h.refuses(1, "embed", model, "a " * 100, "--context", 8, says="expected at most 8 tokens")
    h.refuses(2, "embed", model, "a", "--pooling", "max", says="mean|cls|last")
    h.refuses(2, "embed", model, "a", "--normalize", "--no-normalize")
    h.refuses(1, "rerank", model, "a", "b", says="expected a model with a classifier")
