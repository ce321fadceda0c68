"""`bantam` with a T5: what its encoder reads and its decoder answers, and what such models are not for."""
import json
from pathlib import Path

import numpy as np
import tensor_file

DIM, HEADS, WIDTH, FFN, LAYERS = 32, 2, 16, 48, 2
PIECES = ["<pad>", "</s>", "<unk>", "\u2581", "\u2581the", "\u2581owl", "s", "\u2581sea", "\u2581was", "\u2581calm", "\u2581hunt", "\u2581at", "\u2581night", "?", "."]


def write(folder, encoder_alone=False):
    """Random weights under the names of T5ForConditionalGeneration, or of its encoder."""
    folder, random, weights = Path(folder), np.random.default_rng(1), {}

    def add(name, *shape):
        weights[name + ".weight"] = (random.normal(size=shape) / np.sqrt(shape[-1]) if len(shape) > 1 else np.ones(shape)).astype("<f4")

    def attention(at):
        for name in "qkv":
            add(at + name, HEADS * WIDTH, DIM)
        add(at + "o", DIM, HEADS * WIDTH)

    add("shared", len(PIECES), DIM)
    for side in ["encoder"] if encoder_alone else ["encoder", "decoder"]:
        add(f"{side}.final_layer_norm", DIM)
        add(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias", 32, HEADS)
        for i in range(LAYERS):
            parts = ["SelfAttention"] + ["EncDecAttention"] * (side == "decoder") + ["DenseReluDense"]
            for part, name in enumerate(parts):
                at = f"{side}.block.{i}.layer.{part}."
                add(at + "layer_norm", DIM)
                if name != "DenseReluDense":
                    attention(at + name + ".")
                    continue
                add(at + name + ".wi", FFN, DIM)
                add(at + name + ".wo", DIM, FFN)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["T5EncoderModel" if encoder_alone else "T5ForConditionalGeneration"], "model_type": "t5", "d_model": DIM, "d_kv": WIDTH, "d_ff": FFN, "num_heads": HEADS,
        "num_layers": LAYERS, "vocab_size": len(PIECES), "relative_attention_num_buckets": 32, "layer_norm_epsilon": 1e-6, "n_positions": 64, "is_encoder_decoder": True,
        "decoder_start_token_id": 0, "feed_forward_proj": "relu"}))
    tensor_file.write(folder / "model.safetensors", weights)
    special = [{"id": i, "content": PIECES[i], "special": True} for i in range(3)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": special, "normalizer": None, "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
        "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [],
                           "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": [[piece, -float(i)] for i, piece in enumerate(PIECES)]}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}))
    return str(folder)


def facts_answers(h):
    source = write(h.temporary("t5"))
    question = ["-p", "the owls hunt at night."]
    ids = h.json("tokenize", source, "-f", h.write("question", question[1]))
    h.equal("a text as the encoder reads it ends", ids, [PIECES.index(piece) for piece in ["\u2581the", "\u2581owl", "s", "\u2581hunt", "\u2581at", "\u2581night", ".", "</s>"]])
    files = [source]
    for to, out in [("gguf", "t5.gguf"), ("native", "t5.bantam"), ("safetensors", "t5-again")]:
        files.append(h.temporary(out))
        h.succeeds("compress", source, "-o", files[-1], "--format", "f32", "--to", to)
    greedy = ["-n", 6, "--temperature", 0, "--ignore-eos", "--kv", "f32"]
    expected = h.json("run", source, *question, *greedy)
    h.equal("tokens of the question and of the answer", (expected["prompt_tokens"], len(expected["tokens"])), (len(ids), 6))
    scored = h.json("logits", source, "--ids", json.dumps(ids), "--decoder-ids", json.dumps(expected["tokens"][:-1]), "--all-positions", "--top", 1)
    h.equal("the answer is the most probable one, token by token", [position["top"][0]["id"] for position in scored["positions"]], expected["tokens"])
    h.equal("behind the decoder's start", scored["decoder_ids"], [0, *expected["tokens"][:-1]])
    last = h.json("logits", source, *question, "--decoder-ids", json.dumps(expected["tokens"][:-1]), "--top", 1)
    h.equal("the last position alone", last["positions"], scored["positions"][-1:])
    for file in files:
        h.equal(f"{file}: the same answer", h.json("run", file, *question, *greedy)["tokens"], expected["tokens"])
        h.equal(f"{file}: layers of both", [h.json("inspect", file)["config"][key] for key in ("encoder_layers", "layers")], [LAYERS, 2 * LAYERS])
    h.equal("within a bound of memory", h.json("run", source, *question, *greedy, "--memory", "256MiB")["tokens"], expected["tokens"])
    h.equal("guessed", h.json("run", source, *question, *greedy, "--lookup", 4)["tokens"], expected["tokens"])
    beams = h.json("run", source, *question, "-n", 4, "--beams", 3, "--continuations", 3)["texts"]
    h.fact("beams in falling order", len(beams) == 3 and [b["score"] for b in beams] == sorted((b["score"] for b in beams), reverse=True), beams)
    saved = h.temporary("t5.session")
    h.json("run", source, *question, "-n", 3, "--temperature", 0, "--ignore-eos", "--kv", "f32", "--save-session", saved)
    h.equal("a saved session goes on", h.json("run", source, "--load-session", saved, "-n", 3, "--temperature", 0, "--ignore-eos")["tokens"], expected["tokens"][3:])
    h.fact("inspect says what it is", "reads           a text by an encoder of 2 layers; writes by a decoder of 2" in h.succeeds("inspect", source).text)
    text = h.write("text", "the owls hunt at night. the sea was calm. " * 20)
    for method in ["rtn", "gptq", "awq"]:
        small = h.temporary(f"{method}.bantam")
        h.succeeds("compress", source, "-o", small, "--format", "i8.g32", "--method", method, "--calibration", text, "--tokens", 32, "--samples", 4)
        h.equal(f"{method}: an answer", len(h.json("run", small, *question, *greedy)["tokens"]), 6)


def facts_refusals(h):
    source, alone = write(h.temporary("refusing-t5")), write(h.temporary("t5-encoder"), encoder_alone=True)
    text = h.write("text", "the owls hunt at night. " * 20)
    h.refuses(1, "perplexity", source, text, "--context", 16, says="perplexity: expected a model that goes on with a text, found one of type t5")
    h.refuses(1, "run", source, "-p", "the", "--draft", source, says="draft: expected a model that goes on with a text")
    h.refuses(1, "embed", source, "the", says="embed: expected a model of one text, found one of type t5")
    h.refuses(1, "compress", source, "-o", h.temporary("x.bantam"), "--fit", "10kB", "--calibration", text, says="sensitivity: t5: of a decoder behind an encoder: not yet")
    h.refuses(1, "compress", source, "-o", h.temporary("x.bantam"), "--prune", "heads:0.5", "--calibration", text, says="prune heads:0.5: t5: of a decoder behind an encoder: not yet")
    h.refuses(1, "logits", alone, "-p", "the", says="which makes embeddings: see embed()")
    h.refuses(1, "logits", alone, "-p", "the", "--decoder-ids", "[1]", says="--decoder-ids: expected a model with an encoder before its decoder")
    seen = h.json("embed", alone, "the owls hunt", "the sea")
    h.equal("an encoder alone makes embeddings, of the mean", ([len(row) for row in seen["embeddings"]], seen["pooling"]), ([DIM, DIM], "mean"))
