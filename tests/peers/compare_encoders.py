"""A random model of every encoder, and of Qwen3, gives llama.cpp's embeddings from the GGUF file that bantam writes of it, and its scores where it
is a classifier.

usage: compare_encoders.py BANTAM WRITE_TINY_MODELS SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where node-llama-cpp is absent.
"""

import json
import math
import os
import pathlib
import shutil
import sys
import tempfile

from compare_architectures import ENCODERS, SEEDS, run

LENGTHS = [2, 9, 64, 100, 200]
END = 2  # which llama.cpp's binding puts behind ids that do not end with it
# Of the numbers of vectors of length 1, and of probabilities. llama.cpp looks GELU up in a table of halves, by its approximation with tanh,
# and rounds keys and values to halves: models without GELU are as far apart.
TOLERANCE = 5e-4
# The numbers that these are made of are of size 3, and of 10 where they are a difference of two (Qwen3), not of length 1.
TOLERANCE_OF_SCORES = 2e-3


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def llama(scripts, folder, files, *arguments):
    """What llama.cpp makes of the files with these arguments, by file. All in one process: to start takes longer than a tiny model."""
    output = pathlib.Path(folder) / "llama.json"
    run(["node", scripts / "llama_cpp.mjs", *files, *arguments, "--threads", "1", "--context", 256, "--output", output])
    documents = json.loads(output.read_text())
    return {pathlib.Path(document["model"]): document["prompts"] for document in (documents if len(files) > 1 else [documents])}


def as_ids(prompts):
    return [word for ids in prompts for word in ("--ids", ",".join(map(str, ids)))]


def compare_embeddings(bantam, scripts, folder, files):
    prompts = [[1] + [3 + (i * 7 + i * i) % 27 for i in range(length - 2)] + [END] for length in LENGTHS]
    failures = 0
    for gguf, results in llama(scripts, folder, files, "--embed", "--vocab", "t5", *as_ids(prompts)).items():
        theirs = [unit(result["embedding"]) for result in results]
        for source in (gguf, gguf.with_suffix("")):
            mine = json.loads(run([bantam, "embed", source, "--json", "--normalize", *[x for ids in prompts for x in ("--ids", json.dumps(ids))]]))["embeddings"]
            worst = max(abs(a - b) for x, y in zip(mine, theirs) for a, b in zip(x, y))
            cosine = min(sum(a * b for a, b in zip(x, y)) for x, y in zip(mine, theirs))
            verdict = "agrees" if worst < TOLERANCE and len(mine) == len(theirs) else "DIFFERS"
            failures += verdict == "DIFFERS"
            print(f"{source.name}: {verdict}, embeddings at most {worst:.6f} apart, cosines from {cosine:.7f}")
    return failures


def compare_scores(bantam, scripts, folder, files):
    texts = [("abc", "xyz"), ("what is it", "it is what it is"), ("q", "a longer text of some more letters")]
    by_prompts = {}
    for gguf in files:
        prompts = [(*json.loads(run([bantam, "tokenize", gguf, "-f", write(folder, query)])),
                    *json.loads(run([bantam, "tokenize", gguf, "--no-special", "-f", write(folder, document)]))) for query, document in texts]
        by_prompts.setdefault(tuple(prompts), []).append(gguf)
    failures = 0
    for prompts, alike in by_prompts.items():
        for gguf, results in llama(scripts, folder, alike, "--rank", "--vocab", "t5", *as_ids(prompts)).items():
            theirs = [result["score"] for result in results]
            for source in (gguf, gguf.with_suffix("")):
                mine = [json.loads(run([bantam, "rerank", source, query, document, "--json"]))["scores"][0] for query, document in texts]
                # Qwen3 answers yes or no: its scores are probabilities already.
                if not source.name.startswith("qwen3"):
                    mine = [1 / (1 + math.exp(-score)) for score in mine]
                worst = max(abs(a - b) for a, b in zip(mine, theirs))
                verdict = "agrees" if worst < TOLERANCE_OF_SCORES and len(set(theirs)) == len(theirs) else "DIFFERS"
                failures += verdict == "DIFFERS"
                print(f"{source.name}: {verdict}, scores at most {worst:.6f} apart: {theirs}")
    return failures


def write(folder, text):
    path = pathlib.Path(folder) / "text"
    path.write_text(text)
    return path


TEXTS = ["the sea", "The SEAS, unable!", "th\u00e9 s\u00c9a", "a\u65e5b", "qqq the", "  the\tsea \n a ", "a,b.c", "unthe sea's", "THE the tHe", "\u00e5ngstr\u00f6m a", "a b  c   a"]


def wordpiece():
    """BERT's tokenizer with a vocabulary of 30 pieces."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "sea", "##s", "un", "##able", "a", "b", "c", "##a", "##b", "##the", ",", ".", "!", "\u65e5", "s", "t", "##e", "##h", "'", "n", "##gst", "##rom", "##n", "e", "##sea"]
    special = [{"id": pieces.index(piece), "content": piece, "special": True} for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")]
    return {"version": "1.0", "added_tokens": special, "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(pieces)}}}


def unigram():
    """XLM-RoBERTa's."""
    space = "\u2581"
    pieces = ["<s>", "<pad>", "</s>", "<unk>", space, space + "the", space + "sea", "s", space + "un", "able", space + "a", "a", "b", "c", "the", ",", ".", "!", "\u65e5", "t", "h", "e", "'", "n", "sea", "T", "H", "E", space + "t", "S"]
    special = [{"id": i, "content": pieces[i], "special": True} for i in range(4)]
    return {"version": "1.0", "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": space, "add_prefix_space": True}]},
            "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
            "model": {"type": "Unigram", "unk_id": 3, "vocab": [[piece, 0.0 if i < 4 else -1.0 - 0.37 * i + 2.5 * len(piece)] for i, piece in enumerate(pieces)]}}


def compare_tokenizers(bantam, scripts, folder, name, tokenizer, texts):
    """Ids of texts by the GGUF file that bantam writes of a folder with this tokenizer: ours and llama.cpp's."""
    source, gguf = pathlib.Path(folder) / name, pathlib.Path(folder) / f"{name}-tokens.gguf"
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    (source / "tokenizer_config.json").unlink(missing_ok=True)
    run([bantam, "compress", source, "-o", gguf, "--to", "gguf", "--format", "f32"])
    prompts = llama(scripts, folder, [gguf], "--embed", *[x for text in texts for x in ("--prompt", text)])[gguf]
    failures = 0
    for text, prompt in zip(texts, prompts):
        whole = [json.loads(run([bantam, "tokenize", path, "-f", write(folder, text)])) for path in (source, gguf)]
        # What stands around a text is added by the binding there.
        mine, theirs = whole[1][1:-1], [token for token in prompt["ids"] if token not in (whole[1][0], whole[1][-1])]
        if mine != theirs or whole[0] != whole[1]:
            print(f"{gguf.name}: {text!r}: ids DIFFER: {whole[0]} in the folder, {whole[1]} in the GGUF file, llama.cpp's {prompt['ids']}")
            failures += 1
    print(f"{gguf.name}: {len(texts) - failures} of {len(texts)} texts have llama.cpp's ids")
    return failures


def main():
    bantam, writer, scripts = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    peers = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts))
    if shutil.which("node") is None or not (peers / "node_modules" / "node-llama-cpp").exists():
        print("skipped: node-llama-cpp is not installed (tests/peers/README.md)")
        sys.exit(77)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        embedders, classifiers = [], []
        for name in run([writer, folder, ",".join(SEEDS), *ENCODERS]).split():
            # GGUF has no words for the activations of these classifiers.
            if name.startswith(("distilbert_rank-", "electra_rank-")):
                continue
            gguf = folder / f"{name}.gguf"
            run([bantam, "compress", folder / name, "-o", gguf, "--to", "gguf", "--format", "f32"])
            (classifiers if "_rank-" in name else embedders).append(gguf)
        failures += compare_embeddings(bantam, scripts, folder, embedders)
        failures += compare_scores(bantam, scripts, folder, classifiers)
        failures += compare_tokenizers(bantam, scripts, folder, f"bert-{SEEDS[0]}", wordpiece(), TEXTS)
        # Without the character map of published files, which makes them spaces, tabs are characters of the model there.
        failures += compare_tokenizers(bantam, scripts, folder, f"xlm-roberta-{SEEDS[0]}", unigram(), [text for text in TEXTS if "\t" not in text])
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
