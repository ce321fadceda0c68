#!/usr/bin/env python3
"""docs/will-it-run.md, and the table of docs/larger-than-memory.md: sizes and expected speeds of published models, computed by `bantam plan`
from their config.json.

usage: will_it_run.py BANTAM [--check]

Configs are benchmarks/configs/NAME.json: the members of the published ones that say shapes. --check compares the pages with what would be
written, and exits with 1 where they differ.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "will-it-run.md"
FORMATS = (("4 bits", "i4.g32"), ("3 bits", "i3.g64"))
BANDWIDTHS = (10, 40, 70, 200)  # GB/s
INT8 = 1000  # Gop/s
CONTEXT = 8192
SIZES = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # GB of memory
SYSTEM = 2e9  # bytes that the rest of the machine takes

INTRODUCTION = """# Will it run on my machine

`bantam plan MODEL` says it for the machine that it runs on, from a model's header or from its config.json alone, which is a small download:

```sh
bantam plan config.json --format i4.g32
bantam plan Qwen3-30B-A3B --memory 16GiB --context 32768 --kv q8
```

These tables are its answers for models that many people run. Sizes are exact: they follow from the published shapes. Speeds are expected, not
measured: {decode} % of the memory's bandwidth for text, and {prompt} % ({experts} % with experts) of an int8 rate of {int8} Gop/s for prompts, which are
the shares that models of real shapes reached ([numbers.md](numbers.md)). With another rate they scale. Measure yours with `bantam bench`, or let
`bantam plan` do it. Orders of size: a Raspberry Pi 5 reads about 10 GB/s, two channels of DDR4-3200 about 40, two of DDR5-5600 about 70, eight
of DDR4 or DDR5 in a server 150 to 300.

- **Bytes**: the native file, which is what lies in memory, but for Gemma 4 E4B's table of per-layer embeddings, which stays in the file. Embeddings and
  heads have 8 bits.
- **A token reads**: weights that work for it. Mixtures of experts are fast for their size because that is little.
- **Text of {context} tokens**: keys and values in f16; half of it with `--kv q8`, 28 % with `q4`, 22 % with `q3`. Recurrent states included.
- **Needs**: the smallest common size of memory that holds all of it and {system} GB for everything else.

Models larger than memory run from their files: [how fast](larger-than-memory.md#what-small-machines-run). Parts for images and sound are not counted; layers that draft are, where the config names them.
"""


LARGER = ROOT / "docs" / "larger-than-memory.md"
BEGIN, END = "<!-- written by benchmarks/will_it_run.py -->\n", "<!-- the end of what it writes -->\n"
# Name, GB of memory, GB/s that all threads read, 10^9 int8 operations a second, GB/s of the drive.
MACHINES = (("Raspberry Pi 5, 16 GB, SSD", 16, 10, 120, 0.8), ("16 GB, DDR4, PCIe 3", 16, 40, 600, 3), ("32 GB, DDR5, PCIe 4", 32, 70, 1000, 6.5), ("64 GB, DDR5, PCIe 4", 64, 70, 1000, 6.5))
WANTED = ("gpt-oss-20b", "Qwen3.6-35B-A3B", "Qwen3-30B-A3B", "Gemma-4-26B-A4B", "Nemotron-3-Nano-30B-A3B", "Qwen3.6-27B", "Gemma-4-31B", "gpt-oss-120b", "GLM-4.5-Air", "DeepSeek-V3")
LARGER_FORMAT = "i4.g32"


def plan(program, config, **options):
    command = [program, "plan", config, "--json"]
    for name, value in ({"context": CONTEXT, "memory": "1000000GB", "int8_gop_s": INT8} | options).items():
        command += ["--" + name.replace("_", "-"), value]
    return json.loads(subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout)


def giga(number, digits=1):
    return f"{number / 1e9:.{digits}f}"


def rate(number):
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def table(program, configs, bits, format):
    lines = [f"\n## {bits} (`{format}`)\n",
             "| model | parameters | work for a token | bytes | a token reads | text of " + str(CONTEXT) + " tokens | needs | "
             + " | ".join(f"text at {b} GB/s" for b in BANDWIDTHS) + " | prompt |",
             "|---|" + "---|" * (7 + len(BANDWIDTHS) - 1) + "---|"]
    rows = []
    for config in configs:
        seen = [plan(program, config, format=format, read_gb_s=b) for b in BANDWIDTHS]
        one = seen[0]
        need = next((f"{size} GB" for size in SIZES if one["resident_bytes"] + SYSTEM <= size * 1e9), f"more than {SIZES[-1]} GB")
        state = one["state_bytes"] + one["kv_bytes_per_token"] * CONTEXT
        rows.append((one["bytes"], "| " + " | ".join([config.stem, f"{giga(one['parameters'], 2)} billion", f"{giga(one['active_parameters'], 2)} billion", f"{giga(one['bytes'])} GB",
                                                    f"{giga(one['bytes_per_token'], 2)} GB", f"{giga(state, 2)} GB", need, *(rate(s["generate_tok_s"]) for s in seen), rate(one["prompt_tok_s"])]) + " |"))
    return lines + [row for _, row in sorted(rows)]


def larger_table(program):
    """A row a model, a column a machine: tokens of text and of a prompt a second."""
    lines = [BEGIN, "| model | bytes | " + " | ".join(name for name, *_ in MACHINES) + " |\n", "|---|" + "---|" * (1 + len(MACHINES)) + "\n"]
    for name in WANTED:
        cells = []
        for _, memory, read, int8, disk in MACHINES:
            seen = plan(program, ROOT / "benchmarks" / "configs" / f"{name}.json", format=LARGER_FORMAT, memory=memory * 10**9 - int(SYSTEM), read_gb_s=read, int8_gop_s=int8,
                        disk_gb_s=disk)
            if not seen["fits"]:
                cells.append("no")
                continue
            streamed = f"; reads {giga(seen['streamed_bytes_per_token'], 2)} GB" if seen["streamed_bytes_per_token"] else ""
            cells.append(f"**{rate(seen['generate_tok_s'])}**, {rate(seen['prompt_tok_s'])}{streamed}")
        lines.append(f"| {name} | {giga(seen['bytes'])} GB | " + " | ".join(cells) + " |\n")
    return "".join([*lines, END])


def main():
    program, check = sys.argv[1], "--check" in sys.argv[2:]
    configs = sorted((ROOT / "benchmarks" / "configs").glob("*.json"))
    shares = plan(program, configs[0])["shares"]
    percent = {name: f"{100 * share:.0f}" for name, share in shares.items()}
    lines = [INTRODUCTION.format(int8=INT8, context=CONTEXT, system=f"{SYSTEM / 1e9:.0f}", **percent).rstrip("\n")]
    for bits, format in FORMATS:
        lines += table(program, configs, bits, format)
    text = "\n".join(lines) + "\n"
    larger = LARGER.read_text()
    before, rest = larger.split(BEGIN)
    pages = {PAGE: text, LARGER: before + larger_table(program) + rest.split(END)[1]}
    for page, wanted in pages.items():
        if not check:
            page.write_text(wanted)
        elif page.read_text() != wanted:
            sys.exit(f"{page}: expected what benchmarks/will_it_run.py writes, found another text")


if __name__ == "__main__":
    main()
