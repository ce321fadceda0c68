"""`bantam compress` and `inspect`: what is written, what is refused, what survives."""
import json
import os
import random
import shutil
import signal
import struct
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import tensor_file
from harness import QUICK, figures


def leftovers(folder):
    return [p.name for p in Path(folder).iterdir() if ".partial" in p.name]


def facts_report(h, models):
    out = h.temporary("report.bantam")
    report = h.json("compress", h.model("stories260k"), "-o", out, "--format", "q4", "--group", 64)
    contract = {"bytes_before", "bytes_after", "bits_per_weight", "layers", "seconds", "peak_rss_bytes"}
    h.fact("keys of the contract", contract <= set(report), report)
    h.equal("layers", len(report["layers"]), 36)
    h.fact("keys of a layer", all({"name", "format", "relative_error"} <= set(layer) for layer in report["layers"]), report["layers"][:2])
    h.equal("bytes_after is the file's", report["bytes_after"], os.path.getsize(out))
    h.fact("smaller", report["bytes_after"] < report["bytes_before"] and 4 < report["bits_per_weight"] < 7, report)
    formats = {layer["name"]: layer["format"] for layer in report["layers"]}
    h.equal("embeddings get int8, the body 4 bits", (formats["model.embed_tokens"], formats["model.layers.0.mlp.up_proj"]), ("i8.g32", "i4.g64"))
    table = h.succeeds("compress", h.model("stories260k"), "-o", out)
    h.fact("for people: sizes and the worst layers", "MB -> " in table.text and "relative error" in table.text and "_proj" in table.text, table)
    h.equal("nothing else is said", table.err, "")
    kept = h.json("compress", h.gguf("stories260k"), "-o", out, "--format", "nf4", "--keep", "*.down_proj=q8", "--keep", "model.layers.0.*=f16", "--keep", "*.0.*.down_proj=f32")
    formats = {layer["name"]: layer["format"] for layer in kept["layers"]}
    h.equal("--keep: last match wins", [formats[f"model.layers.{i}.mlp.{part}_proj"] for i, part in [(0, "down"), (0, "up"), (1, "down"), (1, "up")]],
            ["f32", "f16", "i8.g32", "nf4.g64"])
    for name in h.json("formats")["formats"][:: 4 if QUICK else 1]:
        h.json("compress", h.model("stories260k"), "-o", out, "--format", name["name"])
        h.fact(f"{name['name']} runs", h.json("run", out, "-p", "Once", "-n", 3, "--temperature", 0)["generated_tokens"] == 3)
    again = h.json("compress", out, "-o", h.temporary("again.bantam"), "--format", "f32")
    h.fact("a native file compresses too", again["bytes_after"] > again["bytes_before"], again)


def facts_experts_side_by_side(h, models):
    routed = Path(__file__).resolve().parents[2] / "models" / "stories-moe"
    said = {to: "lie side by side" in h.succeeds("compress", routed, "-o", h.temporary(f"routed.{to}"), "--method", "rtn").text for to in ("bantam", "gguf")}
    h.equal("experts that are one read, and those that are three", said, {"bantam": True, "gguf": False})


def facts_exact_ways_back(h, models):
    plain = h.temporary("plain")
    h.json("compress", h.gguf("stories260k"), "-o", plain, "--method", "rtn", "--format", "f32", "--to", "safetensors")
    h.fact("a Hugging Face folder", {"config.json", "model.safetensors"} <= {p.name for p in Path(plain).iterdir()}, list(Path(plain).iterdir()))
    arguments = ["-p", "Once upon a time", "-n", 40, "--temperature", 0]
    h.equal("the same text", h.json("run", plain, *arguments)["tokens"], h.json("run", h.model("stories260k"), *arguments)["tokens"])
    mine = tensor_file.read(Path(plain) / "model.safetensors")
    theirs = tensor_file.read(models / "stories260k" / "model.safetensors")
    h.equal("the same tensors, byte for byte", {name: mine.get(name) for name in theirs if name != "lm_head.weight"},
            {name: data for name, data in theirs.items() if name != "lm_head.weight"})
    h.refuses(2, "compress", h.model("stories260k"), "-o", h.temporary("p2"), "--to", "safetensors", "--format", "q4", says="f32")
    h.refuses(2, "compress", h.model("stories260k"), "-o", h.temporary("p2"), "--to", "safetensors", "--format", "f32", "--keep", "*=q8", says="--keep")


def facts_gguf(h, models):
    """A GGUF file holds the same numbers as a native one, and the model's own tokenizer."""
    model, text = h.model("books4m"), h.corpus("books-valid.txt")
    for format in ["q8_0", "q4_k", "f16"]:
        native, gguf = h.temporary("same.bantam"), h.temporary("same.gguf")
        options = ["--format", format, "--keep", f"*={format}"]
        h.succeeds("compress", model, "-o", native, *options)
        h.succeeds("compress", model, "-o", gguf, *options, "--to", "gguf")
        seen = [h.json("perplexity", path, text, "--limit", 1000)["perplexity"] for path in (native, gguf)]
        h.equal(f"{format}: perplexity of GGUF and native", seen[1], seen[0])
    small = h.succeeds("compress", h.model("stories260k"), "-o", h.temporary("small.gguf"), "--format", "q4_k", "--to", "gguf")
    h.fact("rows that are no whole blocks: other formats, and a word about it", "no whole blocks of q4k" in small.err and "kept in f16" in small.err, small.err)
    h.refuses(2, "compress", model, "-o", h.temporary("x.gguf"), "--format", "i4", "--group", 64, "--to", "gguf", says="--to gguf: --format: expected one that such files have (f32, ")


def facts_wrong_usage(h, models):
    out = h.temporary("never.bantam")
    model = h.model("stories260k")
    for option, value in [("--method", "magic"), ("--to", "zip"), ("--format", "q9"), ("--format", "../x"), ("--group", "33"), ("--keep", "x"), ("--keep", "*=q9"), ("--keep", "=q4")]:
        h.refuses(2, "compress", model, "-o", out, option, value)
    h.fact("nothing was written", not os.path.exists(out))
    idle = h.succeeds("compress", model, "-o", out, "--samples", 8, "--tokens", 64, "--desc-act", "--no-true-sequential", "--resume", "--keep", "nothing.*=q8")
    for word in ["--samples", "--tokens", "--desc-act", "--no-true-sequential", "--resume", "nothing.*"]:
        h.fact(f"{word} has no effect, and that is said", word in idle.err, idle)


def facts_prune_weights(h, models):
    model, out = h.model("stories260k"), h.temporary("pruned.bantam")
    calibration = ["--calibration", h.corpus("tinystories-plain.txt"), "--samples", 8, "--tokens", 128]
    for amount, says in [("wanda", "expected layers:COUNT"), ("magic:0.5", "wanda or sparsegpt and :SHARE"), ("wanda:", "a share like 0.5"),
                         ("wanda:1", "below 1"), ("wanda:-0.5", "above 0"), ("magnitude:nan", "above 0"), ("wanda:5:4", "0 < N < M"),
                         ("sparsegpt:0:4", "0 < N < M"), ("wanda:2:4:8", "a share like 0.5")]:
        h.refuses(2, "compress", model, "-o", out, "--prune", amount, says=says)
    h.refuses(2, "compress", model, "-o", out, "--prune", "magnitude:0.5,*.down_proj", says="PATTERN=AMOUNT")
    h.refuses(1, "compress", model, "-o", out, "--format", "i4m", "--prune", "magnitude:0.5", says="holds 0 exactly")
    h.refuses(1, "compress", model, "-o", out, "--prune", "magnitude:3:7", says="rows of whole 7s")
    h.fact("nothing was written", not os.path.exists(out))
    for options in [["--prune", "magnitude:0.5"], ["--prune", "wanda:0.5", *calibration], ["--prune", "sparsegpt:2:4", "--method", "gptq", *calibration]]:
        report = h.json("compress", model, "-o", out, "--format", "i4", "--group", 32, *options)
        name = " ".join(options[:2])
        blocks = [layer for layer in report["layers"] if ".layers." in layer["name"]]
        h.fact(f"{name}: half of every block matrix is 0", blocks and all(layer["sparsity"] >= 0.499 for layer in blocks), blocks)
        h.fact(f"{name}: embeddings are not pruned", all("sparsity" not in layer for layer in report["layers"] if layer not in blocks))
        h.fact(f"{name}: the whole", 0.499 <= report["sparsity"] <= 1, report["sparsity"])
    seen = h.succeeds("compress", model, "-o", out, "--format", "f16", "--prune", "magnitude:0.25", "--report")
    h.fact("zeros are told", "25 % of the blocks' weights are 0" in seen.text, seen.text)
    h.fact("zeros stand in the report", "zeros, %" in Path(out + ".report.md").read_text())


def facts_prune_parts(h, models):
    model, text = h.model("books4m"), h.corpus("books-valid.txt")
    calibration = ["--calibration", text, "--samples", 2 if QUICK else 4, "--tokens", 32 if QUICK else 128]
    small = h.temporary("small.bantam")
    report = h.json("compress", model, "-o", small, "--format", "f16", *calibration, "--prune", "channels:0.25", "--prune", "layers:1")
    before, after, shape = h.json("inspect", model), h.json("inspect", small), report["prune"]
    h.equal("the file names what went", after["recipe"]["removed"], ["channels:0.25", "layers:1"])
    h.equal("one layer fewer", after["config"]["layers"], before["config"]["layers"] - 1)
    h.fact("a narrower FFN, of whole groups", after["config"]["ffn"] < before["config"]["ffn"] and after["config"]["ffn"] % 32 == 0, after["config"])
    h.equal("parameters before", shape["before"]["parameters"], before["parameters"])
    h.equal("parameters after", shape["after"]["parameters"], after["parameters"])
    h.fact("fewer operations", shape["after"]["flops_per_token"] < shape["before"]["flops_per_token"], shape)
    h.equal("an influence for each layer", len(shape["influence"]), before["config"]["layers"])
    gone = [i for i in range(before["config"]["layers"]) if i not in shape["layers"]]
    h.equal("the layer of least influence went", [shape["influence"][i] for i in gone], [min(shape["influence"])])
    h.fact("it runs", h.json("perplexity", small, text, "--limit", 500)["perplexity"] < 10000)
    h.equal("bytes after", shape["after"]["bytes"], os.path.getsize(small))
    h.fact("a token was timed", shape["before"]["seconds_per_token"] > 0 and shape["after"]["seconds_per_token"] > 0, shape)
    to_size = ["compress", model, "--format", "i4", "--prune", "channels", "--prune", "heads", "--prune-to", "bytes:0.85x", *calibration]
    planned = h.json(*to_size, "--dry-run")["prune"]
    done = h.json(*to_size, "-o", small, "--report")["prune"]
    h.equal("the same shares, planned and done", done["removals"], planned["removals"])
    turned = h.json("compress", model, "--prune", "channels", "--prune-to", "parameters:0.9x", *calibration, "--rotate", "--dry-run")["prune"]
    h.fact("a plan for a rotated one", turned["after"]["parameters"] <= 0.9 * turned["before"]["parameters"], turned)
    h.fact("of both parts", {removal.split(":")[0] for removal in done["removals"]} == {"channels", "heads"}, done)
    h.fact("as small as asked for", done["after"]["bytes"] <= 0.85 * done["before"]["bytes"], done)
    h.equal("as the file", done["after"]["bytes"], os.path.getsize(small))
    h.fact("all four costs stand in the report", all(f"| {cost}" in Path(small + ".report.md").read_text()
                                                     for cost in ("parameters", "operations a token", "bytes in these", "milliseconds a token")))
    report = h.json("compress", model, "-o", small, "--format", "f16", *calibration, "--prune", "hidden:0.25", "--prune", "heads:0.5")
    sliced = h.json("inspect", small)
    h.equal("narrower hidden states", sliced["config"]["dim"], before["config"]["dim"] * 3 // 4)
    h.equal("heads of the same size", sliced["config"]["head_dim"], before["config"]["head_dim"])
    h.equal("parameters after slicing", report["prune"]["after"]["parameters"], sliced["parameters"])
    h.fact("a sliced model runs", h.json("perplexity", small, text, "--limit", 500)["perplexity"] < 10000)
    out = h.temporary("never-pruned.bantam")
    for status, options, says in [(2, ["--prune", "channels:0.3", "--prune-to", "bytes:0.8x"], "expected parts without an amount"),
                                  (2, ["--prune", "channels", "--prune-to", "speed:2x"], "expected parameters:N"), (2, ["--prune-to", "bytes:0.8x"], "--prune"),
                                  (2, ["--prune", "channels", "--prune-to", "bytes:0.8x", "--fit", "4bpw"], "not with --fit"),
                                  (1, ["--prune", "channels", "--prune-to", "bytes:1kB"], "expected at least"),
                                  (1, ["--prune", "channels", "--prune-to", "bytes:1GB"], "what the model costs"),
                                  (1, ["--prune", "channels", "--prune", "channels:0.5", "--prune-to", "bytes:0.8x"], "expected channels once")]:
        h.refuses(status, "compress", model, "-o", out, *options, says=says)
    for status, value, says in [(2, "channels:x", "expected channels:NUMBER"), (2, "channels", "expected channels:NUMBER"),
                                (2, "heads:nan", "expected heads:NUMBER"), (1, "heads:1", "expected a share above 0 and below 1, found 1"),
                                (1, "hidden:1", "above 0 and below 1"), (1, "hidden:0.99", "this leaves none"), (1, "hidden:0.01", "this takes none"),
                                (1, "channels:0.999", "leaves none"), (1, "channels:0.0001", "takes none"), (1, "layers:99", "expected a whole number from 1 to"),
                                (1, "layers:0.5", "expected a whole number from 1 to"), (1, "channels:-1", "above 0 and below 1")]:
        h.refuses(status, "compress", model, "-o", out, "--prune", value, says=says)
    h.refuses(1, "compress", model, "-o", out, "--prune", "channels:0.25", "--prune", "channels:0.5", says="expected channels once")
    h.refuses(2, "compress", model, "-o", out, "--no-compensation", says="--prune")
    h.fact("nothing was written", not os.path.exists(out))


@figures
def facts_calibrated_figures(h, models):
    model, text = h.model("stories260k"), h.corpus("tinystories-plain.txt")
    calibration = ["--calibration", text, "--samples", 16, "--tokens", 256]

    def divergence(format, *options):
        out = h.temporary("calibrated.bantam")
        report = h.json("compress", model, "-o", out, "--format", format, *options)
        seen = h.json("perplexity", out, h.corpus("tinystories-700.txt"), "--limit", 2000, "--against", model)
        matrices = [(layer["name"], layer["format"]) for layer in report["layers"]]
        return seen["kl_mean"], matrices

    nearest, matrices = divergence("i3.g32")
    for options, share in [(["gptq"], 0.8), (["gptq", "--desc-act"], 0.8), (["gptq", "--no-true-sequential"], 0.8), (["awq"], 0.85), (["awq+gptq"], 0.8)]:
        found, same = divergence("i3.g32", "--method", *options, *calibration)
        h.fact(f"{options} is nearer to the model than rounding to nearest", found < share * nearest, (found, nearest))
        h.equal("the same matrices in the same formats", same, matrices)
    for format in ["q2k", "q3k", "iq4nl"]:
        plain, _ = divergence(format)
        aware, _ = divergence(format, *calibration)
        h.fact(f"{format}: knowing the inputs helps rounding to nearest", aware < plain, (aware, plain))
    plain, _ = divergence("i4m")
    fitted, _ = divergence("i4m", "--method", "hqq")
    h.fact("hqq fits better than the range of each group", fitted < plain, (fitted, plain))


def facts_calibrated(h, models):
    model, text = h.model("stories260k"), h.corpus("tinystories-plain.txt")
    calibration = ["--calibration", text, "--samples", 2 if QUICK else 8, "--tokens", 32 if QUICK else 64]
    once = h.temporary("once.bantam")
    for method in ["gptq", "awq"]:
        h.succeeds("compress", model, "-o", once, "--format", "i3.g32", "--method", method, *calibration)
        h.succeeds("compress", model, "-o", h.temporary("alone.bantam"), "--format", "i3.g32", "--method", method, *calibration, "--threads", 1)
        h.fact(f"{method}: threads change no byte", Path(h.temporary("alone.bantam")).read_bytes() == Path(once).read_bytes())
        bundled = h.succeeds("compress", model, "-o", h.temporary("bundled.bantam"), "--format", "i3.g32", "--method", method, "--samples", 2, "--tokens", 32)
        h.fact(f"{method} without a text takes the bundled one, and says so", "bundled text" in bundled.err and "--calibration FILE" in bundled.err, bundled)
        h.refuses(2, "compress", model, "-o", h.temporary("x"), "--method", method, *calibration, "--format", "f16", says="integers or levels")
        h.refuses(1, "compress", model, "-o", h.temporary("x"), "--method", method, "--calibration", h.temporary("absent.txt"), says="absent.txt")
        h.refuses(1, "compress", model, "-o", h.temporary("x"), "--method", method, "--calibration", h.write("empty.txt", ""), says="expected text")
    h.refuses(2, "compress", model, "-o", h.temporary("x"), "--method", "hqq", "--format", "i4z", says="a minimum a group")
    h.fact("hqq needs no text, and says so", "--calibration has no effect" in
           h.succeeds("compress", model, "-o", once, "--method", "hqq", "--format", "i4m", "--calibration", text).err)


def facts_imatrix(h, models):
    model, matrix, out = h.model("stories260k"), h.temporary("imatrix.gguf"), h.temporary("weighed.bantam")
    calibration = ["--calibration", h.corpus("tinystories-plain.txt"), "--samples", 4, "--tokens", 64]
    said = h.json("compress", model, "--save-imatrix", matrix, *calibration)
    h.equal("--save-imatrix alone: every matrix of five blocks", (said["tensors"], said["pieces"], said["piece_tokens"]), (35, 4, 64))
    weighed = h.json("compress", model, "-o", out, "--format", "i3", "--imatrix", matrix)
    plain = h.json("compress", model, "-o", h.temporary("plain.bantam"), "--format", "i3")
    h.fact("--imatrix makes another file", Path(out).read_bytes() != Path(h.temporary("plain.bantam")).read_bytes(), (weighed, plain))
    older = struct.pack("<ii20siif64f", 1, 20, b"blk.0.ffn_gate.weigh", 1, 65, 0, *[1] * 64)
    h.refuses(1, "compress", model, "-o", out, "--imatrix", h.write("older.dat", older), says="imatrix: expected entries of this model's matrices")
    h.refuses(1, "compress", model, "-o", out, "--imatrix", h.write("short.dat", older[:50]), says="short.dat: blk.0.ffn_gate.weigh: expected values of 260 bytes")
    h.refuses(1, "compress", model, "-o", out, "--imatrix", h.temporary("absent.gguf"), says="absent.gguf")
    h.refuses(1, "compress", h.model("babyllama105"), "-o", out, "--imatrix", matrix, says="expected 128 columns, found 64")
    h.refuses(2, "compress", model, "--save-imatrix", matrix, "--dry-run", says="--save-imatrix")
    both = h.json("compress", model, "-o", out, "--save-imatrix", matrix, "--method", "gptq", "--format", "i3", *calibration)
    h.fact("with -o both are written", "layers" in both and Path(matrix).exists() and Path(out).exists(), both)


def with_outliers(source, folder):
    """The same model with some hidden features 24 times as large after each norm, and their weights as much smaller: what
    large models look like inside, and small ones do not."""
    shutil.copytree(source, folder)
    path = Path(folder) / "model.safetensors"
    weights = {name: array.copy() for name, array in tensor_file.read_arrays(path).items()}
    readers = {"input_layernorm": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "post_attention_layernorm": ["mlp.gate_proj", "mlp.up_proj"]}
    features = [3, 41, 77, 110]
    for name in [name for name in weights if name.endswith("layernorm.weight")]:
        block, norm, _ = name.rsplit(".", 2)
        weights[name][features] *= 24
        for reader in readers[norm]:
            weights[f"{block}.{reader}.weight"][:, features] /= 24
    tensor_file.write(path, weights)
    return folder


@figures
def facts_rotated_figures(h, models):
    """Rotation is exact in floats, and makes few bits lose less where features differ much in size."""
    model, unseen = h.model("babyllama105"), h.corpus("tinystories-700.txt")
    calibration = ["--calibration", h.corpus("tinystories-plain.txt"), "--samples", 32, "--tokens", 256]

    def divergence(model, *options):
        out = h.temporary("rotated.bantam")
        said = h.succeeds("compress", model, "-o", out, *options).err
        return h.json("perplexity", out, unseen, "--limit", 2000, "--against", model)["kl_mean"], said

    exact, said = divergence(h.model("stories260k"), "--format", "f32", "--rotate", "--seed", 5)
    h.fact("a rotated model of floats is the same model", exact < 1e-8, exact)
    h.fact("an untied head is mentioned", "the head is no longer the embedding" in said, said)
    # The small model itself has no outliers, and nothing to gain (docs/numbers.md).
    uneven = with_outliers(model, h.temporary("uneven"))
    for bits in ["i2z", "i3"]:
        few_bits = ["--format", bits, "--group", 32, "--method", "gptq", *calibration]
        plain, _ = divergence(uneven, *few_bits)
        rotated, _ = divergence(uneven, *few_bits, "--rotate")
        h.fact(f"rotated, gptq to {bits} loses less", rotated < 0.9 * plain, (rotated, plain))
    smooth, _ = divergence(model, "--format", "i8", "--group", 0, "--smooth", 0.5, *calibration)
    h.fact("smoothed weights of 8 bits are near the model", smooth < 0.003, smooth)


def facts_rotated(h, models):
    model = h.model("stories260k")
    calibration = ["--calibration", h.corpus("tinystories-plain.txt"), "--samples", 2, "--tokens", 32]
    h.succeeds("compress", model, "-o", h.temporary("turned.bantam"), "--format", "i2z", "--rotate", "--method", "gptq", *calibration)
    h.succeeds("compress", model, "-o", h.temporary("turned.bantam"), "--format", "i8", "--smooth", 0.5, *calibration)
    h.refuses(2, "compress", model, "-o", h.temporary("x"), "--seed", 3, says="--rotate")
    bundled = h.succeeds("compress", model, "-o", h.temporary("smooth.bantam"), "--format", "i8", "--smooth", 0.5, "--samples", 2, "--tokens", 32)
    h.fact("--smooth without a text takes the bundled one", "bundled text" in bundled.err, bundled)
    h.refuses(2, "compress", model, "-o", h.temporary("x"), "--format", "i8", "--smooth", 2, *calibration, says="from 0 to 1")
    h.refuses(2, "compress", model, "-o", h.temporary("x"), "--format", "i8", "--smooth", "x", *calibration, says="--smooth")
    h.refuses(2, "compress", model, "-o", h.temporary("x"), "--format", "i8", "--smooth", 0.5, "--method", "awq", *calibration, says="rtn or gptq")


def facts_clip(h, models):
    """Grids that clip the largest weights lose less at few bits, and say so in the recipe."""
    model, out = h.model("stories260k"), h.temporary("clipped.bantam")

    def errors(clip, format, *options):
        report = h.json("compress", model, "-o", out, "--format", format, "--clip", clip, *options)
        h.equal(f"--clip {clip} is written down", h.json("inspect", out)["recipe"]["clip"], clip)
        return [layer["relative_error"] for layer in report["layers"] if layer["format"] == format]

    for format in ["i3z.g32", "i4z.g32", "i3.g32", "i4.g32"]:
        range, least = errors("minmax", format), errors("mse", format)
        h.fact(f"{format}: mse loses less than minmax in every matrix", all(b < a for a, b in zip(range, least)), (range, least))
    plain = h.json("compress", model, "-o", out, "--format", "i3z.g32")["layers"]
    h.equal("minmax is what happens without", errors("minmax", "i3z.g32"), [layer["relative_error"] for layer in plain if layer["format"] == "i3z.g32"])
    h.fact("a percentile moves the grids", errors("percentile:98", "i3z.g32") != errors("minmax", "i3z.g32"))
    errors("mse", "i3z.g32", "--calibration", h.corpus("tinystories-plain.txt"), "--samples", 2, "--tokens", 32)
    for clip, says in [("max", "minmax, mse, percentile:P"), ("percentile:", "percentile:P"), ("percentile:x", "percentile:P"), ("percentile:1e999", "percentile:P"),
                       ("percentile:50", "above 50"), ("percentile:101", "above 50"), ("percentile:nan", "above 50")]:
        h.refuses(2, "compress", model, "-o", h.temporary("never"), "--clip", clip, says=says)
    h.refuses(2, "compress", model, "-o", h.temporary("never"), "--clip", "mse", "--method", "gptq", says="expected method rtn")
    h.refuses(2, "compress", model, "-o", h.temporary("never"), "--clip", "mse", "--format", "f16", says="integers or levels")


def facts_inputs(h, models):
    """Reports of runs that calibrate say what the matrices read."""
    out = h.temporary("inputs.bantam")
    report = h.json("compress", h.model("stories260k"), "-o", out, "--format", "i4z", "--group", 32, "--method", "gptq", "--report",
                    "--calibration", h.corpus("tinystories-plain.txt"), "--samples", 2, "--tokens", 32)
    h.equal("four groups in each of five blocks", [len(group["matrices"]) for group in report["inputs"]], [3, 1, 2, 1] * 5)
    for group in report["inputs"]:
        ordered = group["min"] <= group["p0.1"] < group["p99.9"] <= group["max"] and group["outlier_ratio"] >= 1
        h.fact(f"{group['matrices'][0]}: in order", ordered and set(group) == {"matrices", "min", "max", "p0.1", "p99.9", "outlier_ratio"}, group)
    text = Path(out + ".report.md").read_text()
    lines = [line for line in text.splitlines() if "q_proj, k_proj, v_proj" in line]
    h.equal("a table for people", (len(lines), lines[0].count("|")), (5, 7))
    plain = h.json("compress", h.model("stories260k"), "-o", out, "--report")
    h.fact("nothing without a text", plain["inputs"] == [] and "outlier ratio" not in Path(out + ".report.md").read_text(), plain["inputs"])


@figures
def facts_calibration_figures(h, models):
    """GPTQ with too little text is worse than rounding, and says so; with enough it is better, and says nothing."""
    model, out, text = h.model("books4m"), h.temporary("little.bantam"), h.corpus("books-valid.txt")
    kl = lambda path: h.json("perplexity", path, text, "--context", 256, "--limit", 3000, "--against", model)["kl_mean"]
    h.json("compress", model, "-o", out, "--format", "i3")
    rounded = kl(out)
    sizes = {1300: True, 100_000: False}
    for size, said in sizes.items():
        cut = h.write("calibration.txt", Path(h.corpus("books-train.txt")).read_bytes()[:size].decode("utf-8", "ignore"))
        seen = h.run("compress", model, "-o", out, "--format", "i3", "--method", "gptq", "--calibration", cut, "--json")
        h.equal(f"{size} bytes of text: worse than rounding", kl(out) > rounded, said)
        h.equal(f"{size} bytes of text: too few tokens, in a word", "tokens are few for the 768 columns of model.layers.0.mlp.down_proj" in seen.err, said)
        h.equal(f"{size} bytes of text: worse, in a word", "worse than rounding on held-out text" in seen.err, said)
        report = seen.json
        h.equal("the same in the report", any("held-out" in line for line in report["warnings"]), said)
        h.fact("errors of outputs", all(("output_error" in layer) == ("_proj" in layer["name"]) for layer in report["layers"]), report["layers"][:2])


@figures
def facts_fit_figures(h, models):
    """Mixed precision: as large as asked and never larger, nearer to the model than one format of that size."""
    model, out, text = h.model("books4m"), h.temporary("fit.bantam"), h.corpus("books-valid.txt")
    options = ["--calibration", h.corpus("books-train.txt"), "--samples", 4, "--tokens", 128, "--candidates", "i2z.g64,i3.g32,i4.g32,i5,i8"]
    uniform = h.json("compress", model, "-o", h.temporary("uniform.bantam"), "--keep", "*=i3.g32", *options[:6], "--evaluate", text, "--limit", 3000)
    budget = uniform["bytes_after"]
    planned = h.json("compress", model, "--fit", f"{budget}B", *options, "--dry-run")
    h.fact("a dry run writes nothing", not os.path.exists(out))
    fitted = h.json("compress", model, "-o", out, "--fit", budget, *options, "--evaluate", text, "--limit", 3000, "--report")
    size = os.path.getsize(out)
    h.fact("within half a percent of the budget, not above it", 0.995 * budget <= size <= budget, (size, budget))
    h.equal("as planned", (size, [(layer["name"], layer["format"]) for layer in fitted["layers"]]),
            (planned["bytes"], [(layer["name"], layer["format"]) for layer in planned["layers"]]))
    h.fact("nearer than one format for all", fitted["evaluation"]["kl_mean"] < uniform["evaluation"]["kl_mean"],
           (fitted["evaluation"], uniform["evaluation"]))
    h.fact("what was expected is near what is measured", 0.5 < fitted["fit"]["expected_kl"] / fitted["evaluation"]["kl_mean"] < 2, fitted["evaluation"])
    h.equal("the sum of its parts", round(sum(layer["expected_kl"] for layer in fitted["layers"]), 9), round(fitted["fit"]["expected_kl"], 9))
    seen = h.json("perplexity", out, text, "--limit", 3000, "--against", model)
    h.equal("measured as by perplexity", [fitted["evaluation"][key] for key in ("kl_mean", "perplexity_after", "perplexity_before")],
            [seen["kl_mean"], seen["perplexity"], seen["base_perplexity"]])
    report = Path(out + ".report.md").read_text()
    h.fact("a report for people", all(layer["name"] in report for layer in fitted["layers"]) and "fit.bantam.report.svg" in report, report[:500])
    h.equal("the same as a document", json.loads(Path(out + ".report.json").read_text()), fitted)
    chart = ElementTree.parse(out + ".report.svg").getroot()
    dots = [e for e in chart.iter() if e.tag.endswith("title")]
    judged = [layer for layer in fitted["layers"] if "output_error" in layer]
    h.equal("a dot for each matrix, one more where outputs were compared, and two for the plan", len(dots), len(fitted["layers"]) + len(judged) + 2)
    page = Path(out + ".report.html").read_text()
    h.fact("a page that holds the same", all(layer["name"] in page for layer in fitted["layers"]) and page.count("<svg ") == 4, page[:300])


def facts_fit(h, models):
    model = h.model("stories260k")  # small: every one of these measures again
    options = ["--calibration", h.corpus("tinystories-plain.txt"), "--samples", 1 if QUICK else 2, "--tokens", 16 if QUICK else 32, "--candidates", "i2z.g64,i3.g32,i4.g32,i8"]
    bits = h.json("compress", model, "--fit", "4.25bpw", *options, "--dry-run")
    h.fact("bits a weight", 0.995 * 4.25 <= bits["bits_per_weight"] <= 4.25, bits["bits_per_weight"])
    h.equal("units in letters of either case", h.json("compress", model, "--fit", "4.25BPW", *options, "--dry-run"), bits)
    kept = h.json("compress", model, "--fit", "4.25bpw", *options, "--keep", "*.up_proj=i4.g64", "--dry-run")
    h.fact("--keep stays", all(layer["format"] == "i4.g64" for layer in kept["layers"] if "up_proj" in layer["name"]), kept)
    pruned = h.json("compress", model, "-o", h.temporary("fit-pruned.bantam"), "--fit", "4.25bpw", *options, "--prune", "wanda:0.5", "--report", "--limit", 200)
    h.fact("a fit of pruned weights", pruned["bits_per_weight"] <= 4.25 and pruned["sparsity"] >= 0.499, pruned)
    h.fact("with columns for both", "| expected KL | zeros, % |" in Path(h.temporary("fit-pruned.bantam") + ".report.md").read_text())
    best = h.run("compress", model, "--fit", "1TB", *options, "--dry-run", "--json")
    h.fact("more than can be used", best.status == 0 and "the rest is of no use" in best.err and {layer["format"] for layer in best.json["layers"]} == {"i8.g32"}, best)
    h.refuses(1, "compress", model, "-o", h.temporary("never"), "--fit", "100kB", *options, says="--fit 100kB: budget: expected ")
    h.refuses(1, "compress", model, "-o", h.temporary("never"), "--fit", "1.5bpw", *options, says="bits a weight, found 1.5")
    for wrong in ["", "0GB", "-3MB", "6GiBs", "bpw", "1e9", "nan", "99999999TB", "0bpw", "3.5 bpw"]:
        h.refuses(2, "compress", model, "-o", h.temporary("never"), "--fit", wrong, *options, says="--fit")
    bundled = h.succeeds("compress", model, "--fit", "4.25bpw", *options[2:], "--dry-run")
    h.fact("--fit without a text takes the bundled one", "bundled text" in bundled.err, bundled)
    h.refuses(2, "compress", model, "-o", h.temporary("never"), "--fit", "1MB", *options, "--candidates", "i4,q99", says="--candidates")
    h.refuses(2, "compress", model, "-o", h.temporary("never"), "--fit", "1MB", *options, "--to", "safetensors", says="safetensors")
    h.refuses(2, "compress", model, "-o", h.temporary("never"), "--fit", "1MB", *options, "--smooth", "0.5", says="--smooth")
    turned = h.json("compress", model, "--fit", "5bpw", *options, "--rotate", "--dry-run")
    h.fact("rotated, the head is a matrix of its own", turned["bits_per_weight"] <= 5 and turned["layers"][1]["name"] == "lm_head", turned)
    folder = Path(h.temporary("measuring"))
    folder.mkdir()
    process = h.start("compress", h.model("books4m"), "-o", folder / "out", "--fit", "4bpw", "--calibration", h.corpus("books-train.txt"))
    time.sleep(1)  # measuring takes many times as long
    h.equal("interrupted while it measures", h.interrupt(process)[0], 130)
    process.communicate()
    h.equal("nothing is left behind", list(folder.iterdir()), [])
    h.refuses(1, "compress", model, "-o", h.temporary("never"), *options[:6], "--evaluate", h.temporary("absent.txt"), says="absent.txt")


def facts_dry_run(h, models):
    model = h.model("stories260k")
    for to, out in [("native", "dry.bantam"), ("gguf", "dry.gguf"), ("safetensors", "dry")]:
        options = ["--format", "f16" if to == "safetensors" else "q4_0", "--to", to]
        plan = h.json("compress", model, "--dry-run", *options)
        real = h.json("compress", model, "-o", h.temporary(out), *options)
        h.equal(f"{to}: the size to come", plan["bytes"], real["bytes_after"])
        h.equal(f"{to}: the formats to come", [layer["format"] for layer in plan["layers"]], [layer["format"] for layer in real["layers"]])
    table = h.succeeds("compress", model, "--dry-run", "-o", h.temporary("never"))
    h.fact("for people", "i8.g32" in table.text and "bits a weight" in table.text and table.err == "", table)
    h.fact("nothing is written", not os.path.exists(h.temporary("never")))


def facts_resume(h, models):
    """Killed at any time, a run that calibrates goes on after its last whole block."""
    folder = Path(h.temporary("resume"))
    folder.mkdir()
    out, journal = folder / "out.bantam", folder / "out.bantam.journal"
    # A run that cannot be killed in its midst proves nothing: longer where it is fast.
    model, samples = (h.model("stories260k"), 4) if QUICK else (h.model("books4m"), 8)
    run = ["compress", model, "-o", out, "--format", "i3z.g64", "--method", "gptq", "--calibration", h.corpus("books-train.txt"), "--samples", samples, "--tokens", 128]
    h.succeeds(*run)
    complete = out.read_bytes()
    h.equal("nothing beside a finished run", [p.name for p in folder.iterdir()], ["out.bantam"])
    # A block's tensors are written behind a line that describes them: a file that grew by this has all of its matrices.
    block = 600 + sum(t["bytes"] for t in h.json("inspect", out)["tensors"] if ".layers.0." in t["name"] and len(t["shape"]) == 2)
    out.unlink()
    size = lambda: journal.stat().st_size if journal.exists() else 0
    # Blocks that a run may write down before it is killed.
    for kills in [[0, 1]] if QUICK else [[1], [0, 1], [1, 2]]:
        for blocks in kills:
            process, enough = h.start(*run, "--resume"), size() + blocks * block
            while process.poll() is None and size() < enough:
                time.sleep(0.002)
            process.kill()
            process.communicate()
            h.fact("a killed run leaves no output", process.returncode != 0 and not out.exists())
        result = h.run(*run, "--resume")
        h.fact("it goes on with what was done", "blocks were done already" in result.err, result)
        h.fact("the bytes of an uninterrupted run", result.status == 0 and out.read_bytes() == complete, result)
        h.fact("the journal is gone", not journal.exists())
        out.unlink()
    process = h.start(*run)
    while process.poll() is None and not journal.exists():
        time.sleep(0.002)
    status, _ = h.interrupt(process)
    _, err = process.communicate()
    h.fact("an interrupted run says how to go on", status != 130 or b"--resume" in err, err)
    journal.write_bytes(b"something else\n")
    h.fact("without --resume, a run starts over", "done already" not in h.succeeds(*run).err and out.read_bytes() == complete)


def with_wide_block(folder, source):
    """A model of one block whose feed-forward part is so wide that the moments of its inputs take seconds."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.gguf", "*.safetensors"))
    config = json.loads((folder / "config.json").read_text())
    width = 8192
    config.update(num_hidden_layers=1, intermediate_size=width)
    (folder / "config.json").write_text(json.dumps(config))
    weights = {}
    for name, (dtype, shape, data) in tensor_file.read(source / "model.safetensors").items():
        if "layers." in name and "layers.0." not in name:
            continue
        if ".mlp." in name:
            shape = [width if n == 172 else n for n in shape]
            data = np.random.default_rng(3).normal(0, 0.05, shape).astype("<f4").tobytes()
            dtype = "F32"
        weights[name] = (dtype, shape, data)
    tensor_file.write(folder / "model.safetensors", weights)
    return folder


def facts_interrupted_inside_a_matrix(h, models):
    """Signals stop the work on a matrix, however long it would take."""
    folder = Path(h.temporary("interrupted"))
    folder.mkdir()
    model = with_wide_block(Path(h.temporary("wide")), models / "stories260k")
    out = folder / "out.bantam"
    run = ["compress", model, "-o", out, "--format", "i4z", "--group", 32, "--method", "gptq", "--calibration", h.corpus("tinystories-plain.txt")]
    for number in [signal.SIGINT, signal.SIGTERM]:
        out.write_bytes(b"old")
        process = h.start(*run)
        time.sleep(3)
        h.equal("it still runs after three seconds", process.poll(), None)
        status, seconds = h.interrupt(process, number)
        process.communicate()
        h.equal("exit status", status, 128 + number)
        h.fact("ends long before the matrix would be done", seconds < 30, seconds)  # under sanitizers, too
        h.equal("the old file, and nothing beside it", ([p.name for p in folder.iterdir()], out.read_bytes()), (["out.bantam"], b"old"))


def facts_same_file(h, models):
    folder = Path(h.temporary("same"))
    shutil.copytree(models / "stories260k", folder)
    native = h.temporary("same.bantam")
    h.succeeds("compress", folder, "-o", native)
    os.link(native, h.temporary("hard-link"))
    os.symlink(native, h.temporary("symbolic-link"))
    os.symlink(folder / "model.safetensors", h.temporary("link-into-folder"))
    before = Path(native).read_bytes()
    for out in [native, h.temporary("hard-link"), h.temporary("symbolic-link"), h.temporary("./same.bantam")]:
        h.refuses(1, "compress", native, "-o", out, "--format", "q8", says="same file")
    weights = (folder / "model.safetensors").read_bytes()
    for out in [folder, folder / "model.safetensors", h.temporary("link-into-folder")]:
        h.refuses(1, "compress", folder, "-o", out)
    h.refuses(1, "compress", folder / "stories260k-f32.gguf", "-o", folder / "stories260k-f32.gguf", says="same file")
    h.refuses(1, "compress", native, "-o", h.temporary("."))
    h.refuses(1, "compress", native, "-o", h.temporary("no-such-folder/x"))
    h.refuses(1, "compress", native, "-o", "/dev/null")
    h.equal("the inputs are intact", (Path(native).read_bytes(), (folder / "model.safetensors").read_bytes()), (before, weights))


def facts_old_or_new(h, models):
    folder = Path(h.temporary("atomic"))
    folder.mkdir()
    out = folder / "out.bantam"
    h.succeeds("compress", h.model("books4m"), "-o", out)
    complete = out.read_bytes()
    for limit in [0, 1, 4096, 100_000, 1_000_000, len(complete) - 1]:
        if h.run("--version", file_limit=limit).status != 0:
            print(f"skipped: the thread sanitizer itself cannot start with files of {limit} bytes")
            continue
        out.write_bytes(b"old")
        h.refuses(1, "compress", h.model("books4m"), "-o", out, file_limit=limit)
        h.fact(f"a disk of {limit} bytes leaves the old file", out.read_bytes() == b"old" and not leftovers(folder), leftovers(folder))
    dice = random.Random(1)
    seen = set()
    for _ in range(25):
        out.write_bytes(b"old")
        process = h.start("compress", h.model("books4m"), "-o", out)
        time.sleep(dice.uniform(0, 0.3))
        status, _ = h.interrupt(process)
        process.communicate()
        seen.add(status)
        # Before its handlers stand, the signal kills it.
        h.fact("an interrupted run ends in order", status in (0, 130, -2), status)
        content = out.read_bytes()
        h.fact("old or new, and nothing beside it", content in (b"old", complete) and not leftovers(folder), (len(content), leftovers(folder)))
        if status == 0:
            h.fact("done means new", content == complete)
    h.succeeds("compress", h.model("books4m"), "-o", out)
    h.fact("the same bytes again, over an old file", out.read_bytes() == complete)


def facts_inspect(h, models):
    native = h.temporary("inspected.bantam")
    h.succeeds("compress", h.model("stories260k"), "-o", native)
    keys = {"path", "container", "architecture", "config", "parameters", "bytes", "bits_per_weight", "tensors", "tokenizer", "recipe", "verify"}
    for model, container in [(h.model("stories260k"), "safetensors"), (h.gguf("stories260k"), "gguf"), (native, "bantam")]:
        seen = h.json("inspect", model)
        h.fact(f"{container}: keys", keys <= set(seen), seen)
        h.equal(f"{container}: what it is", (seen["container"], seen["architecture"], seen["parameters"]), (container, "llama", 260032))
        h.equal(f"{container}: config", [seen["config"][k] for k in ["dim", "layers", "heads", "kv_heads", "ffn", "vocab", "context", "tied"]], [64, 5, 8, 4, 172, 512, 512, True])
        h.fact(f"{container}: tensors", len(seen["tensors"]) == 47 and all(set(t) == {"name", "shape", "format", "bytes"} for t in seen["tensors"]), seen["tensors"][:2])
        h.equal(f"{container}: tokenizer", [seen["tokenizer"][k] for k in ["vocab", "bos", "eos", "adds_bos", "chat_template"]], [512, 1, 2, True, False])
        text = h.succeeds("inspect", model).text
        h.fact(f"{container}: text", "llama" in text and "model.layers.4.mlp.down_proj.weight" in text and "260032" in text, text[:200])
    h.equal("the recipe of a native file", h.json("inspect", native)["recipe"]["method"], "rtn")
    h.fact("--verify: all is well", h.json("inspect", native, "--verify")["verify"] == {"hashes": 47, "missing": [], "bad": [], "header": True})
    h.fact("--verify: a file without hashes says so", "stores no hashes" in h.succeeds("inspect", h.model("stories260k"), "--verify").text)
    for name, (_, _, begin, end) in tensor_file.places(native).items():
        content = bytearray(Path(native).read_bytes())
        content[(begin + end) // 2] ^= 0x10
        broken = h.write("broken.bantam", bytes(content))
        result = h.run("inspect", broken, "--verify", "--json")
        # A flip may be visible at once, too: then opening refuses.
        h.fact(f"--verify finds a bit flipped in {name}", result.status == 1 and name in result.err and result.err.count("\n") == 1, result)
        h.equal(f"{name}: the document names it", result.json["verify"]["bad"], [name])
