#!/usr/bin/python3
"""Many clients of `bantam serve` at once, for a while: is every text right, does memory stay, what do they wait for?

  benchmarks/server_load.py --model stories260k-f32.gguf --connections 500 --seconds 600

Each connection asks again and again for one of some texts, streamed or whole, and compares what it gets with what the server wrote when nobody else
was there. Who is told 429 waits as long as Retry-After says. Some hang up in the middle. Ends with 1 where a text was wrong or memory grew by more
than 2 % from the first tenth of the time to the end.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bantam", default=ROOT / "build/release/bantam", type=Path, help="the program [%(default)s]")
    parser.add_argument("--model", default=ROOT.parent / "shared/data/models/stories260k/stories260k-f32.gguf", type=Path, help="[%(default)s]")
    parser.add_argument("--connections", default=500, type=int, help="[%(default)s]")
    parser.add_argument("--seconds", default=600, type=float, help="[%(default)s]")
    parser.add_argument("--parallel", default=16, type=int, help="places of the server [%(default)s]")
    parser.add_argument("--queue", default=256, type=int, help="and how many may wait [%(default)s]")
    parser.add_argument("--tokens", default=48, type=int, help="of a text [%(default)s]")
    parser.add_argument("--hang-up", default=0.02, type=float, help="share of requests that are left in the middle [%(default)s]")
    return parser.parse_args()


class Connection:
    """HTTP/1.1 by hand: one request after the other, chunked or whole."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def open(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    async def ask(self, body, seen=None, hang_up=False):
        """(status, headers, body of the answer); None: it hung up. The times at which parts of a stream came are added to `seen`."""
        await self.open()
        data = json.dumps(body).encode()
        self.writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))
        await self.writer.drain()
        status = int((await self.reader.readline()).split()[1])
        headers = {}
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") != "chunked":
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        parts = []
        while size := int(await self.reader.readline(), 16):
            parts.append(await self.reader.readexactly(size))
            await self.reader.readline()
            if seen is not None:
                seen.append(time.monotonic())
            if hang_up and len(parts) > 3:
                self.close()
                return None
        await self.reader.readline()
        return status, headers, b"".join(parts)


def text_of(body, streamed):
    if not streamed:
        return json.loads(body)["choices"][0]["text"]
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    return "".join(choice["text"] for event in events for choice in event["choices"])


class Load:
    def __init__(self, options, port, pid):
        self.options, self.port, self.pid = options, port, pid
        words = ["Once upon a time", "The dog ran to", "Lily saw a big", "One day the sun", "Tom and his mother", "In the park", "She said that", "A small bird"]
        self.bodies = [{"prompt": f"{word}{more}", "max_tokens": options.tokens, "temperature": temperature, "seed": 7, "ignore_eos": True}
                       for word in words for more in ("", " and then", ", because") for temperature in (0, 0.9)]
        self.expected, self.wrong = [], []
        self.done = self.refused = self.hung_up = 0
        self.to_first, self.whole = [], []

    def resident(self):
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1]) * 1024

    async def prepare(self):
        connection = Connection(self.port)
        for body in self.bodies:
            status, _, answer = await connection.ask(body)
            assert status == 200, answer
            self.expected.append(text_of(answer, False))
        connection.close()

    async def client(self, number, end):
        chance, connection = random.Random(number), Connection(self.port)
        while time.monotonic() < end:
            which, streamed, hang_up = chance.randrange(len(self.bodies)), chance.random() < 0.7, chance.random() < self.options.hang_up
            begun, seen = time.monotonic(), []
            try:
                answer = await connection.ask({**self.bodies[which], "stream": streamed}, seen, streamed and hang_up)
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                self.wrong.append(f"connection: {error!r}")
                connection.close()
                continue
            if answer is None:
                self.hung_up += 1
                continue
            status, headers, body = answer
            if status == 429:
                self.refused += 1
                await asyncio.sleep(float(headers["retry-after"]) * chance.uniform(1, 1.5))
            elif status != 200:
                self.wrong.append(f"{status}: {body[:200]!r}")
            elif (text := text_of(body, streamed)) != self.expected[which]:
                self.wrong.append(f"{self.bodies[which]}: expected {self.expected[which]!r}, found {text!r}")
            else:
                self.done += 1
                self.whole.append(time.monotonic() - begun)
                self.to_first += [seen[0] - begun] if seen else []
        connection.close()

    async def run(self):
        await self.prepare()
        begun = time.monotonic()
        end = begun + self.options.seconds
        clients = [asyncio.create_task(self.client(number, end)) for number in range(self.options.connections)]
        await asyncio.sleep(self.options.seconds / 5)
        early = self.resident()
        await asyncio.sleep(self.options.seconds * 0.78)
        late = self.resident()
        await asyncio.gather(*clients)
        return time.monotonic() - begun, early, late


def started(command):
    """(process, port) of a server that listens."""
    server = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"listening on http://\S+:(\d+)", line):
            return server, int(found[1])
    sys.exit(f"{command[0]}: ended with {server.wait()} and did not listen")


def at(values, share):
    return 1000 * sorted(values)[int(share * (len(values) - 1))] if values else 0


def main():
    options = command_line()
    server, port = started([options.bantam, "serve", options.model, "--port", "0", "--parallel", options.parallel, "--queue", options.queue, "--max-wait", "0"])
    try:
        load = Load(options, port, server.pid)
        seconds, early, late = asyncio.run(load.run())
    finally:
        server.terminate()
        status = server.wait(60)
    tokens = load.done * options.tokens
    growth = late / early - 1
    print(f"{options.connections} connections, {seconds:.0f} s: {load.done} texts right, {len(load.wrong)} wrong, {load.refused} told 429, {load.hung_up} hung up; {tokens / seconds:.0f} tok/s")
    print(f"to the first token {at(load.to_first, 0.5):.0f} ms (median), {at(load.to_first, 0.99):.0f} ms (99 %); whole {statistics.fmean(load.whole) * 1000 if load.whole else 0:.0f} ms on average, {at(load.whole, 0.99):.0f} ms (99 %)")
    print(f"memory {early / 1e6:.1f} MB, then {late / 1e6:.1f} MB: {100 * growth:+.2f} %; the server ended with {status}")
    for line in load.wrong[:5]:
        print("wrong:", line)
    sys.exit(1 if load.wrong or growth > 0.02 or status != 0 else 0)


if __name__ == "__main__":
    main()
