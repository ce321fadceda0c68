#!/usr/bin/python3
"""Many texts at once: `bantam serve` with as many streams beside llama.cpp with as many sequences in its batch.

  benchmarks/peers/streams.py --model 1b.gguf --streams 16

Each stream has a prompt of its own of random tokens and is continued greedily. bantam's are streamed over HTTP; llama.cpp's library
(that of node-llama-cpp, tests/peers/README.md) gets all sequences in one batch a step, from its C functions, and speaks to nobody: both in the
peer's favor. Rounds alternate; medians. Tokens a second count what was generated, over the time from the first request to the last token, prompts included.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from server_load import Connection, started  # noqa: E402
from llama_c import Peer  # noqa: E402


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path, help="a GGUF file")
    parser.add_argument("--bantam", default=ROOT / "build/release/bantam", type=Path, help="the program [%(default)s]")
    parser.add_argument("--streams", default=16, type=int, help="[%(default)s]")
    parser.add_argument("--prompt", default=64, type=int, help="tokens of a prompt [%(default)s]")
    parser.add_argument("--tokens", default=64, type=int, help="tokens to generate for each [%(default)s]")
    parser.add_argument("--rounds", default=3, type=int, help="[%(default)s]")
    parser.add_argument("--threads", default=2, type=int, help="of both [%(default)s]")
    return parser.parse_args()


async def ours(port, prompts, tokens):
    """(seconds of everything, medians of the time between two tokens of a stream)"""
    async def stream(ids):
        connection, seen = Connection(port), []
        status, _, answer = await connection.ask({"prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}, seen)
        assert status == 200, answer
        connection.close()
        # Bytes of an unfinished character wait for the rest: a text of random weights has fewer events than tokens.
        return (seen[-1] - seen[0]) / max(1, tokens - 1)

    begun = time.perf_counter()
    between = await asyncio.gather(*(stream(ids) for ids in prompts))
    return time.perf_counter() - begun, statistics.median(between)


def theirs(peer, prompts, tokens):
    """The same of llama.cpp: prompts in batches of 512 tokens, then a token of each sequence a step. Tokens are not chosen, in the peer's favor."""
    peer.clear()
    begun = time.perf_counter()
    queue = [(token, position, stream, position + 1 == len(ids)) for stream, ids in enumerate(prompts) for position, token in enumerate(ids)]
    for first in range(0, len(queue), 512):
        peer.decode(queue[first:first + 512])
    read = time.perf_counter()
    for step in range(tokens - 1):
        peer.decode([(300 + (7 * step + stream) % 1000, len(ids) + step, stream, True) for stream, ids in enumerate(prompts)])
    end = time.perf_counter()
    return end - begun, (end - read) / max(1, tokens - 1)


def main():
    options = command_line()
    server, port = started([options.bantam, "serve", options.model, "--port", "0", "--parallel", options.streams, "--threads", options.threads])
    peer = Peer(options.model, options.threads, options.streams, options.prompt + options.tokens)
    rounds = []
    try:
        for number in range(options.rounds):
            chance = random.Random(number)
            prompts = [[chance.randrange(300, 1500) for _ in range(options.prompt)] for _ in range(options.streams)]
            rounds.append((asyncio.run(ours(port, prompts, options.tokens)), theirs(peer, prompts, options.tokens)))
    finally:
        server.terminate()
        server.wait(60)
    made = options.streams * options.tokens
    for name, side in (("bantam serve", 0), ("llama.cpp", 1)):
        whole = statistics.median(round[side][0] for round in rounds)
        print(f"{name:13} {made / whole:7.1f} tok/s, {1e3 * statistics.median(round[side][1] for round in rounds):7.2f} ms between tokens of a stream")
    print(f"ratio of tok/s {statistics.median(round[1][0] / round[0][0] for round in rounds):.2f}")


if __name__ == "__main__":
    main()
