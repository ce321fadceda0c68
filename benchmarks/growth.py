#!/usr/bin/env python3
"""Measures how speed changes with what was read before, with sequences in one pass and with threads; stores it for charts.py.

usage: growth.py PROGRAM MODEL --shape WORDS --commit HASH [--contexts 0,256,...] [--only context,batch,threads]

Nothing else may run meanwhile. Each point is the median of three repetitions of `bantam bench`; parts that --only leaves out stay
as they are stored.
"""

import argparse
import json
import subprocess
from pathlib import Path

RESULT = Path(__file__).resolve().parent / "results" / "growth.json"


def bench(arguments, **options):
    command = [arguments.program, "bench", arguments.model, "--json", "-r", "3"]
    for name, value in options.items():
        command += [("-" if len(name) == 1 else "--") + name, str(value)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def rate(seen, part):
    return round(seen[part]["tok_s"]["median"], 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--shape", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--contexts", default="0,256,512,1024,1536,2000")
    parser.add_argument("--batches", default="1,2,4,8,16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", default="context,batch,threads")
    arguments = parser.parse_args()
    numbers = lambda text: [int(part) for part in text.split(",")]
    wanted = arguments.only.split(",")
    data = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    if "context" in wanted:
        data["context"] = {"decode, cache f16": [], "decode, cache q8": []}
        for depth in numbers(arguments.contexts):
            for name, kv in [("decode, cache f16", "f16"), ("decode, cache q8", "q8")]:
                data["context"][name].append([depth, rate(bench(arguments, p=0, n=32, depth=depth, kv=kv), "generate")])
    if "batch" in wanted:
        data["batch"] = {"decode": [[batch, rate(bench(arguments, p=0, n=16, batch=batch), "generate")] for batch in numbers(arguments.batches)]}
    if "threads" in wanted:
        data["threads"] = {"decode": [], "prefill": []}
        for threads in numbers(arguments.threads):
            seen = bench(arguments, p=256, n=32, threads=threads)
            data["machine"] = f"{seen['machine']['cpu']}, {seen['machine']['isa']}"
            data["threads"]["decode"].append([threads, rate(seen, "generate")])
            data["threads"]["prefill"].append([threads, rate(seen, "prompt")])
    data.update({"source": "benchmarks/growth.py", "shape": arguments.shape, "commit": arguments.commit})
    RESULT.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
