"""`bantam serve`: Anthropic's messages, OpenAI's responses, and what of a conversation is read again."""
import json
import os

from harness import QUICK
from serve_facts import CHAT, Server, has_server
from tiny_chat import KINDS, SPECIAL, write_chat_model

THOUGHT, WORDS = "The other one, and then the third.", "On it: the thing in there and on."
CALL = '{"name": "find", "arguments": {"what": "the thing", "more": [1, 2]}}'
TOOLS = [{"type": "function", "function": {"name": "find", "description": "Finds", "parameters": {"type": "object", "properties": {"what": {"type": "string", "description": "Which", "maxLength": 20}}, "required": ["what"],
                                                                                 "additionalProperties": False}}}]


def literally(text):
    """A tiny model writes what it is told to, cut into tokens as it likes."""
    return "root ::= " + json.dumps(text)


def events_of(server, path, body):
    """(name, data) of each event of a stream."""
    answer = server.ask(path, {**body, "stream": True})
    server.h.equal(f"{path}: the status of a stream", answer.status, 200)
    events = []
    for part in answer.body.decode().split("\n\n"):
        if part and not part.startswith(":"):
            fields = dict(line.split(": ", 1) for line in part.split("\n"))
            events.append((fields.get("event"), fields["data"] if fields["data"] == "[DONE]" else json.loads(fields["data"])))
    return events


def facts_messages(h, models):
    if not has_server(h):
        return
    with Server(h, "--temp", "0", "--api-key", "secret") as server:
        key = {"X-Api-Key": "secret"}
        body = {"messages": CHAT, "max_tokens": 12}
        whole = server.ask("/v1/messages", body, headers=key).json
        h.equal("shape", [whole["type"], whole["role"], whole["stop_reason"], [b["type"] for b in whole["content"]], whole["usage"]["output_tokens"]], ["message", "assistant", "max_tokens", ["text"], 12])
        chat = server.ask("/v1/chat/completions", body, headers=key).json
        h.equal("the text of a chat", whole["content"][0]["text"], chat["choices"][0]["message"]["content"])
        usage = whole["usage"]
        h.equal("tokens read, and not read", usage["input_tokens"] + usage["cache_read_input_tokens"], chat["usage"]["prompt_tokens"])
        counted = server.ask("/v1/messages/count_tokens", {"messages": CHAT}, headers=key).json
        h.equal("count_tokens", counted, {"input_tokens": chat["usage"]["prompt_tokens"]})
        system = server.ask("/v1/messages/count_tokens", {"messages": CHAT, "system": [{"type": "text", "text": "Be brief."}]}, headers=key).json
        h.fact("a system prompt counts", system["input_tokens"] > counted["input_tokens"], system)
        billed = [{"type": "text", "text": "x-anthropic-billing-header: cch=a1b2c;"}, {"type": "text", "text": "Be brief."}]
        h.equal("but for what changes with each request", server.ask("/v1/messages/count_tokens", {"messages": CHAT, "system": billed}, headers=key).json, system)
        refused = server.ask("/v1/messages", body)
        h.equal("errors are Anthropic's", [refused.status, refused.json["type"], refused.error["type"], set(refused.error)], [401, "error", "authentication_error", {"type", "message"}])
        large = server.raw(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: secret\r\nContent-Length: 268435456\r\n\r\n")
        h.fact("of a body that is too large as well", b'"request_too_large"' in large, large[-200:])
        text, image = {"type": "text", "text": "x"}, {"type": "image", "source": {"type": "url", "url": "http://x"}}
        user = lambda *blocks: {"messages": [{"role": "user", "content": list(blocks)}]}
        assistant = lambda *blocks: {"messages": [*CHAT, {"role": "assistant", "content": list(blocks)}, *CHAT]}
        wrong = [({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": ["x"]}, "messages[0]"), ({"messages": [{"role": "tool", "content": "x"}]}, "role"),
                 ({"messages": [{"role": "user"}]}, "content"), ({"messages": [{"role": "user", "content": 5}]}, "content"), (user(5), "content[0]"), (user({}), "type"),
                 (user(text, image), "image"), (user({"type": "text"}), "text"), (user({"type": "tool_use", "id": "1", "name": "f", "input": {}}), "tool_use"),
                 (user({"type": "tool_result"}), "tool_use_id"), (user({"type": "tool_result", "tool_use_id": "1", "content": [image]}), "image"),
                 (assistant({"type": "tool_use", "id": "1", "name": "f"}), "input"), (assistant({"type": "tool_use", "id": "1", "name": "f", "input": []}), "input"),
                 (assistant({"type": "thinking"}), "thinking"), ({"system": 5}, "system"), ({"system": [image]}, "system"), ({"tools": 5}, "tools"), ({"tools": [5]}, "tools[0]"),
                 ({"tools": [{}]}, "name"), ({"tools": [{"name": "f", "input_schema": 5}]}, "input_schema"), ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
                 ({"tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": "g"}}, "g"), ({"tool_choice": {"type": "any"}}, "tools"), ({"tool_choice": {"type": "x"}}, "tool_choice"),
                 ({"tool_choice": "auto"}, "tool_choice"), ({"stop_sequences": [5]}, "stop_sequences"), ({"max_tokens": None}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"),
                 ({"thinking": {"type": "x"}}, "thinking"), ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "budget_tokens"), ({"n": 2}, "n: "), ({"top_k": 1.5}, "top_k"),
                 ({"output_config": {"format": {"type": "json_schema"}}}, "schema"), ({"mcp_servers": [{"url": "x"}]}, "not yet")]
        for more, word in wrong:
            answer = server.ask("/v1/messages", {**body, **more}, headers=key)
            h.fact(f"refused: {str(more)[:70]}", answer.status == 400 and answer.error["type"] == "invalid_request_error" and word in answer.error["message"] and "\n" not in answer.error["message"], answer)
        events = events_of_keyed(server, "/v1/messages", body, key)
        h.fact("each event is called what it is", all(name == data["type"] for name, data in events), events[:3])
        h.equal("the first and the last", [data["type"] for _, data in events[:3] + events[-3:]],
                ["message_start", "ping", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
        start, end = events[0][1]["message"], events[-2][1]
        h.equal("a message begins empty", [start["content"], start["stop_reason"], start["id"].startswith("msg_")], [[], None, True])
        h.equal("and ends with the counts", [end["delta"], end["usage"]["output_tokens"]], [{"stop_reason": "max_tokens", "stop_sequence": None}, 12])
        schema = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}
        kept = server.ask("/v1/messages", {**body, "max_tokens": 50, "output_config": {"format": {"type": "json_schema", "schema": schema}}}, headers=key).json
        h.equal("schemas are kept to", [json.loads(kept["content"][0]["text"]), kept["stop_reason"]], [{"a": 1}, "end_turn"])
    with Server(h, "--context", "128") as server:
        full = server.ask("/v1/messages", {"messages": CHAT, "max_tokens": 100000, "ignore_eos": True}).json
        h.equal("a full context", full["stop_reason"], "model_context_window_exceeded")


def events_of_keyed(server, path, body, key):
    ask = server.ask
    server.ask = lambda path, body: ask(path, body, headers=key)
    try:
        return events_of(server, path, body)
    finally:
        server.ask = ask


def facts_responses(h, models):
    if not has_server(h):
        return
    with Server(h, "--temp", "0") as server:
        body = {"input": "Tell me a story", "max_output_tokens": 12}
        whole = server.ask("/v1/responses", body).json
        chat = server.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 12}).json
        h.equal("the text of a chat", whole["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"])
        h.equal("shape", [whole["object"], whole["status"], whole["incomplete_details"], whole["error"], whole["usage"]["input_tokens"]],
                ["response", "incomplete", {"reason": "max_output_tokens"}, None, chat["usage"]["prompt_tokens"]])
        counted = server.ask("/v1/responses/input_tokens", body).json
        h.equal("input_tokens", counted, {"object": "response.input_tokens", "input_tokens": chat["usage"]["prompt_tokens"]})
        for name in ["id", "created_at", "completed_at", "model", "previous_response_id", "instructions", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty",
                     "frequency_penalty", "top_logprobs", "temperature", "reasoning", "user", "max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata",
                     "safety_identifier", "prompt_cache_key"]:
            h.fact(f"it has {name}", name in whole, whole)
        echoed = server.ask("/v1/responses", {**body, "tools": [{"type": "function", "name": "f"}], "tool_choice": "none", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"const": 1}}}}).json
        h.equal("what was asked for is repeated, with all members", [echoed["tools"], echoed["text"]["format"], echoed["tool_choice"]],
                [[{"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}],
                 {"type": "json_schema", "name": "n", "schema": {"const": 1}, "description": None, "strict": None}, "none"])
        events = events_of(server, "/v1/responses", body)
        h.fact("each event is called what it is", all(name == data["type"] for name, data in events[:-1]) and events[-1][1] == "[DONE]", events[:3])
        h.equal("they are numbered", [data["sequence_number"] for _, data in events[:-1]], list(range(len(events) - 1)))
        h.equal("the deltas are the text", "".join(data["delta"] for name, data in events if name == "response.output_text.delta"), whole["output"][0]["content"][0]["text"])
        h.equal("the path", server.ask("/v1/responses/" + whole["id"]).json, whole)
        h.equal("its input", [i["content"][0]["text"] for i in server.ask(f"/v1/responses/{whole['id']}/input_items").json["data"]], ["Tell me a story"])
        h.equal("others are not there", server.ask("/v1/responses/resp_none").status, 404)
        item = lambda **members: {"input": [members]}
        wrong = [({"input": None}, "input"), ({"input": 5}, "input"), ({"input": []}, "input"), ({"input": [5]}, "input[0]"), (item(), "type"), (item(type="x"), "type"), (item(role="user"), "content"),
                 (item(role="wizard", content="x"), "wizard"), (item(role="user", content=5), "content"), (item(role="user", content=[5]), "content[0]"), (item(role="user", content=[{}]), "type"),
                 (item(role="user", content=[{"type": "input_image"}]), "input_image"), (item(role="user", content=[{"type": "input_text"}]), "text"), (item(type="function_call"), "call_id"),
                 (item(type="function_call_output", call_id="1"), "output"), (item(type="item_reference", id="x"), "item_reference"), ({"tools": [{"type": "web_search"}]}, "web_search"),
                 ({"tools": [{"type": "function"}]}, "name"), ({"tool_choice": {"type": "function", "name": "g"}}, "tool_choice"), ({"text": 5}, "text"),
                 ({"text": {"format": {"type": "json_schema"}}}, "schema"), ({"text": {"format": {"type": "yaml"}}}, "yaml"), ({"instructions": 5}, "instructions"), ({"max_output_tokens": 0}, "max_output_tokens"),
                 ({"background": True}, "not yet"), ({"include": ["message.output_text.logprobs"]}, "not yet"), ({"include": 5}, "include"), ({"truncation": "auto"}, "not yet"), ({"conversation": "x"}, "not yet"), ({"previous_response_id": 5}, "previous_response_id"), ({"n": 3}, "n: ")]
        for more, word in wrong:
            answer = server.ask("/v1/responses", {**body, **more})
            h.fact(f"refused: {str(more)[:70]}", answer.status == 400 and word in answer.error["message"] and "\n" not in answer.error["message"], answer)
        ids = [server.ask("/v1/responses", {"input": "x", "max_output_tokens": 1, "metadata": {"much": "x" * 10000000}}).json["id"] for _ in range(9)]
        h.equal("the oldest go when there are many", [server.ask("/v1/responses/" + i).status for i in [whole["id"], ids[0], ids[-1]]], [404, 404, 200])


class Talk:
    """A conversation through one of the APIs."""

    def __init__(self, server, **more):
        self.server, self.more, self.messages = server, {"temperature": 1, "max_tokens": 200, "tools": TOOLS, **more}, []
        self.read = 0  # tokens of the last prompt and its reply

    def count(self, usage):
        self.prompt, self.cached = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
        self.reply = usage["completion_tokens"]
        self.before, self.read = self.read, self.prompt + self.reply

    def say(self, role, content, reply=None, **more):
        self.messages.append({"role": role, "content": content, **more})
        body = {**self.more, "messages": self.messages}
        answer = self.server.ask("/v1/chat/completions", body if reply is None else {**body, "grammar": literally(reply)}).json
        self.count(answer["usage"])
        message = answer["choices"][0]["message"]
        self.messages.append(message)
        return message


class MessageTalk(Talk):
    """The same through Anthropic's API."""

    def say(self, role, content, reply, tool_call_id=None):
        if tool_call_id:
            content = [{"type": "tool_result", "tool_use_id": tool_call_id, "content": content}]
        self.messages.append({"role": "user", "content": content})
        tools = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]
        answer = self.server.ask("/v1/messages", {**self.more, "tools": tools, "messages": self.messages, "grammar": literally(reply)}).json
        usage = answer["usage"]
        self.count({"prompt_tokens": usage["input_tokens"] + usage["cache_read_input_tokens"], "prompt_tokens_details": {"cached_tokens": usage["cache_read_input_tokens"]},
                    "completion_tokens": usage["output_tokens"]})
        self.messages.append({"role": "assistant", "content": answer["content"]})
        return {"tool_calls": [b for b in answer["content"] if b["type"] == "tool_use"]}


class ResponseTalk(Talk):
    """And through that of responses."""

    last = None

    def say(self, role, content, reply, tool_call_id=None):
        item = {"type": "function_call_output", "call_id": tool_call_id, "output": content} if tool_call_id else {"role": "user", "content": content}
        tools = [{"type": "function", **t["function"]} for t in TOOLS]
        answer = self.server.ask("/v1/responses", {**self.more, "tools": tools, "input": [item], "previous_response_id": self.last, "max_output_tokens": 200, "grammar": literally(reply)}).json
        usage = answer["usage"]
        self.count({"prompt_tokens": usage["input_tokens"], "prompt_tokens_details": usage["input_tokens_details"], "completion_tokens": usage["output_tokens"]})
        self.last = answer["id"]
        return {"tool_calls": [{"id": i["call_id"]} for i in answer["output"] if i["type"] == "function_call"]}


class OllamaTalk(Talk):
    """And through Ollama's."""

    def say(self, role, content, reply, tool_call_id=None):
        self.messages.append({"role": "tool", "tool_name": "find", "content": content} if tool_call_id else {"role": "user", "content": content})
        answer = self.server.ask("/api/chat", {"messages": self.messages, "tools": TOOLS, "options": {"temperature": 1, "num_predict": 200}, "stream": False, "grammar": literally(reply)}).json
        self.count({"prompt_tokens": answer["prompt_eval_count"], "prompt_tokens_details": {"cached_tokens": answer["timings"]["cache_n"]}, "completion_tokens": answer["eval_count"]})
        self.messages.append(answer["message"])
        return {"tool_calls": answer["message"].get("tool_calls", [])}


def facts_replays(h):
    if not has_server(h):
        return
    for kind in KINDS:
        folder = write_chat_model(h.temporary("chat-" + kind), kind)
        with Server(h, "--parallel", "2", model=folder) as server:
            for api in [Talk, MessageTalk, ResponseTalk, OllamaTalk]:
                talk_of_turns(h, server, kind, api)
            said = MessageTalk(server)
            said.say("user", "Hi there", "the other in the thin end")
            said.messages.append({"role": "user", "content": "And?"})
            tools = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in TOOLS]
            counted = server.ask("/v1/messages/count_tokens", {"messages": said.messages, "tools": tools}).json["input_tokens"]
            said.messages.pop()
            said.say("user", "And?", "in")
            h.equal(f"{kind}: count_tokens counts what will be read", counted, said.prompt)
            one = Talk(server)
            text = "the other hand and the thin on in their inner ear"
            one.say("user", "Hi", text)
            spelled = len(server.ask("/tokenize", {"content": text}).json["tokens"])
            h.fact(f"{kind}: the model cuts texts in its own way", one.reply > spelled, (one.reply, spelled))
            turn(h, f"{kind}: a reply cut in another way", one, lambda: one.say("user", "More", text))
            # But for marks, whose meaning a template has its own ideas of.
            free = Talk(server, seed=5, max_tokens=60, logit_bias={str(i): False for i in range(len(SPECIAL))})
            free.say("user", "Say what you like")
            turn(h, f"{kind}: a reply of any bytes", free, lambda: free.say("user", "More", "in"))
            canonical = server.ask("/v1/chat/completions", {**one.more, "messages": one.messages[:3], "cache_prompt": False, "max_tokens": 1}).json["usage"]
            h.fact(f"{kind}: cache_prompt false reads what the template writes", canonical["prompt_tokens_details"]["cached_tokens"] == 0 and canonical["prompt_tokens"] < one.prompt, (canonical, one.prompt))
            named = Talk(server, tool_choice={"type": "function", "function": {"name": "find"}}, max_tokens=100)
            call = named.say("user", "Find it")["tool_calls"][0]
            named.more["tool_choice"] = "auto"
            turn(h, f"{kind}: a call that was asked for", named, lambda: named.say("tool", "there", "in", tool_call_id=call["id"]))


def facts_plain_turns(h, models):
    """Models whose turns end in words, not in tokens: what is drawn is cut into tokens as it comes, and as the tokenizer never would."""
    if not has_server(h):
        return
    for model in [h.gguf("stories260k"), models / "books4m"]:
        with Server(h, "--parallel", "2", "--context", "1000", model=model) as server:
            cut = 0
            for seed in range(4 if QUICK else 12):
                talk = Talk(server, seed=seed, max_tokens=40, temperature=1.5, tools=None)
                said = talk.say("user", f"Tell me a story, number {seed}")
                spelled = len(server.ask("/tokenize", {"content": said["content"]}).json["tokens"])
                cut += spelled != talk.reply
                for text in ["Go on", "And then?"]:
                    turn(h, f"{model}: {seed}: {text}", talk, lambda: talk.say("user", text))
            h.fact(f"{model}: texts were cut in other ways", cut > 0, cut)


def turn(h, name, talk, say):
    """All but the new tokens, and the last one of the reply, which nothing was drawn behind, are there already."""
    before = talk.read
    said = say()
    h.equal(f"{name}: reads its new tokens alone", talk.cached, before - 1)
    return said


def talk_of_turns(h, server, kind, api):
    talk, name = api(server), f"{kind}: {api.__name__}"
    thinks = f"<think>\n{THOUGHT}\n</think>\n\n{WORDS}"
    first = talk.say("user", f"Find it, {name}", f"{thinks}\n<tool_call>{CALL}</tool_call>")
    border = talk.prompt
    second = turn(h, f"{name}: the result of a call", talk, lambda: talk.say("tool", "there", f"{thinks}<tool_call>\n{CALL}\n</tool_call>", tool_call_id=first["tool_calls"][0]["id"]))
    turn(h, f"{name}: and of the next", talk, lambda: talk.say("tool", "here", f"{thinks} Done.", tool_call_id=second["tool_calls"][0]["id"]))
    if kind != "recurrent":
        talk.say("user", "And now?", WORDS)
        h.equal(f"{name}: the template leaves out thoughts, and nothing before them is read again", talk.cached, border)
    else:
        long = api(server)
        long.say("user", f"Think, {name}", f"<think>{THOUGHT * 12}</think>{WORDS}")
        border = long.prompt
        long.say("user", "And now?", WORDS)
        h.equal(f"{name}: where thoughts are left out the state of the message before is there", long.cached, border)
        turn(h, f"{name}: without thoughts", long, lambda: long.say("user", "More", WORDS))
        return
    turn(h, f"{name}: without thoughts", talk, lambda: talk.say("user", "More", WORDS))



def facts_restart(h):
    """A conversation goes on after a restart, and reads its new tokens alone."""
    if not has_server(h):
        return
    for kind in KINDS:
        folder, cache = write_chat_model(h.temporary("restarted-" + kind), kind), h.temporary(f"cache-{kind}")
        options = ["--cache-file", cache, "--parallel", "2"]
        with Server(h, *options, model=folder) as server:
            talk, other = Talk(server), Talk(server)
            first = talk.say("user", "Find it", f"<think>\n{THOUGHT}\n</think>\n\n{WORDS}\n<tool_call>{CALL}</tool_call>")
            other.say("user", "Another one", WORDS)
        h.fact(f"{kind}: the file is there", os.path.getsize(cache) > 1000)
        with Server(h, *options, model=folder) as server:
            talk.server = other.server = server
            turn(h, f"{kind}: after a restart", talk, lambda: talk.say("tool", "there", "in", tool_call_id=first["tool_calls"][0]["id"]))
            turn(h, f"{kind}: the other one, too", other, lambda: other.say("user", "And now?", "in"))
        whole = open(cache, "rb").read()
        for name, content in [("cut", whole[:-100]), ("changed", whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]), ("long", whole[:24] + b"\xff" * 8 + whole[32:])]:
            h.write(f"cache-{kind}", content)
            with Server(h, *options, model=folder) as server:
                h.fact(f"{kind}: a file that is {name} is done without", any("cache file is of no use" in line for line in server.lines) and server.ask("/health").status == 200, server.lines)
    with Server(h, "--cache-file", h.temporary("cache-dense"), model=write_chat_model(h.temporary("another"), "dense", seed=2)) as server:
        h.fact("another model's is done without", any("another model" in line for line in server.lines), server.lines)
    for name, content in [("none.txt", b"something else"), ("short.txt", b"B"), ("empty.txt", b"")]:
        h.refuses(1, "serve", folder, "--port", "0", "--cache-file", h.write(name, content), says="expected a cache file")
        h.equal("which stays", open(h.temporary(name), "rb").read(), content)
    server = Server(h, "--cache-file", h.temporary("no-such-folder/cache"), model=folder)
    server.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 2})
    h.equal("where it cannot be written the server ends as ever", server.end(), 0)
    h.fact("and says so", any("cache file was not written" in line for line in server.lines), server.lines)


# What ends turns in the templates below.
ENDS = ["</s>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|call|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|user|>", "<|role_end|>", "<turn|>"]
MORE_ENDS = ["<seed:eos>", "<|end_of_text|>", "[e~[", "<end_of_sentence>", "</assistant>", "<|message_sep|>", "<|eom_id|>", "<|observation|>", "<|calls|>"]
# Templates that write a reply in another way than the prompt for it began, by what it is: text, one with a thought, or a call, which is read in a loop.
FORCED = {"Apriel-1.6-15b-Thinker-fixed": "text thought call", "CohereForAI-c4ai-command-r-plus-tool_use": "text thought call", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "text thought", "Qwen-QwQ-32B": "text thought call", "Qwen3.5-4B": "text thought",
          "StepFun3.5-Flash": "text thought", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "text thought call", "deepseek-ai-DeepSeek-V3.2": "text thought call",
          "google-gemma-4-31B-it": "text thought call", "poolside-Laguna-XS.2": "thought call"}
# Those that do not take what we ask of them (methods that Jinja's sandbox refuses, roles), or leave calls out.
OTHERS = {"llama-cpp-deepseek-r1": "text thought call", "Kimi-K2-Thinking": "call", "google-gemma-2-2b-it": "call",
          "HuggingFaceTB-SmolLM3-3B": "call", "LFM2-8B-A1B": "call", "LFM2.5-Instruct": "call", "GigaChat3-10B-A1.8B": "call"}


def facts_templates(h, models):
    """Replies come back as templates write them, and are read as the tokens that they were written in."""
    templates = sorted((h.data / "chat-templates").glob("*.jinja"))
    if not has_server(h) or not templates:
        return
    for path in templates[:: 4 if QUICK else 1]:
        ends = list(ENDS)
        text = path.read_text()
        ends += [end for end in MORE_ENDS if end in text][: 11 - len(ENDS)]
        if "<|call|>" not in text and "<|calls|>" not in text:
            ends.remove("<|call|>")  # with which <|end|> ends no reply
        folder = write_chat_model(h.temporary("template-" + path.stem), "dense", ends=ends)
        with Server(h, "--chat-template-file", path, "--parallel", "2", "--context", "16000", model=folder) as server:
            for kind in ["text", "thought", "call"]:
                template_of_kind(h, server, path.stem, kind, [*ends, "<|im_end|>"])


def template_of_kind(h, server, name, kind, ends):
    user, base = {"role": "user", "content": "Find it."}, {"tools": TOOLS}
    said = {"role": "assistant", "content": "" if kind == "call" else WORDS}
    if kind != "text":
        said["reasoning_content"] = THOUGHT
    if kind == "call":
        said["tool_calls"] = [{"id": "abcdefghi", "type": "function", "function": {"name": "find", "arguments": '{"what": "the thing"}'}}]
    more = {"role": "tool", "tool_call_id": "abcdefghi", "name": "find", "content": "there"} if kind == "call" else {"role": "user", "content": "And now?"}
    prompts = [server.ask("/apply-template", {**base, "messages": m}) for m in [[user], [user, said, more]]]
    expected = "forced" if kind in FORCED.get(name, "").split() else "other" if kind in OTHERS.get(name, "").split() else "read as it was written"
    if any(p.status != 200 for p in prompts):
        return h.equal(f"{name}: {kind}: the template takes it", "other", expected)
    first, second = (p.json["prompt"] for p in prompts)
    if not second.startswith(first):
        return h.equal(f"{name}: {kind}: the template writes the reply behind the prompt for it", "forced", expected)
    rest = second[len(first):]
    # gpt-oss and Solar Open end parts of replies with <|end|>, too.
    places = [rest.find(end) for end in ends if end != "<|end|>" and end in rest] or [rest.find("<|end|>")]
    answer = server.ask("/v1/chat/completions", {**base, "messages": [user], "max_tokens": 600, "temperature": 1, "seed": 3, "grammar": literally(rest[: min(places)])}).json
    message, usage = answer["choices"][0]["message"], answer["usage"]
    if kind == "call" and "tool_calls" not in message:
        return h.equal(f"{name}: the template writes calls", "other", expected)
    if kind == "call":
        more["tool_call_id"] = message["tool_calls"][0]["id"]
    again = server.ask("/v1/chat/completions", {**base, "messages": [user, message, more], "max_tokens": 1})
    if not h.equal(f"{name}: {kind}: what was answered comes back", again.status, 200):
        return h.fact(f"{name}: {kind}", False, again)
    cached = again.json["usage"]["prompt_tokens_details"]["cached_tokens"]
    whole = usage["prompt_tokens"] + usage["completion_tokens"] - 1
    return h.equal(f"{name}: {kind}", "read as it was written" if cached >= whole else f"{cached} of {whole}", expected)
