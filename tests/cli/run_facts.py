"""`bantam run` through pipes: golden texts, streaming, interruption, sessions."""
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from harness import read_available

STORY = ["-p", "Once upon a time"]
ENDLESS = ["-n", "-1", "--ignore-eos", "--context", "1000000"]


def facts_golden_texts(h, models):
    golden = json.loads((models / "golden.json").read_text())
    for name in ["stories260k", "babyllama105", "books4m"]:
        native = h.temporary(f"{name}-f32.bantam")
        h.succeeds("compress", h.model(name), "-o", native, "--format", "f32")
        for case in golden[name]["greedy"]:
            for source in [h.model(name), h.gguf(name), native]:
                seen = h.json("run", source, "-p", case["prompt"], "-n", 80, "--temperature", 0, "--kv", "f32")
                h.equal(f"{source}: {case['prompt']!r}", seen["tokens"], case["generated_ids"])
                h.equal(f"{source}: text of {case['prompt']!r}", seen["text"].strip(), case["text"].strip())


def facts_json(h, models):
    seen = h.json("run", h.model("stories260k"), *STORY, "-n", 20, "--temperature", 0)
    keys = {"text", "tokens", "prompt_tokens", "generated_tokens", "prompt_ms", "generate_ms", "finish_reason"}
    h.fact("keys of the contract", keys <= set(seen), seen)
    h.fact("counts", seen["prompt_tokens"] == 5 and seen["generated_tokens"] == len(seen["tokens"]) == 20, seen)
    h.fact("times", seen["prompt_ms"] > 0 and seen["generate_ms"] > 0, seen)
    h.equal("finish_reason", seen["finish_reason"], "length")
    plain = h.succeeds("run", h.model("stories260k"), *STORY, "-n", 20, "--temperature", 0)
    h.equal("plain output is the text and nothing else", plain.text, seen["text"])
    h.fact("statistics on standard error", "tok/s" in plain.err and "finish: length" in plain.err and "seed" in plain.err, plain)
    quiet = h.succeeds("run", h.model("stories260k"), *STORY, "-n", 5, "--temperature", 0, "--quiet")
    h.equal("--quiet", quiet.err, "")


def facts_guesses(h, models):
    model = h.model("stories260k")
    for choice in [["--temperature", 0], ["--temperature", 0.8, "--seed", 5]]:
        plain = h.json("run", model, *STORY, "-n", 150, *choice)
        for guesses in [["--lookup", 8], ["--draft", h.model("stories260k")], ["--lookup", 4, "--draft", model]]:
            seen = h.json("run", model, *STORY, "-n", 150, *choice, *guesses)
            h.equal(f"{guesses} leaves the text as it is", seen["tokens"], plain["tokens"])
            h.fact("guesses are counted", 0 <= seen["right_guesses"] <= seen["guessed_tokens"], seen)
        h.fact("without, there are none", plain["guessed_tokens"] == 0, plain)
    h.refuses(1, "run", model, *STORY, "--draft", h.model("books4m"), says="draft")
    h.refuses(2, "run", model, *STORY, "--lookup", 17)
    h.refuses(1, "run", model, *STORY, "--mtp", 2, says="a model with a layer that drafts, found one without")
    crowd = h.succeeds("run", model, *STORY, "-n", 20, "--threads", 16, "--quiet")
    h.equal("more threads than cores are no reason to talk", crowd.err, "")


def facts_several_texts(h, models):
    model = models / "books4m"
    drawn = h.json("run", model, *STORY, "-n", 12, "--seed", 5, "--continuations", 3)
    h.equal("seeds count up", [t["seed"] for t in drawn["texts"]], [5, 6, 7])
    for text in drawn["texts"]:
        alone = h.json("run", model, *STORY, "-n", 12, "--seed", text["seed"])
        h.equal("what a seed gives alone", {key: alone[key] for key in ("text", "tokens", "finish_reason")},
                {key: text[key] for key in ("text", "tokens", "finish_reason")})
    h.equal("tokens are counted", drawn["generated_tokens"], sum(len(t["tokens"]) for t in drawn["texts"]))
    plain = h.succeeds("run", model, *STORY, "-n", 12, "--seed", 5, "--continuations", 3)
    h.fact("each has a heading", plain.text.startswith("--- 1 of 3: seed 5, finish: length\n" + drawn["texts"][0]["text"]), plain)
    greedy = h.json("run", model, *STORY, "-n", 12, "--temperature", 0)
    best = h.json("run", model, *STORY, "-n", 12, "--beams", 1)["texts"]
    h.equal("one beam is greedy", [t["tokens"] for t in best], [greedy["tokens"]])
    best = h.json("run", model, *STORY, "-n", 12, "--beams", 4, "--continuations", 4)["texts"]
    h.equal("the best first", [t["score"] for t in best], sorted((t["score"] for t in best), reverse=True))
    h.refuses(2, "run", model, *STORY, "--continuations", 2, "--lookup", 4, says="--continuations: expected no --lookup")
    h.refuses(2, "run", model, *STORY, "--beams", 2, "--continuations", 3, says="--continuations: expected 1 to 2")
    h.refuses(2, "run", model, "--chat", "--beams", 2, says="found --chat")
    grammar = h.write("g.gbnf", 'root ::= " yes" | " no"')
    schema = h.write("s.json", '{"enum": ["a", "b"]}')
    for given in [grammar, 'root ::= " yes" | " no"']:
        h.fact("a grammar as text or file", h.succeeds("run", model, *STORY, "--grammar", given).text in (" yes", " no"), given)
    for given in [schema, '{"enum": ["a", "b"]}']:
        h.fact("a schema as text or file", h.succeeds("run", model, *STORY, "--json-schema", given).text in ('"a"', '"b"'), given)


def facts_crowds(h, models):
    """More threads than processors: slower, but neither another text nor a standstill."""
    model = models / "books4m"
    expected = h.json("run", model, *STORY, "-n", 30, "--temperature", 0)
    one = {min(os.sched_getaffinity(0))}
    for threads in [0, 2, 8]:
        for processors in [None, one]:
            seen = h.json("run", model, *STORY, "-n", 30, "--temperature", 0, "--threads", threads, processors=processors)
            h.equal(f"{threads} threads on {processors or 'all'} processors", seen["tokens"], expected["tokens"])


def facts_prompts(h, models):
    model = h.model("stories260k")
    greedy = ["-n", 20, "--temperature", 0]
    expected = h.succeeds("run", model, *STORY, *greedy).out
    h.equal("--prompt=TEXT", h.succeeds("run", model, "--prompt=Once upon a time", *greedy).out, expected)
    h.equal("standard input", h.succeeds("run", model, *greedy, input=STORY[1]).out, expected)
    file = h.write("prompt.txt", STORY[1])
    h.equal("-f FILE", h.succeeds("run", model, "-f", file, *greedy).out, expected)
    h.equal("-f -", h.succeeds("run", model, "-f", "-", *greedy, input=STORY[1]).out, expected)
    h.equal("-n 0 generates nothing", h.succeeds("run", model, *STORY, "-n", 0).out, b"")
    h.equal("-n 0 as JSON", h.json("run", model, *STORY, "-n", 0)["finish_reason"], "length")
    empty = h.json("run", model, "--prompt=", *greedy)
    h.equal("an empty prompt is BOS", (empty["prompt_tokens"], empty["generated_tokens"]), (1, 20))
    h.equal("an empty prompt apart from its option", h.json("run", model, "-p", "", *greedy)["tokens"], empty["tokens"])
    text = h.json("run", model, "-p", "a</s>", "-n", 0)["prompt_tokens"]
    special = h.json("run", model, "-p", "a</s>", "-n", 0, "--parse-special")["prompt_tokens"]
    h.fact("special tokens are text unless asked", special < text, (text, special))
    h.refuses(1, "run", model, "-p", "word " * 2000, says="512")
    h.refuses(1, "run", model, *STORY, "--context", 3, says="3")
    h.refuses(1, "run", model, *STORY, "--logit-bias", "99999=1", says="99999")
    invalid = h.run("run", model, "-n", 3, "--temperature", 0, input=b"\xff\xfe\x00 \xc3")
    h.equal("bytes that are no text are a prompt too", invalid.status, 0)


def facts_sampling(h, models):
    model = h.model("stories260k")
    first = h.json("run", model, *STORY, "-n", 30)
    again = h.json("run", model, *STORY, "-n", 30, "--seed", first["seed"])
    h.equal("the printed seed repeats the run", again["tokens"], first["tokens"])
    h.equal("threads change nothing", h.json("run", model, *STORY, "-n", 30, "--seed", first["seed"], "--threads", 1)["tokens"], first["tokens"])
    h.fact("seeds matter", len({tuple(h.json("run", model, *STORY, "-n", 30, "--seed", s)["tokens"]) for s in range(4)}) > 1)
    h.fact("no seed: random", len({h.json("run", model, *STORY, "-n", 0)["seed"] for _ in range(4)}) > 1)
    greedy = h.json("run", model, *STORY, "-n", 60, "--temperature", 0)
    stopped = h.json("run", model, *STORY, "-n", 60, "--temperature", 0, "--stop", "Lily", "--stop", "[never]")
    h.equal("--stop ends before the text", stopped["text"], greedy["text"][: greedy["text"].index("Lily")])
    h.equal("--stop: finish_reason", stopped["finish_reason"], "stop")
    bias = h.json("run", model, *STORY, "-n", 10, "--temperature", 0, "--logit-bias", f"{greedy['tokens'][0]}=-inf")
    h.fact("--logit-bias forbids a token", bias["tokens"][0] != greedy["tokens"][0] and greedy["tokens"][0] not in bias["tokens"], bias)
    top = h.json("run", model, *STORY, "-n", 30, "--temperature", 2, "--top-k", 1)
    h.equal("--top-k 1 is greedy", top["tokens"], greedy["tokens"][:30])
    for option, value in [("--top-p", 0.5), ("--min-p", 0.2), ("--typical", 0.5), ("--repeat-penalty", 1.3), ("--frequency-penalty", 0.5),
                          ("--presence-penalty", 0.5), ("--repeat-last-n", -1), ("--kv", "q8"), ("--kv", "q4"), ("--kv", "q3"), ("--context", 40),
                          ("--dry-multiplier", 0.8), ("--top-nsigma", 1), ("--xtc-probability", 0.5), ("--dynatemp-range", 0.3), ("--mirostat", 2)]:
        h.equal(f"{option} {value}", h.json("run", model, *STORY, "-n", 30, "--seed", 1, option, value)["generated_tokens"], 30)


def facts_grammars(h, models):
    model = h.model("stories260k")
    word = h.json("run", model, *STORY, "-n", 30, "--seed", 1, "--grammar", 'root ::= "yes" | "no"')
    h.fact("--grammar: one of its texts, and an end", word["text"] in ("yes", "no") and word["finish_reason"] == "stop", word)
    schema = '{"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 40}, "minItems": 2, "maxItems": 4}'
    numbers = h.json("run", model, *STORY, "-n", 60, "--seed", 1, "-j", schema)["text"]
    h.fact("--json-schema: what it allows", all(1 <= n <= 40 for n in json.loads(numbers)) and 2 <= len(json.loads(numbers)) <= 4, numbers)
    h.equal("--json-schema-file is the same", h.json("run", model, *STORY, "-n", 60, "--seed", 1, "--json-schema-file", h.write("schema.json", schema.encode()))["text"], numbers)
    h.refuses(1, "run", model, "-p", "x", "--grammar", 'root = "a"', says="expected ::=")
    h.refuses(1, "run", model, "-p", "x", "-j", '{"not": {}}', says="found not")
    h.refuses(2, "run", model, "-p", "x", "-j", "{}", "--grammar", 'root ::= "a"', says="expected one of --grammar")


def facts_utf8(h, models):
    # Bytes of "é" alone are far more probable than all else: whole characters, halves and strays come in any order.
    bytes_of = {byte: 3 + byte for byte in (0xC3, 0xA9)}
    arguments = ["-n", 400, "--temperature", 1, "--top-k", 0, "--top-p", 1, "--min-p", 0, "--seed", 3]
    for byte in bytes_of.values():
        arguments += ["--logit-bias", f"{byte}=1000"]
    process = h.start("run", h.model("stories260k"), *STORY, *arguments)
    whole, chunks = b"", 0
    while chunk := read_available(process.stdout.fileno()):
        chunks += 1
        whole += chunk
        try:
            chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            h.fact("each write is valid UTF-8", False, f"{chunk!r}: {error}")
    process.communicate()
    h.equal("it ends well", process.returncode, 0)
    h.fact("characters and replacements came", "é" in whole.decode() and "\ufffd" in whole.decode(), whole[:80])
    # As many as a reader on a busy machine finds apart.
    h.fact("text streams in pieces", chunks > 1, chunks)


def facts_interruption(h, models):
    model = h.model("stories260k")
    for number in [signal.SIGINT, signal.SIGTERM]:
        process = h.start("run", model, *STORY, *ENDLESS)
        seen = b""
        while len(seen) < 50:
            seen += read_available(process.stdout.fileno())
        status, seconds = h.interrupt(process, number)
        rest, err = process.communicate()
        h.equal(f"{number.name} while generating", status, 128 + number)
        h.fact(f"{number.name} acts promptly", seconds < 5, seconds)
        h.fact("what came is whole text", (seen + rest).decode("utf-8") is not None)
    process = h.start("run", model, *STORY, *ENDLESS, "--json")
    time.sleep(2)
    status, _ = h.interrupt(process)
    out, _ = process.communicate()
    h.equal("with --json: exit status", status, 130)
    h.equal("with --json: the document says so", json.loads(out)["finish_reason"], "cancelled")
    file = h.write("long.txt", "Once upon a time " * 40000)
    process = h.start("run", model, "-f", file, "--context", 1000000)
    time.sleep(1)
    status, seconds = h.interrupt(process)
    process.communicate()
    h.equal("while the prompt is read", status, 130)
    h.fact("promptly there too", seconds < 5, seconds)
    process = h.start("run", model, stdin=subprocess.PIPE)
    time.sleep(0.5)
    h.equal("while standard input is waited for", h.interrupt(process)[0], 130)
    process.communicate()


def facts_lost_file(h, models):
    native = h.temporary("shrinks.bantam")
    h.succeeds("compress", h.model("books4m"), "-o", native, "--format", "f32")
    process = h.start("run", native, *STORY, *ENDLESS, "--mmap")
    read_available(process.stdout.fileno())
    os.truncate(native, 4096)
    out, err = process.communicate(timeout=60)
    h.equal("a mapped file that loses its end: exit status", process.returncode, 1)
    h.fact("a mapped file that loses its end: one line", b"bantam: a mapped file" in err, err)


def facts_instruction_sets(h, models):
    case = json.loads((models / "golden.json").read_text())["stories260k"]["greedy"][0]
    for isa in h.json("cpuinfo")["isas"]:
        seen = h.json("run", h.model("stories260k"), "-p", case["prompt"], "-n", 40, "--temperature", 0, "--kv", "f32", "--isa", isa)
        h.equal(f"golden text by {isa}", seen["tokens"], case["generated_ids"][:40])


def facts_closed_pipe(h, models):
    process = h.start("run", h.model("stories260k"), *STORY, *ENDLESS)
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    err = process.stderr.read()
    h.equal("a reader that leaves ends the run", process.wait(timeout=60), 0)
    h.fact("without a word on that", err.count(b"\n") == 1 and b"warning: a context" in err, err)
    with open("/dev/full", "wb") as full:
        h.refuses(1, "run", h.model("stories260k"), *STORY, "-n", 5, stdout=full, says="standard output")


def facts_sessions(h, models):
    model = h.model("stories260k")
    file = h.temporary("session")
    sampling = ["--temperature", 1.0, "--seed", 11, "--repeat-penalty", 1.1]
    whole = h.json("run", model, *STORY, "-n", 60, *sampling)
    first = h.json("run", model, *STORY, "-n", 25, *sampling, "--save-session", file)
    second = h.json("run", model, "-n", 35, *sampling, "--load-session", file)
    h.equal("interrupted and resumed text is the uninterrupted one", first["text"] + second["text"], whole["text"])
    h.equal("token for token", first["tokens"] + second["tokens"], whole["tokens"])
    more = h.json("run", model, "-p", " The end", "-n", 5, "--load-session", file, "--temperature", 0)
    h.fact("a prompt goes on from there", 0 < more["prompt_tokens"] < 10, more)
    h.refuses(1, "run", h.model("babyllama105"), "--load-session", file, says="session")
    h.refuses(1, "run", model, "--load-session", h.write("no-session", b"x" * 100), says="session")
    with open(file, "rb") as saved:
        content = bytearray(saved.read())
    content[len(content) // 2] ^= 1
    h.refuses(1, "run", model, "--load-session", h.write("flipped", bytes(content)))
    h.refuses(1, "run", model, "--load-session", h.write("cut", bytes(content[:-9])))
    folder = Path(h.temporary("session-model"))
    shutil.copytree(models / "stories260k", folder)
    for out in [folder / "model.safetensors", folder]:
        h.refuses(1, "run", folder, *STORY, "-n", 1, "--save-session", out, says="same file")
    before = h.temporary("kept")
    h.write("kept", b"old")
    limited = h.run("run", model, *STORY, "-n", 5, "--save-session", before, file_limit=1000)
    h.fact("a full disk is one line", limited.status == 1 and limited.err.startswith("bantam: ") and limited.err.count("\n") == 1, limited)
    with open(before, "rb") as kept:
        h.equal("and the old file stays", kept.read(), b"old")
