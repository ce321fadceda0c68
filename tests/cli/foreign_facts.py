"""Checkpoints in other projects' quantized formats, read and written, through the verbs: run, perplexity, inspect, compress."""
import subprocess
import sys
from pathlib import Path

from harness import QUICK

WRITER = Path(__file__).resolve().parent.parent / "reference" / "foreign_checkpoints.py"
READER = WRITER.parent / "read_quantized.py"
# Of the trained model; every case of the writer is tested below the command line.
CASES = {"gptq-4-128-zeros": "gptq 4 bits, groups of 128", "gptq-4-32-sorted": "gptq 4 bits, groups of 32, sorted columns",
         "awq-gemm-128": "awq gemm, groups of 128", "bnb-nf4-nested": "bitsandbytes nf4 nested, blocks of 64", "bnb-int8": "bitsandbytes int8",
         "bitnet-packed": "bitnet, packed", "packed-4-128": "compressed-tensors 4 bits, groups of 128", "fp8-block": "fp8 e4m3, blocks of 128 x 128, kept in f32"}


def facts_foreign_checkpoints(h, models):
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: no numpy")
        return
    out = Path(h.temporary("foreign"))
    subprocess.run([sys.executable, "-B", WRITER, out, models / "books4m", *CASES], check=True)
    for name, described in CASES.items():
        foreign, plain = out / name, out / f"{name}.plain"
        tensors = {t["name"]: t for t in h.json("inspect", foreign)["tensors"]}
        h.equal(f"{name}: inspect", tensors["model.layers.0.self_attn.q_proj.weight"]["format"], described)
        seen = h.json("perplexity", foreign, h.corpus("books-valid.txt"), "--limit", 200 if QUICK else 600, "--against", plain)
        # What is left is the rounding of activations to 8 bits.
        h.fact(f"{name}: the same probabilities as its values in floats", seen["kl_mean"] < 2e-3 and seen["top1_agreement"] > 0.95, seen)
        h.equal(f"{name}: generates", h.json("run", foreign, "-p", "It was", "-n", 10, "--temperature", 0)["generated_tokens"], 10)
        back = h.temporary(f"{name}-back")
        h.succeeds("compress", foreign, "-o", back, "--format", "f32", "--to", "safetensors")
        h.equal(f"{name}: as plain floats, the values of the definition, bit for bit", weights(back), weights(plain))
    native = h.temporary("sorted.bantam")
    report = h.json("compress", out / "gptq-4-32-sorted", "-o", native, "--format", "i4.g32")
    h.fact("into its own format nothing is rounded", all(layer["relative_error"] == 0 for layer in report["layers"] if "_proj" in layer["name"]), report["layers"][:2])
    h.json("inspect", native, "--verify")
    h.succeeds("compress", native, "-o", h.temporary("sorted-back"), "--format", "f32", "--to", "safetensors")
    body = {name: value for name, value in weights(h.temporary("sorted-back")).items() if "_proj" in name}
    h.equal("and comes back as it was", body, {name: value for name, value in weights(out / "gptq-4-32-sorted.plain").items() if "_proj" in name})


def facts_written(h, models):
    """Folders that others load: the numbers of a native file of the same recipe, and those that their definitions give."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: no numpy")
        return
    model, text = h.model("books4m"), h.corpus("books-valid.txt")
    calibration = ["--calibration", h.corpus("books-train.txt"), "--samples", 4, "--tokens", 64]
    plain = ["--keep", "lm_head=f16", "--keep", "model.embed_tokens=f16"]
    # The search for scales multiplies large matrices a hundred times: minutes under sanitizers, which other tests run it under.
    awq = [] if QUICK else ["--method", "awq", *calibration]
    cases = [("gptq", ["--format", "i8.g32"]), ("gptq", ["--format", "i4.g128", "--method", "gptq", "--desc-act", *calibration]),
             ("gptq_v2", ["--format", "i3z", "--group", 64]), ("awq", ["--format", "i4z.g128", *awq]),
             ("bnb", ["--format", "i8.row"]), ("bnb", ["--format", "nf4"])]
    if QUICK:
        cases = list({target: (target, options) for target, options in cases}.values())  # the last of each
    native, pairs, tokens = h.temporary("w.bantam"), [], 60 if QUICK else 300
    for target, options in cases:
        out, back = h.temporary(f"w{len(pairs)}"), h.temporary(f"w{len(pairs)}-plain")
        report = h.json("compress", model, "-o", out, "--to", target, *options)
        formats = {layer["format"] for layer in report["layers"] if "_proj" in layer["name"]}
        h.fact(f"{target}: all matrices of blocks in the one format", len(formats) == 1 and "f16" not in formats, formats)
        h.fact(f"{target}: the tokenizer's files", {"tokenizer_config.json", "config.json"} <= {p.name for p in Path(out).iterdir()}, list(Path(out).iterdir()))
        h.succeeds("compress", model, "-o", native, *options, *plain)
        h.succeeds("compress", out, "-o", back, "--format", "f32", "--to", "safetensors")
        if target == "awq":
            # Folded norms are cut to f16 there. In floats that is all; activations of 8 bits are rounded the other way here and there.
            h.succeeds("compress", native, "-o", h.temporary("w-native"), "--format", "f32", "--to", "safetensors")
            seen = [h.json("perplexity", path, text, "--limit", tokens)["perplexity"] for path in (back, h.temporary("w-native"))]
            h.fact("awq: perplexity of the folder and of native, in floats", abs(seen[0] / seen[1] - 1) < 1e-4, seen)
        else:
            seen = [h.json("perplexity", path, text, "--limit", tokens)["perplexity"] for path in (out, native)]
            h.equal(f"{target}: perplexity of the folder and of native", seen[0], seen[1])
        h.equal(f"{target}: generates", h.json("run", out, "-p", "It was", "-n", 5, "--temperature", 0)["generated_tokens"], 5)
        pairs += [out, back]
    result = subprocess.run([sys.executable, "-B", READER, *pairs], capture_output=True, text=True)
    h.equal("a decoder of the definitions finds the same values", (result.returncode, result.stdout, result.stderr[:400]), (0, "", ""))
    x = h.temporary("refused")
    h.refuses(2, "compress", model, "-o", x, "--to", "bnb", says="--to bnb: --format: expected one that such files have (f32, f16, bf16, i8.row, nf4.g64, ")
    h.refuses(2, "compress", model, "-o", x, "--to", "gptq", "--format", "i8.row", says="found i8.row")
    h.refuses(2, "compress", model, "-o", x, "--to", "awq", "--keep", "*.up_proj=i3", says="--to awq: --keep *.up_proj: expected")
    h.refuses(1, "compress", model, "-o", x, "--to", "gptq", "--keep", "*=i4", says="embeddings and heads")
    h.refuses(1, "compress", model, "-o", h.write("file", "x"), "--to", "gptq", says="expected a folder")
    h.fact("nothing was written", not Path(x).exists())
    small = h.succeeds("compress", h.model("stories260k"), "-o", x, "--to", "gptq")
    h.fact("shapes that do not fit: f16, and a word about it", "(172, 64) weights are no whole blocks of i4.g32: kept in f16" in small.err, small.err)


def facts_gptq_zero(h, models):
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: no numpy")
        return
    out = Path(h.temporary("zeros"))
    subprocess.run([sys.executable, "-B", WRITER, out, models / "books4m", "gptq-4-128-zeros"], check=True)
    folder, native = out / "gptq-4-128-zeros", h.temporary("zeros.bantam")
    verbs = [["inspect", folder], ["compress", folder, "-o", native], ["run", folder, "-p", "It", "-n", 1], ["logits", folder, "-p", "It"],
             ["perplexity", folder, h.corpus("books-valid.txt"), "--limit", 50], ["bench", folder, "-p", 8, "-n", 1, "-r", 1]]
    if QUICK:
        verbs = verbs[:3]  # all load by the same function
    for verb in verbs:
        seen = h.succeeds(*verb).err
        h.fact(f"{verb[0]}: one line says what is open", seen.count("warning: ") == 1 and "are stored as 15" in seen and "--gptq-zero" in seen, seen)
        for choice in ["wrapped", "legacy"]:
            h.fact(f"{verb[0]} --gptq-zero {choice}: no more doubt", "warning" not in h.succeeds(*verb, "--gptq-zero", choice).err)
    values = []
    for choice in ["automatic", "wrapped", "legacy"]:
        h.succeeds("compress", folder, "-o", h.temporary(choice), "--format", "f32", "--to", "safetensors", "--gptq-zero", choice)
        values.append(weights(h.temporary(choice)))
    h.equal("automatic is wrapped", values[0], values[1])
    h.fact("legacy is something else", values[1] != values[2])
    h.refuses(2, "run", folder, "-p", "x", "--gptq-zero", "maybe", says="expected automatic|wrapped|legacy")


def weights(folder):
    """Name -> bytes, zeros of either sign alike."""
    import numpy as np
    sys.path.insert(0, str(WRITER.parent))
    from foreign_checkpoints import read_safetensors
    return {name: (values + np.float32(0)).tobytes() for name, values in read_safetensors(Path(folder) / "model.safetensors").items()}
