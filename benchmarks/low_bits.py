#!/usr/bin/python3
"""Mixed precision at 1.6 to 5 bits beside one format for all matrices and llama.cpp's mixes, at equal bytes.

  benchmarks/low_bits.py --peers DIR --results FILE          # DIR: where node-llama-cpp is (tests/peers/README.md)
  benchmarks/low_bits.py --results FILE --record             # writes benchmarks/results/low-bits.json, which charts.py draws

Mixes are made by llama.cpp's own quantizer with an importance matrix of the text that bantam calibrates on. For each of them, and for each
format by GPTQ, `bench_fit` makes a file of as many bits a weight, of all matrices, or fewer. What is measured is the divergence from the model
in f32 over other text, KL in nats a token, and compared by the paired bootstrap of quality.py. Results are kept as they come: a run that
was broken off goes on.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from quality import MODELS, ROOT, SHARED, bootstrap, run

sys.path.insert(0, str(ROOT / "tests/peers"))
import compare_mixes  # noqa: E402
import gguf_file  # noqa: E402

STORIES = {name: MODELS["stories260k"][name] for name in ("calibration", "pieces", "test", "limit")}
SOURCES = {
    "books4m": (SHARED / "models/books4m", MODELS["books4m"]),
    "babyllama105": (SHARED / "models/babyllama105", MODELS["babyllama105"]),
    "stories-moe": (ROOT / "models/stories-moe", STORIES),
}
MIXES = ["IQ2_XXS", "IQ2_M", "IQ3_XXS", "Q3_K_M", "IQ4_XS"]
# One format for all matrices, where rows are whole blocks of it.
UNIFORM = {"native": {"t2.g128": 1, "t2h.g128": 1, "i2z.g32": 1, "i3.g32": 1}, "gguf": {"iq2_s.g16": 256, "iq3_xxs.g32": 256}}


class Quantizer(compare_mixes.Quantizer):
    """llama.cpp's, which makes files."""

    def make(self, source, target, mix, importance):
        parameters = self.library.llama_model_quantize_default_params()
        parameters.file_type, parameters.threads = compare_mixes.FILE_TYPES[mix], 2
        entries = (compare_mixes.Importance * (len(importance) + 1))()
        for entry, (name, values) in zip(entries, importance.items()):
            entry.name, entry.size = name.encode(), len(values)
            entry.data = (ctypes.c_float * len(values))(*values)
        parameters.imatrix = ctypes.cast(entries, ctypes.c_void_p)
        self.log = b""
        if self.library.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters)) != 0:
            sys.exit(f"{mix}: {self.log.decode(errors='replace')[-500:]}")


def importance_of(path):
    """{tensor: mean squares, row after row} of a file of bantam's."""
    tensors = {tensor.name: tensor.to_f32() for tensor in gguf_file.read(path)[1]}
    found = {}
    for name, sums in tensors.items():
        if name.endswith(".in_sum2"):
            counts = tensors[name.removesuffix(".in_sum2") + ".counts"].reshape(-1, 1)
            means = sums.reshape(len(counts), -1) / counts.clip(1)
            found[name.removesuffix(".in_sum2")] = [float(x) for x in means.ravel()]
    return found


class Bench:
    def __init__(self, options, model):
        self.options, self.model = options, model
        self.source, self.texts = SOURCES[model]
        self.folder = Path(tempfile.mkdtemp(prefix="bantam-low-bits-"))
        self.results = json.loads(options.results.read_text()) if options.results.exists() else {}

    def run(self, *command):
        while self.options.pause_while and self.options.pause_while.exists():
            time.sleep(5)
        return run(command)

    def calibration(self):
        path = self.folder / "calibration.txt"
        if not path.exists():
            text, pieces = (SHARED / "corpora" / self.texts["calibration"]).read_text(), self.texts["pieces"]
            path.write_text(text if pieces is None else "\n\n".join(p.strip() for p in text.split("<|endoftext|>")[:pieces]))
        return path

    def key(self, who, name):
        return f"{self.model}: {who}: {name}"

    def measured(self, who, name, make):
        key = self.key(who, name)
        if key in self.results:
            return self.results[key]
        path, more = make()
        found = json.loads(self.run(self.options.bantam, "perplexity", path, SHARED / "corpora" / self.texts["test"], "--context", 256, "--limit", self.texts["limit"],
                                    "--against", self.source, "--json"))
        matrices = [t for t in json.loads(self.run(self.options.bantam, "inspect", path, "--json"))["tensors"] if len(t["shape"]) == 2]
        weights = sum(t["shape"][0] * t["shape"][1] for t in matrices)
        row = {"model": self.model, "who": who, "name": name, "bits": 8 * sum(t["bytes"] for t in matrices) / weights, "bytes": path.stat().st_size, **more,
               **{k: found[k] for k in ["perplexity", "base_perplexity", "kl_mean", "window_tokens", "window_kl"]}}
        path.unlink()
        # Another run may have added some.
        self.results = {**(json.loads(self.options.results.read_text()) if self.options.results.exists() else {}), key: row}
        self.options.results.write_text(json.dumps(self.results))
        print(f"{key}: {row['bits']:.4f} bits, KL {row['kl_mean']:.5f}", file=sys.stderr, flush=True)
        return row

    def uniform(self, target, name):
        def make():
            out = self.folder / ("one.gguf" if target == "gguf" else "one.bantam")
            self.run(self.options.bantam, "compress", self.source, "-o", out, "--format", name, "--keep", f"*={name}", "--method", "gptq", "--calibration", self.calibration(),
                     "--samples", 128, "--tokens", 256)
            return out, {}
        return self.measured(f"one format, {target}", name, make)

    def mix(self, name):
        def make():
            whole, matrix, out = self.folder / "whole.gguf", self.folder / "imatrix.gguf", self.folder / "mix.gguf"
            if not whole.exists():
                self.run(self.options.bantam, "compress", self.source, "-o", whole, "--format", "f16", "--keep", "*=f16")
                self.run(self.options.bantam, "compress", self.source, "--save-imatrix", matrix, "--calibration", self.calibration(), "--samples", 128, "--tokens", 256)
            Quantizer(Path(self.options.peers) / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64").make(whole, out, name, importance_of(matrix))
            return out, {}
        return self.measured("llama.cpp", name, make)

    def fits(self, target, bits):
        """Those that are not known yet, from one measurement."""
        names = [f"{b:.4f}" for b in sorted(set(bits))]
        missing = [name for name in names if self.key(f"fit, {target}", name) not in self.results]
        if missing:
            command = [self.options.fit, self.source, self.calibration(), 128, 256, target, self.folder, *missing]
            with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True) as process:
                for line in process.stdout:
                    made = json.loads(line)
                    more = {k: made[k] for k in ("asked", "expected_kl", "measuring_seconds", "seconds", "formats")}
                    self.measured(f"fit, {target}", f"{made['asked']:.4f}", lambda: (Path(made["path"]), more))
            if process.returncode != 0:
                sys.exit(f"{self.options.fit}: exit status {process.returncode}")
        return {name: self.results[self.key(f"fit, {target}", name)] for name in names}


def compare(options, model):
    """Rows of files, and pairs (better expected, other)."""
    bench = Bench(options, model)
    columns = [json.loads((SOURCES[model][0] / "config.json").read_text())[key] for key in ("hidden_size", "intermediate_size")]
    uniform = {target: [bench.uniform(target, name) for name, block in names.items() if all(c % block == 0 for c in columns)] for target, names in UNIFORM.items()}
    mixes = {}
    for name in MIXES:
        row = bench.mix(name)
        bits = round(row["bits"], 4)
        mixes[bits] = min(mixes.get(bits, row), row, key=lambda other: other["kl_mean"])  # of those that come to as many bits the best
    pairs = []
    for target in ("native", "gguf"):
        others = [*mixes.values(), *uniform[target]]
        name_of = lambda row: f"{int(row['bits'] * 1e4 + 1e-6) / 1e4:.4f}"  # rounded down: no more bytes
        fits = bench.fits(target, [float(name_of(row)) for row in others])
        pairs += [(fits[name_of(row)], row) for row in others]
    return pairs


def record(results, options):
    rows, pairs = {}, []
    for ours, other in results:
        for row in (ours, other):
            rows[row["model"], row["who"], row["name"]] = {k: row[k] for k in ("model", "who", "name", "bits", "bytes", "kl_mean", "asked", "expected_kl", "measuring_seconds") if k in row}
        difference, low, high, holds = bootstrap(ours, other)
        pairs.append({"model": ours["model"], "fit": [ours["who"], ours["name"]], "other": [other["who"], other["name"]], "kl": [ours["kl_mean"], other["kl_mean"]],
                      "bits": [ours["bits"], other["bits"]], "difference": difference, "interval": [low, high], "holds": holds})
    made = {"what": "KL to the unquantized model, nats a token, over text that was not calibrated on; bits of all matrices, embeddings and heads included; of mixes "
                    "that come to as many bits the best", "source": "benchmarks/low_bits.py", "commit": options.commit, "machine": options.machine,
            "peer": "llama.cpp v0.5.0 as node-llama-cpp 3.22.1 ships it", "rows": list(rows.values()), "pairs": pairs}
    (ROOT / "benchmarks/results/low-bits.json").write_text(json.dumps(made, indent=1) + "\n")


def print_table(pairs):
    print("| model | beside | bits | KL | fit to | bits | KL | holds |\n|---|---|---|---|---|---|---|---|")
    for ours, other in sorted(pairs, key=lambda pair: (pair[1]["who"], pair[1]["bits"], pair[0]["who"])):
        *_, holds = bootstrap(ours, other)
        print(f"| {ours['model']} | {other['who']} {other['name']} | {other['bits']:.3f} | {other['kl_mean']:.4f} | {ours['who'].removeprefix('fit, ')} "
              f"| {ours['bits']:.3f} | {ours['kl_mean']:.4f} | {100 * holds:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bantam", type=Path, default=ROOT / "build/release/bantam", help="[%(default)s]")
    parser.add_argument("--fit", type=Path, default=ROOT / "build/release/benchmarks/bench_fit", help="[%(default)s]")
    parser.add_argument("--models", default=",".join(SOURCES), help="[%(default)s]")
    parser.add_argument("--peers", default=os.environ.get("BANTAM_PEERS", ROOT / "tests/peers"), help="where node-llama-cpp is installed [%(default)s]")
    parser.add_argument("--results", type=Path, default=Path("low-bits-windows.json"), help="what was measured; read and written [%(default)s]")
    parser.add_argument("--pause-while", type=Path, help="nothing is started while this file exists")
    parser.add_argument("--record", action="store_true", help="write what charts.py draws")
    parser.add_argument("--commit", default="", help="of the program, for --record")
    parser.add_argument("--machine", default="", help="for --record")
    options = parser.parse_args()
    pairs = [pair for model in options.models.split(",") for pair in compare(options, model)]
    print_table(pairs)
    if options.record:
        record(pairs, options)


if __name__ == "__main__":
    main()
