"""Names: models by content and by hub, outputs by their names, options by llama.cpp's, and what a slip is taken for."""
import json
import os
import shutil
from pathlib import Path

STORY = ["-p", "Once upon a time", "--temperature", 0]


def facts_slips(h):
    h.refuses(2, "rnu", says="did you mean run?")
    h.refuses(2, "run", "--tempreature", 1, "x", says="unknown option --tempreature; did you mean --temperature?")
    h.refuses(2, "run", "--ctx-sise", 1, "x", says="did you mean --ctx-size?")
    h.refuses(2, "run", "model", "another", says="unexpected argument another")
    h.refuses(2, "compress", "x", "-o", "y", "--method", "gtpq", says="did you mean gptq?")
    h.refuses(2, "compress", "x", "-o", "y", "--to", "safetensor", says="did you mean safetensors?")
    said = h.refuses(2, "compress", "x", "-o", "y", "--format", "q4_km", says="did you mean Q4_K_M")
    h.fact("a short line, not all formats", len(said.err) < 250 and "`bantam formats`" in said.err, said)
    h.refuses(2, "compress", "x", "-o", "y", "--format", "i4", "--group", 48, says="expected i4.g32, i4.g64, i4.g128, found i4 with group 48")
    h.refuses(2, "compress", "x", "-o", "y", "--keep", "*=q4_kk", says="did you mean q4_k")


def facts_missing_models(h, models):
    h.refuses(1, "run", models / "books4n", *STORY, says="did you mean books4m?")
    h.refuses(1, "run", models, *STORY, says="folders of models: give one of babyllama105, books4m, stories260k")
    h.refuses(2, models / "books4m", says="did you mean run ")
    folder = Path(h.temporary("several"))
    folder.mkdir()
    h.refuses(1, "inspect", folder, says="found an empty folder")
    for name in ["a", "b"]:
        shutil.copy(h.gguf("stories260k"), folder / f"{name}.gguf")
    h.refuses(1, "run", folder, *STORY, says="several files: give one of a.gguf, b.gguf")
    (folder / "b.gguf").unlink()
    h.equal("the only file of a folder is the model", h.json("inspect", folder)["container"], "gguf")
    pipe = h.temporary("pipe.gguf")
    os.mkfifo(pipe)
    for verb in ["run", "inspect", "tokenize"]:
        h.refuses(1, verb, pipe, *(STORY if verb == "run" else []), says="found a device or pipe")


def facts_hub(h, models):
    cache = Path(h.temporary("hub"))
    snapshot = cache / "models--some--stories" / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (cache / "models--some--stories" / "refs").mkdir()
    (cache / "models--some--stories" / "refs" / "main").write_text("0123abcd")
    blobs = cache / "models--some--stories" / "blobs"
    blobs.mkdir()
    for file in (models / "stories260k").iterdir():
        if file.suffix != ".gguf":
            shutil.copy(file, blobs / file.name)
            (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    environment = {**os.environ, "HF_HUB_CACHE": str(cache)}
    expected = h.succeeds("run", h.model("stories260k"), *STORY, "-n", 10).out
    h.equal("a name of the hub that was downloaded", h.succeeds("run", "some/stories", *STORY, "-n", 10, env=environment).out, expected)
    h.equal("the tokenizer alone", h.succeeds("tokenize", "some/stories", input="Lily", env=environment).out,
            h.succeeds("tokenize", h.model("stories260k"), input="Lily").out)
    h.refuses(1, "run", "Qwen/Qwen3-0.6B", *STORY, env=environment, says="`hf download Qwen/Qwen3-0.6B` brings it there")


def facts_content(h, models):
    """What a file is called says nothing of what it is."""
    native = h.temporary("native")
    h.succeeds("compress", h.model("stories260k"), "-o", native, "--format", "f32")
    for source, kind in [(native, "bantam"), (h.gguf("stories260k"), "gguf")]:
        expected = h.succeeds("run", source, *STORY, "-n", 5).out
        for name in ["x.bin", "x.gguf", "x.safetensors", "x.bantam", "x", "x.json"]:
            path = h.temporary(name)
            shutil.copy(source, path)
            h.equal(f"{kind} as {name}", h.json("inspect", path)["container"], kind)
            h.equal(f"{kind} as {name} runs", h.succeeds("run", path, *STORY, "-n", 5).out, expected)
            h.equal(f"{kind} as {name} has its tokenizer", h.succeeds("tokenize", path, input="Lily").status, 0)
    plain = h.temporary("plain.gguf")
    shutil.copy(models / "stories260k" / "model.safetensors", plain)
    h.refuses(1, "run", plain, *STORY, says="found plain safetensors: give the folder")
    vocabulary = h.temporary("vocabulary.x")
    shutil.copy(models / "stories260k" / "tokenizer.json", vocabulary)
    h.equal("a vocabulary alone", h.json("inspect", vocabulary)["container"], "vocabulary")


def facts_outputs(h, models):
    """The name of an output says what it is."""
    model = h.model("books4m")
    for name, format, container in [("o.gguf", "Q4_K_M", "gguf"), ("o.bantam", "q4_k_m", "bantam"), ("o", "q4", "bantam"), ("folder/", "f16", "safetensors"),
                                    ("gptq/", "q4", "safetensors")]:
        out = h.temporary(name) + ("/" if name.endswith("/") else "")
        seen = h.succeeds("compress", model, "-o", out, "--format", format)
        h.equal(f"-o {name}", h.json("inspect", out)["container"], container)
        h.equal(f"-o {name}: a word about folders", "a Hugging Face folder" in seen.err, name.endswith("/"))
    config = json.loads(Path(h.temporary("gptq/config.json")).read_text())
    h.equal("a folder of 4 bits is GPTQ's", config["quantization_config"]["quant_method"], "gptq")
    formats = {t["name"]: t["format"] for t in h.json("inspect", h.temporary("o.gguf"))["tensors"]}
    h.fact("the mix is in the file", {"Q4_K", "Q6_K"} <= set(formats.values()), formats)
    h.succeeds("compress", model, "-o", h.temporary("folder"), "--format", "bf16")
    h.equal("an existing folder is a folder", h.json("inspect", h.temporary("folder"))["tensors"][0]["format"], "BF16")
    other = h.succeeds("compress", model, "-o", h.temporary("other.gguf"), "--to", "native")
    h.fact("--to counts, with a word", "other.gguf: --to native writes another kind of file" in other.err, other)
    h.equal("and the file is what --to says", h.json("inspect", h.temporary("other.gguf"))["container"], "bantam")
    h.refuses(2, "compress", model, "-o", h.temporary("o.safetensors"), says="expected a name that says what to write")
    h.refuses(2, "compress", model, "-o", h.temporary("o-folder") + "/", "--format", "q4_k_m", says="folders")


def facts_spellings(h, models):
    """llama.cpp's words for ours."""
    model = h.model("stories260k")
    ours = h.json("run", model, *STORY, "-n", 12, "--context", 64, "--threads", 1, "--seed", 5)
    theirs = h.json("run", "-m", model, "-p", "Once upon a time", "--temp", 0, "--n-predict", 12, "-c", 64, "-t", 1, "-s", 5)
    h.equal("a run by llama.cpp's words", (theirs["tokens"], theirs["seed"]), (ours["tokens"], 5))
    h.equal("with =", h.json("run", f"--model={model}", *STORY, "--predict=12", "--ctx-size=64")["tokens"], ours["tokens"])
    for text in ["-m", "-c", "--temp", "-t"]:
        h.equal(f"a prompt may read {text}", h.json("run", model, "-p", text, "-n", 0)["prompt_tokens"],
                len(h.succeeds("tokenize", model, input=text).json))
    text = h.corpus("tinystories-plain.txt")
    h.equal("perplexity -m MODEL -f FILE", h.json("perplexity", "-f", text, "-m", model, "-c", 128, "--limit", 400)["nll"],
            h.json("perplexity", model, text, "--context", 128, "--limit", 400)["nll"])
    h.refuses(2, "run", model, "-m", model, *STORY, says="unexpected argument")
    # What is said of GPUs and buffers.
    line = h.succeeds("run", "-m", model, "-p", "Once upon a time", "--temp", 0, "-n", 12, "-c", 64, "-ngl", 99, "--n-gpu-layers=99", "-fa", "-t", 1, "-b", 512, "--mlock", "-ctk", "q8_0", "-s", 5, "--json")
    h.equal("is left out", line.json["tokens"], h.json("run", model, *STORY, "-n", 12, "--context", 64, "--kv", "q8", "--seed", 5)["tokens"])
    h.fact("with a word", "without meaning here: -ngl, --n-gpu-layers, -fa, -b, --mlock" in line.err, line.err)
    h.equal("a prompt may read -ngl", h.json("run", model, "-p", "-ngl", "-n", 0)["prompt_tokens"], len(h.succeeds("tokenize", model, input="-ngl").json))
    h.refuses(2, "compress", model, "-o", h.temporary("x.gguf"), "-ngl", 99, says="unknown option")
    h.refuses(2, "run", model, *STORY, "--mmproj", "x", says="unknown option --mmproj")
    h.refuses(1, "run", "-hf", "nobody/nothing:Q4_K_M", *STORY, says="`hf download nobody/nothing`")
    shown = h.succeeds("run", "--help").text
    h.fact("--help lists them", "-m MODEL" in shown and "--ctx-size (--context)" in shown, shown)
