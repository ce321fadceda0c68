"""--lora of the verbs that run models, and --merge-lora of compress."""
import shutil
from pathlib import Path

from write_adapter import write_adapter

ROOT = Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "models" / "books4m")
PROMPT = ["-p", "It was a dark night, and"]


def logits(h, model, *more):
    return h.json("logits", model, *PROMPT, "--top", 50, *more)["positions"][0]["top"]


def furthest(one, other):
    by_id = {c["id"]: c["logit"] for c in other}
    return max(abs(c["logit"] - by_id[c["id"]]) for c in one if c["id"] in by_id)


def facts_adapters_while_a_model_runs(h):
    one, two = write_adapter(h.temporary("one")), write_adapter(h.temporary("two"), seed=2)
    plain, once = logits(h, MODEL), logits(h, MODEL, "--lora", one)
    h.fact("an adapter changes logits", furthest(once, plain) > 0.05, furthest(once, plain))
    h.equal("without a scale it is once of it", logits(h, MODEL, "--lora", f"{one}:1"), once)
    h.equal("by 0 it is nothing", logits(h, MODEL, "--lora", f"{one}:0"), plain)
    both = logits(h, MODEL, "--lora", one, "--lora", f"{two}:-0.5")
    h.fact("several add up", furthest(both, once) > 0.02, furthest(both, once))
    h.equal("in any order of scales", logits(h, MODEL, f"--lora={one}:1.0", "--lora", f"{two}:-5e-1"), both)
    # A colon may be part of a name.
    half = logits(h, MODEL, "--lora", f"{one}:0.5")
    shutil.copytree(one, f"{one}:b")
    shutil.copytree(two, f"{one}:0.5")
    h.equal("a path with a colon", logits(h, MODEL, "--lora", f"{one}:b"), once)
    h.equal("and a scale behind it", logits(h, MODEL, "--lora", f"{one}:b:0.5"), half)
    h.equal("a path that exists as it is written", logits(h, MODEL, "--lora", f"{one}:0.5"), logits(h, MODEL, "--lora", two))
    h.equal("and a scale behind that", logits(h, MODEL, "--lora", f"{one}:0.5:-0.5"), logits(h, MODEL, "--lora", f"{two}:-0.5"))
    how = ["-n", 12, "--temperature", 0, *PROMPT]
    text = h.json("run", MODEL, *how, "--lora", one)["text"]
    h.fact("run takes them", text != h.json("run", MODEL, *how)["text"], text)
    h.equal("llama.cpp's spelling", h.succeeds("run", "-m", MODEL, *how, "--lora-scaled", f"{one}:1", "-q").text.strip(), text.strip())
    turned = [h.json("embed", MODEL, "a dark night", *more)["embeddings"][0] for more in ([], ["--lora", one], ["--lora", f"{one}:0"])]
    h.fact("embed takes them", turned[0] == turned[2] and max(abs(a - b) for a, b in zip(turned[0], turned[1])) > 1e-3, turned[1][:4])
    measured = h.json("bench", MODEL, "-p", 8, "-n", 2, "-r", 1, "--batch", 2, "--lora", one, "--lora", f"{two}:0.5")
    h.fact("bench takes them", measured["prompt"]["tok_s"]["min"] > 0 and measured["generate"]["tok_s"]["min"] > 0, measured)
    saved = h.temporary("saved")
    h.succeeds("run", MODEL, "-n", 2, "--temperature", 0, *PROMPT, "--lora", one, "--save-session", saved)
    h.succeeds("run", MODEL, "-n", 2, "--temperature", 0, "--load-session", saved, "--lora", one)
    h.refuses(1, "run", MODEL, "-n", 2, "--load-session", saved, says="expected a session without adapters")
    h.refuses(1, "run", MODEL, "-n", 2, "--load-session", saved, "--lora", two, says="with these adapters")


def facts_merged_adapters(h):
    one, text = write_adapter(h.temporary("one")), str(ROOT / "models" / "paragraph.txt")
    merged = h.temporary("merged.bantam")
    h.succeeds("compress", MODEL, "-o", merged, "--format", "f32", "--merge-lora", f"{one}:0.5")
    here, there = logits(h, MODEL, "--lora", f"{one}:0.5"), logits(h, merged)
    h.fact("merged is what runs", furthest(there, here) < 2e-3, furthest(there, here))
    here, there = (h.json("embed", name, "a dark night", *more)["embeddings"][0] for name, *more in ((MODEL, "--lora", f"{one}:0.5"), (merged,)))
    h.fact("and what embeds", max(abs(a - b) for a, b in zip(here, there)) < 1e-3, (here[:4], there[:4]))
    adapted = h.json("perplexity", MODEL, text, "--lora", f"{one}:0.5")["nll"]
    h.fact("and so is perplexity", abs(h.json("perplexity", merged, text)["nll"] - adapted) < 1e-3)
    measured = h.json("compress", MODEL, "-o", h.temporary("q8.bantam"), "--format", "i8", "--merge-lora", f"{one}:0.5", "--evaluate", text)["evaluation"]
    h.fact("compress measures from the merged model", measured["kl_mean"] < 5e-3, measured)


def facts_broken_adapters(h):
    one = write_adapter(h.temporary("one"))
    h.refuses(1, "run", MODEL, *PROMPT, "--lora", h.temporary("nothing"), says="nothing")
    h.refuses(1, "logits", MODEL, *PROMPT, "--lora", write_adapter(h.temporary("dora"), use_dora=True), says="use_dora: expected none")
    h.refuses(1, "compress", MODEL, "-o", h.temporary("y.bantam"), "--merge-lora", write_adapter(h.temporary("lengths"), use_dora=True), says="lora_magnitude_vector, found none")
    h.refuses(1, "run", MODEL, *PROMPT, "--lora", write_adapter(h.temporary("saves"), modules_to_save=["lm_head"]), says="such an adapter is merged (compress --merge-lora)")
    h.refuses(1, "logits", MODEL, *PROMPT, "--lora", write_adapter(h.temporary("rank"), r=8), says="expected tensors of rank 8, found 4")
    h.refuses(1, "perplexity", MODEL, str(ROOT / "models" / "paragraph.txt"), "--lora", write_adapter(h.temporary("deep"), layers=5), says="layers.4.self_attn.q_proj")
    h.refuses(1, "compress", MODEL, "-o", h.temporary("x.bantam"), "--merge-lora", h.temporary("nothing"), says="merge_lora: ")
    # What is no number belongs to the path.
    for wrong in ("x", "nan", ""):
        h.refuses(1, "run", MODEL, *PROMPT, "--lora", f"{one}:{wrong}", says=f"{one}:{wrong}")
    h.refuses(1, "bench", MODEL, "-p", 8, "-n", 1, "-r", 1, "--lora", h.temporary("nothing"), says="nothing")
