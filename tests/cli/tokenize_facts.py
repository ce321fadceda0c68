"""`bantam tokenize` against the vocabularies' expected ids, and back."""
import json
import shutil
import subprocess
from pathlib import Path

TEXT = "Once upon a time, there was a girl named Lily.\nShe said: “été” 🙂\n\n  and then…"


def facts_ids(h, models):
    model = h.model("stories260k")
    golden = json.loads((models / "golden.json").read_text())
    for name in ["stories260k", "babyllama105", "books4m"]:
        for case in golden[name]["greedy"]:
            for source in [h.model(name), h.gguf(name)]:
                h.equal(f"{source}: {case['prompt']!r}", h.succeeds("tokenize", source, input=case["prompt"]).json, case["prompt_ids"])
    ids = h.succeeds("tokenize", model, input=TEXT).json
    h.equal("--json prints the same array", h.json("tokenize", model, input=TEXT), ids)
    h.equal("-f reads a file", h.succeeds("tokenize", model, "-f", h.write("text.txt", TEXT)).json, ids)
    h.equal("-f - reads standard input", h.succeeds("tokenize", model, "-f", "-", input=TEXT).json, ids)
    h.equal("--no-special leaves out BOS", h.succeeds("tokenize", model, "--no-special", input=TEXT).json, ids[1:])
    h.equal("no text, no tokens but BOS", h.succeeds("tokenize", model, input="").json, [1])
    h.equal("no text, no tokens", h.succeeds("tokenize", model, "--no-special", input="").out, b"[]\n")
    h.fact("text is text", 2 not in h.succeeds("tokenize", model, input="a</s>").json)
    h.fact("--parse-special", h.succeeds("tokenize", model, "--parse-special", input="a</s>").json[-1] == 2)
    for file in ["tokenizer.json", "tokenizer.model"]:
        h.equal(f"{file} alone is enough", h.succeeds("tokenize", str(models / "stories260k" / file), "--no-special", input=TEXT).json, ids[1:])
    alone = Path(h.temporary("vocabulary"))
    alone.mkdir()
    for file in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copy(models / "stories260k" / file, alone)
    h.equal("a folder with a vocabulary alone is enough", h.succeeds("tokenize", alone, input=TEXT).json, ids)
    for source in [alone, alone / "tokenizer.json", models / "stories260k" / "tokenizer.model"]:
        seen = h.json("inspect", source)
        h.fact(f"inspect {source}", seen["container"] == "vocabulary" and seen["tokenizer"]["vocab"] == 512 and seen["architecture"] is None, seen)
        h.fact(f"inspect {source}, for people", "512 tokens" in h.succeeds("inspect", source, "--verify").text)
    closed = subprocess.run(["/bin/sh", "-c", '"$0" tokenize "$1" <&-', h.program, model], capture_output=True)
    h.fact("a closed standard input is an error", closed.returncode == 1 and b"standard input" in closed.stderr, closed)


def facts_decode(h, models):
    for model in [h.model("stories260k"), h.gguf("babyllama105"), h.model("books4m")]:
        ids = h.succeeds("tokenize", model, input=TEXT).out
        back = h.succeeds("tokenize", model, "--decode", input=ids)
        if "babyllama" not in model:  # a vocabulary of 105 characters has no others
            h.equal(f"{model}: text comes back exactly", back.out, TEXT.encode())
        h.fact(f"{model}: decoded text is UTF-8", back.text is not None)
        h.equal(f"{model}: --decode --json", h.json("tokenize", model, "--decode", input=ids), {"text": back.text})
    model = h.model("stories260k")
    h.equal("special tokens give no text", h.succeeds("tokenize", model, "-d", input="[1,403,2]").out, b"Once")
    h.equal("but --parse-special spells them", h.succeeds("tokenize", model, "-d", "--parse-special", input="[403,2]").out, b"Once</s>")
    h.equal("half a character becomes U+FFFD", h.succeeds("tokenize", model, "-d", "--no-special", input="[229]").text, "\ufffd")
    for ids in ["", "x", "1", "[1", "[1.5]", "[-1]", '["1"]', "[512]", "[99999999999]", "{}", "[[1]]", "[" * 200000, "\xff"]:
        h.refuses(1, "tokenize", model, "--decode", input=ids)


def facts_lines(h, models):
    model = h.model("stories260k")
    lines = ["Once upon a time", "", "the end ", "\tx"]
    each = [h.succeeds("tokenize", model, input=line).json for line in lines]
    plain = h.succeeds("tokenize", model, "--lines", input="\n".join(lines) + "\n")
    h.equal("one array a line", [json.loads(line) for line in plain.text.splitlines()], each)
    h.equal("the last line needs no end", h.succeeds("tokenize", model, "--lines", input="\n".join(lines)).out, plain.out)
    h.equal("--json: one document", h.json("tokenize", model, "--lines", input="\n".join(lines)), each)
    h.equal("no lines, nothing", h.succeeds("tokenize", model, "--lines", input="").out, b"")
    h.equal("no lines, an empty document", h.json("tokenize", model, "--lines", input=""), [])
    h.equal("--decode --lines goes back", h.succeeds("tokenize", model, "--decode", "--lines", input=plain.out).text, "\n".join(lines) + "\n")
    h.equal("--decode --lines --json", h.json("tokenize", model, "--decode", "--lines", input=plain.out), {"texts": lines})
    h.refuses(1, "tokenize", model, "--decode", "--lines", input="[1]\nx\n", says="line 2")


def facts_vocabularies(h, models):
    folder = models.parent / "tokenizers"
    for file in sorted(folder.glob("ggml-vocab-*.gguf")):
        texts = Path(str(file) + ".inp").read_text().split("\n__ggml_vocab_test__\n")
        expected = [[int(id) for id in line.split()] for line in Path(str(file) + ".out").read_text().splitlines()]
        # A line feed divides lines, so those texts go alone; a few of each are enough here.
        single = [i for i, text in enumerate(texts[: len(expected)]) if "\n" not in text and "\r" not in text and text]
        found = h.succeeds("tokenize", file, "--lines", "--no-special", input="\n".join(texts[i] for i in single))
        for i, line in zip(single, found.text.splitlines()):
            h.equal(f"{file.name}: {texts[i]!r}", json.loads(line), expected[i])
        for i in [i for i, text in enumerate(texts[: len(expected)]) if "\n" in text][:4]:
            h.equal(f"{file.name}: {texts[i]!r}", h.succeeds("tokenize", file, "--no-special", input=texts[i]).json, expected[i])
        seen = h.json("inspect", file)
        h.fact(f"{file.name}: inspect", seen["container"] == "vocabulary" and seen["tokenizer"]["vocab"] > 1000 and seen["tensors"] == [], seen)


def facts_large_text(h, models):
    for letter in ["a", "^", "é"]:
        text = letter * (1 << 20)
        ids = h.succeeds("tokenize", h.model("stories260k"), input=text).json
        back = h.succeeds("tokenize", h.model("stories260k"), "--decode", input=json.dumps(ids))
        h.fact(f"a megabyte of {letter!r} comes back", back.text == text, back)
