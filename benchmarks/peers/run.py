#!/usr/bin/python3
"""Speed of bantam and of llama.cpp on the same GGUF files, in alternation, as a table.

  benchmarks/peers/run.py                                    # all shapes and types: hours, and 10 GB of disk
  benchmarks/peers/run.py --shapes llama-3.2-1b --types q4_0 # one of them: minutes
  benchmarks/peers/run.py --model my.gguf                    # a file of your own

Models are written by benchmarks/generate_model.py (random weights: speed does not depend on what they are) and kept in
--folder. llama.cpp is node-llama-cpp's prebuilt library, the one that it chooses for this processor, with as many
threads as bantam (tests/peers/README.md says how to install it). In each round both programs do every test once, one
after the other, so that a machine which slows down slows both; the table has medians of the rounds. A peer's figures
hold what its JavaScript adds to each token, some tenths of a millisecond: do not read them for models that are faster
than that.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "tests" / "peers"


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bantam", default=ROOT / "build/release/bantam", type=Path, help="the program [%(default)s]")
    parser.add_argument("--folder", default=Path(tempfile.gettempdir()) / "bantam-peers", type=Path, help="where models are kept [%(default)s]")
    parser.add_argument("--model", action="append", default=[], type=Path, help="a GGUF file; may be given again")
    parser.add_argument("--shapes", default="llama-3.2-1b,smollm-360m,llama-3.1-8b", help="shapes to generate [%(default)s]")
    parser.add_argument("--types", default="q4_0,q4_K,q8_0,f16", help="their weights [%(default)s]")
    parser.add_argument("--prompts", default="16,64,512", help="lengths of prompts; decode is measured after each [%(default)s]")
    parser.add_argument("--tokens", default=64, type=int, help="tokens to decode [%(default)s]")
    parser.add_argument("--kv", default="f16", choices=["f16", "q8"], help="keys and values of both [%(default)s]")
    parser.add_argument("--rounds", default=5, type=int, help="[%(default)s]")
    parser.add_argument("--threads", default=0, type=int, help="of both; 0: what bantam chooses [%(default)s]")
    parser.add_argument("--isa", help="bantam's instruction set")
    parser.add_argument("--json", action="store_true", help="every sample, as JSON")
    return parser.parse_args()


def output_of(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed: {result.stderr.strip()}")
    return result.stdout


def models(options):
    if options.model:
        return options.model
    options.folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for shape in options.shapes.split(","):
        for kind in options.types.split(","):
            path = options.folder / f"{shape}-{kind}.gguf"
            if not path.exists():
                print(f"writing {path}", file=sys.stderr)
                part = path.with_suffix(".part.gguf")
                output_of(["/usr/bin/python3", ROOT / "benchmarks/generate_model.py", part, "--shape", shape, "--type", kind])
                part.rename(path)
            paths.append(path)
    return paths


def ours(options, path, prompt, tokens):
    """(prefill tok/s, decode tok/s after the prompt, the whole document)"""
    command = [options.bantam, "bench", path, "-p", prompt, "-n", tokens, "--depth", prompt, "-r", 1, "--kv", options.kv, "--json"]
    if options.threads:
        command += ["--threads", options.threads]
    if options.isa:
        command += ["--isa", options.isa]
    seen = json.loads(output_of(command))
    return seen["prompt"]["tok_s"]["median"], seen["generate"]["tok_s"]["median"], seen


def theirs(options, path, prompt, tokens, threads, vocab, seed):
    draw = random.Random(seed)
    ids = ",".join(str(draw.randrange(300, vocab - 300)) for _ in range(prompt))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        # The first of two is not counted: pages are touched and clocks rise, as bantam bench does it.
        output_of(["node", PEERS / "llama_cpp.mjs", path, "--ids", ids, "--ids", ids, "--n", tokens, "--threads", threads,
                   "--kv", {"f16": "f16", "q8": "q8_0"}[options.kv], "--output", out])
        seen = json.loads(out.read_text())
    run = seen["prompts"][-1]
    return 1000 * prompt / run["prefill_ms"], 1000 * (tokens - 1) / run["decode_ms"], seen


def main():
    options = command_line()
    home = Path(os.environ.get("BANTAM_PEERS", PEERS))
    if not (home / "node_modules" / "node-llama-cpp").exists():
        sys.exit("node-llama-cpp is not installed: tests/peers/README.md says how")
    rows = []
    machine = peer = None
    for path in models(options):
        vocab = json.loads(output_of([options.bantam, "inspect", path, "--json"]))["config"]["vocab"]
        for prompt in [int(n) for n in options.prompts.split(",")]:
            samples = {"prefill": [], "decode": []}
            fractions = {"prefill": [], "decode": []}
            for number in range(options.rounds):
                prefill, decode, mine = ours(options, path, prompt, options.tokens)
                machine = mine["machine"]
                their_prefill, their_decode, their = theirs(options, path, prompt, options.tokens, machine["threads"], vocab, number)
                peer = their["version"]
                samples["prefill"].append((prefill, their_prefill))
                samples["decode"].append((decode, their_decode))
                fractions["prefill"].append(mine["fractions"]["prefill_of_int8"])
                fractions["decode"].append(mine["fractions"]["decode_of_bandwidth"])
            for test, pairs in samples.items():
                label = f"prefill {prompt}" if test == "prefill" else f"decode {options.tokens} after {prompt}"
                rows.append({"model": path.stem, "test": label, "kv": options.kv, "samples": pairs,
                             "bantam": statistics.median(a for a, _ in pairs), "peer": statistics.median(b for _, b in pairs),
                             "ratio": statistics.median(a / b for a, b in pairs),
                             "fraction": statistics.median(fractions[test])})
                if not options.json:
                    show(rows[-1], machine, peer, len(rows) == 1)
    if options.json:
        print(json.dumps({"machine": machine, "peer": peer, "rows": rows}))


def show(row, machine, peer, first):
    if first:
        print(f"{machine['cpu']}, {machine['isa']}, {machine['threads']} threads; peer: {peer}. Medians, tok/s.\n")
        print("| model | test | bantam | peer | ratio | of the limit |\n|---|---|---|---|---|---|")
    limit = "int8 rate" if row["test"].startswith("prefill") else "read bandwidth"
    print(f"| {row['model']} | {row['test']} | {row['bantam']:.1f} | {row['peer']:.1f} | {row['ratio']:.2f} "
          f"| {100 * row['fraction']:.0f} % of the {limit} |", flush=True)


if __name__ == "__main__":
    main()
