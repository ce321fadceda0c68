"""`bantam logits`, `perplexity` and `bench`: numbers against the golden ones."""
import json
import math
from pathlib import Path

from harness import QUICK


def sources(h, name):
    """The same weights in every container."""
    native = h.temporary(f"{name}-measured.bantam")
    h.succeeds("compress", h.model(name), "-o", native, "--format", "f32")
    return [h.model(name), h.gguf(name), native]


def facts_golden_logits(h, models):
    golden = json.loads((models / "golden.json").read_text())
    for name in ["stories260k", "babyllama105", "books4m"]:
        expected = golden[name]["logits"]
        for source in sources(h, name):
            seen = h.json("logits", source, "--ids", json.dumps(expected["ids"]), "--all-positions", "--top", 512)
            h.equal(f"{source}: ids", seen["ids"], expected["ids"])
            h.equal(f"{source}: positions", [p["position"] for p in seen["positions"]], [p["position"] for p in expected["positions"]])
            worst = 0.0
            for mine, right in zip(seen["positions"], expected["positions"]):
                by_id = {c["id"]: c for c in mine["top"]}
                for c in right["top"]:
                    worst = max(worst, abs(by_id[c["id"]]["logit"] - c["logit"]), abs(by_id[c["id"]]["logprob"] - c["logprob"]))
            h.fact(f"{source}: logits within 2e-4", worst <= 2e-4, worst)


def facts_logits(h, models):
    model = h.model("stories260k")
    seen = h.json("logits", model, "-p", "Once upon a", "--top", 3)
    h.equal("-p adds BOS", seen["ids"], [1, 403, 407, 261])
    h.equal("the last position", [p["position"] for p in seen["positions"]], [3])
    top = seen["positions"][0]["top"]
    h.fact("keys", all(set(c) == {"id", "token", "logit", "logprob"} for c in top) and len(top) == 3, top)
    h.fact("best first", top[0]["logit"] >= top[1]["logit"] >= top[2]["logit"] and top[0]["token"] == " time", top)
    same = h.json("logits", model, "--ids", "[1, 403, 407, 261]", "--top", 3)
    h.equal("--ids is exactly these", same, seen)
    everything = h.json("logits", model, "--ids", "[1]", "--top", 100000)["positions"][0]["top"]
    h.equal("--top is at most the vocabulary", len(everything), 512)
    h.fact("probabilities add up to 1", abs(sum(math.exp(c["logprob"]) for c in everything) - 1) < 1e-5)
    h.equal("10 by default", len(h.json("logits", model, "--ids", "[1]")["positions"][0]["top"]), 10)
    h.fact("pieces are text", all(isinstance(c["token"], str) and c["token"] for c in everything))
    table = h.succeeds("logits", model, "-p", "Once upon a", "--top", 3).text.splitlines()
    h.fact("the table is aligned", table[0].split() == ["position", "id", "logit", "logprob", "token"] and len(table) == 4 and '" time"' in table[1], table)
    h.equal("-f and standard input", h.json("logits", model, "--top", 3, input="Once upon a"), seen)
    h.refuses(1, "logits", model, "--ids", "[512]", says="512")
    h.refuses(1, "logits", model, "--ids", "[1, 2147483647]")
    h.fact("--parse-special", 2 in h.json("logits", model, "-p", "a</s>", "--parse-special")["ids"])


def facts_golden_perplexity(h, models):
    golden = json.loads((models / "golden.json").read_text())
    # Thousands of tokens: under sanitizers one text of one model.
    for name in ["stories260k"] if QUICK else ["stories260k", "babyllama105", "books4m"]:
        for case in golden[name]["perplexity"][: 1 if QUICK else None]:
            source = h.gguf(name) if "wiki" in case["file"] else h.model(name)
            seen = h.json("perplexity", source, h.corpus(case["file"]), "--context", case["context"], "--limit", case["limit"])
            h.equal(f"{source}: {case['file']}: tokens and windows", (seen["tokens"], seen["windows"]), (case["tokens"], case["windows"]))
            h.fact(f"{source}: {case['file']}: within 0.05 %", abs(seen["perplexity"] / case["perplexity"] - 1) < 5e-4, seen)
            h.fact("perplexity is e^nll", abs(math.exp(seen["nll"]) / seen["perplexity"] - 1) < 1e-9, seen)
            h.fact("no divergence without --against", seen["kl_mean"] is None and seen["kl_p99"] is None and seen["top1_agreement"] is None and seen["window_kl"] is None, seen)


def facts_perplexity(h, models):
    model = h.model("stories260k")
    text = h.corpus("tinystories-plain.txt")
    q4 = h.temporary("measured-q4.bantam")
    h.succeeds("compress", model, "-o", q4)
    seen = h.json("perplexity", q4, text, "--limit", 2000, "--against", model)
    h.equal("keys", set(seen), {"perplexity", "nll", "tokens", "windows", "base_perplexity", "kl_mean", "kl_p99", "top1_agreement",
                              "window_tokens", "window_nll", "window_kl", "seconds"})
    h.fact("divergence of a compressed model", 0 < seen["kl_mean"] < 1 and seen["kl_mean"] < seen["kl_p99"] and 0.5 < seen["top1_agreement"] < 1, seen)
    h.equal("every target is in a window", (len(seen["window_tokens"]), sum(seen["window_tokens"])), (seen["windows"], seen["tokens"]))
    for mean, each in [("nll", "window_nll"), ("kl_mean", "window_kl")]:
        whole = sum(count * value for count, value in zip(seen["window_tokens"], seen[each], strict=True)) / seen["tokens"]
        h.fact(f"{each}: windows make the mean", abs(whole / seen[mean] - 1) < 1e-9, seen)
    itself = h.json("perplexity", model, text, "--limit", 2000, "--against", h.gguf("stories260k"))
    h.equal("the base's perplexity beside it", seen["base_perplexity"], itself["perplexity"])
    h.fact("none from itself", abs(itself["kl_mean"]) < 1e-9 and itself["top1_agreement"] == 1, itself)
    short = h.json("perplexity", model, text, "--limit", 600, "--against", model, "--kv", "q4")
    h.fact("what fewer bits of keys and values cost", 0.01 < short["kl_mean"] < 2, short)
    human = h.succeeds("perplexity", q4, text, "--limit", 600, "--against", model)
    h.fact("for people", "perplexity" in human.text and "kl mean" in human.text, human)
    clamped = h.run("perplexity", h.model("babyllama105"), text, "--limit", 600, "--json")
    h.fact("the context is at most the model's, and that is said", clamped.json["windows"] == 3 and "256" in clamped.err, clamped)
    with open(text, "rb") as file:
        head = file.read(3000)
    h.equal("- is standard input", h.json("perplexity", model, "-", input=head)["tokens"], h.json("perplexity", model, h.write("head.txt", head))["tokens"])
    h.refuses(1, "perplexity", model, h.write("nothing.txt", b""))
    h.refuses(1, "perplexity", model, text, "--against", h.model("books4m"), says="vocabulary")


def facts_bench(h, models):
    q4 = h.temporary("bench.bantam")
    h.succeeds("compress", h.model("stories260k"), "-o", q4)
    seen = h.json("bench", q4, "-p", 16, "-n", 4, "-r", 2, "--depth", 8, "--kv", "q8")
    contract = {"prompt", "generate", "weight_bytes", "active_bytes", "read_gb_s", "machine", "peak_rss_bytes", "load_ms"}
    h.fact("keys of the contract", contract <= set(seen), seen)
    h.equal("the machine", set(seen["machine"]), {"cpu", "isa", "threads", "read_gb_s_measured", "int8_gop_s_measured", "last_level_cache_bytes"})
    for part, tokens in [("prompt", 16), ("generate", 4)]:
        rate = seen[part]["tok_s"]
        h.fact(f"{part}: rates", seen[part]["tokens"] == tokens and 0 < rate["min"] <= rate["median"] <= rate["max"], seen[part])
    h.fact("positive figures", all(seen[key] > 0 for key in ["weight_bytes", "read_gb_s", "peak_rss_bytes", "load_ms"]), seen)
    h.fact("a token reads all of a model without experts, but for its embedding", seen["active_bytes"] == seen["streamed_bytes"] <= seen["weight_bytes"], seen)
    h.fact("measured limits", seen["machine"]["read_gb_s_measured"] > 0.1 and seen["machine"]["int8_gop_s_measured"] > 0.1, seen)
    fraction = seen["fractions"]["decode_of_bandwidth"]
    h.fact("fractions", 0 < fraction and 0 < seen["fractions"]["prefill_of_int8"] < 1, seen)
    h.equal("more than the memory gives, or what a cache holds, is the cache's", seen["weights_in_cache"],
            fraction > 1 or seen["streamed_bytes"] <= seen["machine"]["last_level_cache_bytes"])
    expected = 1e-9 * seen["streamed_bytes"] * seen["generate"]["tok_s"]["median"]
    h.fact("read_gb_s is bytes a token times tokens a second", abs(seen["read_gb_s"] / expected - 1) < 1e-9, seen)
    h.fact("no profile unless asked for", seen["profile"] is None, seen)
    both = h.json("bench", q4, "-p", 16, "-n", 4, "-r", 1, "--depth", 8, "--profile")["profile"]
    for name in ("prompt", "generate"):
        phases = {phase["name"]: phase for phase in both[name]["phases"]}
        h.fact(f"{name}: phases of a dense model", {"products", "head", "attention", "norms", "rounding", "gates", "positions"} <= phases.keys(), phases)
        h.fact(f"{name}: shares", all(0 < phase["share"] < 1 and 0 <= phase["waiting"] < 1 and phase["times"] > 0 for phase in phases.values()), phases)
        h.fact(f"{name}: no more than the time", 0 < both[name]["accounted"] <= 1, both[name])
        h.fact(f"{name}: limits where there are some", phases["products"]["reached"] > 0 and phases["norms"]["reached"] is None, phases)
    batch = h.json("bench", q4, "-p", 0, "-n", 4, "-r", 1, "--batch", 3, "--profile")["profile"]["generate"]
    h.fact("batches have one, too", {"products", "attention", "head"} <= {p["name"] for p in batch["phases"]}, batch)
    table = h.succeeds("bench", q4, "-p", 8, "-n", 2, "-r", 1, "--profile").text
    h.fact("two profiles as tables", table.count("between phases") == 2 and table.count("products") == 2, table)
    only = h.json("bench", q4, "-p", 0, "-n", 2, "-r", 1, "--threads", 1)
    h.fact("-p 0 leaves out prefill", only["prompt"] is None and only["generate"] is not None and only["machine"]["threads"] == 1, only)
    words = h.succeeds("bench", q4, "-p", 0, "-n", 2, "-r", 1).text
    h.equal("in a word", "read from the cache" in words, "the read bandwidth" not in words)
    table = h.succeeds("bench", q4, "-p", 8, "-n", 0, "-r", 1).text
    h.fact("the table", "prefill" in table and "int8" in table and "decode " not in table, table)
    batch = h.json("bench", q4, "-p", 0, "-n", 4, "-r", 1, "--batch", 3)
    several = h.json("bench", q4, "-p", "4,16", "-n", "2,3", "-d", "0,8", "-r", 1)
    kinds = [(test["kind"], test["tokens"], test.get("depth")) for test in several["tests"]]
    h.equal("each length at each depth", kinds, [("prompt", 4, None), ("prompt", 16, None), ("generate", 2, 0), ("generate", 2, 8), ("generate", 3, 0), ("generate", 3, 8)])
    h.fact("the first of each kind stands alone, too", several["prompt"]["tokens"] == 4 and several["generate"] == {key: several["tests"][2][key] for key in ("tokens", "tok_s")}, several)
    h.fact("rates of all", all(test["tok_s"]["min"] > 0 and test["of_limit"] > 0 for test in several["tests"]), several)
    h.fact("profiles of none", all(test["profile"] is None for test in several["tests"]), several)
    table = h.succeeds("bench", q4, "-p", "4,16", "-n", 2, "-d", "0,8", "-r", 1).text
    h.fact("a row each", table.count("\nprefill") == 2 and "\ndecode  " in table and "\ndecode behind 8" in table, table)
    h.equal("--batch is told", batch["batch"], 3)
    h.fact("and its tokens are counted", batch["generate"]["tok_s"]["median"] > 0, batch["generate"])


def facts_plan(h, models):
    machine = ["--read-gb-s", 50, "--int8-gop-s", 1000, "--memory", "2GiB"]
    model = models / "books4m"
    for format in ["i4.g32", "q6_k", "f16"]:
        target = h.temporary(f"planned-{format}.bantam")
        h.succeeds("compress", model, "-o", target, "--format", format)
        stored = h.json("inspect", target)
        seen = h.json("plan", model, *machine, "--format", format)
        h.equal(f"{format}: parameters", seen["parameters"], stored["parameters"])
        h.equal(f"{format}: bytes are those of the file's tensors", seen["bytes"], sum(t["bytes"] for t in stored["tensors"]))
        h.equal(f"{format}: bytes of a token", seen["bytes_per_token"], stored["bytes_per_token"])
        h.equal("keys and values", seen["kv_bytes_per_token"], stored["kv_bytes_per_token"])
        h.equal("a token reads what works for it", round(seen["generate_tok_s"] * seen["bytes_per_token"]), round(seen["shares"]["decode"] * 50e9))
        h.fact("it fits", seen["fits"] and seen["largest_context"] == stored["config"]["context"], seen)
        h.fact("smaller formats are proposed", all(a["bytes"] < seen["bytes"] and a["format"] in a["command"] for a in seen["advice"]), seen)
    folder = Path(h.temporary("outline"))
    folder.mkdir()
    (folder / "config.json").write_text((model / "config.json").read_text())
    whole = h.json("plan", model, *machine, "--format", "i4.g32")
    for source in [folder, folder / "config.json"]:
        seen = h.json("plan", source, *machine, "--format", "i4.g32")
        h.equal("a config alone is enough", {**seen, "path": "", "advice": [], "smaller": []}, {**whole, "path": "", "advice": [], "smaller": []})
    small = h.json("plan", model, "--memory", "1MiB", "--read-gb-s", 50, "--int8-gop-s", 1000)
    h.fact("what is larger does not fit", not small["fits"] and small["largest_context"] == 0, small)
    text = h.succeeds("plan", model, "--memory", "1MiB", "--read-gb-s", 50, "--int8-gop-s", 1000).text
    h.fact("in words", "does NOT fit in 1.0 MB" in text, text)
    # A config says enough of a model larger than memory: 32 layers of 400 MB in f16.
    config = folder / "config.json"
    large = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
             "intermediate_size": 14336, "vocab_size": 32000, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "torch_dtype": "float16"}
    config.write_text(json.dumps(large))
    planned = [h.json("plan", config, *machine[:4], "--memory", f"{size}GiB", "--context", 1024, "--disk-gb-s", 2) for size in (16, 8, 3, 1)]
    h.equal("which fit", [p["fits"] for p in planned], [True, True, True, False])
    streamed = [p["streamed_bytes_per_token"] for p in planned]
    h.fact("less memory, more to read", streamed[0] == 0 < streamed[1] < streamed[2] < planned[0]["bytes"] and streamed[3] == 0, streamed)
    h.equal("what fits may be made twice as fast, by half of its bytes", [(w["for"], w["bytes"]) for w in planned[0]["smaller"]], [("twice as fast", planned[0]["bytes"] // 2)])
    h.equal("what does not is made to fit", [w["for"] for w in planned[1]["smaller"]], ["to fit whole"])
    h.fact("in what is left", 0.7 * 8 * 2**30 < planned[1]["smaller"][0]["bytes"] < 8 * 2**30 and "--fit " in planned[1]["smaller"][0]["command"], planned[1]["smaller"])
    h.equal("or nothing is said", planned[3]["smaller"], [])
    h.fact("within the bound", all(p["resident_bytes"] <= p["memory_bytes"] for p in planned[:3]), planned)
    h.equal("as fast as the disk, whose reads never pause", round(planned[1]["generate_tok_s"], 6), round(2e9 / streamed[1], 6))
    picture = Path(h.temporary("timeline.svg"))
    drawn = ["plan", config, *machine[:4], "--context", 1024, "--disk-gb-s", 2, "--svg", picture]
    h.succeeds(*drawn, "--memory", "8GiB")
    h.fact("a picture of reads and arithmetic", "layers read" in picture.read_text() and picture.read_text().count("<rect") > 40, picture.read_text()[:400])
    h.refuses(1, *drawn, "--memory", "16GiB", says="--svg: expected a model of which weights are streamed")
    unknown = h.json("plan", config, *machine[:4], "--memory", "8GiB")
    h.equal("nobody knows the disk", (unknown["fits"], unknown["generate_tok_s"], unknown["disk_gb_s"]), (True, None, None))
    h.fact("in words", "runs from its file in" in h.succeeds("plan", config, *machine[:4], "--memory", "8GiB").text)
    # 131072 bytes of keys and values a token, in 32 layers that see all of a text: 17 GB beside weights of 13 GB.
    config.write_text(json.dumps({**large, "max_position_embeddings": 131072}))
    long = [h.json("plan", config, *machine[:4], "--memory", f"{size}GiB", "--context", 131072, "--disk-gb-s", 2) for size in (40, 24, 16, 8)]
    h.equal("long texts fit, too", [p["fits"] for p in long], [True] * 4)
    stored = [p["stored_key_bytes"] for p in long]
    h.fact("less memory, more in the file", stored[0] == 0 < stored[1] < stored[2] < 131072 * 131072, stored)
    h.equal("weights stay as long as they can", [p["streamed_bytes_per_token"] > 0 for p in long], [False, False, False, True])
    h.fact("within the bound", all(p["resident_bytes"] <= p["memory_bytes"] for p in long), long)
    h.fact("in words", "of such a text are in a file" in h.succeeds("plan", config, *machine[:4], "--memory", "16GiB", "--context", 131072).text)
    sparse = {**large, "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True,
              "head_dim": 128}
    config.write_text(json.dumps(sparse))
    experts = [h.json("plan", config, *machine[:4], "--memory", f"{size}GiB", "--context", 1024, "--disk-gb-s", 2, "--format", "i8.g32") for size in (8, 4)]
    on_disk = {"": "cpu", "model.embed_tokens": "disk", **{f"model.layers.{i}.mlp": "disk" for i in range(32)}}
    h.equal("experts are on the disk first", [p["device_map"] for p in experts], [on_disk] * 2)
    mapped = Path(h.temporary("plan.json"))
    mapped.write_text(json.dumps(experts[1]))
    again = h.json("plan", config, *machine[:4], "--memory", "4GiB", "--context", 1024, "--disk-gb-s", 2, "--format", "i8.g32", "--device-map", mapped)
    again["advice"] = experts[1]["advice"]  # where other formats fit whole the map still leaves them on the disk
    h.equal("a map that was written is read", again, experts[1])
    mapped.write_text('{"": "cpu", "model.layers.1": "disk"}')
    options = ["-p", "Once upon a time", "-n", 20, "--temperature", 0]
    run = h.json("run", model, *options, "--device-map", mapped, "--stats")
    h.equal("a map changes no text", run["text"], h.json("run", model, *options)["text"])
    h.fact("and layers on the disk are read", run["stats"]["streamed_bytes"] > 0, run["stats"])
    for text, line in (('{"": 0}', 'expected "cpu" or "disk", found 0'), ('{"model.layers": "cpu"}', "expected a device for model.embed_tokens"), ("[", "--device-map")):
        mapped.write_text(text)
        h.refuses(1, "run", model, *options, "--device-map", mapped, says=line)
    h.equal("experts may be pruned, half of them at most", [["--prune experts:" in w["command"] for w in e["smaller"]] for e in experts], [[False, True], [False]])
    h.fact("as many as it takes", experts[0]["smaller"][1]["bytes"] <= experts[0]["smaller"][0]["bytes"] < experts[0]["bytes"], experts[0]["smaller"])
    sparse_machine = ["plan", config, *machine[:4], "--memory", "4GiB", "--context", 1024, "--format", "i8.g32"]
    hits = {share: h.json(*sparse_machine, "--disk-gb-s", 2, "--expert-hits", share) for share in (1, 0.9, 0.5)}
    h.equal("experts are there as often as somebody says", [round(p["expert_hits"], 6) for p in hits.values()], [1, 0.9, 0.5])
    h.equal("all of them: nothing is read", hits[1]["streamed_bytes_per_token"], 0)
    for share in (0.9, 0.5):
        # Reads hide behind the experts that are there, and tokens differ in how many are not: 32 layers, 8 experts of a token.
        expert = hits[share]["streamed_bytes_per_token"] / (32 * 8 * (1 - share))
        read, run = expert / 2e9, 8 * expert / (hits[share]["shares"]["decode"] * 50e9)
        waits = sum(math.comb(8, k) * (1 - share)**k * share**(8 - k) * max(0, k * read - (1 - k / 8) * run) for k in range(9))
        expected = 1 / hits[1]["generate_tok_s"] + 32 * waits
        h.fact(f"{share}: a token takes what it waits on average", abs(expected * hits[share]["generate_tok_s"] - 1) < 0.01, (expected, hits[share]["generate_tok_s"]))
    text = h.succeeds(*sparse_machine, "--disk-gb-s", 2, "--expert-hits", 0.9).text
    h.fact("in words", "--expert-hits says that 90 % of a token's are there" in text, text)
    text = h.succeeds(*sparse_machine, "--disk-gb-s", 2).text
    h.fact("or what texts were seen to find", "texts were seen to find" in text, text)
    h.refuses(2, *sparse_machine, "--expert-hits", 1.5, says="--expert-hits")
    measured = h.json("plan", model)
    h.fact("the machine is measured", all(measured[rate] > 0 for rate in ("read_gb_s", "int8_gop_s", "memory_bytes", "product_gb_s", "step_us")), measured)
    layers = h.json("inspect", model)["config"]["layers"]
    beside = 1 / measured["generate_tok_s"] - measured["bytes_per_token"] / (1e9 * measured["product_gb_s"])
    h.equal("a token takes what products of its weights take, and what is beside them in a layer", round(beside / (1e-6 * measured["step_us"]), 2), 28 * layers)
    h.equal("another machine's products are not", (whole["product_gb_s"], whole["step_us"]), (None, None))
    h.refuses(2, "plan", model, "--memory", "much", says="--memory: expected a size (6GiB, 402MB), found much")
    h.refuses(1, "plan", model, "--format", "i9", says="format: expected")
    (folder / "config.json").write_text("{}")
    h.refuses(1, "plan", folder, says="config.json")
    (folder / "config.json").unlink()
    h.refuses(1, "plan", folder, says="config.json")
