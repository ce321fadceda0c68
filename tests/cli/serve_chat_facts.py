"""`bantam serve`: Anthropic's messages, OpenAI's responses."""
import json

from serve_facts import CHAT, Server, has_server


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
        for name in ["id", "created_at", "completed_at", "model", "previous_response_id", "instructions", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty",
                     "frequency_penalty", "top_logprobs", "temperature", "reasoning", "user", "max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata",
                     "safety_identifier", "prompt_cache_key"]:
            h.fact(f"it has {name}", name in whole, whole)
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
                 ({"background": True}, "not yet"), ({"truncation": "auto"}, "not yet"), ({"conversation": "x"}, "not yet"), ({"previous_response_id": 5}, "previous_response_id"), ({"n": 3}, "n: ")]
        for more, word in wrong:
            answer = server.ask("/v1/responses", {**body, **more})
            h.fact(f"refused: {str(more)[:70]}", answer.status == 400 and word in answer.error["message"] and "\n" not in answer.error["message"], answer)
        ids = [server.ask("/v1/responses", {"input": "x", "max_output_tokens": 1, "metadata": {"much": "x" * 10000000}}).json["id"] for _ in range(9)]
        h.equal("the oldest go when there are many", [server.ask("/v1/responses/" + i).status for i in [whole["id"], ids[0], ids[-1]]], [404, 404, 200])
