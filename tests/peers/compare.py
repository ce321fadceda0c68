"""Greedy text of bantam and of llama.cpp from the same GGUF file must be equal, 100 tokens: for f32, for every type of
blocks of 32 weights, for types that become a format of more bits, and for files that bantam wrote itself.

usage: compare.py BANTAM SHARED_DATA SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where node-llama-cpp or the data is absent.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf_file

PROMPTS = ["Once upon a time", "The dog was", "Lily and Tom", "One day, a little girl", "The sun"]
TOKENS = 100
# Both round activations to 8 bits, but add in another order: now and then a value on a border is rounded the other way,
# which moves logits of these small models by about this much (0.113 seen in a q5_0 file of
# stories260k). Two tokens closer than that may change places.
TIE = 0.15
# Types that are read only, one for each format that they become. Rows of books4m are whole blocks of 256. (Q1_0 and Q2_0,
# for which llama.cpp rounds activations by 32, leave nothing of it to compare.)
READ_ONLY = ["iq2_xxs", "iq2_xs", "iq3_xxs", "iq3_s", "tq2_0"]
# Formats of the files that bantam writes, where rows of the models are whole blocks of them. (stories260k has rows of 172:
# they are kept in f16, for which llama.cpp rounds activations to f16 as well.)
WRITTEN = {"stories260k": ["f32"], "babyllama105": ["q8_0", "q4_0", "q5_1", "iq4_nl"], "books4m": ["f16", "q8_0", "q4_0", "q4_k", "q6_k", "iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_m", "iq1_s"]}

# Parts to take out of books4m before it is written, in f32.
PRUNED = [["hidden:0.25"], ["layers:1", "heads:0.5", "channels:0.25", "hidden:0.25"]]


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def main():
    bantam, data, scripts = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    peers = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts))
    if shutil.which("node") is None or not (peers / "node_modules" / "node-llama-cpp").exists():
        skip("node-llama-cpp is not installed (tests/peers/README.md)")
    models = {name: data / "models" / name / f"{name}-f32.gguf" for name in ("stories260k", "babyllama105")}
    if not all(path.exists() for path in models.values()):
        skip("no shared models")
    with tempfile.TemporaryDirectory() as folder:
        files = {name: [] for name in models | WRITTEN}

        def round_with_theirs(name, plain, kind):
            rounded = pathlib.Path(folder) / f"{name}-{kind}.gguf"
            subprocess.run(["/usr/bin/python3", scripts / "quantize_gguf.py", plain, rounded, "--type", kind], check=True,
                           stdout=subprocess.DEVNULL)
            files[name].append(rounded)

        for name, plain in models.items():
            files[name].append(plain)
            for kind, (_, block, _) in gguf_file.TENSOR_TYPES.items():
                # Rows of these models are 64 and 128 weights long.
                if block == 32:
                    round_with_theirs(name, plain, kind)
        for kind in READ_ONLY:
            round_with_theirs("books4m", data / "models" / "books4m" / "books4m-f16.gguf", kind)

        def write(name, title, *options):
            written = pathlib.Path(folder) / f"{name}-{title}-by-bantam.gguf"
            run([bantam, "compress", data / "models" / name, "-o", written, "--to", "gguf", *options])
            files[name].append(written)

        for name, kinds in WRITTEN.items():
            for kind in kinds:
                write(name, kind, "--format", kind, "--keep", f"*={kind}")
        for parts in PRUNED:
            write("books4m", "+".join(parts), "--format", "f32", "--samples", "8", *[x for part in parts for x in ("--prune", part)])
        failures = sum(compare(bantam, scripts, paths, name == "babyllama105", folder) for name, paths in files.items())
    sys.exit(1 if failures else 0)


def run(arguments):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{arguments[0]} failed: {result.stderr.strip()}")
    return result.stdout


def gap(bantam, path, ids, a, b):
    """How far apart the logits of two tokens are after `ids`; infinite when one is not among the first ten."""
    top = json.loads(run([bantam, "logits", path, "--ids", json.dumps(ids), "--json"]))["positions"][-1]["top"]
    logits = {entry["id"]: entry["logit"] for entry in top}
    return abs(logits[a] - logits[b]) if a in logits and b in logits else float("inf")


def compare(bantam, scripts, paths, no_byte_tokens, folder):
    """The number of prompts that differ, of files with one vocabulary: llama.cpp is started once for all of them, which takes longer than
    such models do."""
    ids = [[json.loads(subprocess.run([bantam, "tokenize", str(path)], input=prompt, capture_output=True, text=True,
                                      check=True).stdout) for prompt in PROMPTS] for path in paths]
    output = pathlib.Path(folder) / "llama.json"
    arguments = ["node", scripts / "llama_cpp.mjs", *paths, "--n", TOKENS, "--kv", "f32", "--threads", "1", "--output", output]
    if no_byte_tokens:
        # llama.cpp ends the process on this vocabulary: the ids are given instead.
        arguments += ["--vocab", "t5"]
        for row in ids[0]:
            arguments += ["--ids", ",".join(map(str, row))]
    else:
        for prompt in PROMPTS:
            arguments += ["--prompt", prompt]
    run(arguments)
    return sum(compare_file(bantam, path, mine, theirs["prompts"]) for path, mine, theirs in zip(paths, ids, json.loads(output.read_text()), strict=True))


def compare_file(bantam, path, ids, theirs):
    different = 0
    for prompt, row, their in zip(PROMPTS, ids, theirs):
        mine = json.loads(run([bantam, "run", path, "-p", prompt, "-n", TOKENS, "--temperature", "0", "--kv", "f32", "--threads", "1", "--json"]))
        if their["ids"] != row:
            print(f"{path.name}: {prompt!r}: prompt ids differ: {row} and {their['ids']}")
            different += 1
            continue
        theirs_generated = their["generated"][: len(mine["tokens"])]
        same = next((i for i, (a, b) in enumerate(zip(mine["tokens"], theirs_generated)) if a != b), len(mine["tokens"]))
        apart = 0.0
        ended = len(mine["tokens"]) == TOKENS or len(their["generated"]) <= len(mine["tokens"]) + 1
        if same == len(mine["tokens"]) and ended:
            print(f"{path.name}: {prompt!r}: {same} tokens equal")
        elif same < len(mine["tokens"]) and (
                apart := gap(bantam, path, row + mine["tokens"][:same], mine["tokens"][same], theirs_generated[same])) < TIE:
            print(f"{path.name}: {prompt!r}: {same} tokens equal, then two that are equally probable (logits {apart:.3f} apart)")
        else:
            print(f"{path.name}: {prompt!r}: differ at token {same}, logits {apart:.3f} apart: {mine['tokens'][same:same + 3]} and {their['generated'][same:same + 3]}")
            different += 1
    return different


if __name__ == "__main__":
    main()
