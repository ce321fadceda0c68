#!/usr/bin/python3
"""What a step costs beside its arithmetic: greedy decoding of a tiny model with one thread, bantam and llama.cpp.

  benchmarks/peers/overhead.py ../shared/data/models/stories260k/stories260k-f32.gguf

llama.cpp is called through its C functions (llama_c.py; run.py goes through JavaScript, which would be most of such a
step). Rounds alternate; medians in tokens a second.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from llama_c import Peer

ROOT = Path(__file__).resolve().parent.parent.parent


def speed(peer, tokens):
    """Tokens a second: a step and a look at its logits; choosing the token is left out, in the peer's favor."""
    peer.clear()
    begin = time.perf_counter()
    for step in range(tokens):
        peer.decode([(300 + step % 100, step, 0, True)])
    return tokens / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file of a small model")
    parser.add_argument("--bantam", default=ROOT / "build/release/bantam", type=Path, help="the program [%(default)s]")
    parser.add_argument("--tokens", default=256, type=int, help="[%(default)s]")
    parser.add_argument("--rounds", default=9, type=int, help="[%(default)s]")
    options = parser.parse_args()
    peer = Peer(options.model, threads=1)
    pairs = []
    for _ in range(options.rounds):
        seen = json.loads(subprocess.run([options.bantam, "bench", options.model, "-p", "0", "-n", str(options.tokens), "-r", "1",
                                          "--threads", "1", "--json"], capture_output=True, text=True, check=True).stdout)
        pairs.append((seen["generate"]["tok_s"]["median"], max(speed(peer, options.tokens) for _ in range(2))))
    ours, theirs = (statistics.median(side) for side in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{options.model.name}: bantam {ours:.0f}, llama.cpp {theirs:.0f} tokens a second, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
