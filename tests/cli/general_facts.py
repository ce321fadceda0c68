"""What holds for every verb: help, wrong usage, broken streams, completions."""
import os
import re
import subprocess
from pathlib import Path

VERBS = ["run", "serve", "tokenize", "logits", "perplexity", "embed", "rerank", "classify", "compress", "inspect", "bench", "plan", "formats", "cpuinfo"]


def long_options(text):
    """Long options that a help text defines."""
    return sorted(set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.M)))


def facts_help(h):
    version = h.succeeds("--version")
    h.fact("--version names program and number", re.fullmatch(r"bantam \d+\.\d+\.\d+\n", version.text), version)
    overview = h.succeeds("--help")
    for verb in VERBS:
        h.fact(f"--help lists {verb}", re.search(rf"^  {verb} ", overview.text, re.M), overview)
        own = h.succeeds(verb, "--help")
        h.fact(f"{verb} --help has usage and examples", f"Usage: bantam {verb}" in own.text and "\nExamples:\n" in own.text, own)
        h.equal(f"{verb} --help says nothing on standard error", own.err, "")
        h.equal(f"`help {verb}` is the same", h.succeeds("help", verb).out, own.out)
        for option in ["--json", "--threads", "--isa"]:
            h.fact(f"{verb} --help knows {option}", option in long_options(own.text), own)


def facts_contract_options(h):
    contract = {
        "run": "--temperature --top-k --top-p --min-p --repeat-penalty --seed --stop --context --kv --chat --system --memory --lora",
        "tokenize": "--decode --no-special --lines --parse-special",
        "logits": "--ids --top --all-positions --parse-special --memory --lora",
        "perplexity": "--context --limit --against --memory --lora",
        "compress": "--method --format --group --calibration --samples --tokens --desc-act --keep --prune --fit --to --resume --rotate --seed --smooth --clip --merge-lora",
        "inspect": "--verify",
        "bench": "--depth --batch --kv --memory --lora",
        "plan": "--memory --context --kv",
        "serve": "--host --port --parallel --context --memory --queue --api-key --cache-file --slots --metrics --jinja --chat-template --seed --lora --embeddings --reranking --alias",
    }
    for verb, options in contract.items():
        missing = set(options.split()) - set(long_options(h.succeeds(verb, "--help").text))
        h.equal(f"{verb} has every option of the contract", missing, set())


def facts_wrong_usage(h):
    h.refuses(2, says="expected a verb")
    h.refuses(2, "frobnicate", says="frobnicate")
    h.refuses(2, "--frobnicate")
    h.refuses(2, "run", says="MODEL")
    h.refuses(2, "formats", "cpuinfo")
    h.refuses(2, "perplexity", "model", says="FILE")
    h.refuses(2, "compress", "model", says="-o")
    h.refuses(2, "run", "model", "more", "-p", "x", says="more")
    h.refuses(2, "run", "model", "-p", "x", "-f", "y")
    h.refuses(2, "logits", "model", "-p", "x", "--ids", "[1]")
    h.refuses(2, "run", "model", "-p", "x", "--system", "y", says="--chat")
    h.refuses(2, "run", "model", "-p")
    h.refuses(2, "run", "model", "-p", "x", "--unknown\nline")
    for verb in VERBS:
        h.refuses(2, verb, "--no-such-option")


def facts_hostile_values(h):
    numbers = ["", "x", "nan", "-nan", "inf", "1e999", "0x10", "1.5.2", "1,5", "９", " 1", "1 ", "--", "\t", "9" * 400]
    cases = {
        "--temperature": numbers + ["-1"],
        "--top-p": numbers + ["-0.1", "1.1"],
        "--min-p": numbers + ["-0.1", "2"],
        "--typical": numbers + ["-1"],
        "--xtc-probability": numbers + ["2"],
        "--dry-base": numbers + ["0.5"],
        "--dry-allowed-length": numbers + ["0"],
        "--mirostat": numbers + ["3"],
        "--repeat-penalty": numbers + ["0", "-1"],
        "--frequency-penalty": numbers,
        "--top-k": numbers + ["-1", "1.5", "1e3", "99999999999", "18446744073709551617"],
        "-n": numbers + ["-2", "2.5", "99999999999999999999"],
        "--repeat-last-n": numbers + ["-2"],
        "--seed": [n for n in numbers if n] + ["-1", "99999999999999999999"],
        "--context": numbers + ["-1", "1e4", "99999999999"],
        "--kv": ["", "f8", "F16", "f16,q8"],
        "--threads": numbers + ["-1", "1025", "99999999999"],
        "--isa": ["no-such-isa", "AVX", "../x"],
        "--stop": [""],
        "--logit-bias": ["", "1", "=", "x=1", "1=x", "1=nan", "-1=1", "1.5=1", "99999999999=1"],
    }
    for option, values in cases.items():
        for value in values:
            h.refuses(2, "run", "no-such-model", "-p", "x", option, value)
    for value in ["", "1", "[", "[1", "{}", '["1"]', "[1.5]", "[-1]", "[1e3]", "[99999999999]", "[null]", "[[1]]", "[]", "[" * 100000]:
        h.refuses(2, "logits", "no-such-model", "--ids", value)
    for arguments in [["logits", "m", "-p", "x", "--top", "0"], ["bench", "m", "-r", "0"], ["bench", "m", "-p", "-1"], ["bench", "m", "-p", "0", "-n", "0"], ["bench", "m", "-p", "0,0", "-n", "0"], ["bench", "m", "-p", "16,"], ["bench", "m", "-p", "16,x"], ["bench", "m", "-d", "0,-1"],
                      ["bench", "m", "--batch", "0"], ["perplexity", "m", "f", "--context", "1"], ["perplexity", "m", "f", "--limit", "-1"],
                      ["compress", "m", "-o", "o", "--group", "-2"], ["compress", "m", "-o", "o", "--samples", "0"]]:
        h.refuses(2, *arguments)


def facts_world_errors(h):
    missing = h.temporary("missing")
    empty = Path(h.temporary("empty"))
    empty.mkdir()
    h.write("short.gguf", b"GGUF")
    h.write("zeros.bantam", bytes(64))
    for model in [missing, empty, h.temporary("short.gguf"), h.temporary("zeros.bantam"), "/dev/null", "", "a\nb"]:
        h.refuses(1, "run", model, "-p", "x")
        h.refuses(1, "tokenize", model)
        h.refuses(1, "logits", model, "-p", "x")
        h.refuses(1, "inspect", model)
        h.refuses(1, "bench", model)
        h.refuses(1, "compress", model, "-o", h.temporary("out"))
        h.refuses(1, "run", model, "-p", "x", "--json")
    h.refuses(1, "run", missing, "-f", missing + ".txt", says=".txt")
    h.refuses(1, "run", missing, "-f", empty)
    h.refuses(1, "perplexity", missing, missing + ".txt", says=".txt")
    h.refuses(1, "cpuinfo", env={**os.environ, "BANTAM_ISA": "no-such-isa"}, says="BANTAM_ISA")


def facts_broken_streams(h):
    for verb in [["formats"], ["cpuinfo", "--json"], ["--help"], ["run", "--help"], ["--version"]]:
        with open("/dev/full", "wb") as full:
            h.refuses(1, *verb, stdout=full, says="standard output")
        reader, writer = os.pipe()
        os.close(reader)
        gone = h.run(*verb, stdout=writer)
        os.close(writer)
        h.fact(f"{verb}: a closed pipe ends quietly", gone.status == 0 and gone.err == "", gone)
        shell = subprocess.run(["/bin/sh", "-c", '"$0" "$@" >&-', h.program, *verb], capture_output=True)
        h.equal(f"{verb}: a closed standard output is an error", shell.returncode, 1)


def facts_lists(h):
    formats = h.json("formats")
    h.equal("formats: keys", set(formats), {"formats", "gguf_formats", "mixes", "architectures", "classes", "gguf_architectures", "kv", "source_types"})
    h.fact("formats: entries", all(set(f) == {"name", "id", "bits_per_weight", "group"} for f in formats["formats"]), formats)
    h.fact("formats: those of GGUF alone", {"iq1_s.g32", "iq2_xs.g16", "iq3_s.g32"} <= {f["name"] for f in formats["gguf_formats"]}, formats)
    h.fact("formats: names and ids differ", len({f["name"] for f in formats["formats"]}) == len({f["id"] for f in formats["formats"]}) == len(formats["formats"]), formats)
    h.fact("formats: what the issue asks", {"f32", "f16", "bf16", "i8.row", "i8.g32", "i4.g32", "nf4.g64", "fp4.g64"} <= {f["name"] for f in formats["formats"]}, formats)
    h.fact("formats: kinds of cache", {"f32", "f16", "q8", "q4", "q3"} == set(formats["kv"]), formats)
    h.fact("formats: architectures", {"llama", "mistral", "qwen2", "qwen3"} <= set(formats["architectures"]), formats)
    h.fact("formats: classes of folders, and architectures of GGUF files", "LlamaForCausalLM" in formats["classes"] and {"llama", "qwen3vl", "step35"} <= set(formats["gguf_architectures"]), formats)
    h.fact("formats: each name once", all(len(set(formats[key])) == len(formats[key]) for key in ("architectures", "classes", "gguf_architectures")), formats)
    h.fact("formats: source types", {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"} <= set(formats["source_types"]), formats)
    table = h.succeeds("formats").text
    h.fact("formats: the table names every format", all(f["name"] in table for f in formats["formats"]), table)
    h.equal("compress --format help lists them", set(h.succeeds("compress", "--format", "help").text.replace(",", "").split()), {f["name"] for f in formats["formats"]} | set(formats["mixes"]))
    cpu = h.json("cpuinfo")
    h.equal("cpuinfo: keys", set(cpu), {"cpu", "cores", "features", "isas", "isa"})
    h.fact("cpuinfo: the one in use is there", cpu["isa"] in cpu["isas"] and cpu["isas"][-1] == "generic" and cpu["cores"] >= 1, cpu)
    for isa in cpu["isas"]:
        h.equal(f"--isa {isa}", h.json("cpuinfo", "--isa", isa)["isa"], isa)
        h.equal(f"BANTAM_ISA={isa}", h.json("cpuinfo", env={**os.environ, "BANTAM_ISA": isa})["isa"], isa)


def facts_completions(h):
    def offered(*words):
        return [line.split("\t")[0] for line in h.succeeds("__complete", *words).text.splitlines()]

    h.equal("verbs, and what stands alone", sorted(offered("")), sorted([*VERBS, "--help", "--version"]))
    h.equal("verbs that begin so", offered("per"), ["perplexity"])
    for verb in VERBS:
        shown = h.succeeds(verb, "--help").text
        h.equal(f"options of {verb}", sorted(offered(verb, "--")), long_options(shown))
        for option, words in re.findall(r"^  (--[\w-]+) (\S+\|\S+)", shown, re.M):
            h.equal(f"words of {verb} {option}", offered(verb, option, ""), words.split("|"))
    h.equal("formats", offered("compress", "--format", ""), h.succeeds("compress", "--format", "help").text.replace(",", "").split())
    h.equal("instruction sets", offered("run", "--isa", ""), h.json("cpuinfo")["isas"])
    for words in [[], ["run", ""], ["run", "-f", ""], ["run", "--top-k", ""], ["nothing", "--"]]:
        h.equal(f"{words}: any text or file", offered(*words), [])
    folder = Path(__file__).resolve().parents[2] / "src" / "cli" / "completions"
    script = f'source "{folder}/bantam.bash"; COMP_WORDS=(bantam run --ch); COMP_CWORD=2; _bantam "{h.program}"; echo "${{COMPREPLY[@]}}"'
    if Path("/bin/bash").exists():
        h.equal("bash completes run --ch", subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True).stdout, "--chat\n")
