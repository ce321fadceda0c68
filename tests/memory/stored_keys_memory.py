"""A text whose keys and values are several times what memory has for them: the tokens of one that is all in memory, within the bound.

usage: stored_keys_memory.py BANTAM GENERATOR
Runs a prompt of some thousand tokens through a generated model within a bound that has room for the weights and a small part of the keys and values, told by
--memory and found in a control group, goes on from a saved session, and compares tokens and the largest resident set with the bound.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from peak_memory import peak_of
from streamed_memory import ALLOWED, PARAGRAPH, new_group

# 48 kB of keys and values a token, in layers that see all of the text.
SHAPE = ["--dim", 256, "--layers", 24, "--ffn", 512, "--heads", 8, "--kv-heads", 8, "--head-dim", 64, "--vocab", 4096, "--context", 8192, "--type", "f16"]
TOKENS, CONTEXT = 2400, 3072


def main():
    bantam, generator = sys.argv[1:3]
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "model.gguf"
        subprocess.run(["/usr/bin/python3", generator, *map(str, SHAPE), model], check=True, stdout=subprocess.DEVNULL)
        weights = json.loads(subprocess.run([bantam, "inspect", model, "--json"], capture_output=True, text=True, check=True).stdout)["bytes"]
        text = PARAGRAPH.read_text()
        ids = json.loads(subprocess.run([bantam, "tokenize", model, "-f", PARAGRAPH], capture_output=True, text=True, check=True).stdout)
        prompt = folder / "prompt.txt"
        prompt.write_text(text * (TOKENS // len(ids)))
        run = [bantam, "run", model, "-f", prompt, "-n", 24, "--temperature", 0, "--ignore-eos", "--json", "--stats", "--context", CONTEXT]

        # What the program, buffers and the least of such a text take, as it says itself.
        low = subprocess.run([*map(str, run), "--memory", "1MB"], capture_output=True, text=True)
        least = int(re.fullmatch(r"bantam: --memory: expected more than (\d+) bytes, .*\n", low.stderr)[1])
        bound = int(1.02 * (least + weights))

        out, whole_peak = peak_of(run)
        whole = json.loads(out)
        keys = whole["stats"]["keys"]["memory_bytes"]

        def check(what, out, peak=None, bound=bound, share=2, streams=False):
            found = json.loads(out)
            stats = found["stats"]["keys"]
            wrong = []
            if found["tokens"] != whole["tokens"]:
                wrong.append("other tokens")
            if peak is not None and peak > ALLOWED * bound:
                wrong.append("TOO MUCH")
            if (found["stats"]["streamed_bytes"] > 0) != streams:
                wrong.append("weights are read" if not streams else "no weights are read")
            if stats["file_bytes"] < share * stats["memory_bytes"] or stats["memory_bytes"] + stats["file_bytes"] < keys or stats["read_bytes"] < 24 * stats["file_bytes"]:
                wrong.append(f"statistics {stats}")
            line = f"{what}: {keys / 1e6:.0f} MB of keys and values, {stats['memory_bytes'] / 1e6:.0f} MB in memory"
            if peak is not None:
                line += f", bound {bound / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB (without {whole_peak / 1e6:.0f} MB)"
            print(f"{line}, read {stats['read_bytes'] / 1e6:.0f} MB at {stats['read_gb_s']:.2f} GB/s, waited {stats['waited_ms']:.0f} ms: {', '.join(wrong) or 'ok'}")
            failures.extend(wrong)

        check("told", *peak_of([*run, "--memory", bound]))
        tight = least + weights // 2
        check("with half of the weights", *peak_of([*run, "--memory", tight]), bound=tight, streams=True)

        # Half of it, saved, and gone on with: neither saving nor restoring takes more.
        session = folder / "session"
        first, peak = peak_of([*run[:6], 12, *run[7:], "--memory", bound, "--save-session", session])
        second, again = peak_of([bantam, "run", model, "-n", 12, "--temperature", 0, "--ignore-eos", "--json", "--stats", "--context", CONTEXT, "--memory", bound, "--load-session", session])
        good = json.loads(first)["tokens"] + json.loads(second)["tokens"] == whole["tokens"] and max(peak, again) <= ALLOWED * bound
        print(f"saved and restored: peaks {peak / 1e6:.0f} MB and {again / 1e6:.0f} MB: {'ok' if good else 'WRONG'}")
        if not good:
            failures.append("saved and restored")

        group = new_group(bound + (24 << 20))  # less a sixteenth, which stays free
        if group is None:
            print("no control group can be made here, so none is tested")
        else:
            try:
                enter = f"echo $$ > {group}/cgroup.procs && exec \"$@\""
                grouped = subprocess.run(["sh", "-c", enter, "sh", *map(str, run)], capture_output=True, text=True)
                if grouped.returncode != 0 or "keys and values beyond" not in grouped.stderr:
                    failures.append(f"in a control group: {grouped.returncode}, {grouped.stderr}")
                    print(failures[-1])
                else:
                    check("in a control group", grouped.stdout, share=1)
            finally:
                group.rmdir()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
