#!/usr/bin/python3
"""Speed of bantam and of llama.cpp on GGUF files that are larger than the memory that they may use, in alternation, as a table.

  sudo benchmarks/peers/bounded.py 8b.gguf 30b-a3b.gguf --share 0.34

Each program runs in a control group of its own, which holds that share of the file, page cache included. bantam finds the bound by
itself; llama.cpp maps the file, as its own programs do (node-llama-cpp's prebuilt library, tests/peers/README.md). Types that it rearranges
in memory, such as q4_0 and q4_K on x86, do not get anywhere within a bound: take q8_0. "cold": after the system dropped its page cache; "warm": right behind, with what the group was left. Wants to be root, and no swap.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from run import PEERS, ROOT

sys.path.insert(0, str(ROOT / "tests" / "memory"))
from control_group import new_group, within  # noqa: E402

PROMPT = "The captain said that the sea was calm"


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--bantam", default=ROOT / "build/release/bantam", type=Path, help="the program [%(default)s]")
    parser.add_argument("--share", default=1 / 3, type=float, help="of the file that the group holds [a third]")
    parser.add_argument("--tokens", default=16, type=int, help="to decode [%(default)s]")
    parser.add_argument("--threads", default=2, type=int, help="of both [%(default)s]")
    parser.add_argument("--rounds", default=3, type=int, help="[%(default)s]")
    return parser.parse_args()


def inside(group, command):
    """What the command prints within the control group."""
    result = subprocess.run(within(group, command), capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed: {result.stderr.strip()[-400:]}")
    return json.loads(result.stdout)


def ours(options, group, model):
    seen = inside(group, [options.bantam, "run", model, "-p", PROMPT, "-n", options.tokens, "--threads", options.threads, "--temperature", 0,
                          "--ignore-eos", "--context", 512, "--stats", "--json"])
    return seen["prompt_ms"], seen["generate_ms"], seen["tokens"], seen["stats"]


def theirs(options, group, model):
    seen = inside(group, ["node", PEERS / "llama_cpp.mjs", model, "--prompt", PROMPT, "--n", options.tokens, "--threads", options.threads,
                          "--context", 512, "--mmap"])["prompts"][0]
    # Its first token is the prompt's.
    return seen["prefill_ms"], seen["decode_ms"] * options.tokens / (options.tokens - 1), seen["generated"], None


def main():
    options = command_line()
    print(f"{'file':24} {'':6} {'program':10} {'prompt s':>9} {'text tok/s':>11}")
    for model in options.models:
        bound = int(model.stat().st_size * options.share)
        seen = {}
        for round_ in range(options.rounds):
            for program in (ours, theirs) if round_ % 2 == 0 else (theirs, ours):
                group = new_group(bound)
                if group is None:
                    sys.exit("no control group can be made here: run as root")
                try:
                    os.sync()
                    Path("/proc/sys/vm/drop_caches").write_text("3")
                    for state in ("cold", "warm"):
                        prompt_ms, text_ms, tokens, stats = program(options, group, model)
                        seen.setdefault((state, program.__name__), []).append((prompt_ms / 1e3, options.tokens / text_ms * 1e3))
                        print(f"  {program.__name__} {state}: prompt {prompt_ms / 1e3:.2f} s, {options.tokens / text_ms * 1e3:.3f} tok/s {tokens[:6]} {stats or ''}",
                              file=sys.stderr, flush=True)
                finally:
                    group.rmdir()
        for state in ("cold", "warm"):
            medians = {}
            for program, name in (("ours", "bantam"), ("theirs", "llama.cpp")):
                samples = seen[state, program]
                medians[program] = [statistics.median(column) for column in zip(*samples)]
                print(f"{model.stem:24} {state:6} {name:10} {medians[program][0]:9.2f} {medians[program][1]:11.3f}")
            ratios = [a[1] / b[1] for a, b in zip(seen[state, "ours"], seen[state, "theirs"])]
            print(f"{model.stem:24} {state:6} text: {statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f}), bound {bound / 2**30:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
