#!/usr/bin/python3
"""Decoding beside busy neighbors: tokens a second alone, beside loops and a compiler, under a quota, by number of threads.

  neighbors.py build/release/bantam MODEL [--fixed OTHER_BANTAM] [--threads 1,2,64] [--situations alone,loop,...]

Prints a table of medians. Columns of --fixed are another build's, such as one from before teams adapted: the last column is
what the largest sensible number of threads of this build (the number of cores) reaches of the best other one. Runs of all
columns alternate. A quota needs the right to make control groups (root), and is left out with a word otherwise.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = "#include <map>\n#include <regex>\n#include <string>\nint main() { return std::regex_match(std::string(\"a\"), std::regex(\"a*\")); }\n"


@contextlib.contextmanager
def beside(*commands):
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
                 for command in commands]
    try:
        yield []
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def loops(count):
    return beside(*[["sh", "-c", "while :; do :; done"]] * count)


@contextlib.contextmanager
def compiler():
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.cpp"
        source.write_text(SOURCE)
        with beside(["sh", "-c", f"while :; do c++ -std=c++20 -O2 -c {source} -o {folder}/a.o; done"]) as prefix:
            yield prefix


@contextlib.contextmanager
def quota(share=0.5):
    """Yields what starts a program in a control group of its own."""
    group = next((Path(root) for root in ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"] if (Path(root) / "cgroup.procs").exists()), None)
    if group is None:
        raise OSError("there is no control group of processor time")
    group = group / f"bantam-neighbors-{os.getpid()}"
    group.mkdir()
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{int(share * 100000)} 100000")
        else:
            (group / "cpu.cfs_quota_us").write_text(str(int(share * 100000)))
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        group.rmdir()


SITUATIONS = {
    "alone": lambda: loops(0),
    "loop": lambda: loops(1),
    "loops": lambda: loops(2),
    "compiler": compiler,
    "quota": quota,
}
NAMES = {"alone": "alone", "loop": "one busy loop", "loops": "two busy loops", "compiler": "a compiler", "quota": "half a core by quota"}


def rate(prefix, program, model, threads, tokens):
    command = [*prefix, program, "run", model, "-p", "a", "-n", str(tokens), "--ignore-eos", "--temperature", "0",
               "--threads", str(threads), "--json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result["generated_tokens"] / result["generate_ms"] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--fixed", help="a build whose threads do not adapt")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()},64")
    parser.add_argument("--situations", default=",".join(SITUATIONS))
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves no neighbor behind
    counts = [int(count) for count in options.threads.split(",")]
    columns = [(options.program, count) for count in counts]
    if options.fixed:
        columns += [(options.fixed, count) for count in counts if count <= os.cpu_count()]
    names = [f"{count} threads" + (" (fixed)" if program == options.fixed else "") for program, count in columns]
    print("| beside | " + " | ".join(names) + " | of the best other |\n|---|" + "---|" * (len(columns) + 1), flush=True)
    for situation in options.situations.split(","):
        rates = [[] for _ in columns]
        try:
            with SITUATIONS[situation]() as prefix:
                for _ in range(options.rounds):
                    for values, (program, count) in zip(rates, columns):
                        values.append(rate(prefix, program, options.model, count, options.tokens))
        except OSError as error:
            print(f"{NAMES[situation]}: left out, {error}", file=sys.stderr)
            continue
        medians = [statistics.median(values) for values in rates]
        ours = columns.index((options.program, os.cpu_count())) if (options.program, os.cpu_count()) in columns else 0
        best = max(value for i, value in enumerate(medians) if i != ours)
        print(f"| {NAMES[situation]} | " + " | ".join(f"{value:.1f}" for value in medians) + f" | {medians[ours] / best:.2f} |", flush=True)


if __name__ == "__main__":
    main()
