"""`bantam serve`: Ollama's API."""
import json
import math
import time

from serve_facts import CHAT, PROMPTS, Server, has_server
from tiny_chat import write_chat_model

THINKS = "<think>\nThe other one.\n</think>\n\nOn it."
CALL = '<tool_call>{"name": "find", "arguments": {"what": "the thing"}}</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}}}]
MEMBERS = ["created_at", "done", "done_reason", "eval_count", "eval_duration", "load_duration", "model", "prompt_eval_count", "prompt_eval_duration", "timings", "total_duration"]


def lines_of(server, path, body):
    answer = server.ask(path, body)
    server.h.equal(f"{path}: a stream of JSON lines", [answer.status, answer.headers["Content-Type"], answer.body[-1:]], [200, "application/x-ndjson", b"\n"])
    return [json.loads(line) for line in answer.body.decode().splitlines()]


def facts_texts(h, models):
    if not has_server(h):
        return
    with Server(h, "--alias", "tiny,small") as server:
        h.fact("/api/version", int(server.ask("/api/version").json["version"].split(".")[1]) > 6)
        tags = server.ask("/api/tags").json["models"]
        h.equal("/api/tags", [(m["name"], m["model"], len(m["digest"]), m["size"] > 10**5, m["details"]["family"], m["details"]["parameter_size"]) for m in tags], [("tiny", "tiny", 64, True, "llama", "0M")])
        shown = server.ask("/api/show", {"model": "tiny"}).json
        h.equal("/api/show", [shown["capabilities"], shown["model_info"]["general.architecture"], shown["model_info"]["llama.context_length"]],
                [["completion"], "llama", h.json("inspect", h.gguf("stories260k"))["config"]["context"]])
        greedy = {"model": "tiny", "prompt": PROMPTS[0], "raw": True, "options": {"temperature": 0, "num_predict": 16, "num_ctx": 4096}}
        plain = server.ask("/completion", {"prompt": PROMPTS[0], "temperature": 0, "n_predict": 16}).json
        whole = server.ask("/api/generate", {**greedy, "stream": False}).json
        h.equal("raw: the text behind the prompt", [whole["response"], whole["eval_count"], whole["done"], whole["done_reason"], sorted(whole)], [plain["content"], 16, True, "length", sorted([*MEMBERS, "response"])])
        lines = lines_of(server, "/api/generate", greedy)
        h.equal("in a stream", ["".join(line["response"] for line in lines), [line["done"] for line in lines]], [plain["content"], [False] * (len(lines) - 1) + [True]])
        h.equal("whose last line has the figures", [lines[-1]["eval_count"], lines[-1]["done_reason"], sorted(lines[-1])], [16, "length", sorted([*MEMBERS, "response"])])
        asked = {"model": "tiny", "messages": CHAT, "stream": False, "options": {"temperature": 0, "num_predict": 12}}
        chat = server.ask("/v1/chat/completions", {"messages": CHAT, "temperature": 0, "max_tokens": 12}).json
        said = server.ask("/api/chat", asked).json
        h.equal("/api/chat", [said["message"], said["prompt_eval_count"]], [{"role": "assistant", "content": chat["choices"][0]["message"]["content"]}, chat["usage"]["prompt_tokens"]])
        h.equal("in a stream", "".join(line["message"]["content"] for line in lines_of(server, "/api/chat", {**asked, "stream": True})), said["message"]["content"])
        prompt = server.ask("/api/generate", {**asked, "prompt": CHAT[0]["content"]}).json
        h.equal("a prompt is a turn of the user's", prompt["response"], said["message"]["content"])
        for name in ["small", "tiny:latest", "small:latest"]:
            h.equal(f"by {name}", server.ask("/api/chat", {**asked, "model": name}).json["model"], "tiny")
        for path, member in [("/api/chat", "message"), ("/api/generate", "response")]:
            loaded = server.ask(path, {"model": "tiny"}).json
            h.equal(f"{path}: nothing is asked", [loaded["done"], loaded["done_reason"], member in loaded], [True, "load", True])
        made = json.loads(server.ask("/api/chat", {**asked, "options": {"temperature": 0, "num_predict": 100}, "format": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["age"], "additionalProperties": False}}).json["message"]["content"])
        h.fact("format: a schema", set(made) == {"age"} and 1 <= made["age"] <= 9, made)
        made = server.ask("/api/generate", {**greedy, "format": "json", "stream": False, "options": {"temperature": 0, "num_predict": 400, "seed": 1}}).json["response"]
        h.fact("format: json", made.lstrip().startswith("{"), made)
        stop = plain["content"].split()[3]
        h.equal("stop", server.ask("/api/generate", {**greedy, "stream": False, "options": {"temperature": 0, "stop": [stop]}}).json["response"], plain["content"][: plain["content"].index(stop)])
        scored = server.ask("/api/chat", {**asked, "logprobs": True, "top_logprobs": 2}).json["logprobs"]
        h.equal("logprobs", [len(scored), len(scored[0]["top_logprobs"]), "".join(one["token"] for one in scored)], [12, 2, said["message"]["content"]])
        texts = ["The dog ran.", "A cat sat."]
        vectors = [one["embedding"] for one in server.ask("/v1/embeddings", {"input": texts}).json["data"]]
        h.equal("/api/embed", [server.ask("/api/embed", {"model": "tiny", "input": given}).json["embeddings"] for given in (texts, texts[0])], [vectors, vectors[:1]])
        short = server.ask("/api/embed", {"input": texts, "dimensions": 8}).json
        h.fact("dimensions", all(len(row) == 8 and abs(math.hypot(*row) - 1) < 1e-5 for row in short["embeddings"]) and short["prompt_eval_count"] > 6, short)
        h.equal("truncate unless it says otherwise", [server.ask("/api/embed", {"input": "a " * 4000, **more}).status for more in ({}, {"truncate": False})], [200, 400])
        h.equal("/api/embeddings", server.ask("/api/embeddings", {"prompt": texts[1]}).json, {"embedding": vectors[1]})
        wrong = [("/api/chat", {"messages": 5}), ("/api/chat", {"messages": [5]}), ("/api/chat", {"messages": [{"content": "x"}]}), ("/api/chat", {"messages": [{"role": "cat", "content": "x"}]}),
                 ("/api/chat", {**asked, "options": 5}), ("/api/chat", {**asked, "options": {"temperature": "hot"}}), ("/api/chat", {**asked, "options": {"num_predict": "x"}}), ("/api/chat", {**asked, "format": "xml"}),
                 ("/api/chat", {**asked, "think": 5}), ("/api/chat", {**asked, "n": 2}), ("/api/generate", {**greedy, "n": 2}), ("/api/chat", {**asked, "tools": 5}), ("/api/chat", {"messages": [{"role": "assistant", "tool_calls": [{}]}]}), ("/api/generate", {"prompt": 5}),
                 ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}), ("/api/generate", {"prompt": "x", "suffix": "y"}), ("/api/generate", {"prompt": "x", "context": [1]}),
                 ("/api/embed", {}), ("/api/show", {}), ("/api/show", {"model": "other"}), ("/api/chat", {**asked, "model": "other"}), ("/api/pull", {"model": "x"}), ("/api/chat", {**asked, "messages": CHAT * 1000})]
        for path, body in wrong:
            answer = server.ask(path, body)
            h.fact(f"refused: {path} {str(body)[:60]}", answer.status in (400, 404, 501) and set(answer.json) == {"error"} and isinstance(answer.json["error"], str), answer)


def facts_replies(h):
    """Thoughts and calls apart from texts, whole and in lines."""
    if not has_server(h):
        return
    with Server(h, model=write_chat_model(h.temporary("ollama"), "dense")) as server:
        h.equal("what it can do", server.ask("/api/show", {"name": "ollama"}).json["capabilities"], ["completion", "tools", "thinking"])
        body = {"messages": [{"role": "user", "content": "Find it"}], "tools": TOOLS, "grammar": "root ::= " + json.dumps(THINKS + CALL), "options": {"num_predict": 400, "temperature": 0}}
        whole = server.ask("/api/chat", {**body, "stream": False}).json
        message = whole["message"]
        call = {"index": 0, "name": "find", "arguments": {"what": "the thing"}}
        h.equal("whole", [message["thinking"], message["content"], [one["function"] for one in message["tool_calls"]], whole["done_reason"]], ["The other one.", "On it.", [call], "stop"])
        said = [line["message"] for line in lines_of(server, "/api/chat", body)]
        h.equal("in lines", ["".join(m.get("thinking", "") for m in said), "".join(m["content"] for m in said), [one["function"] for m in said for one in m.get("tool_calls", [])]], ["The other one.", "On it.", [call]])
        h.fact("a call is in one line", sum("tool_calls" in m for m in said) == 1 and all("id" in one for m in said for one in m.get("tool_calls", [])), said)
        talk = [*body["messages"], message, {"role": "tool", "tool_name": "find", "content": "there"}]
        ids = server.ask("/api/chat", {**body, "messages": talk, "grammar": 'root ::= "Done."', "stream": False}).json
        h.equal("and is read again as it was written", ids["timings"]["cache_n"], whole["prompt_eval_count"] + whole["eval_count"] - 1)
        template = "{{ messages[0].content }}|{{ enable_thinking }}|{{ reasoning_effort }}"
    with Server(h, "--chat-template", template) as server:
        counts = {text: len(server.ask("/tokenize", {"content": text}).json["tokens"]) for text in ["x||", "x|True|", "x|False|", "x|True|high"]}
        for think, text in [({}, "x||"), ({"think": True}, "x|True|"), ({"think": False}, "x|False|"), ({"think": "high"}, "x|True|high")]:
            answer = server.ask("/api/chat", {"messages": [{"role": "user", "content": "x"}], "stream": False, "options": {"num_predict": 1}, **think}).json
            h.equal(f"{think or 'nothing'}: templates read it", answer["prompt_eval_count"], counts[text])


def facts_models(h, models):
    if not has_server(h):
        return
    with Server(h, h.gguf("babyllama105")) as server:
        h.equal("several, none of them loaded", [(m["name"], m["size"], m["details"]["family"]) for m in server.ask("/api/tags").json["models"]], [("stories260k-f32", 0, ""), ("babyllama105-f32", 0, "")])
        answer = server.ask("/api/generate", {"model": "babyllama105-f32:latest", "prompt": "The", "stream": False, "options": {"num_predict": 2}})
        h.equal("one is loaded by its name", [answer.status, answer.json["model"]], [200, "babyllama105-f32"])
        h.equal("and has its size then", [m["size"] > 0 for m in server.ask("/api/tags").json["models"]], [False, True])
        h.equal("keep_alive", server.ask("/api/generate", {"model": "babyllama105-f32", "keep_alive": 0}).json["done_reason"], "load")
        deadline = time.monotonic() + 30
        while any(m["size"] for m in server.ask("/api/tags").json["models"]) and time.monotonic() < deadline:
            time.sleep(0.1)
        h.equal("unloads what nobody uses", [m["size"] for m in server.ask("/api/tags").json["models"]], [0, 0])
