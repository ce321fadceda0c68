"""`bantam embed`, `rerank` and `classify`, and what encoders are not for."""
import json
from pathlib import Path

import numpy as np
from tiny_bert import DIM, POSITIONS, Bert, ids_of


def containers(h, bert, name):
    """The same weights as a folder, a GGUF file, a native one, a folder again, and one of the GGUF file."""
    files = [str(bert.folder)]
    for to, out in [("gguf", h.temporary(f"{name}.gguf")), ("native", h.temporary(f"{name}.bantam")), ("safetensors", h.temporary(f"{name}-again"))]:
        h.succeeds("compress", bert.folder, "-o", out, "--format", "f32", "--to", to)
        files.append(out)
    files.append(h.temporary(f"{name}-of-gguf"))
    h.succeeds("compress", files[1], "-o", files[-1], "--format", "f32", "--to", "safetensors")
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
        h.equal(f"{source}: within a bound of memory", h.json("embed", source, *texts, "--memory", "256MiB"), whole)
    source = str(bert.folder)
    raw, cut = [h.json("embed", source, *texts, "--no-normalize", *more) for more in [[], ["--dimensions", 5]]]
    h.equal("--dimensions", (cut["dim"], cut["embeddings"]), (5, [row[:5] for row in raw["embeddings"]]))
    cut = h.json("embed", source, *texts, "--dimensions", 5)["embeddings"]
    h.fact("of length 1", all(far(row, [x / np.linalg.norm(whole[:5]) for x in whole[:5]]) < 1e-5 for row, whole in zip(cut, raw["embeddings"], strict=True)), cut)
    h.refuses(1, "embed", source, "the", "--dimensions", DIM + 1, says=f"dimensions: expected 1 to {DIM}")
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


def facts_layer_behind_pooling(h):
    bert = Bert(h.temporary("dense"), seed=3)
    weight, bias = bert.add_dense(20)
    ids = ids_of("[CLS]", "the", "owl", "##s", "hunt", "at", "night", ".", "[SEP]")
    expected = np.tanh(weight @ bert.states(ids, [0] * len(ids))[0] + bias)
    files = [str(bert.folder)]
    for to in ("native", "safetensors"):
        files.append(h.temporary(f"dense.{to}"))
        h.succeeds("compress", bert.folder, "-o", files[-1], "--format", "f32", "--to", to)
    for source in files:
        seen = h.json("embed", source, "the owls hunt at night.", "--no-normalize")
        h.equal(f"{source}: as many numbers as the layer makes", (seen["dim"], len(seen["embeddings"][0])), (20, 20))
        h.fact(f"{source}: numbers of the layer within 1e-5", far(seen["embeddings"][0], expected) < 1e-5, far(seen["embeddings"][0], expected))
        whole = h.json("embed", source, "the owls hunt at night.")["embeddings"][0]
        h.fact(f"{source}: of length 1", abs(sum(x * x for x in whole) - 1) < 1e-5)
        h.equal(f"{source}: within a bound of memory", h.json("embed", source, "the owls hunt at night.", "--memory", "256MiB", "--no-normalize"), seen)
    h.refuses(1, "compress", bert.folder, "-o", h.temporary("dense.gguf"), "--to", "gguf", "--format", "f32", says="layers behind pooling with a bias or a tanh: GGUF has no words for it")


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
        h.equal(f"{source}: within a bound of memory", h.json("rerank", source, query, *documents, "--memory", "256MiB"), seen)
    lines = h.succeeds("rerank", bert.folder, query, "-f", h.write("documents", "\n".join(documents) + "\n")).text.splitlines()
    h.equal("score and document, the best first", [line.split("\t") for line in lines], [[f"{expected[i]:.4f}", documents[i]] for i in order])
    h.refuses(1, "run", bert.folder, "-p", "the", says="found one of type bert, which makes scores")
    h.refuses(2, "rerank", bert.folder, says="QUERY")
    h.refuses(2, "rerank", bert.folder, query, "a", "-f", "b")
    two = Bert(h.temporary("two"), labels=2)
    h.refuses(1, "rerank", two.folder, query, *documents, says="expected a classifier of one label, found one of 2")


def facts_labels(h):
    texts = ["the owls hunt at night.", "The SEA was calm"]
    ids = [ids_of("[CLS]", "the", "owl", "##s", "hunt", "at", "night", ".", "[SEP]"), ids_of("[CLS]", "the", "sea", "was", "calm", "[SEP]")]
    names = ["sea", "owl \u263e", "\x1b[31mrum"]  # the last would colour the terminal

    def softmax(x):
        return np.exp(x - x.max()) / np.exp(x - x.max()).sum()

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    for use, of in [(None, softmax), ("single_label_classification", softmax), ("multi_label_classification", sigmoid), ("regression", lambda x: x)]:
        bert = Bert(h.temporary(f"labels-{use}"), labels=3, seed=4)
        config = json.loads((bert.folder / "config.json").read_text()) | {"id2label": {str(i): name for i, name in enumerate(names)}, "problem_type": use}
        (bert.folder / "config.json").write_text(json.dumps(config))
        expected = [of(bert.scores(x, [0] * len(x))) for x in ids]
        for source in containers(h, bert, f"labels-{use}"):
            h.equal(f"{source}: inspect names them", h.json("inspect", source)["config"]["label_names"], names)
            seen = h.json("classify", source, *texts)
            h.equal(f"{source}: names", (set(seen), seen["labels"]), ({"labels", "scores", "best"}, names))
            h.fact(f"{source}: {use}", all(far(row, x) < 1e-5 for row, x in zip(seen["scores"], expected, strict=True)), (seen, expected))
            h.equal(f"{source}: the likeliest", seen["best"], [names[int(x.argmax())] for x in expected])
    lines = [line.split("\t") for line in h.succeeds("classify", bert.folder, "--top", 0, input="\n".join(texts) + "\n").text.splitlines()]
    h.equal("--top 0 shows all, the likeliest first", lines, [[names[i].replace("\x1b", ""), f"{x[i]:.4f}", text] for text, x in zip(texts, expected) for i in np.argsort(-x, kind="stable")])
    h.equal("one of each", len(h.succeeds("classify", bert.folder, *texts).text.splitlines()), 2)
    broken = h.write("broken.gguf", Path(h.temporary(f"labels-{use}.gguf")).read_bytes().replace(b"[31mrum", b"[31mr\xffm"))
    h.succeeds("compress", broken, "-o", h.temporary("repaired.bantam"), "--format", "f32", "--to", "native")
    h.equal("bytes that are no UTF-8 are repaired", h.json("inspect", h.temporary("repaired.bantam"))["config"]["label_names"][2], "\x1b[31mr\ufffdm")
    pair = ids[1] + ids_of("night", "[SEP]")
    seen = h.json("classify", bert.folder, texts[1], "--second", "night")["scores"][0]
    h.fact("--second is read as the second text of a pair", far(seen, bert.scores(pair, [0] * len(ids[1]) + [1, 1])) < 1e-5, seen)
    one = Bert(h.temporary("one"), labels=1)
    seen = h.json("classify", one.folder, texts[0])
    h.fact("a single label is there or not", far(seen["scores"][0], sigmoid(one.scores(ids[0], [0] * len(ids[0])))) < 1e-5 and seen["labels"] == ["LABEL_0"], seen)
    h.equal("as many tokens as there is room for", len(h.json("classify", one.folder, "the " * 1000)["scores"]), 1)
    (one.folder / "config.json").write_text(json.dumps(config | {"problem_type": "magic"}))
    h.refuses(1, "classify", one.folder, "the", says="problem_type: expected single_label_classification, multi_label_classification or regression, found magic")
    h.refuses(1, "classify", Bert(h.temporary("none")).folder, "the", says="classify: expected a model with a classifier, found one of type bert without")


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
