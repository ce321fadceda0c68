"""A random model of every architecture gives llama.cpp's probabilities from the GGUF file that bantam writes of it, for a prompt
read at once and for one read token by token; so does each with an adapter, and what is left of a mixture when experts go to meet a size.

usage: compare_architectures.py BANTAM WRITE_TINY_MODELS SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where node-llama-cpp or NumPy is absent.
"""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import gguf_file
except ImportError:
    print("skipped: NumPy is not installed (Debian's python3-numpy)")
    sys.exit(77)

SEEDS = ["1", "2"]  # which options of a family each has: write_tiny_models.cpp
TOKENS = 96
VOCABULARY = 30
ADAPTER_SCALE = 0.75
# Of the likelier half of the tokens, in log probability. All is f32, keys and values too: with f16 an expert that is chosen by a
# hair may be another one there, and every later token differs.
TOLERANCE = 2e-4
# llama.cpp looks the GELU up in a table of halves.
TOLERANCE_OF_GELU = 4e-3
WITH_GELU = ("starcoder2-", "gemma", "phi-", "gpt_neox-", "gpt_neox_2-", "vaultgemma-", "gpt2-", "gpt_bigcode-", "falcon", "bloom-", "mpt-")
# Of 26 layers with one gate in twenty left, the same table makes more: a reference in double precision comes as near to llama.cpp as 0.003 with such a
# table, and is 0.04 away without (MLPs of 96), where bantam is within 0.0002 of that.
TOLERANCE_OF_SPARSE_GELU = 4e-2
WITH_SPARSE_GELU = ("gemma3n",)
# compare_papers.py computes these. llama.cpp has something else in the place of Phi-3.5-MoE's norms and router, and turns Mellum's layers with a
# window by the base of the others. It asks for keys that files of models with an indexer, Youtu and Mistral 4 lack. The newest it does not know.
NOT_LLAMA_CPPS = ("gptj-", "gpt_neo-", "opt-", "falcon_3-", "phimoe-", "helium-", "mellum-", "youtu-", "mistral4-", "deepseek_v32-", "glm_moe_dsa-", "cwm-", "ministral-", "hyperclovax-", "vaultgemma-", "flex_olmo-", "mpnet")
# compare_seq2seq.py and compare_papers.py.
WITH_ENCODERS = ("t5-", "t5_2-", "mt5-", "umt5-", "bart-", "mbart-")
# Keys and queries of delta nets are divided by their length: the published code adds 1e-6 under the root, llama.cpp takes the norm's epsilon
# where the length is smaller. Heads of 12 numbers here are short enough to show it.
TOLERANCE_OF_UNIT_KEYS = 1e-3
WITH_UNIT_KEYS = ("qwen3_5-", "qwen3_5_moe-", "qwen3_next-", "kimi_linear-", "bailing_hybrid-", "qwen4_exp-")


# Without logits: compare_encoders.py.
ENCODERS = ("bert", "roberta", "xlm-roberta", "nomic_bert", "modernbert", "distilbert", "electra", "ernie-", "ernie_rank-", "eurobert", "gemma3_text_2-", "t5_3-", "t5_4-", "mt5_2-", "umt5_2-", "qwen3_embed-", "qwen3_rank-")


# llama.cpp's names of the text of models that see. Not qwen2vl, where its log probabilities are up to 0.004 away from its own of qwen2.
SEEING = {"qwen3-": "qwen3vl", "qwen3_moe-": "qwen3vlmoe"}


def as_seeing(gguf, architecture):
    """The same file as the text of a model that sees: of a text the three positions of each token are one."""
    metadata, tensors = gguf_file.read(gguf)
    own = metadata["general.architecture"][1].decode()
    metadata = {architecture + key.removeprefix(own) if key.startswith(f"{own}.") else key: value for key, value in metadata.items()}
    metadata["general.architecture"] = gguf_file.string(architecture)
    # As many pairs of each axis as of the others: what is over has none.
    metadata[f"{architecture}.rope.dimension_sections"] = gguf_file.array("i32", [6, 5, 5, 0])
    metadata[f"{architecture}.n_deepstack_layers"] = gguf_file.scalar("u32", 0)
    path = gguf.with_name(f"{gguf.stem}-{architecture}.gguf")
    gguf_file.write(path, metadata, [(t.name, t.kind, t.shape, [t.data]) for t in tensors])
    return path


def tolerance(name):
    if name.startswith(WITH_SPARSE_GELU):
        return TOLERANCE_OF_SPARSE_GELU
    if name.startswith(WITH_GELU):
        return TOLERANCE_OF_GELU
    return TOLERANCE_OF_UNIT_KEYS if name.startswith(WITH_UNIT_KEYS) else TOLERANCE


def run(arguments):
    result = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))} failed: {result.stderr.strip()}")
    return result.stdout


def log_probabilities(positions):
    return [{entry["id"]: entry["logprob"] for entry in position} for position in positions]


def largest_difference(mine, theirs):
    worst = 0.0
    for a, b in zip(mine, theirs):
        likelier = sorted(b, key=b.get, reverse=True)[: VOCABULARY // 2]
        worst = max(worst, max(abs(a[token] - b[token]) for token in likelier))
    return worst


def compare(bantam, scripts, folder, ids, sources, adapters={}):
    """How many times a source, the GGUF file among them, differs from what llama.cpp makes of the file. sources: {file: [source...]}.
    adapters: of each file one in several containers, the last of which llama.cpp reads; empty: none."""
    output = pathlib.Path(folder) / "llama.json"
    # All files in one process: to start takes longer than a tiny model.
    run(["node", scripts / "llama_cpp.mjs", *sources, "--ids", ",".join(map(str, ids)), "--n", "0", "--logits", "--top", VOCABULARY,
         "--vocab", "t5", "--threads", "1", "--kv", "f32", "--batch", "512", "--batch", "1", "--context", 2 * TOKENS, "--output", output,
         *(word for file in sources if adapters for word in ("--lora", f"{adapters[file][-1]}:{ADAPTER_SCALE}"))])
    failures = 0
    for document in json.loads(output.read_text()):
        gguf = pathlib.Path(document["model"])
        theirs = log_probabilities([position["top"] for position in document["prompts"][0]["logits"]])
        for source, adapter in ((source, adapter) for source in sources[gguf] for adapter in (adapters[gguf] if adapters else [None])):
            mine = logits_of(bantam, source, tuple(ids), adapter)
            difference = largest_difference(mine, theirs)
            verdict = "agrees" if difference < tolerance(gguf.name) and len(mine) == len(theirs) == TOKENS else "DIFFERS"
            failures += verdict == "DIFFERS"
            print(f"{source.name}{f' with {adapter.name}' if adapter else ''}, {document['batch']} at once: {verdict}, log probabilities at most {difference:.5f} apart over {len(theirs)} tokens")
    return failures


@functools.cache
def logits_of(bantam, source, ids, adapter):
    lora = ["--lora", f"{adapter}:{ADAPTER_SCALE}"] if adapter else []
    positions = json.loads(run([bantam, "logits", source, "--ids", json.dumps(ids), "--top", VOCABULARY, "--all-positions", "--kv", "f32", "--json", *lora]))["positions"]
    return log_probabilities([position["top"] for position in positions])


def main():
    bantam, writer, scripts = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    peers = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts))
    if shutil.which("node") is None or not (peers / "node_modules" / "node-llama-cpp").exists():
        print("skipped: node-llama-cpp is not installed (tests/peers/README.md)")
        sys.exit(77)
    ids = [1] + [(i * 7 + i * i) % VOCABULARY for i in range(1, TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        sources, adapters = {}, {}
        for name in run([writer, folder, ",".join(SEEDS)]).split():
            if name.startswith((*ENCODERS, *WITH_ENCODERS, *NOT_LLAMA_CPPS)):
                continue
            gguf = folder / f"{name}.gguf"
            run([bantam, "compress", folder / name, "-o", gguf, "--to", "gguf", "--format", "f32"])
            sources[gguf] = [gguf, folder / name]
            if architecture := next((seeing for beginning, seeing in SEEING.items() if name.startswith(beginning)), None):
                other = as_seeing(gguf, architecture)
                sources[other] = [other]
            if name.endswith(f"-{SEEDS[0]}"):
                # Scales in the weights of its GGUF files are not in a folder's adapter.
                adapters[gguf] = [folder / f"{name}-lora.gguf"] if name.startswith("falcon_h1") else [folder / f"{name}-lora", folder / f"{name}-lora.gguf"]
            # Of models whose layers differ in heads, or have halves side by side or norms behind them, none can be removed.
            if json.loads(run([bantam, "inspect", gguf, "--json"]))["config"]["experts"] > 0 and not name.startswith(("gemma4", "afmoe", "flex_olmo", "cohere2_moe")):
                pruned = folder / f"{name}-pruned.gguf"
                run([bantam, "compress", folder / name, "-o", pruned, "--to", "gguf", "--format", "f32", "--prune", "experts", "--prune-to", "parameters:0.8x",
                     "--samples", 4, "--tokens", 64])
                sources[pruned] = [pruned]
        failures = compare(bantam, scripts, folder, ids, sources)
        failures += compare(bantam, scripts, folder, ids, {gguf: [gguf] for gguf in adapters}, adapters)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
