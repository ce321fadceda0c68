"""`bantam serve`: endpoints, streams, what makes no sense, clients that go away, load, the end."""
import base64
import concurrent.futures
import http.client
import json
import math
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from random import Random

from adapter_facts import write_adapter
from harness import QUICK, TIMEOUT
from tiny_bert import Bert

PROMPTS = ["Once upon a time", "The dog was", "Lily and Tom", "One day, a little girl", "The sun"]
CHAT = [{"role": "user", "content": "Tell me a story"}]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    def __str__(self):
        return f"status {self.status}, body {self.body[:300]!r}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self.path)


class Server:
    """A running server. The lines of its standard error are kept. `tls`: the context of its clients."""

    def __init__(self, h, *options, model=None, tls=None, **how):
        self.h, self.tls, self.path = h, tls, None
        self.process = h.start("serve", model or h.gguf("stories260k"), "--port", "0", *options, **how)
        self.lines = []
        self.port = None
        ready = threading.Event()

        def read():
            for line in self.process.stderr:
                self.lines.append(line.decode())
                if match := re.search(r"listening on (?:https?://\S+:(\d+)|unix:(\S+))$", self.lines[-1]):
                    self.port, self.path = int(match[1] or 0), match[2]
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        ready.wait(TIMEOUT)
        if self.port is None:
            raise RuntimeError(f"the server did not start: {self.lines}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def end(self, number=signal.SIGTERM, limit=60.0):
        """Returns the exit status."""
        if self.process.poll() is None:
            status, _ = self.h.interrupt(self.process, number, limit)
        else:
            status = self.process.returncode
        self.reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def connect(self):
        if self.path:
            return UnixConnection(self.path)
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=TIMEOUT, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def ask(self, path, body=None, method=None, headers=None, connection=None):
        c = connection or self.connect()
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        c.request(method or ("GET" if body is None else "POST"), path, data, {"Content-Type": "application/json", **(headers or {})})
        response = c.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        if connection is None:
            c.close()
        return answer

    def events(self, path, body):
        """The data of each event of a stream, JSON but for [DONE]."""
        answer = self.ask(path, {**body, "stream": True})
        events = [part for part in answer.body.decode().split("\n\n") if part and not part.startswith(":")]
        self.h.fact(f"{path}: every event is data", answer.status == 200 and all(e.startswith("data: ") for e in events), answer)
        return [e if e == "[DONE]" else json.loads(e) for e in (e[len("data: "):] for e in events)]

    def metric(self, name):
        text = self.ask("/metrics").body.decode()
        return float(re.search(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M)[1])

    def wait_for(self, name, value, limit=30.0):
        """Until a figure is so much; whether it came to it."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.metric(name) == value:
                return True
            time.sleep(0.02)
        return False

    def raw(self, data, read=True):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as s:
            s.sendall(data)
            out = b""
            while read:
                try:
                    part = s.recv(65536)
                except ConnectionResetError:
                    break
                if not part:
                    break
                out += part
            return out


def has_server(h):
    result = h.run("serve", h.temporary("no-such-model"), "--port", "0")
    if "Boost" in result.err:
        print(f"skipped: {h.group}: this build has no server")
        return False
    return True


def facts_options(h, models):
    if not has_server(h):
        return
    model = h.gguf("stories260k")
    h.refuses(1, "serve", model, "--port", "0", "--lora", h.temporary("no-such-adapter"), says="no-such-adapter")
    for option in [["--port", "65536"], ["--port", "-1"], ["--parallel", "0"], ["--queue", "-2"], ["--temperature", "-1"], ["--api-key", ""], ["--seed", "x"], ["--kv", "f8"]]:
        h.refuses(2, "serve", model, *option)
    h.refuses(1, "serve", h.temporary("no-such-model"), "--port", "0", says="no-such-model")
    h.refuses(1, "serve", model, "--host", "256.1.1.1", "--port", "0", says="256.1.1.1")
    with Server(h) as server:
        h.refuses(1, "serve", model, "--port", str(server.port), says="expected an address to listen on")
    h.write("bad.jinja", "{% if %}")
    h.refuses(1, "serve", model, "--port", "0", "--chat-template-file", h.temporary("bad.jinja"), says="template")
    # A line of llama-server's.
    with Server(h, "-c", "256", "-np", "2", "-t", "1", "-a", "tiny", "--temp", "0", "--seed", "1", "--metrics", "--slots", "--jinja", "-n", "5") as server:
        props = server.ask("/props").json
        h.equal("-c, -np, -a", [props["default_generation_settings"]["n_ctx"], props["total_slots"], props["model_alias"]], [256, 2, "tiny"])
        one, two = (server.ask("/completion", {"prompt": "Once"}).json for _ in range(2))
        h.equal("-n, --temp", [one["tokens_predicted"], one["content"]], [5, two["content"]])


def facts_information(h, models):
    if not has_server(h):
        return
    with Server(h) as server:
        h.equal("/health", server.ask("/health").json, {"status": "ok"})
        listed = server.ask("/v1/models").json
        h.equal("/v1/models", [listed["object"], [m["id"] for m in listed["data"]]], ["list", ["stories260k-f32"]])
        h.equal("/v1/models/ID", server.ask("/v1/models/stories260k-f32").json, listed["data"][0])
        h.equal("/v1/models/other", server.ask("/v1/models/other").status, 404)
        text = "Once upon a time, there was a <s> é"
        ids = json.loads(h.succeeds("tokenize", h.gguf("stories260k"), "--no-special", "--parse-special", input=text).text)
        h.equal("/tokenize", server.ask("/tokenize", {"content": text}).json, {"tokens": ids})
        h.equal("/tokenize with BOS", server.ask("/tokenize", {"content": text, "add_special": True}).json["tokens"], [1, *ids])
        plain = json.loads(h.succeeds("tokenize", h.gguf("stories260k"), "--no-special", input=text).text)
        h.equal("/tokenize: text is text where asked", server.ask("/tokenize", {"content": text, "parse_special": False}).json["tokens"], plain)
        pieces = server.ask("/tokenize", {"content": "a 😀", "with_pieces": True}).json["tokens"]
        h.fact("/tokenize with_pieces", all(set(p) == {"id", "piece"} for p in pieces) and any(isinstance(p["piece"], list) for p in pieces), pieces)
        strings = server.ask("/tokenize", {"prompt": "The dog", "return_token_strs": True}).json
        spelled = {id: piece for piece, id in json.loads((models / "stories260k" / "tokenizer.json").read_text())["model"]["vocab"].items()}
        h.equal("with strings, as its files spell them", strings["token_strs"], [spelled[id] for id in strings["tokens"]])
        h.equal("/tokenize as vLLM", server.ask("/tokenize", {"prompt": "The dog"}).json["count"], 1 + len(server.ask("/tokenize", {"content": "The dog"}).json["tokens"]))
        h.equal("/detokenize", server.ask("/detokenize", {"tokens": server.ask("/tokenize", {"content": "The dog ran."}).json["tokens"]}).json["content"].strip(), "The dog ran.")
        prompt = server.ask("/apply-template", {"messages": CHAT}).json["prompt"]
        h.fact("/apply-template", "Tell me a story" in prompt and prompt.endswith("<|im_start|>assistant\n"), prompt)
        props = server.ask("/props").json
        h.fact("/props", props["total_slots"] == 4 and "chat_template" in props and props["bos_token"] == "<s>", props)
        planned, plan = h.json("plan", h.gguf("stories260k"), "--read-gb-s", 10, "--int8-gop-s", 100), server.ask("/plan").json
        of_shapes = ["architecture", "parameters", "bytes", "bytes_per_token", "fits", "context", "largest_context", "kv_bytes_per_token"]
        h.equal("/plan", [plan[name] for name in of_shapes], [planned[name] for name in of_shapes])
        h.fact("/plan has rates of this machine, and no paths", plan["generate_tok_s"] > 0 and plan["path"] == "stories260k-f32" and "/" not in plan["advice"][0]["command"], plan)
        h.equal("/plan of another model", server.ask("/plan?model=other").status, 404)
        h.equal("/slots", [s["is_processing"] for s in server.ask("/slots").json], [False] * 4)
        metrics = server.ask("/metrics").body.decode()
        for name in ["llamacpp:prompt_tokens_total", "llamacpp:requests_processing", "vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket", "bantam:requests_rejected_total"]:
            h.fact(f"/metrics has {name}", name in metrics, metrics[:300])
        wrong = [line for line in metrics.splitlines() if not re.fullmatch(r'# (HELP|TYPE) \S+ .+|[a-z_]+:\w+({\w+="[^"]*"(,\w+="[^"]*")*})? [-+.\de]+', line)]
        h.equal("/metrics is what Prometheus reads", wrong, [])


def rounded(rows):
    return [[round(x, 5) for x in row] for row in rows]


def facts_embeddings(h, models):
    if not has_server(h):
        return
    texts = ["The dog ran.", "A cat sat."]
    with Server(h, "--embeddings") as server:
        expected = h.json("embed", h.gguf("stories260k"), *texts)["embeddings"]
        seen = server.ask("/v1/embeddings", {"input": texts, "model": "stories260k-f32"}).json
        h.equal("vectors of embed", rounded(one["embedding"] for one in seen["data"]), rounded(expected))
        h.equal("shape", [seen["object"], [one["index"] for one in seen["data"]], seen["usage"]["prompt_tokens"] == seen["usage"]["total_tokens"] > 6], ["list", [0, 1], True])
        one = server.ask("/v1/embeddings", {"input": texts[0], "encoding_format": "base64"}).json["data"][0]["embedding"]
        packed = base64.b64decode(one, validate=True)
        h.equal("base64", rounded([struct.unpack(f"<{len(packed) // 4}f", packed)]), rounded(expected[:1]))
        ids = [server.ask("/tokenize", {"content": text, "add_special": True}).json["tokens"] for text in texts]
        for given, wanted in ((ids, expected), (ids[1], expected[1:])):
            h.equal("tokens", rounded(one["embedding"] for one in server.ask("/v1/embeddings", {"input": given}).json["data"]), rounded(wanted))
        raw = h.json("embed", h.gguf("stories260k"), *texts, "--no-normalize")["embeddings"]
        short = [[x / math.hypot(*row[:8]) for x in row[:8]] for row in raw]
        for more, wanted in (({"normalize": False}, raw), ({"embd_normalize": -1}, raw), ({"embd_normalize": 2}, expected), ({"dimensions": 8}, short), ({"dimensions": 8, "normalize": False}, [row[:8] for row in raw]),
                             ({"dimensions": len(raw[0])}, expected)):
            h.equal(f"{more}", rounded(one["embedding"] for one in server.ask("/v1/embeddings", {"input": texts, **more}).json["data"]), rounded(wanted))
        h.equal("/embed, as TEI has it", rounded(server.ask("/embed", {"inputs": texts}).json), rounded(expected))
        h.equal("of one text", rounded(server.ask("/embed", {"inputs": texts[0], "normalize": False}).json), rounded(raw[:1]))
        long = "The dog ran. " * 400
        cut = server.ask("/tokenize", {"content": long, "add_special": True}).json["tokens"][:h.json("inspect", h.gguf("stories260k"))["config"]["context"]]
        h.equal("truncate", [rounded(server.ask("/embed", {"inputs": given, "truncate": True}).json) for given in (long, [server.ask("/tokenize", {"content": long, "add_special": True}).json["tokens"]])],
                [rounded(server.ask("/embed", {"inputs": [cut]}).json)] * 2)
        for wrong in ({}, {"input": []}, {"input": 5}, {"input": [[]]}, {"input": [["a"]]}, {"input": [1, "a"]}, {"input": [-1]}, {"input": [10**9]}, {"input": "a", "encoding_format": "hex"},
                      {"input": "a", "dimensions": 0}, {"input": "a", "dimensions": len(raw[0]) + 1}, {"input": "a", "dimensions": "8"}, {"input": "a", "embd_normalize": 1}, {"input": "a", "normalize": 1},
                      {"input": "a", "truncate": "End"}, {"input": "a " * 4000}, {"input": ["a"] * 3000}):
            answer = server.ask("/v1/embeddings", wrong)
            h.fact(f"refused: {str(wrong)[:40]}", answer.status == 400 and answer.json["error"]["message"], answer.body[:200])
        h.equal("another model", server.ask("/v1/embeddings", {"input": "a", "model": "other"}).status, 404)
        refused = server.ask("/v1/rerank", {"query": "a", "documents": ["b"]})
        h.fact("no reranker", refused.status == 400 and "rerank" in refused.json["error"]["message"], refused.body)
        h.equal("and goes on", server.ask("/completion", {"prompt": "Once", "n_predict": 3}).status, 200)
    bert = Bert(h.temporary("served-bert"), labels=1)
    documents = ["the owls hunt at night.", "The sea was calm.", "night"]
    scores = h.json("rerank", bert.folder, "owls?", *documents)
    with Server(h, "--reranking", model=bert.folder) as server:
        seen = server.ask("/v1/rerank", {"query": "owls?", "documents": [documents[0], {"text": documents[1]}, documents[2]], "return_documents": True}).json
        h.equal("the best first", [one["index"] for one in seen["results"]], scores["order"])
        h.equal("scores of rerank", [round(one["relevance_score"], 5) for one in seen["results"]], [round(scores["scores"][i], 5) for i in scores["order"]])
        h.equal("documents", [one["document"]["text"] for one in seen["results"]], [documents[i] for i in scores["order"]])
        h.equal("top_n", len(server.ask("/rerank", {"query": "owls?", "documents": documents, "top_n": 2}).json["results"]), 2)
        tei = server.ask("/rerank", {"query": "owls?", "texts": documents, "return_text": True, "truncate": True}).json
        h.equal("as TEI has it", [(one["index"], one["score"], one["text"]) for one in tei], [(one["index"], one["relevance_score"], one["document"]["text"]) for one in seen["results"]])
        for wrong in ({}, {"query": "a"}, {"query": "a", "texts": []}, {"query": "a", "texts": 5}, {"query": "a", "texts": [5]}, {"query": "a", "documents": []}, {"query": "a", "documents": [5]}, {"query": "a", "documents": [{}]}, {"query": "a", "documents": ["b"], "top_n": 0}):
            h.equal(f"refused: {wrong}", server.ask("/v1/rerank", wrong).status, 400)
        seen = server.ask("/v1/classify", {"input": documents[0]}).json
        h.equal("a single label", [(one["label"], one["num_classes"], [round(x, 5) for x in one["probs"]]) for one in seen["data"]],
                [("LABEL_0", 1, [round(h.json("classify", bert.folder, documents[0])["scores"][0][0], 5)])])
        for path, body in (("/v1/chat/completions", {"messages": CHAT}), ("/v1/completions", {"prompt": "a"}), ("/completion", {"prompt": "a"})):
            answer = server.ask(path, body)
            h.fact(f"{path}: it writes no texts", answer.status == 501 and "writes no texts" in answer.json["error"]["message"], answer.body)


def facts_labels(h, models):
    """Labels of texts are those of classify."""
    if not has_server(h):
        return
    bert = Bert(h.temporary("served-labels"), labels=3, seed=4)
    texts = ["the owls hunt at night.", "The SEA was calm"]
    expected = h.json("classify", bert.folder, *texts)
    with Server(h, model=bert.folder) as server:
        seen = server.ask("/v1/classify", {"input": texts}).json
        h.equal("labels", (seen["labels"], [one["label"] for one in seen["data"]]), (expected["labels"], expected["best"]))
        h.equal("probabilities", [[round(x, 5) for x in one["probs"]] for one in seen["data"]], [[round(x, 5) for x in row] for row in expected["scores"]])
        h.equal("counts", [(one["index"], one["num_classes"]) for one in seen["data"]], [(0, 3), (1, 3)])
        h.fact("tokens", seen["usage"]["prompt_tokens"] > 10, seen["usage"])
        h.equal("one text", server.ask("/classify", {"input": texts[1]}).json["data"][0]["label"], expected["best"][1])
        for wrong in ({}, {"input": []}, {"input": 5}, {"input": [5]}, {"input": [texts[0], None]}, {"input": ["a"] * 3000}):
            h.equal(f"refused: {str(wrong)[:40]}", server.ask("/v1/classify", wrong).status, 400)
    with Server(h) as server:
        refused = server.ask("/v1/classify", {"input": "a"})
        h.fact("no classifier", refused.status == 400 and "classifier" in refused.error["message"], refused.body)


def facts_adapters(h, models):
    """Texts with --lora are those of run with it."""
    if not has_server(h):
        return
    model, adapter = models / "books4m", write_adapter(h.temporary("served"))
    how = {"temperature": 0, "n_predict": 24}
    prompt = "It was a dark night, and"
    plain, alone = (h.json("run", model, "-p", prompt, "-n", 24, "--temperature", 0, *more)["tokens"] for more in ([], ["--lora", f"{adapter}:0.8"]))
    with Server(h, "--lora", f"{adapter}:0.8", model=model) as server:
        seen = [server.ask("/completion", {"prompt": prompt, **how}).json["tokens"] for _ in range(2)]
        h.fact("the tokens of run, twice", seen == [alone, alone] and alone != plain, (seen, alone, plain))


def scored_prompts(h, server, ids):
    """Log probabilities of prompts, as evaluation harnesses ask for them (lm-eval's local-completions: echo, logprobs, max_tokens 1)."""
    ask = {"max_tokens": 8, "temperature": 0, "logprobs": 3, "ignore_eos": True}
    drawn = server.ask("/v1/completions", {**ask, "prompt": ids}).json["choices"][0]["logprobs"]
    tokens = server.ask("/completion", {"prompt": ids, "n_predict": 8, "temperature": 0, "ignore_eos": True}).json["tokens"]
    body = {**ask, "prompt": ids + tokens, "max_tokens": 1, "echo": True}
    choice = server.ask("/v1/completions", body).json["choices"][0]
    lists, count = choice["logprobs"], len(ids)
    h.equal("echo and logprobs: lists side by side", [len(lists[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [count + 9] * 4)
    h.equal("nothing is said of the first", [lists["token_logprobs"][0], lists["top_logprobs"][0]], [None, None])
    h.equal("read, tokens are as probable as drawn", [lists[name][count:-1] for name in ("token_logprobs", "top_logprobs")], [drawn["token_logprobs"], drawn["top_logprobs"]])
    h.fact("greedy ones are the most probable", all(own == max(top.values()) for own, top in zip(lists["token_logprobs"][count:], lists["top_logprobs"][count:])), lists)
    text, offsets = choice["text"], lists["text_offset"]
    h.fact("offsets are where the tokens stand", offsets == sorted(offsets) and all(
        text.encode()[at:].startswith(token.encode()) or (at == 0 and text.startswith(token.lstrip())) for token, at in zip(lists["tokens"][1:], offsets[1:])), [text, lists])
    nothing = server.ask("/v1/completions", {**body, "max_tokens": 0}).json["choices"][0]
    h.equal("max_tokens 0 scores the prompt alone", [nothing["logprobs"][name] for name in lists], [lists[name][:-1] for name in lists])
    events = [e["choices"][0] for e in server.events("/v1/completions", {**body, "max_tokens": 6, "stream": True})[:-1] if e["choices"]]
    whole = server.ask("/v1/completions", {**body, "max_tokens": 6}).json["choices"][0]
    h.equal("streamed, each is told once", ["".join(e["text"] for e in events), {name: sum((e["logprobs"][name] for e in events), []) for name in lists}], [whole["text"], whole["logprobs"]])
    prompts = server.ask("/v1/completions", {"prompt": ids + tokens, "max_tokens": 3, "temperature": 0, "prompt_logprobs": 2, "return_token_ids": True}).json["choices"][0]
    said = prompts["prompt_logprobs"]
    h.equal("prompt_logprobs: null, then an object for each token", [said[0], len(said)], [None, count + 8])
    h.equal("the token itself, as echo has it", [round(one[str(id)]["logprob"], 5) for one, id in zip(said[1:], (ids + tokens)[1:])], [round(x, 5) for x in lists["token_logprobs"][1:-1]])
    best = [sorted(one.values(), key=lambda x: x["rank"]) for one in said[1:]]
    h.fact("ranks: the first two, and the token's own", all([x["rank"] for x in one[:2]] == [1, 2] and len(one) in (2, 3) and (len(one) == 2 or one[2]["rank"] > 2) for one in best), said)
    h.fact("and they follow from log probabilities", all(a["logprob"] >= b["logprob"] for one in best for a, b in zip(one, one[1:])), said)
    h.equal("greedy ones have rank 1", [one[str(id)]["rank"] for one, id in zip(said[count:], tokens)], [1] * 8)
    h.equal("return_token_ids", [prompts["prompt_token_ids"], len(prompts["token_ids"])], [ids + tokens, 3])
    events = [e["choices"][0] for e in server.events("/v1/completions", {"prompt": ids + tokens, "max_tokens": 3, "temperature": 0, "prompt_logprobs": 2, "n": 2})[:-1]]
    h.equal("streamed, once", [e["prompt_logprobs"] for e in events if "prompt_logprobs" in e], [said])
    chat = {"messages": CHAT, "max_tokens": 2, "temperature": 0, "prompt_logprobs": 0, "return_token_ids": True}
    whole = server.ask("/v1/chat/completions", chat).json
    h.equal("of chats", [len(whole["prompt_logprobs"]), [len(one) for one in whole["prompt_logprobs"][1:]]], [len(whole["prompt_token_ids"]), [1] * (len(whole["prompt_token_ids"]) - 1)])
    events = server.events("/v1/chat/completions", chat)[:-1]
    h.equal("streamed, at the end", [e["prompt_logprobs"] for e in events if "prompt_logprobs" in e], [whole["prompt_logprobs"]])
    h.equal("more than there are", server.ask("/v1/completions", {"prompt": "x", "prompt_logprobs": 21}).error["param"], "prompt_logprobs")
    several = server.ask("/v1/completions", {**body, "prompt": [ids, body["prompt"]], "n": 2}).json["choices"]
    h.equal("each text of each prompt tells it", [c["logprobs"]["token_logprobs"][:-1] for c in several], [lists["token_logprobs"][:count]] * 2 + [lists["token_logprobs"][:-1]] * 2)


def facts_completions(h, models):
    if not has_server(h):
        return
    model = h.gguf("stories260k")
    with Server(h) as server:
        for prompt in PROMPTS[: 2 if QUICK else 5]:
            for sampling in [{"temperature": 0}, {"temperature": 0.9, "seed": 17, "top_k": 30, "repeat_penalty": 1.1}]:
                options = [part for key, value in sampling.items() for part in (f"--{key.replace('_', '-')}", str(value))]
                alone = h.json("run", model, "-p", prompt, "-n", "40", *options)
                native = server.ask("/completion", {"prompt": prompt, "n_predict": 40, **sampling}).json
                h.equal(f"/completion: the tokens of run ({prompt}, {sampling})", native["tokens"], alone["tokens"])
                h.equal(f"/completion: its text ({prompt})", native["content"], alone["text"])
                h.equal("/completion: counts", [native["tokens_predicted"], native["tokens_evaluated"]], [alone["generated_tokens"], alone["prompt_tokens"]])
                openai = server.ask("/v1/completions", {"prompt": prompt, "max_tokens": 40, **sampling}).json
                h.equal("/v1/completions: text", openai["choices"][0]["text"], alone["text"])
                h.equal("/v1/completions: finish_reason", openai["choices"][0]["finish_reason"], alone["finish_reason"])
                h.equal("/v1/completions: usage", {k: openai["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")},
                        {"prompt_tokens": alone["prompt_tokens"], "completion_tokens": alone["generated_tokens"], "total_tokens": alone["prompt_tokens"] + alone["generated_tokens"]})
                h.fact("/v1/completions: what was read before is not read again", openai["usage"]["prompt_tokens_details"]["cached_tokens"] == alone["prompt_tokens"] - 1, openai["usage"])
                events = server.events("/v1/completions", {"prompt": prompt, "max_tokens": 40, **sampling, "stream_options": {"include_usage": True}})
                h.equal("streamed text", "".join(e["choices"][0]["text"] for e in events[:-2]), alone["text"])
                h.fact("stream: usage in the last alone", events[-1] == "[DONE]" and events[-2]["choices"] == [] and events[-2]["usage"]["completion_tokens"] == alone["generated_tokens"]
                       and all(e["usage"] is None for e in events[:-2]), events[-3:])
                native_events = server.events("/completion", {"prompt": prompt, "n_predict": 40, **sampling})
                h.equal("/completion streamed", ["".join(e["content"] for e in native_events), sum((e["tokens"] for e in native_events), []), native_events[-1]["stop"]],
                        [alone["text"], alone["tokens"], True])
        base = {"prompt": PROMPTS[0], "max_tokens": 12, "seed": 5, "temperature": 1}
        several = server.ask("/v1/completions", {**base, "n": 3}).json["choices"]
        singles = [server.ask("/v1/completions", {**base, "seed": 5 + i}).json["choices"][0]["text"] for i in range(3)]
        h.equal("n: each text is that of its seed", [c["text"] for c in several], singles)
        h.equal("n: indices", [c["index"] for c in several], [0, 1, 2])
        lists = server.ask("/v1/completions", {**base, "prompt": PROMPTS[:3], "n": 2}).json["choices"]
        h.equal("prompts in a list", [c["text"] for c in lists][::2], [server.ask("/v1/completions", {**base, "prompt": p}).json["choices"][0]["text"] for p in PROMPTS[:3]])
        ids = server.ask("/tokenize", {"content": PROMPTS[0], "add_special": True}).json["tokens"]
        h.equal("a prompt of tokens", server.ask("/v1/completions", {**base, "prompt": ids}).json["choices"][0]["text"], singles[0])
        h.equal("prompts of tokens", [c["text"] for c in server.ask("/v1/completions", {**base, "prompt": [ids, ids]}).json["choices"]], [singles[0]] * 2)
        h.equal("echo", server.ask("/v1/completions", {**base, "echo": True}).json["choices"][0]["text"], PROMPTS[0] + singles[0])
        scored_prompts(h, server, ids)
        h.equal("max_tokens 0", server.ask("/v1/completions", {**base, "max_tokens": 0}).json["choices"][0], {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"})
        h.equal("16 tokens where nobody says", server.ask("/v1/completions", {"prompt": "Once", "ignore_eos": True}).json["usage"]["completion_tokens"], 16)
        greedy = {"prompt": PROMPTS[0], "max_tokens": 60, "temperature": 0}
        whole = server.ask("/v1/completions", greedy).json["choices"][0]["text"]
        stop = whole.split()[5]
        stopped = server.ask("/v1/completions", {**greedy, "stop": ["never there", stop]}).json["choices"][0]
        h.equal("stop", [stopped["text"], stopped["finish_reason"], stopped["stop_reason"]], [whole[: whole.index(stop)], "stop", stop])
        kept = {**greedy, "stop": [stop], "include_stop_str_in_output": True}
        h.equal("include_stop_str_in_output", server.ask("/v1/completions", kept).json["choices"][0]["text"], whole[: whole.index(stop) + len(stop)])
        h.equal("streamed", "".join(e["choices"][0]["text"] for e in server.events("/v1/completions", kept)[:-1] if e["choices"]), whole[: whole.index(stop) + len(stop)])
        native = server.ask("/completion", {"prompt": PROMPTS[0], "n_predict": 60, "temperature": 0, "stop": [stop]}).json
        h.equal("/completion: stop_type", [native["stop_type"], native["stopping_word"]], ["word", stop])
        first = server.ask("/completion", {"prompt": PROMPTS[0], "n_predict": 1, "temperature": 0, "n_probs": 2}).json
        token = first["completion_probabilities"][0]
        h.equal("n_probs", [token["id"], len(token["top_logprobs"]), token["top_logprobs"][0]["id"]], [first["tokens"][0], 2, first["tokens"][0]])
        logits = h.json("logits", model, "-p", PROMPTS[0], "--top", "2", "--kv", "f16")["positions"][-1]["top"]
        h.fact("log probabilities are those of `logits`", all(abs(a["logprob"] - b["logprob"]) < 1e-4 for a, b in zip(token["top_logprobs"], logits)), [token, logits])
        old = server.ask("/v1/completions", {**greedy, "max_tokens": 4, "logprobs": 3}).json["choices"][0]
        h.equal("logprobs of completions", ["".join(old["logprobs"]["tokens"]), [len(t) for t in old["logprobs"]["top_logprobs"]], old["logprobs"]["text_offset"][0]], [old["text"], [3] * 4, 0])
        for count in (0, 1):
            drawn = server.ask("/v1/completions", {"prompt": PROMPTS[0], "max_tokens": 24, "temperature": 2, "seed": 3, "logprobs": count}).json["choices"][0]["logprobs"]
            h.fact(f"logprobs {count}: the token that came is among them", all(top[token] == own and len(top) <= count + 1 for token, own, top in zip(drawn["tokens"], drawn["token_logprobs"], drawn["top_logprobs"], strict=True)), drawn)
        told = [e["usage"]["completion_tokens"] for e in server.events("/v1/completions", {**greedy, "max_tokens": 6, "stream_options": {"include_usage": True, "continuous_usage_stats": True}})[:-1]]
        h.fact("continuous_usage_stats", told[0] == 1 and told == sorted(told) and told[-1] == 6, told)
        ids = list(range(40, 52))
        for more, wanted in (({"truncate_prompt_tokens": 4}, ids[-4:]), ({"truncate_prompt_tokens": 4, "truncation_side": "right"}, ids[:4]), ({"truncate_prompt_tokens": 400}, ids), ({"truncate_prompt_tokens": -1}, ids)):
            h.equal(f"{more}", server.ask("/v1/completions", {"prompt": ids, "max_tokens": 1, "return_token_ids": True, **more}).json["choices"][0]["prompt_token_ids"], wanted)
        context = h.json("inspect", model)["config"]["context"]
        long = server.ask("/v1/completions", {"prompt": ids * 100, "max_tokens": 5, "temperature": 0, "truncate_prompt_tokens": -1, "ignore_eos": True}).json["usage"]
        h.equal("-1: as many as there is room for", [long["prompt_tokens"], long["completion_tokens"]], [context - 5, 5])
        bias = server.ask("/completion", {"prompt": PROMPTS[0], "n_predict": 1, "temperature": 0, "logit_bias": {str(first["tokens"][0]): -100}}).json
        h.fact("logit_bias", bias["tokens"] != first["tokens"], bias)
        h.equal("grammar", server.ask("/completion", {"prompt": "Is it?", "n_predict": 20, "grammar": 'root ::= "yes" | "no"'}).json["content"] in ("yes", "no"), True)
        same = server.connect()
        answers = [server.ask("/v1/completions", greedy, connection=same).json["choices"][0]["text"] for _ in range(3)]
        same.close()
        h.equal("three requests on one connection", answers, [whole] * 3)


def facts_chat(h, models):
    if not has_server(h):
        return
    with Server(h, "--temp", "0") as server:
        base = {"messages": CHAT, "max_tokens": 24}
        whole = server.ask("/v1/chat/completions", base).json
        choice = whole["choices"][0]
        h.equal("shape", [whole["object"], choice["index"], choice["message"]["role"], choice["finish_reason"], whole["model"]], ["chat.completion", 0, "assistant", "length", "stories260k-f32"])
        prompt = server.ask("/apply-template", {"messages": CHAT}).json["prompt"]
        ids = server.ask("/tokenize", {"content": prompt}).json["tokens"]
        h.equal("the text behind the template", choice["message"]["content"], server.ask("/completion", {"prompt": ids, "n_predict": 24}).json["content"])
        h.equal("usage", whole["usage"]["prompt_tokens"], len(ids))
        events = server.events("/v1/chat/completions", {**base, "n": 2, "stream_options": {"include_usage": True}})
        texts = ["", ""]
        for e in events[:-2]:
            texts[e["choices"][0]["index"]] += e["choices"][0]["delta"].get("content") or ""
        h.equal("streamed", texts, [choice["message"]["content"]] * 2)
        h.equal("stream: the role comes first", [e["choices"][0]["delta"] for e in events[:1]], [{"role": "assistant", "content": ""}])
        h.equal("stream: the ends", sorted(e["choices"][0]["index"] for e in events[:-2] if e["choices"][0]["finish_reason"] == "length"), [0, 1])
        h.equal("stream: usage", [events[-2]["usage"]["completion_tokens"], events[-1]], [48, "[DONE]"])
        h.equal("stream: one id", len({e["id"] for e in events[:-1]}), 1)
        logprobs = server.ask("/v1/chat/completions", {**base, "max_tokens": 5, "logprobs": True, "top_logprobs": 2}).json["choices"][0]
        entries = logprobs["logprobs"]["content"]
        h.equal("logprobs", [len(entries), {frozenset(e) for e in entries}, {len(e["top_logprobs"]) for e in entries}], [5, {frozenset({"token", "logprob", "bytes", "top_logprobs"})}, {2}])
        h.equal("logprobs: bytes", bytes(sum((e["bytes"] for e in entries), [])).decode(), logprobs["message"]["content"])
        streamed = server.events("/v1/chat/completions", {**base, "max_tokens": 5, "logprobs": True, "top_logprobs": 2})
        h.equal("logprobs, streamed", sum((e["choices"][0]["logprobs"]["content"] for e in streamed[:-1] if e["choices"][0]["logprobs"]), []), entries)
        parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me "}, {"type": "text", "text": "a story"}]}]
        h.equal("parts", server.ask("/v1/chat/completions", {**base, "messages": parts}).json["choices"][0]["message"], choice["message"])
        short = server.ask("/v1/chat/completions", {**base, "truncate_prompt_tokens": 9}).json
        h.equal("truncate_prompt_tokens", [short["usage"]["prompt_tokens"], short["choices"][0]["message"]["content"]], [9, server.ask("/completion", {"prompt": ids[-9:], "n_predict": 24}).json["content"]])
        after = CHAT + [{"role": "assistant", "content": short["choices"][0]["message"]["content"]}, {"role": "user", "content": "More"}]
        h.fact("and the next turn is read whole", server.ask("/v1/chat/completions", {**base, "messages": after}).json["usage"]["prompt_tokens"] > len(ids) + 24)
        longer = CHAT + [{"role": "assistant", "content": choice["message"]["content"]}, {"role": "user", "content": "More"}]
        details = server.ask("/v1/chat/completions", {**base, "messages": longer}).json["usage"]
        h.fact("the next turn reads its own tokens alone", details["prompt_tokens_details"]["cached_tokens"] >= len(ids), details)
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["name", "age"]}
        for form in [{"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}, {"type": "json_object", "schema": schema}]:
            said = server.ask("/v1/chat/completions", {**base, "max_tokens": 100, "response_format": form}).json["choices"][0]
            value = json.loads(said["message"]["content"])
            h.fact(f"{form['type']}", set(value) == {"name", "age"} and 0 <= value["age"] <= 99 and said["finish_reason"] == "stop", said)
        any_object = server.ask("/v1/chat/completions", {**base, "max_tokens": 30, "response_format": {"type": "json_object"}}).json["choices"][0]["message"]["content"]
        h.fact("json_object", any_object.startswith("{"), any_object)
        check_tools(h, server, base, schema)


def check_tools(h, server, base, schema):
    tools = [{"type": "function", "function": {"name": "greet", "parameters": {**schema, "$defs": {"n": {"type": "integer"}}}}},
             {"type": "function", "function": {"name": "count", "parameters": {"type": "object", "properties": {"to": {"$ref": "#/$defs/small"}}, "required": ["to"], "$defs": {"small": {"enum": [1, 2]}}}}}]
    named = {"type": "function", "function": {"name": "greet"}}
    for choice, names in [(named, {"greet"}), ("required", {"greet", "count"})]:
        body = {**base, "max_tokens": 150, "tools": tools, "tool_choice": choice}
        said = server.ask("/v1/chat/completions", body).json["choices"][0]
        calls = said["message"]["tool_calls"]
        call = calls[0]["function"]
        h.fact(f"tool_choice {choice}", len(calls) == 1 and call["name"] in names and said["finish_reason"] == "tool_calls" and said["message"]["content"] is None and calls[0]["id"], said)
        h.fact("its arguments", set(json.loads(call["arguments"])) == ({"name", "age"} if call["name"] == "greet" else {"to"}), call)
        pieces = [e["choices"][0]["delta"]["tool_calls"][0] for e in server.events("/v1/chat/completions", body)[:-1] if "tool_calls" in e["choices"][0]["delta"]]
        h.equal("streamed: the name once", [p["function"].get("name") for p in pieces if "name" in p["function"]], [call["name"]])
        h.equal("streamed: arguments", "".join(p["function"]["arguments"] for p in pieces), call["arguments"])
        h.equal("streamed: index and id", [{p["index"] for p in pieces}, len([p for p in pieces if "id" in p])], [{0}, 1])
    free = server.ask("/v1/chat/completions", {**base, "tools": tools}).json["choices"][0]
    h.fact("tools that the model need not call", free["finish_reason"] == "length" and "tool_calls" not in free["message"], free)
    h.equal("tool_choice none", server.ask("/v1/chat/completions", {**base, "tools": tools, "tool_choice": "none"}).status, 200)


def facts_replies(h, models):
    if not has_server(h):
        return
    # Marks of Qwen3's kind. What the model writes is what a grammar says: it knows no tools.
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if tools %}<tool_call>{% endif %}<|im_start|>assistant\n"
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    reply = '<think>Hm, well.</think>\n\nOn it.<tool_call>\n{"name": "f", "arguments": {"k": [1, 2]}}\n</tool_call>'
    literal = "root ::= " + json.dumps(reply)
    with Server(h, "--chat-template", template) as server:
        h.equal("the form", server.ask("/props").json["reply_form"], "hermes")
        body = {"messages": CHAT, "tools": tools, "grammar": literal}
        choice = server.ask("/v1/chat/completions", body).json["choices"][0]
        message = choice["message"]
        h.equal("thoughts, text and calls come apart", [message["reasoning_content"], message["content"], message["tool_calls"][0]["function"], choice["finish_reason"]],
                ["Hm, well.", "On it.", {"name": "f", "arguments": '{"k": [1, 2]}'}, "tool_calls"])
        events = server.events("/v1/chat/completions", body)[:-1]
        deltas = [e["choices"][0]["delta"] for e in events]
        calls = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
        h.equal("and in a stream", ["".join(d.get("reasoning_content") or "" for d in deltas), "".join(d.get("content") or "" for d in deltas), [c["function"].get("name") for c in calls if "id" in c],
                                    "".join(c["function"]["arguments"] for c in calls), events[-1]["choices"][0]["finish_reason"]],
                ["Hm, well.", "On it.", ["f"], '{"k": [1, 2]}', "tool_calls"])
        h.fact("in pieces", len(calls) > 3, calls)
        plain = server.ask("/v1/chat/completions", {"messages": CHAT, "grammar": literal}).json["choices"][0]
        h.fact("without tools a call is text", "<tool_call>" in plain["message"]["content"] and plain["finish_reason"] == "stop", plain)
        several = server.ask("/v1/chat/completions", {**body, "n": 3}).json["choices"]
        h.equal("n of them", [c["message"]["tool_calls"][0]["function"] for c in several], [message["tool_calls"][0]["function"]] * 3)
        h.equal("each call has an id of its own", len({c["message"]["tool_calls"][0]["id"] for c in several}), 3)
        history = CHAT + [{"role": "assistant", "content": None, "tool_calls": message["tool_calls"]}, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "3"}]
        h.equal("calls and their results come back", server.ask("/v1/chat/completions", {"messages": history, "tools": tools, "max_tokens": 3}).status, 200)
    with Server(h, "--temp", "0", "--chat-template", template + "<think>\n") as server:
        message = server.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 8}).json["choices"][0]["message"]
        h.fact("what a template opens is thought", message["reasoning_content"] and not message["content"], message)
        schema = {"type": "json_schema", "json_schema": {"schema": {"enum": ["a"]}}}
        message = server.ask("/v1/chat/completions", {"messages": CHAT, "response_format": schema}).json["choices"][0]["message"]
        h.equal("but for what a schema asks for", [message["content"], "reasoning_content" in message], ['"a"', False])


def malformed():
    """(path, body, status, a word of the message)"""
    chat, text, native = "/v1/chat/completions", "/v1/completions", "/completion"
    ok = {"messages": CHAT}
    yield chat, b"", 400, "request"
    yield chat, b"{", 400, "request"
    yield chat, b"[1]", 400, "object"
    yield chat, b'"x"', 400, "object"
    yield chat, b'{"messages": [{"role": "user", "content": "\xff"}]}', 400, "request"
    yield chat, b"[" * 100000, 400, "request"
    yield chat, b'{"a":' * 100000, 400, "request"
    yield chat, b'{"temperature": 1e999, "messages": []}', 400, ""
    yield chat, {}, 400, "messages"
    for messages in [[], "x", {}, None, 1, [1], [{}], [{"role": "user"}], [{"role": "user", "content": None}], [{"role": "wizard", "content": "x"}], [{"role": 1, "content": "x"}],
                     [{"role": "user", "content": 1}], [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
                     [{"role": "user", "content": [{"type": "text"}]}], [{"role": "assistant", "content": None}]]:
        yield chat, {"messages": messages}, 400, "messages"
    numbers = {"temperature": [-1, "hot", [], {}, 1e300], "top_p": [-0.1, 1.1, "x"], "min_p": [-1, 2], "top_k": [-2, 1.5, "x", 2**40], "n": [0, -1, 129, 1.5, "x"],
               "max_tokens": [-1, 1.5, "x", 2**70], "max_completion_tokens": [-5], "seed": [-2, 1.5, "x", 2**70], "frequency_penalty": [-3, 3, "x"], "presence_penalty": [9],
               "top_logprobs": [-1, 21, 3], "logprobs": [5, "x"], "stream": ["yes", 1], "repeat_penalty": [0, -1], "mirostat": [3], "best_of": [2]}
    for name, values in numbers.items():
        for value in values:
            yield chat, {**ok, name: value}, 400, name
    for stop in ["", [""], ["x"] * 100000, [1], {}, "x" * 5000]:
        yield chat, {**ok, "stop": stop}, 400, "stop"
    for bias in [{"x": 1}, {"-1": 1}, {"99999999": 1}, {"1": "x"}, {"1": 1e300}, [1], [[1]], "x"]:
        yield chat, {**ok, "logit_bias": bias}, 400, "logit_bias"
    yield chat, {**ok, "model": "gpt-9"}, 404, "gpt-9"
    yield chat, {**ok, "model": 7}, 400, "model"
    yield chat, {**ok, "stream_options": {"include_usage": True}}, 400, "stream_options"
    for form in ["json", {"type": "yaml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}},
                 {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}}, {"type": "json_schema", "json_schema": {"schema": {"patternProperties": {}}}}]:
        yield chat, {**ok, "response_format": form}, 400, ""
    yield chat, {**ok, "grammar": "root ::= nothing"}, 400, ""
    yield chat, {**ok, "grammar": "root ::= root"}, 400, ""
    yield chat, {**ok, "grammar": "root ::= <no-such-token>"}, 400, "expected a vocabulary with the token"
    yield chat, {**ok, "grammar": 'root ::= "x"', "response_format": {"type": "json_object"}}, 400, "several"
    tool = {"type": "function", "function": {"name": "f"}}
    for tools in ["x", [1], [{}], [{"type": "function"}], [{"function": {"name": ""}}], [{"function": {"name": "f", "parameters": 1}}]]:
        yield chat, {**ok, "tools": tools}, 400, "tools"
    for choice in ["maybe", 1, {"type": "function", "function": {"name": "g"}}, {}]:
        yield chat, {**ok, "tools": [tool], "tool_choice": choice}, 400, "tool_choice"
    yield chat, {**ok, "tool_choice": "required"}, 400, "tool_choice"
    for later in [{"functions": [{}]}, {"bad_words": ["x"]}, {"chat_template": "x"}]:
        yield chat, {**ok, **later}, 400, "not yet"
    yield chat, {**ok, "chat_template_kwargs": 1}, 400, "chat_template_kwargs"
    for prompt in [None, 1, {}, [], [[]], [-1], [10**9], [1.5], [None], [[1], "x", 1], ["x"] * 300]:
        yield text, {"prompt": prompt}, 400, "prompt"
    yield text, {"prompt": "x", "suffix": "y"}, 400, "suffix"
    for wrong in [{"truncate_prompt_tokens": 0}, {"truncate_prompt_tokens": -2}, {"truncate_prompt_tokens": "x"}, {"truncate_prompt_tokens": 1, "truncation_side": "middle"}, {"include_stop_str_in_output": "x"}]:
        yield text, {"prompt": "x", **wrong}, 400, list(wrong)[-1]
    yield text, {"prompt": "x", "logprobs": -1}, 400, "logprobs"
    yield native, {"prompt": "x", "n_predict": -2}, 400, "n_predict"
    yield native, {"prompt": "x", "n_probs": -1}, 400, "n_probs"
    yield native, {"prompt": "x", "json_schema": {"type": 5}}, 400, ""
    yield text, {"prompt": "word " * 20000}, 400, "tokens"
    yield "/tokenize", {}, 400, "content"
    yield "/tokenize", {"content": 1}, 400, "content"
    yield "/detokenize", {}, 400, "tokens"
    yield "/detokenize", {"tokens": [-1]}, 400, "tokens"
    yield "/detokenize", {"tokens": ["x"]}, 400, "tokens"
    yield "/apply-template", {"messages": 1}, 400, "messages"
    yield "/v1/nothing", {}, 404, "nothing"
    yield "/../../etc/passwd", {}, 404, ""
    yield "/health", {}, 405, "GET"
    yield "/v1/rerank", {}, 400, "query: expected a text"


def facts_malformed(h, models):
    if not has_server(h):
        return
    with Server(h, "--context", "128") as server:
        connection = server.connect()
        for path, body, status, word in malformed():
            name = f"{path} {str(body)[:70]}"
            answer = server.ask(path, body, connection=connection if status == 400 else None)
            if not h.equal(f"{name}: status", answer.status, status):
                h.fact(name, False, answer)
                continue
            h.equal(f"{name}: members of the error", set(answer.error) - {"n_prompt_tokens", "n_ctx"}, {"message", "type", "param", "code"})
            h.fact(f"{name}: says {word!r}", word in answer.error["message"] and "\n" not in answer.error["message"] and len(answer.body) < 2000, answer)
        connection.close()
        too_long = server.ask("/v1/completions", {"prompt": "word " * 2000})
        h.equal("too long a prompt comes with the numbers", [too_long.error["code"], too_long.error["n_ctx"], too_long.error["n_prompt_tokens"] > 128], ["context_length_exceeded", 128, True])
        h.equal("405 says what is allowed", server.ask("/v1/completions").headers["Allow"], "POST")
        head = server.ask("/health", method="HEAD")
        h.equal("HEAD", [head.status, head.body, head.headers["Content-Length"]], [200, b"", "15"])
        options = server.ask("/v1/chat/completions", method="OPTIONS", headers={"Origin": "http://x"})
        h.equal("CORS", [options.status, options.headers["Access-Control-Allow-Origin"]], [204, "*"])
        h.equal("it still works", server.ask("/v1/completions", {"prompt": "Once", "max_tokens": 3}).status, 200)


def places_in(value, path=()):
    """Paths to everything within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield (*path, key)
        yield from places_in(inside, (*path, key))


def changed(random, value):
    """A copy with something else in one to three places."""
    others = [None, True, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 1e308, -1.5, "", "x", "\0", "é😀", "a" * 300, [], {}, [[]], [None], {"a": 1}, ["x"] * 50, "{{ x }}", "root ::= root",
              "object", {"$ref": "#"}, {"anyOf": []}, {"type": "string", "minLength": 9}, {"type": "array", "items": {"$ref": "#"}}]
    value = json.loads(json.dumps(value))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(places_in(value))
        if not places:
            break
        *path, last = random.choice(places)
        at = value
        for key in path:
            at = at[key]
        if random.random() < 0.2:
            del at[last]
        else:
            at[last] = json.loads(json.dumps(random.choice(others)))
    return value


def facts_random_requests(h, models):
    if not has_server(h):
        return
    parameters = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"$ref": "#/$defs/q"}}, "$defs": {"q": {"enum": [1, "x", None]}}, "required": ["a"]}
    tools = [{"type": "function", "function": {"name": "f", "description": "x", "parameters": parameters}}]
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    talk = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "3"}]
    schema_tools = [{"name": "f", "input_schema": parameters}]
    blocks = [{"role": "user", "content": [{"type": "text", "text": "hi"}]},
              {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": ""}, {"type": "text", "text": "x"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "3"}]}]}]
    items = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "h"}]},
             {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "1", "output": "3"}]
    seeds = [("/v1/messages", {"system": [{"type": "text", "text": "s"}], "messages": blocks, "max_tokens": 3, "tools": schema_tools, "tool_choice": {"type": "auto"}, "stop_sequences": ["x"],
                               "thinking": {"type": "enabled", "budget_tokens": 2}, "top_k": 4, "stream": True}),
             ("/v1/messages", {"messages": CHAT, "max_tokens": 9, "tools": schema_tools, "tool_choice": {"type": "tool", "name": "f"}}),
             ("/v1/messages/count_tokens", {"messages": blocks, "tools": schema_tools}),
             ("/v1/responses", {"instructions": "s", "input": items, "max_output_tokens": 3, "tools": [{"type": "function", "name": "f", "parameters": parameters}], "tool_choice": "auto",
                                "text": {"format": {"type": "text"}}, "reasoning": {"effort": "low"}, "store": True, "stream": True, "metadata": {"a": "b"}}),
             ("/v1/responses", {"input": "hi", "max_output_tokens": 5, "text": {"format": {"type": "json_schema", "name": "n", "schema": parameters}}}),
             ("/v1/chat/completions", {"messages": talk, "max_tokens": 3, "n": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "logprobs": True, "top_logprobs": 2, "seed": 1, "stop": ["x", "yy"],
                                       "stream": True, "stream_options": {"include_usage": True}, "logit_bias": {"5": 1.5}, "tools": tools, "tool_choice": "auto",
                                       "chat_template_kwargs": {"enable_thinking": False}}),
             ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 9, "tools": tools, "tool_choice": "required"}),
             ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 5, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": parameters}}}),
             ("/completion", {"prompt": ["Once", [1, 2, 3]], "n_predict": 3, "n_probs": 2, "grammar": 'root ::= [a-z]+ ("x" | y){2,3}\ny ::= "q"', "dry_multiplier": 0.5, "mirostat": 2}),
             ("/v1/completions", {"prompt": "Once", "max_tokens": 2, "logprobs": 2, "echo": False, "stop_token_ids": [5], "min_tokens": 1, "guided_choice": ["a", "b"], "id_slot": 1, "lora": []}),
             ("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 2, "details": True, "do_sample": True, "temperature": 0.5, "stop": ["x"], "grammar": {"type": "regex", "value": "(a|[b-d])+"}}}),
             ("/slots/0?action=restore", {"filename": "x"}), ("/lora-adapters", [{"id": 0, "scale": 1}]), ("/embedding", {"content": "hi"}),
             ("/tokenize", {"content": "hi <s>", "with_pieces": True}), ("/detokenize", {"tokens": [1, 5, 9]}), ("/apply-template", {"messages": talk})]
    random = Random(1)
    end = time.monotonic() + 3
    with Server(h, "--context", "128", "-n", "20") as server:
        connection = server.connect()
        count = 0
        while time.monotonic() < end:
            path, body = random.choice(seeds)
            data = bytearray(json.dumps(changed(random, body)).encode())
            if random.random() < 0.2:
                at = random.randrange(len(data))
                data[at: at + random.randrange(3)] = bytes([random.randrange(256)])
            answer = server.ask(path, bytes(data), connection=connection)
            count += 1
            sound = answer.status == 200 or (answer.status in (400, 404, 501) and set(answer.error) >= ({"message", "type"} if path.startswith("/v1/messages") else {"message", "type", "param", "code"}))
            if not sound:
                h.fact(f"{path} {bytes(data)[:300]} is answered or refused", False, answer)
        connection.close()
        h.fact(f"{count} requests that make little sense are answered or refused", count > 20)


def facts_broken_http(h, models):
    if not has_server(h):
        return
    with Server(h) as server:
        def status(data):
            out = server.raw(data)
            return int(out.split(b" ")[1]) if out.startswith(b"HTTP/1.1 ") else out[:60]

        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
        cases = {
            "no HTTP": (b"nonsense\r\n\r\n", 400),
            "HTTP/0.9": (b"GET /health\r\n\r\n", 400),
            "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
            "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
            "a long line": (b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
            "many headers": (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 10000 + b"\r\n", 431),
            "a long header": (b"GET /health HTTP/1.1\r\nHost: x\r\na: " + b"x" * 1000000 + b"\r\n\r\n", 431),
            "two lengths": (head + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
            "length and chunks": (head + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
            "a negative length": (head + b"Content-Length: -1\r\n\r\n", 400),
            "a length of 10^18": (head + b"Content-Length: 1000000000000000000\r\n\r\n", 413),
            "a length beyond 64 bits": (head + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
            "a large body": (head + b"Content-Length: 268435456\r\n\r\n", 413),
            "a chunk size that overflows": (head + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400),
            "no chunk": (head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
            "NUL in a header": (b"GET /health HTTP/1.1\r\nHost: x\0y\r\n\r\n", 400),
            "no key needed, other path": (b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
            "HTTP/1.0": (b"GET /health HTTP/1.0\r\n\r\n", 200),
        }
        for name, (data, expected) in cases.items():
            h.equal(name, status(data), expected)
        body = json.dumps({"prompt": "Once", "max_tokens": 4, "temperature": 0, "stream": True}).encode()
        old = server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        h.fact("HTTP/1.0 streams without chunks", old.endswith(b"data: [DONE]\n\n") and b"chunked" not in old, old[:300])
        chunks = b"".join(b"%x;extension\r\n%s\r\n" % (len(part), part) for part in [body[:5], body[5:]]) + b"0\r\n\r\n"
        out = server.raw(head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        h.fact("a body in chunks", b"[DONE]" in out, out[:300])
        line = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        out = server.raw(line * 20 + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        h.equal("requests in a row, without waiting", out.count(b'{"status":"ok"}'), 21)
        post = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        out = server.raw(post + post.replace(b"Host: x", b"Host: x\r\nConnection: close"))
        h.equal("two streams in a row", out.count(b"data: [DONE]"), 2)
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            h.fact("100-continue", s.recv(1000).startswith(b"HTTP/1.1 100 "))
            s.sendall(body)
            h.fact("and then the answer", s.recv(1000).startswith(b"HTTP/1.1 200 "))
        out = server.raw(head + b"Content-Length: 268435456\r\n\r\n" + b"x" * 3000000)
        h.fact("413 arrives though the client goes on writing", out.startswith(b"HTTP/1.1 413 "), out[:100])


def facts_keys(h, models):
    if not has_server(h):
        return
    with Server(h, "--no-webui") as server:
        h.equal("--no-webui", [server.ask("/").status, server.ask("/page/page.js").status], [404, 404])
    for keys in ["", ",", "one,", "one,,two"]:
        h.refuses(2, "serve", h.gguf("stories260k"), "--api-key", keys, says="--api-key: expected something between commas")
    h.write("keys", "# of the first\none\n\ntwo  \n")
    with Server(h, "--api-key", "secret,third", "--api-key", "fourth", "--api-key-file", h.temporary("keys")) as server:
        body = {"prompt": "Once", "max_tokens": 2}
        for headers, status in [({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer secre"}, 401), ({"Authorization": "Bearer "}, 401), ({"Authorization": "secret"}, 401),
                                ({"Authorization": "Bearer secret,third"}, 401), ({"Authorization": "Bearer # of the first"}, 401),
                                ({"Authorization": "Bearer secret"}, 200), ({"Authorization": "Bearer third"}, 200), ({"Authorization": "Bearer fourth"}, 200), ({"Authorization": "Bearer two"}, 200), ({"X-Api-Key": "one"}, 200)]:
            answer = server.ask("/v1/completions", body, headers=headers)
            h.equal(f"{headers}", answer.status, status)
            if status == 401:
                h.equal("the error of a wrong key", answer.error["code"], "invalid_api_key")
        h.equal("/health needs none", server.ask("/health").status, 200)
        page = server.ask("/")
        h.equal("nor does the page", [page.status, page.headers["Content-Type"]], [200, "text/html; charset=utf-8"])
        h.fact("the page runs no other code", "script-src 'self'" in page.headers["Content-Security-Policy"], page.headers.items())
        wanted = set(re.findall(r'(?:src|href)="(/[^"]*)"', page.body.decode()))
        for path in sorted(wanted):
            file = server.ask(path)
            h.equal(f"{path} is there", [file.status, file.headers["Content-Type"].split("/")[0]], [200, "text"])
            wanted |= {"/page/" + name for name in re.findall(r'from "./([^"]*)"', file.body.decode())}
        h.equal("with what they import", [path for path in wanted if server.ask(path).status != 200], [])
        h.equal("and no more", server.ask("/page/other.js").status, 404)
        h.equal("/metrics does", server.ask("/metrics").status, 401)
        h.equal("a question of another origin does not", server.ask("/v1/completions", method="OPTIONS").status, 204)
        h.equal("a body that nobody may send is not read", server.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n")[:12], b"HTTP/1.1 401")


def endless(**more):
    return json.dumps({"prompt": "Once", "max_tokens": 100000, "ignore_eos": True, **more}).encode()


def post(path, body):
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def facts_priorities(h, models):
    if not has_server(h):
        return
    with Server(h, "--parallel", "1", "--context", "100000") as server:
        done = []

        def ask(priority):
            server.ask("/v1/completions", {"prompt": "Once", "max_tokens": 1000, "ignore_eos": True, "priority": priority})
            done.append(priority)

        threads = [threading.Thread(target=ask, args=[priority]) for priority in [5, 0, -5]]
        with socket.create_connection(("127.0.0.1", server.port)) as first:
            first.sendall(post("/v1/completions", endless(stream=True)))
            for there, thread in enumerate(threads, 1):
                h.fact("one waits behind the other", server.wait_for("bantam:requests", there))
                thread.start()
            h.fact("until all do", server.wait_for("bantam:requests", 4))
        for thread in threads:
            thread.join()
        h.equal("the lower ones come first", done, [-5, 0, 5])
        h.equal("whole numbers alone", server.ask("/v1/completions", {"prompt": "x", "priority": 1.5}).error["param"], "priority")


def facts_disconnects(h, models):
    if not has_server(h):
        return
    with Server(h, "--context", "100000", "--parallel", "2", "--queue", "100", "--drain", "1") as server:
        whole = post("/v1/completions", endless(stream=True))
        for data, name in [(whole, "streaming"), (post("/v1/completions", endless()), "not streaming"), (post("/completion", endless(n=5)), "several texts")]:
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.sendall(data)
                if not h.fact(f"{name}: runs", server.wait_for("bantam:requests", 1)):
                    return
            h.fact(f"{name}: a client that goes away ends its request", server.wait_for("bantam:requests", 0, 5.0))
        sockets = []
        for i in range(20):
            s = socket.create_connection(("127.0.0.1", server.port))
            s.sendall(whole)
            sockets.append(s)
        h.fact("20 are at hand", server.wait_for("bantam:requests", 20))
        for s in sockets:
            # With a reset, not a farewell.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
        h.fact("those that wait end too", server.wait_for("bantam:requests", 0, 10.0))
        # At any byte of the request.
        for cut in range(0, len(whole), 7):
            server.raw(whole[:cut], read=False)
        h.fact("no connection is left", server.wait_for("bantam:connections", 1, 10.0), server.metric("bantam:connections"))
        answer = server.ask("/v1/completions", {"prompt": PROMPTS[0], "max_tokens": 30, "temperature": 0}).json["choices"][0]["text"]
        h.equal("and others are answered as ever", answer, h.json("run", h.gguf("stories260k"), "-p", PROMPTS[0], "-n", "30", "--temperature", "0")["text"])
        def open_files():
            return len(os.listdir(f"/proc/{server.process.pid}/fd"))

        before = open_files()
        for _ in range(100):
            server.raw(whole, read=False)
        server.wait_for("bantam:requests", 0, 20.0)
        # The last one to ask how many connections there are has one itself.
        end = time.monotonic() + 10
        while open_files() > before and time.monotonic() < end:
            time.sleep(0.05)
        h.fact("a hundred more leave no file open", open_files() <= before, (before, open_files()))


def facts_overload(h, models):
    if not has_server(h):
        return
    with Server(h, "--context", "100000", "--parallel", "1", "--queue", "1", "--max-wait", "1", "--drain", "1") as server:
        runs = socket.create_connection(("127.0.0.1", server.port))
        runs.sendall(post("/v1/completions", endless(stream=True)))
        server.wait_for("bantam:requests", 1)
        waits = {}

        def wait():
            waits["answer"] = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 1})

        thread = threading.Thread(target=wait)
        thread.start()
        server.wait_for("bantam:requests", 2)
        refused = server.ask("/v1/completions", {"prompt": "x"})
        h.equal("a full queue", [refused.status, refused.headers["Retry-After"], refused.error["type"]], [429, "1", "rate_limit_error"])
        h.equal("it is counted", server.metric("bantam:requests_rejected_total"), 1.0)
        thread.join()
        h.equal("who waits too long is told", [waits["answer"].status, waits["answer"].error["type"]], [503, "unavailable_error"])
        runs.close()
        h.fact("the place is free again", server.wait_for("bantam:requests", 0, 5.0))
        h.equal("for others", server.ask("/v1/completions", {"prompt": "x", "max_tokens": 1}).status, 200)
    with Server(h, "--context", "100000", "--max-time", "1") as server:
        late = server.ask("/v1/completions", endless())
        h.equal("--max-time", late.status, 503)
        events = server.ask("/v1/completions", endless(stream=True)).body.decode().split("\n\n")
        h.fact("and in a stream", '"error"' in events[-3] and events[-2] == "data: [DONE]", events[-3:])


def facts_many_clients(h, models):
    if not has_server(h):
        return
    count = 10 if QUICK else 50
    wanted = {}
    for i, prompt in enumerate(PROMPTS):
        wanted[i] = h.json("run", h.gguf("stories260k"), "-p", prompt, "-n", "60", "--temperature", "0.8", "--seed", str(i))["tokens"]
    with Server(h, "--parallel", "8", "--queue", "100") as server:
        found = {}

        def client(k):
            i = k % len(PROMPTS)
            body = {"prompt": PROMPTS[i], "n_predict": 60, "temperature": 0.8, "seed": i}
            if k % 3 == 0:
                found[k] = server.ask("/completion", body).json["tokens"]
            else:
                found[k] = sum((e["tokens"] for e in server.events("/completion", body)), [])

        threads = [threading.Thread(target=client, args=(k,)) for k in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        wrong = [k for k in range(count) if found.get(k) != wanted[k % len(PROMPTS)]]
        h.equal(f"{count} clients at once get the tokens of run", wrong, [])
        h.fact("they were stepped together", server.metric("llamacpp:n_busy_slots_per_decode") > 1.2, server.metric("llamacpp:n_busy_slots_per_decode"))


def facts_guesses(h, models):
    if not has_server(h):
        return
    drawn = {"n_predict": 40, "temperature": 0.8}
    wanted = [h.json("run", h.gguf("stories260k"), "-p", prompt, "-n", "40", "--temperature", "0.8", "--seed", str(i))["tokens"] for i, prompt in enumerate(PROMPTS)]
    with Server(h, "--parallel", "4", "--draft", h.gguf("stories260k"), "--lookup", "4") as server, concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        replies = list(pool.map(lambda i: server.ask("/completion", {**drawn, "prompt": PROMPTS[i], "seed": i}).json, range(len(PROMPTS))))
        h.equal("texts are those without guesses", [reply["tokens"] for reply in replies], wanted)
        counts = [sum(reply["timings"].get(name, 0) for reply in replies) for name in ("draft_n", "draft_n_accepted")]
        h.fact("guesses are counted", counts[0] >= counts[1] > 0, counts)
        h.fact("in the metrics, too", server.wait_for("vllm:spec_decode_num_draft_tokens_total", counts[0]), counts)
        h.equal("in the metrics, too", server.metric("vllm:spec_decode_num_accepted_tokens_total"), counts[1])
        streamed = server.events("/v1/completions", {"prompt": PROMPTS[0], "max_tokens": 40, "temperature": 0.8, "seed": 0, "logprobs": 1})
        h.equal("streamed, every token comes once", sum((len(e["choices"][0]["logprobs"]["tokens"]) for e in streamed[:-1] if e["choices"]), 0), 40)
    h.refuses(1, "serve", h.gguf("stories260k"), "--port", "0", "--draft", h.model("books4m"), says="draft")
    h.refuses(1, "serve", h.gguf("stories260k"), "--port", "0", "--mtp", 2, says="a model with a layer that drafts")
    h.refuses(2, "serve", h.gguf("stories260k"), h.model("books4m"), "--port", "0", "--mtp", 2, says="expected one model")


def facts_mixture(h, models):
    if not has_server(h):
        return
    # Requests of all kinds at once for a while, some of them broken off or senseless, more than the queue takes.
    seconds, clients = (2, 10) if QUICK else (5, 40)
    with Server(h, "--parallel", "8", "--queue", "20") as server:
        body = {"temperature": 0.9, "cache_prompt": True}
        wanted = {(i, n): server.ask("/completion", {**body, "prompt": PROMPTS[i], "n_predict": n, "seed": i}).json["tokens"] for i in range(len(PROMPTS)) for n in (5, 40)}
        seen = {"right": 0, "refused": 0, "wrong": 0}
        lock = threading.Lock()
        end = time.monotonic() + seconds

        def client(number):
            random = Random(number)
            while time.monotonic() < end:
                i, n, kind = random.randrange(len(PROMPTS)), random.choice((5, 40)), random.random()
                asked = {**body, "prompt": PROMPTS[i], "n_predict": n, "seed": i, "stream": kind > 0.6}
                if kind < 0.1:
                    data = post("/completion", endless(stream=True))
                    server.raw(data[: random.randrange(1, len(data) + 1)], read=False)
                    continue
                if kind < 0.2:
                    found = "right" if server.ask("/v1/chat/completions", {"messages": []}).status == 400 else "wrong"
                else:
                    answer = server.ask("/completion", asked)
                    tokens = None
                    if answer.status == 200:
                        parts = [json.loads(e[6:]) for e in answer.body.decode().split("\n\n") if e] if asked["stream"] else [answer.json]
                        tokens = sum((p["tokens"] for p in parts), [])
                    found = "refused" if answer.status == 429 else "right" if tokens == wanted[i, n] else "wrong"
                with lock:
                    seen[found] += 1
                if found == "refused":
                    time.sleep(0.02)

        def guarded(number):
            try:
                client(number)
            except Exception as error:
                with lock:
                    seen["wrong"] += 1
                print(f"        {type(error).__name__}: {error}")

        threads = [threading.Thread(target=guarded, args=(k,)) for k in range(clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        h.fact("no answer is wrong, and none is missing", seen["wrong"] == 0 and seen["right"] > 0, seen)
        h.fact("nothing is left behind", server.wait_for("bantam:requests", 0, 20.0) and server.wait_for("bantam:connections", 1, 20.0))


def facts_end(h, models):
    if not has_server(h):
        return
    for number, expected in [(signal.SIGTERM, 0), (signal.SIGINT, 130)]:
        server = Server(h, "--context", "4096")
        answers = {}

        def stream():
            answers["stream"] = server.ask("/v1/completions", {"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": True})

        thread = threading.Thread(target=stream)
        thread.start()
        idle = server.connect()
        server.ask("/health", connection=idle)
        server.wait_for("bantam:requests", 1)
        status = server.end(number)
        thread.join(TIMEOUT)
        h.fact(f"{number}: what was at hand is answered to its end", answers["stream"].body.endswith(b"data: [DONE]\n\n") and b'"error"' not in answers["stream"].body, answers["stream"].body[-200:])
        h.equal(f"{number}: exit status", status, expected)
        h.fact("it says so", any("draining" in line for line in server.lines), server.lines)
    server = Server(h, "--context", "1000000", "--drain", "1")
    result = {}
    thread = threading.Thread(target=lambda: result.update(answer=server.ask("/v1/completions", endless(stream=True))))
    thread.start()
    server.wait_for("bantam:requests", 1)
    status = server.end()
    thread.join(TIMEOUT)
    h.equal("a text without end is cut off", status, 0)
    h.fact("and its client told", b"shutting down" in result["answer"].body, result["answer"].body[-200:])
    server = Server(h, "--context", "1000000")
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(post("/v1/completions", endless(stream=True)))
    server.wait_for("bantam:requests", 1)
    server.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 20
    while not any("draining" in line for line in server.lines) and time.monotonic() < end:
        time.sleep(0.01)
    status, seconds = h.interrupt(server.process, signal.SIGTERM)
    h.fact("a second signal ends it at once", seconds < 5, seconds)
    server.end()
    s.close()
    process = h.start("serve", h.gguf("stories260k"), "--port", "0", "--json")
    first = json.loads(process.stdout.readline())
    h.fact("--json says where", first["url"].startswith("http://127.0.0.1:") and first["model"] == "stories260k-f32", first)
    h.interrupt(process, signal.SIGTERM)
    process.communicate()


def facts_few_files(h, models):
    if not has_server(h):
        return
    # More connections than the process may have files: those beyond wait, and the others are served.
    shell = ["/bin/sh", "-c", 'ulimit -n 24; exec "$0" "$@"', h.program, "serve", h.gguf("stories260k"), "--port", "0"]
    process = subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = process.stderr.readline().decode()
    while line and "listening" not in line:
        line = process.stderr.readline().decode()
    port = int(line.rsplit(":", 1)[1])
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    time.sleep(0.5)
    for s in sockets:
        s.close()
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    c.request("GET", "/health")
    h.equal("after files ran out it goes on", c.getresponse().status, 200)
    c.close()
    status, _ = h.interrupt(process, signal.SIGTERM)
    h.equal("and ends well", status, 0)
    process.communicate()
