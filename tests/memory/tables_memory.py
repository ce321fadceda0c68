"""A table that stays in the model's file takes no memory when a session is saved, either: it is hashed part by part, as the whole of it would be.

usage: tables_memory.py BANTAM GENERATOR
Generates a model that is mostly a table of per-layer embeddings, saves sessions of it from GGUF and from a native file, with the table in the file and in
memory, and compares the largest resident sets. A session of the one goes on with the other: both have the same fingerprint.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from peak_memory import peak_of

SHAPE = ["--shape", "gemma-3n-e2b", "--dim", 256, "--ffn", 512, "--heads", 4, "--kv-heads", 2, "--head-dim", 64, "--vocab", 65536, "--context", 512, "--type", "q4_0"]
TABLE_BYTES = 65536 * 30 * 256 * 9 // 16
RUN = ["-n", 4, "--temperature", 0, "--ignore-eos", "--json", "--stats", "--context", 64]
# Beside what a run takes: the tokenizer as text, and what each thread reads of the table at a time.
SLACK_BYTES = 24 << 20


def main():
    bantam, generator = sys.argv[1:3]
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gguf, native = folder / "model.gguf", folder / "model.bantam"
        subprocess.run(["/usr/bin/python3", generator, *map(str, SHAPE), gguf], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([bantam, "compress", gguf, "-o", native, "--format", "i4.g32"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for model in (gguf, native):
            first = [bantam, "run", model, "-p", "hello there", *RUN]
            alone = peak_of(first)[1]
            in_file, in_memory = folder / "in-file", folder / "in-memory"
            saved = peak_of([*first, "--save-session", in_file])[1]
            whole = peak_of([*first, "--no-mmap", "--save-session", in_memory])[1]
            # Each goes on with what the other saved, with the same tokens.
            second = [bantam, "run", model, *RUN]
            tokens = [json.loads(peak_of([*second, *more])[0])["tokens"] for more in (["--load-session", in_memory], ["--no-mmap", "--load-session", in_file])]
            wrong = []
            if saved > alone + SLACK_BYTES:
                wrong.append("TOO MUCH")
            if whole < alone + TABLE_BYTES // 2:
                wrong.append("the table is in memory in any case")
            if tokens[0] != tokens[1]:
                wrong.append("other tokens")
            failures += len(wrong)
            print(f"{model.name}: a table of {TABLE_BYTES / 1e6:.0f} MB, peak {alone / 1e6:.0f} MB, when a session is saved {saved / 1e6:.0f} MB, "
                  f"with all in memory {whole / 1e6:.0f} MB: {', '.join(wrong) or 'ok'}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
