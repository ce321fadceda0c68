#!/usr/bin/python3
"""How good bantam's compression is: recipes over the shared models, and the orderings that ought to hold between them.

  benchmarks/quality.py                                   # everything: about half an hour on two cores
  benchmarks/quality.py --models stories260k              # one model
  benchmarks/quality.py --peers DIR                       # llama.cpp's own quantizer beside (tests/peers/README.md)

Every recipe is calibrated on one text and measured on another, by its divergence from the model in f32: KL in nats a token.
What is measured is kept in --results as it comes, so a run that was broken off goes on. An ordering "a < b" is tested by
the paired bootstrap: windows of text are drawn again with replacement, and the difference of the two mean divergences is
taken over the same windows. The interval holds 95 % of these differences; "holds" is the share of them below zero.
Rules are numbered as in the project's list of orderings; each is asked of the models whose shapes allow it.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
RESAMPLES = 10_000

# Text to calibrate on and text to measure on; pieces of a text that separators part. The plain file is the last hundred stories.
STORIES = dict(calibration="tinystories-700.txt", pieces=600, test="tinystories-plain.txt")
MODELS = {
    "books4m": dict(calibration="books-train.txt", pieces=None, test="books-valid.txt", limit=25_000, gguf="books4m-f16.gguf"),
    "babyllama105": dict(STORIES, limit=25_000, gguf="babyllama105-f32.gguf"),
    "stories260k": dict(STORIES, limit=25_000, gguf="stories260k-f32.gguf"),
}
BLOCKS_OF = {256: ["books4m"], 32: ["books4m", "babyllama105"]}  # models whose rows are whole blocks, as GGUF's types want them
ALL = list(MODELS)

TABLES = ["--keep", "model.embed_tokens=i8.g32", "--keep", "lm_head=i8.g32"]
CALIBRATED = {"gptq", "awq", "awq+gptq", "importance"}


def arguments_of(recipe):
    """'i3.g64 gptq desc_act' as arguments of compress: a format, a method, and what goes with it."""
    name, method, *more = recipe.split()
    arguments = ["--format", name, "--method", "rtn" if method == "importance" else method, *TABLES]
    for word in more:
        option, _, value = word.partition("=")
        arguments += {"desc_act": ["--desc-act"], "rotate": ["--rotate", "--seed", value or "0"], "smooth": ["--smooth", value or "0.5"],
                      "one_run": ["--no-true-sequential"]}[option]
    return arguments, method in CALIBRATED or "smooth" in recipe


def orderings():
    """(rule, better, worse, models) of recipes."""
    for better, worse in zip(["i8.g32", "q6k", "q5k", "q4k", "q3k"], ["q6k", "q5k", "q4k", "q3k", "q2k"]):
        yield 1, f"{better} rtn", f"{worse} rtn", BLOCKS_OF[256]
    yield 1, "q4k rtn", "i4.g32 rtn", BLOCKS_OF[256]
    yield 1, "q5k rtn", "i5.g32 rtn", BLOCKS_OF[256]
    for name in ["q4k", "q3k", "q2k"]:
        yield 2, f"{name} importance", f"{name} rtn", BLOCKS_OF[256]
    yield 2, "i3.g32 importance", "i3.g32 rtn", ALL
    for name in ["i4.g128", "i3.g128"]:  # the coarsest grids; a whole row where rows have 128 weights
        yield 3, f"{name} gptq", f"{name} rtn", ALL
    for method in ["gptq desc_act", "awq", "awq+gptq"]:
        yield 4, f"i3.g128 {method}", "i3.g128 rtn", ALL
        yield 4, f"i4.g128 {method}", "i4.g128 rtn", ALL
    for bits in ["i4", "i3"]:
        for method in ["rtn", "gptq"]:
            yield 5, f"{bits}.g32 {method}", f"{bits}.g64 {method}", ALL
            yield 5, f"{bits}.g64 {method}", f"{bits}.g128 {method}", ALL
    yield 5, "i3.g128 gptq desc_act", "i3.g128 gptq", ALL
    yield 6, "nf4.g64 rtn", "fp4.g64 rtn", ALL
    yield 6, "fp4.g64 rtn", "i4.g64 rtn", ALL
    yield 7, "i8.g32 rtn", "i8.row rtn", ALL
    yield 7, "i8.row rtn smooth", "i8.row rtn", ALL
    for group in ["g32", "g64", "g128"]:
        yield 9, f"i2z.{group} gptq", f"i2z.{group} rtn", ALL
    yield 9, "i2z.g64 gptq", "i2z.g128 gptq", ALL
    yield 9, "t2.g128 gptq", "i2z.g64 gptq", ALL
    yield 9, "t2h.g128 gptq", "t2.g64 gptq", ALL
    yield 9, "t2h.g128 gptq", "q2k gptq", BLOCKS_OF[256]
    yield 10, "i2z.g64 gptq rotate", "i2z.g64 gptq", ALL
    yield 10, "i2z.g32 gptq rotate", "i2z.g32 gptq", ALL
    for name in ["i4.g64", "i3.g64", "i2z.g64"]:  # of no list: what following the original model gains
        yield "-", f"{name} gptq", f"{name} gptq one_run", ALL


# llama.cpp's types beside bantam's recipes of the same layout, or of as many bits or fewer.
PEERS = {"q4_0": "i4.g32 gptq", "iq4_nl": "iq4nl.g32 gptq",
         "q6_K": "q6k gptq", "q5_K": "q5k gptq", "q4_K": "q4k gptq", "q3_K": "q3k gptq", "q2_K": "q2k gptq",
         "iq4_xs": "iq4xs.g32 gptq",
         "iq3_s": "iq3_s.g32 gptq", "iq3_xxs": "iq3_xxs.g32 gptq", "iq2_s": "iq2_s.g16 gptq", "iq2_xs": "iq2_xs.g16 gptq",
         "iq2_xxs": "iq2_xxs.g32 gptq", "iq1_m": "iq1_m.g16 gptq", "iq1_s": "iq1_s.g32 gptq"}


def run(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    return result.stdout


class Bench:
    """Makes and measures files, once each."""

    def __init__(self, options):
        self.options = options
        self.program = hashlib.sha256(options.bantam_file.read_bytes()).hexdigest()[:16]
        self.results = json.loads(options.results.read_text()) if options.results.exists() else {}
        self.folder = Path(tempfile.mkdtemp(prefix="bantam-quality-"))

    def calibration(self, model):
        pieces = MODELS[model]["pieces"]
        text = (self.options.data / "corpora" / MODELS[model]["calibration"]).read_text()
        path = self.folder / f"{model}.txt"
        if not path.exists():
            path.write_text(text if pieces is None else "\n\n".join(p.strip() for p in text.split("<|endoftext|>")[:pieces]))
        return path

    def measured(self, model, name, make):
        """What is known of a recipe; `make` gives the path of its file where nothing is."""
        key = f"{model}: {name}"
        known = self.results.get(key)
        if known and known["program"] == self.program:
            return known
        path = make()
        source = self.options.data / "models" / model
        test = MODELS[model]
        found = json.loads(run([self.options.bantam, "perplexity", path, self.options.data / "corpora" / test["test"], "--context", 256,
                                "--limit", test["limit"], "--against", source, "--json"]))
        matrices = [t for t in json.loads(run([self.options.bantam, "inspect", path, "--json"]))["tensors"]
                    if len(t["shape"]) == 2 and ("layers." in t["name"] or "blk." in t["name"])]
        weights = sum(t["shape"][0] * t["shape"][1] for t in matrices)
        self.results[key] = {"program": self.program, "bits": 8 * sum(t["bytes"] for t in matrices) / weights,
                             **{k: found[k] for k in ["perplexity", "base_perplexity", "kl_mean", "window_tokens", "window_kl"]}}
        self.options.results.write_text(json.dumps(self.results))
        path.unlink()
        print(f"{key}: KL {found['kl_mean']:.5f}, perplexity {found['perplexity']:.3f}", file=sys.stderr, flush=True)
        return self.results[key]

    def recipe(self, model, recipe):
        def make():
            arguments, calibrated = arguments_of(recipe)
            if calibrated:
                arguments += ["--calibration", self.calibration(model), "--samples", 128, "--tokens", 256]
            made = self.folder / ("made.gguf" if "_" in recipe.split()[0] else "made.bantam")  # some types are GGUF's alone
            run([self.options.bantam, "compress", self.options.data / "models" / model, "-o", made, *arguments])
            return made
        return self.measured(model, recipe, make)

    def peer(self, model, kind):
        def make():
            source = self.options.data / "models" / model
            importance = self.folder / f"{model}.json"
            if not importance.exists():
                run([self.options.importance, source, self.calibration(model), 128, 256, importance])
            run([sys.executable, ROOT / "tests/peers/quantize_gguf.py", source / MODELS[model]["gguf"], self.folder / "made.gguf", "--type", kind,
                 "--importance", importance, "--tables", "q8_0", "--peers", self.options.peers])
            return self.folder / "made.gguf"
        return self.measured(model, f"llama.cpp {kind}", make)


def bootstrap(better, worse):
    """(difference of mean divergences, its 95 % interval, share of resamples in which `better` is less)."""
    tokens = np.array(better["window_tokens"], float)
    differences = (np.array(better["window_kl"]) - np.array(worse["window_kl"])) * tokens
    picks = np.random.default_rng(1).integers(len(tokens), size=(RESAMPLES, len(tokens)))
    means = differences[picks].sum(axis=1) / tokens[picks].sum(axis=1)
    return differences.sum() / tokens.sum(), *np.percentile(means, [2.5, 97.5]), (means < 0).mean()


def print_orderings(model, pairs):
    print(f"\n### {model}: orderings\n\n| rule | ordering | KL | difference | 95 % interval | holds |\n|---|---|---|---|---|---|")
    for rule, (a, better), (b, worse) in pairs:
        difference, low, high, share = bootstrap(better, worse)
        print(f"| {rule} | {a} < {b} | {better['kl_mean']:.5f} < {worse['kl_mean']:.5f} | {difference:+.5f} | {low:+.5f} .. {high:+.5f} "
              f"| {100 * share:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bantam", type=Path, default=ROOT / "build/release/bantam", help="the program [%(default)s]")
    parser.add_argument("--bantam-file", type=Path, help="its file, where --bantam is a script that starts it")
    parser.add_argument("--importance", type=Path, default=ROOT / "build/release/benchmarks/bench_importance", help="[%(default)s]")
    parser.add_argument("--data", type=Path, default=SHARED, help="models and texts [%(default)s]")
    parser.add_argument("--results", type=Path, default=Path("quality.json"), help="what was measured; read and written [%(default)s]")
    parser.add_argument("--models", default=",".join(MODELS), help="[%(default)s]")
    parser.add_argument("--peers", default=os.environ.get("BANTAM_PEERS"), help="where node-llama-cpp is installed; without it llama.cpp is left out")
    parser.add_argument("--recipe", action="append", default=[], help="only this recipe, such as 'i3.g64 gptq'; may be given again")
    options = parser.parse_args()
    options.bantam_file = options.bantam_file or options.bantam
    bench = Bench(options)
    for model in options.models.split(","):
        rules = [o for o in orderings() if model in o[3]] if not options.recipe else []
        names = list(dict.fromkeys(options.recipe + [name for o in rules for name in o[1:3]]))
        rows = {name: bench.recipe(model, name) for name in names}
        pairs = [(rule, (a, rows[a]), (b, rows[b])) for rule, a, b, _ in rules]
        if options.peers and not options.recipe:
            for kind, ours in PEERS.items():
                if model not in BLOCKS_OF[32 if kind in ("q4_0", "iq4_nl") else 256]:
                    continue
                rows[ours], rows[f"llama.cpp {kind}"] = bench.recipe(model, ours), bench.peer(model, kind)
                pairs.append(("peer", (ours, rows[ours]), (f"llama.cpp {kind}", rows[f"llama.cpp {kind}"])))
        base = next(iter(rows.values()))["base_perplexity"]
        print(f"\n### {model}: perplexity {base:.3f} in f32\n\n| recipe | bits a weight | perplexity | KL |\n|---|---|---|---|")
        for name, row in sorted(rows.items(), key=lambda item: (-item[1]["bits"], item[1]["kl_mean"])):
            print(f"| {name} | {row['bits']:.3f} | {row['perplexity']:.3f} | {row['kl_mean']:.5f} |")
        if pairs:
            print_orderings(model, pairs)


if __name__ == "__main__":
    main()
