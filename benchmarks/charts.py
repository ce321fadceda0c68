#!/usr/bin/env python3
"""Makes the pictures of the documents from stored results: docs/pictures/*.svg.

  charts.py             writes them
  charts.py --check     fails, naming them, where committed ones differ from what it would write
  charts.py --record PROGRAM     runs the tutorial's commands and stores what they print, for the pictures of terminals

Results stand in benchmarks/results/*.json, each with its commit and machine. Only the standard library is needed.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import svg

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "pictures"


def result(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def quality():
    data = result("quality-books4m")
    series = {}
    for point in data["points"]:
        series.setdefault(point["who"], []).append((point["bits"], point["kl"], f"{point['name']}: {point['bits']:g} bits, KL {point['kl']}"))
    return svg.chart("Size against quality: books4m", "bits a weight", "KL to the original, nats a token", list(series.items()), log_y=True, zero_x=False,
                     note=f"lower and further left is better; {data['machine']}, commit {data['commit']}")


def low_bits(model):
    """What mixed precision costs at each size, beside llama.cpp's mixes, and beside where these would be with a bit less."""
    data = result("low-bits")
    kinds = [("bantam --fit, native", "fit, native", 0), ("bantam --fit, GGUF", "fit, gguf", 0), ("llama.cpp's mixes", "llama.cpp", 0), ("the same, a bit less", "llama.cpp", -1)]
    series = []
    for shown_as, who, shift in kinds:
        rows = sorted((row for row in data["rows"] if row["model"] == model and row["who"] == who), key=lambda row: row["bits"])
        series.append((shown_as, [(row["bits"] + shift, row["kl_mean"], f"{row['name']}: {row['bits']:.3f} bits, KL {row['kl_mean']:.4f}") for row in rows]))
    return svg.chart(f"The goal: a bit less than llama.cpp at the same KL: {model}", "bits a weight, embeddings and heads included", "KL to the original, nats a token", series,
                     log_y=True, zero_x=False, lines=True, note=f"{data['machine']}, commit {data['commit']}")


def speed():
    data = result("speed-zen5")
    rows = [(row["test"], [row["bantam"], row["llama.cpp"]], f"{row['bantam'] / row['llama.cpp']:.2f} x; {100 * row['of_limit']:.0f} % of the {row['limit']}")
            for row in data["rows"]]
    return svg.bars("Speed beside llama.cpp, the same files", "tokens a second", ["bantam", "llama.cpp"], rows, note=f"{data['machine']}, commit {data['commit']}")


def growth(part, title, x_title, **how):
    data = result("growth")
    series = [(name, [(x, y, f"{x}: {y:.0f} tokens a second") for x, y in points]) for name, points in data[part].items()]
    return svg.chart(title, x_title, "tokens a second", series, lines=True, note=f"{data['shape']}; {data['machine']}, commit {data['commit']}", **how)


def house():
    """The layers, and the two paths through them."""
    layers = [("program, C, Python", "src/cli, capi, bindings: clients of public headers"), ("session, report", "sessions, samplers, perplexity; HTML, charts"),
              ("compress", "recipes, GPTQ, AWQ, containers to write"), ("prune", "layers, heads, channels, dimensions, single weights"),
              ("calibrate", "text through blocks, second moments"), ("model", "architectures as data, checkpoints, forward pass"),
              ("io, text", "safetensors, GGUF; tokenizers, chat templates"), ("nn", "linear layers, rope, attention, KV cache"),
              ("kernels", "products, attention: by instruction set and format"), ("quant", "formats as types, the layout strip16"),
              ("simd", "vectors of each instruction set"), ("tensor", "tensors and views"), ("core", "errors, memory, threads, processor features")]
    width, step = 860, 34
    top = 60
    out = [svg.text(20, 26, "The house", kind="strong", more=' font-size="16"'), svg.text(20, 44, "a layer includes what stands below it", kind="soft")]
    for i, (name, what) in enumerate(layers):
        y = top + step * i
        out += [svg.rect(20, y, 520, step - 6, "box", more=' rx="4"'), svg.text(32, y + 19, name, kind="strong"), svg.text(180, y + 19, what, kind="soft", more=' font-size="12"')]
    paths = [("run", ["file", "Checkpoint: every tensor its role", "Model: weights in strip16", "Session: KV cache, team of threads", "logits, sampler, text"], 0),
             ("compress", ["file", "Checkpoint", "one block at a time:", "second moments, rounding", "native file, GGUF, folder"], 1)]
    for path, (name, steps, color) in enumerate(paths):
        x, y = 570, top + 190 * path
        out.append(svg.text(x, y + 12, name, kind="strong"))
        for i, one in enumerate(steps):
            at = y + 24 + 32 * i
            out += [svg.rect(x, at, 270, 24, "box", more=' rx="4"'), svg.text(x + 135, at + 16, one, "middle", more=' font-size="12"')]
            if i:
                out.append(svg.line(x + 135, at - 8, x + 135, at, f"l{color}"))
    return svg.picture(width, top + step * len(layers) + 10, "Layers from bottom to top: " + ", ".join(name for name, _ in reversed(layers)) +
                       ". Running: " + ", ".join(paths[0][1]) + ". Compressing: " + ", ".join(paths[1][1]) + ".", out)


PERPLEXITY = "bantam perplexity {} models/paragraph.txt --against models/books4m"
# The tutorial's pictures of terminals: what is typed, and how much of what it prints is shown (None: all; a number of lines, then
# `...`; lines that begin with a word).
TERMINALS = {
    "tutorial-run": ("a first text", [('bantam run models/books4m -p "It was a dark night, and the" -n 40 --seed 7', None)]),
    "tutorial-inspect": ("what it is", [("bantam inspect models/books4m", 7)]),
    "tutorial-compress": ("smaller", [("bantam compress models/books4m -o small.bantam --format int4", 6)]),
    "tutorial-compare": ("how good it is", [(PERPLEXITY.format("small.bantam"), None)]),
    "tutorial-gptq": ("3 bits: rounding, and GPTQ", [
        ("bantam compress models/books4m -o i3.bantam --format i3", "8.4"),
        (PERPLEXITY.format("i3.bantam"), "kl mean"),
        ("bantam compress models/books4m -o gptq.bantam --format i3 --method gptq --calibration models/calibration.txt --report", "8.4"),
        (PERPLEXITY.format("gptq.bantam"), "kl mean")]),
    "tutorial-bench": ("how fast it is", [("bantam bench small.bantam -p 128 -n 64", None)]),
}


def shown(output, part):
    """All of an output, its first lines, or the lines that begin with a word."""
    lines = [re.sub(r"\s+$", "", line) for line in output.rstrip("\n").split("\n")]
    if isinstance(part, str):
        return "\n".join(line for line in lines if line.startswith(part))
    if part is not None and part < len(lines):
        return "\n".join(lines[:part] + (["..."] if part > 1 else []))
    return "\n".join(lines)


def wrapped(content, columns=120):
    out = []
    for line in content.split("\n"):
        while len(line) > columns:
            out.append(line[:columns])
            line = line[columns:]
        out.append(line)
    return "\n".join(out)


def record(program):
    program = str(Path(program).resolve())
    stored = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").symlink_to(ROOT / "models")
        (Path(folder) / "bantam").symlink_to(program)
        for name, (_, commands) in TERMINALS.items():
            for command, _ in commands:
                done = subprocess.run(command.replace("bantam ", "./bantam ", 1), shell=True, cwd=folder, capture_output=True, text=True, check=True)
                stored[command] = done.stdout
        chart = (Path(folder) / "gptq.bantam.report.svg").read_text(encoding="utf-8")
    (RESULTS / "tutorial.json").write_text(json.dumps({"outputs": stored, "report": chart}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def terminals():
    outputs = result("tutorial")["outputs"]
    for name, (title, commands) in TERMINALS.items():
        yield name, svg.terminal(title, [(command, wrapped(shown(outputs[command], part))) for command, part in commands])


def pictures():
    made = {"house": house(), "quality": quality(), "speed": speed(),
            "growth-context": growth("context", "Decoding after more and more tokens", "tokens before"),
            "growth-batch": growth("batch", "Several sequences in one pass", "sequences", log_x=True, x_ticks=[1, 2, 4, 8, 16]),
            "growth-threads": growth("threads", "Threads", "threads", x_ticks=[1, 2])}
    made.update({f"low-bits-{model}": low_bits(model) for model in dict.fromkeys(row["model"] for row in result("low-bits")["rows"])})
    made.update(terminals())
    made["tutorial-report"] = result("tutorial")["report"]
    return {f"{name}.svg": content for name, content in made.items()}


def main():
    if sys.argv[1:2] == ["--record"]:
        return record(sys.argv[2])
    wanted = pictures()
    if sys.argv[1:] == ["--check"]:
        found = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("*.svg")}
        wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        for name in wrong:
            print(f"docs/pictures/{name}: expected what benchmarks/charts.py writes, found " + ("another" if name in found else "none"), file=sys.stderr)
        return 1 if wrong else print(f"{len(wanted)} pictures are what the results say")
    PICTURES.mkdir(exist_ok=True)
    for name, content in wanted.items():
        (PICTURES / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
