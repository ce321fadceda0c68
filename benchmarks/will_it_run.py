#!/usr/bin/env python3
"""docs/will-it-run.md: sizes and expected speeds of published models, computed by `bantam plan` from their config.json.

usage: will_it_run.py BANTAM [--check]

Configs are benchmarks/configs/NAME.json: the members of the published ones that say shapes. --check compares the page with what would be
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

- **Bytes**: the native file, which is what lies in memory. Embeddings and heads have 8 bits.
- **A token reads**: weights that work for it. Mixtures of experts are fast for their size because that is little.
- **Text of {context} tokens**: keys and values in f16; half of it with `--kv q8`. Recurrent states included.
- **Needs**: the smallest common size of memory that holds all of it and {system} GB for everything else.

Models larger than memory do not run yet. Parts for images and sound are not counted; layers that draft are, where the config names them.
"""


def plan(program, config, *options):
    command = [program, "plan", config, "--context", CONTEXT, "--memory", "1000000GB", "--int8-gop-s", INT8, "--json", *options]
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
        seen = [plan(program, config, "--format", format, "--read-gb-s", b) for b in BANDWIDTHS]
        one = seen[0]
        need = next((f"{size} GB" for size in SIZES if one["resident_bytes"] + SYSTEM <= size * 1e9), f"more than {SIZES[-1]} GB")
        state = one["state_bytes"] + one["kv_bytes_per_token"] * CONTEXT
        rows.append((one["bytes"], "| " + " | ".join([config.stem, f"{giga(one['parameters'], 2)} billion", f"{giga(one['active_parameters'], 2)} billion", f"{giga(one['bytes'])} GB",
                                                    f"{giga(one['bytes_per_token'], 2)} GB", f"{giga(state, 2)} GB", need, *(rate(s["generate_tok_s"]) for s in seen), rate(one["prompt_tok_s"])]) + " |"))
    return lines + [row for _, row in sorted(rows)]


def main():
    program, check = sys.argv[1], "--check" in sys.argv[2:]
    configs = sorted((ROOT / "benchmarks" / "configs").glob("*.json"))
    shares = plan(program, configs[0])["shares"]
    percent = {name: f"{100 * share:.0f}" for name, share in shares.items()}
    lines = [INTRODUCTION.format(int8=INT8, context=CONTEXT, system=f"{SYSTEM / 1e9:.0f}", **percent).rstrip("\n")]
    for bits, format in FORMATS:
        lines += table(program, configs, bits, format)
    text = "\n".join(lines) + "\n"
    if not check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit(f"{PAGE}: expected what benchmarks/will_it_run.py writes, found another text")


if __name__ == "__main__":
    main()
