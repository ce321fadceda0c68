"""Peak memory of loading and running is at most the weights plus 5 % plus the key-value cache.

usage: peak_memory.py BANTAM GENERATOR
Generates a model of about 300 MB, runs it from GGUF (converted at load), from a native file mapped and from one read
into memory, and compares the largest resident set with what `inspect --json` says of the weights.
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile

# What a program of this size needs besides the model: code, the vocabulary, activations of one chunk.
PROGRAM_BYTES = 48 << 20
SHAPE = ["--dim", "1024", "--layers", "12", "--ffn", "2816", "--heads", "16", "--kv-heads", "8", "--head-dim", "64",
         "--vocab", "8192", "--context", "512"]


def peak_of(command):
    """(stdout, largest resident set in bytes) of a command."""
    code = ("import resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE); "
            "sys.stdout.buffer.write(r.stdout); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(r.returncode)")
    result = subprocess.run([sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command}: {result.stderr}")
    return result.stdout, int(result.stderr.strip().splitlines()[-1]) * 1024


def main():
    bantam, generator = sys.argv[1:3]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        gguf = pathlib.Path(folder) / "model.gguf"
        native = pathlib.Path(folder) / "model.bantam"
        subprocess.run(["/usr/bin/python3", generator, *SHAPE, "--type", "f16", gguf], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([bantam, "compress", gguf, "-o", native, "--format", "f16"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        for name, model, options in (("gguf", gguf, []), ("native, mapped", native, ["--mmap"]),
                                     ("native, in memory", native, ["--no-mmap"])):
            facts = json.loads(subprocess.run([bantam, "inspect", model, "--json"], capture_output=True, text=True,
                                              check=True).stdout)
            weights = facts["bytes"]
            _, peak = peak_of([bantam, "run", model, "-p", "hello there", "-n", "8", "--ignore-eos", "--json", *options])
            # 64 tokens of f16 keys and values are one page; the run needs one.
            cache = 64 * 12 * 2 * 8 * 64 * 2
            allowed = weights * 1.05 + cache + PROGRAM_BYTES
            verdict = "ok" if peak <= allowed else "TOO MUCH"
            failures += peak > allowed
            print(f"{name}: weights {weights / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, allowed {allowed / 1e6:.0f} MB: {verdict}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
