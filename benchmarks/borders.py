#!/usr/bin/python3
"""What the C interface and Python cost beside C++, streaming a tiny model with one thread.

  PYTHONPATH=build/release/python benchmarks/borders.py ../shared/data/models/stories260k

Rounds alternate; each figure is the median of rounds that are the best of five runs.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import bantam

PROGRAM = Path(__file__).resolve().parent.parent / "build/release/benchmarks/bench_borders"
TOKENS = 256


def by_python(model):
    best = 0
    for _ in range(5):
        session = bantam.Session(model, threads=1)
        begin = time.perf_counter()
        for _ in session.stream("Once", max_tokens=TOKENS, temperature=0, ignore_end=True):
            pass
        best = max(best, TOKENS / (time.perf_counter() - begin))
    return best


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    model = bantam.load(sys.argv[1])
    rows = []
    for _ in range(9):
        row = [float(subprocess.run([PROGRAM, way, sys.argv[1]], check=True, capture_output=True).stdout) for way in ("cpp", "c")]
        rows.append([*row, by_python(model)])
    cpp, c, python = (statistics.median(column) for column in zip(*rows))
    cost_c, cost_python = (statistics.median(row[0] / row[i] - 1 for row in rows) for i in (1, 2))
    print(f"C++ {cpp:.0f}, C {c:.0f} ({100 * cost_c:+.1f} %), Python {python:.0f} tokens a second ({100 * cost_python:+.1f} %)")


if __name__ == "__main__":
    main()
