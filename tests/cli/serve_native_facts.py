"""`bantam serve`: what llama.cpp's server, vLLM and TGI have beside texts and chats: filling in, slots in files, adapters, ends of one's own."""
import json
import os
import re

from adapter_facts import write_adapter
from serve_facts import PROMPTS, Server, has_server
from tiny_chat import SPECIAL, write_chat_model

GREEDY = {"temperature": 0, "n_predict": 16}


def facts_infill(h, models):
    if not has_server(h):
        return
    body = {"input_prefix": "def f(x):\n", "input_suffix": "\n  return y", **GREEDY}
    with Server(h, model=write_chat_model(h.temporary("fills"), "dense")) as server:
        token = {name: SPECIAL.index(f"<|{name}|>") for name in ["fim_prefix", "fim_suffix", "fim_middle", "repo_name", "file_sep"]}
        ids = lambda text: server.ask("/tokenize", {"content": text}).json["tokens"]
        given = server.ask("/infill", body).json
        prompt = [token["fim_prefix"], *ids("def f(x):\n"), token["fim_suffix"], *ids("\n  return y"), token["fim_middle"]]
        plain = server.ask("/completion", {**GREEDY, "prompt": prompt}).json
        h.equal("the text behind the marks", [given["content"], given["tokens_evaluated"]], [plain["content"], len(prompt)])
        more = server.ask("/infill", {**body, "prompt": "  y = ", "input_extra": [{"filename": "a.py", "text": "A = 1\n"}]}).json
        prompt = [token["repo_name"], *ids("project\n"), token["file_sep"], *ids("a.py\n"), *ids("A = 1\n"), token["file_sep"], *ids("filename\n"),
                  token["fim_prefix"], *ids("def f(x):\n  y = "), token["fim_suffix"], *ids("\n  return y"), token["fim_middle"]]
        h.equal("other files, and what is begun", [more["content"], more["tokens_evaluated"]], [server.ask("/completion", {**GREEDY, "prompt": prompt}).json["content"], len(prompt)])
        streamed = server.events("/infill", body)
        h.equal("streamed", "".join(e["content"] for e in streamed), given["content"])
        for wrong in [{"input_prefix": None}, {"input_suffix": 5}, {"input_extra": 5}, {"input_extra": [5]}, {"input_extra": [{"filename": "x"}]}, {"prompt": 5}, {"n_predict": "x"}]:
            answer = server.ask("/infill", {**body, **wrong})
            h.fact(f"refused: {wrong}", answer.status == 400 and answer.error["message"], answer)
    with Server(h) as server:
        refused = server.ask("/infill", body)
        h.fact("models without marks", refused.status == 501 and "no tokens" in refused.error["message"], refused)


def facts_slots(h, models):
    if not has_server(h):
        return
    folder = h.temporary("slots")
    os.mkdir(folder)
    prompt = "Once upon a time, there was a little girl named Lily. She went to the park"
    how = {**GREEDY, "prompt": prompt, "cache_prompt": True}
    with Server(h, "--slot-save-path", folder, "--parallel", "2") as server:
        first = server.ask("/completion", {**how, "id_slot": 1}).json
        h.equal("the slot that was asked for", first["id_slot"], 1)
        saved = server.ask("/slots/1?action=save", {"filename": "one.bin"}).json
        h.equal("saved", [saved["id_slot"], saved["filename"], saved["n_saved"], saved["n_written"]],
                [1, "one.bin", first["tokens_evaluated"] + 16, os.path.getsize(os.path.join(folder, "one.bin"))])
        h.equal("erased", server.ask("/slots/1?action=erase", {}).json, {"id_slot": 1, "n_erased": saved["n_saved"]})
        h.equal("and read again", server.ask("/completion", {**how, "id_slot": 1}).json["timings"]["cache_n"], 0)
        server.ask("/slots/1?action=erase", b"", method="POST")
        restored = server.ask("/slots/0?action=restore", {"filename": "one.bin"}).json
        h.equal("restored", [restored["id_slot"], restored["n_restored"], restored["n_read"]], [0, saved["n_saved"], saved["n_written"]])
        again = server.ask("/completion", {**how, "id_slot": 0}).json
        h.equal("nothing of it is read again", [again["timings"]["prompt_n"], again["tokens"]], [1, first["tokens"]])
        h.write("outside.bin", "secret")
        wrong = [("/slots/2?action=save", {"filename": "x"}, 400), ("/slots/-1?action=save", {"filename": "x"}, 400), ("/slots/x?action=save", {"filename": "x"}, 400), ("/slots/1?action=burn", {}, 400),
                 ("/slots/1", {}, 400), ("/slots/0/1?action=erase", {}, 400), ("/slots/1?action=save", {}, 400), ("/slots/1?action=save", {"filename": 5}, 400), ("/slots/1?action=save", b"{", 400),
                 ("/slots/1?action=restore", {"filename": "none.bin"}, 400)]
        for name in ["../outside.bin", "a/b", "a\\b", "..", ".", ".hidden", "", "a\0b", "a\nb", "C:x", "x" * 300, "/etc/passwd"]:
            wrong += [(f"/slots/0?action={action}", {"filename": name}, 400) for action in ["save", "restore"]]
        for path, body, status in wrong:
            answer = server.ask(path, body, method="POST")
            h.fact(f"{path} {str(body)[:40]}: {status}", answer.status == status and (status == 200 or (folder not in answer.error["message"] and "\n" not in answer.error["message"])), answer)
        h.equal("nothing else was written", sorted(os.listdir(folder)), ["one.bin"])
        for name, content in [("short", b"BANTAMS3"), ("none", b""), ("other", b"x" * 5000), ("broken", open(os.path.join(folder, "one.bin"), "rb").read()[:-9] + b"x" * 9)]:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
            answer = server.ask("/slots/0?action=restore", {"filename": name})
            h.fact(f"what is no saved slot is refused: {name}", answer.status == 400 and "expected" in answer.error["message"], answer)
        h.equal("id_slot beyond the slots", server.ask("/completion", {**how, "id_slot": 2}).status, 400)
        h.equal("and it goes on", server.ask("/completion", how).json["tokens"], first["tokens"])
    with Server(h) as server:
        refused = server.ask("/slots/0?action=save", {"filename": "x"})
        h.fact("without a folder", refused.status == 501 and "--slot-save-path" in refused.error["message"], refused)


def facts_adapters(h, models):
    if not has_server(h):
        return
    model, adapter = models / "books4m", write_adapter(h.temporary("scaled"))
    prompt = "It was a dark night, and"
    how = {"prompt": prompt, "temperature": 0, "n_predict": 20}
    alone = {scale: h.json("run", model, "-p", prompt, "-n", 20, "--temperature", 0, *(["--lora", f"{adapter}:{scale}"] if scale else []))["tokens"] for scale in [0, 0.8, 2]}
    with Server(h, "--lora", f"{adapter}:0.8", model=model) as server:
        h.equal("listed", [[a["id"], round(a["scale"], 3), "/" in a["path"]] for a in server.ask("/lora-adapters").json], [[0, 0.8, False]])
        tokens = lambda **more: server.ask("/completion", {**how, **more}).json["tokens"]
        h.equal("as it was started", tokens(), alone[0.8])
        h.equal("a request of its own", [tokens(lora=[{"id": 0, "scale": 2}]), tokens(lora=[]), tokens()], [alone[2], alone[0], alone[0.8]])
        h.equal("changed", server.ask("/lora-adapters", [{"id": 0, "scale": 2}]).json, {"success": True})
        h.equal("for those that come", [tokens(), server.ask("/lora-adapters").json[0]["scale"]], [alone[2], 2.0])
        server.ask("/lora-adapters", [])
        h.equal("off", tokens(), alone[0])
        for wrong in [{}, 5, [5], [{}], [{"id": 0}], [{"id": 1, "scale": 1}], [{"id": -1, "scale": 1}], [{"id": 0, "scale": "x"}], [{"id": 0, "scale": 1e30}], b"{"]:
            answer = server.ask("/lora-adapters", wrong)
            h.fact(f"refused: {wrong}", answer.status == 400 and answer.error["message"], answer)
        h.equal("refused of a request", server.ask("/completion", {**how, "lora": [{"id": 3, "scale": 1}]}).status, 400)
    with Server(h) as server:
        h.equal("none", server.ask("/lora-adapters").json, [])


def facts_ends(h, models):
    if not has_server(h):
        return
    with Server(h) as server:
        how = {"prompt": PROMPTS[0], "temperature": 0, "n_predict": 60}
        whole = server.ask("/completion", how).json
        stop = whole["tokens"][9]
        first = whole["tokens"].index(stop)
        ended = server.ask("/completion", {**how, "stop_token_ids": [stop]}).json
        h.equal("stop_token_ids", [ended["tokens"], ended["stop_type"]], [whole["tokens"][:first], "eos"])
        longer = server.ask("/v1/completions", {"prompt": PROMPTS[0], "temperature": 0, "max_tokens": 60, "stop_token_ids": [stop], "min_tokens": 30}).json
        h.fact("min_tokens", longer["usage"]["completion_tokens"] >= 30, longer["usage"])
        for name in ["guided_regex", "regex"]:
            given = {"guided_regex": r"[A-C]{3}-\d+!"} if name == "guided_regex" else {"structured_outputs": {"regex": r"[A-C]{3}-\d+!"}}
            said = server.ask("/v1/completions", {"prompt": "x", "max_tokens": 40, "seed": 3, "logit_bias": [["!", 5]], **given}).json["choices"][0]["text"]
            h.fact(name, re.fullmatch(r"[A-C]{3}-\d+!", said) or re.match(r"[A-C]{3}-\d+$", said), said)
        words = ['a "b" \\ c', "two\nlines", "é😀"]
        for seed in range(6):
            said = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "seed": seed, "guided_choice": words}).json["choices"][0]["message"]["content"]
            h.fact("guided_choice", said in words, said)
    with Server(h, "--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# </think><tool_call> #}") as server:
        said = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "guided_choice": ["a", "b"]}).json["choices"][0]["message"]
        h.fact("a choice is the answer, not a thought", said["content"] in ("a", "b") and "reasoning_content" not in said, said)
        for wrong in [{"stop_token_ids": [-1]}, {"stop_token_ids": [10**9]}, {"stop_token_ids": 5}, {"stop_token_ids": ["x"]}, {"stop_token_ids": [1] * 300}, {"min_tokens": -1}, {"min_tokens": "x"},
                      {"guided_regex": "("}, {"guided_regex": 5}, {"guided_regex": "(" * 100000}, {"guided_regex": "(?=x)"}, {"guided_choice": []}, {"guided_choice": [5]}, {"guided_choice": ["x"] * 2000},
                      {"structured_outputs": {"regex": "["}}, {"guided_choice": ["x"], "guided_regex": "y"}]:
            answer = server.ask("/completion", {**how, **wrong})
            h.fact(f"refused: {str(wrong)[:60]}", answer.status == 400 and "\n" not in answer.error["message"] and len(answer.body) < 2000, answer)


def facts_usual(h, models):
    """What a server is told to do where requests say nothing, by a line as people write it for llama-server."""
    if not has_server(h):
        return
    line = ["-c", "128", "-ngl", "99", "-fa", "on", "-b", "2048", "-ub", "512", "--mlock", "--no-warmup", "-ctk", "q8_0", "-ctv", "q8_0", "-t", "1", "-np", "2", "-cb", "--flash-attn", "--temp", "0",
            "--jinja", "-sps", "0.5", "--presence-penalty", "0.5", "--ignore-eos", "--no-slots", "--samplers", "top_k;typ_p;temperature", "-l", "5-1.5", "--no-cache-prompt", "--log-colors", "auto", "--any-name"]
    prompt = {"prompt": "The dog", "n_predict": 8}
    with Server(h, *line) as server:
        left_out = [word.strip() for text in server.lines if "without meaning here: " in text for word in text.split(": ", 2)[2].split(",")]
        h.equal("a line says what was left out", left_out, ["-ngl", "-fa", "-b", "-ub", "--mlock", "--no-warmup", "-cb", "--flash-attn", "-sps", "--log-colors"])
        usual = server.ask("/props").json["default_generation_settings"]["params"]
        h.equal("/props says it", [usual[name] for name in ["temperature", "presence_penalty", "ignore_eos", "n_ctx", "seed"]], [0, 0.5, True, 128, 2**32 - 1])
        refused = server.ask("/slots")
        h.fact("--no-slots", refused.status == 501 and "--no-slots" in refused.error["message"], refused)
        said = [server.ask("/completion", prompt).json for _ in range(2)]
        reused = [server.ask("/completion", {**prompt, "cache_prompt": True}).json["timings"]["cache_n"] > 0 for _ in range(2)]
        h.equal("--no-cache-prompt", [said[1]["timings"]["cache_n"], reused], [0, [False, True]])
        h.equal("--any-name", [server.ask(path, {**body, "model": "gpt-4o-mini", "max_tokens": 2}).status for path, body in [
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}), ("/v1/completions", prompt), ("/v1/messages", {"messages": [{"role": "user", "content": "x"}]}),
            ("/v1/responses", {"input": "x"}), ("/v1/embeddings", {"input": "x"})]], [200] * 5)
        own = server.ask("/completion", {**prompt, "ignore_eos": False, "presence_penalty": 0, "seed": 3}).json["generation_settings"]
        h.equal("a request's own count", [own[name] for name in ["ignore_eos", "presence_penalty", "seed"]], [False, 0, 3])
        chosen = server.ask("/completion", {**prompt, "response_fields": ["content", "generation_settings/n_predict", "no/such", "timings/cache_n/deeper"]}).json
        h.equal("response_fields", chosen, {"content": said[0]["content"], "generation_settings/n_predict": 8})
        streamed = server.events("/completion", {**prompt, "response_fields": ["stop_type"]})
        h.equal("of a stream the last event's", [streamed[-1], "content" in streamed[0]], [{"stop_type": "limit"}, True])
        cut = [server.ask("/completion", {**prompt, "n_predict": count}).json for count in (8, 1000, -1)]
        h.equal("the end of the context cuts a text", [(one["truncated"], one["tokens_predicted"] + one["tokens_evaluated"] > 100) for one in cut], [(False, False), (True, True), (True, True)])
        h.equal("samplers", server.ask("/completion", {**prompt, "samplers": ["top_k", "typ_p"]}).status, 200)
        for wrong in [{"samplers": ["no"]}, {"samplers": ["top_k", "top_k"]}, {"samplers": ["top_k"] * 10}, {"samplers": 5}, {"response_fields": 5}, {"response_fields": ["a"] * 65}, {"post_sampling_probs": True}]:
            answer = server.ask("/completion", {**prompt, **wrong})
            h.fact(f"refused: {str(wrong)[:60]}", answer.status == 400 and answer.error["param"] == next(iter(wrong)), answer)
    template = "{{ messages[0].content }}{{ enable_thinking }}{{ level }}{{ reasoning_effort }}"
    chat = {"messages": [{"role": "user", "content": "x"}]}
    for options, made in [((), "x"), (("--reasoning", "off"), "xFalse"), (("--reasoning", "on"), "xTrue"), (("--reasoning-budget", "0"), "xFalse"),
                          (("--reasoning-effort", "high"), "xhigh"), (("--reasoning-effort", "default"), "x"),
                          (("--chat-template-kwargs", '{"enable_thinking": true, "level": 7}'), "xTrue7")]:
        with Server(h, "--chat-template", template, *options) as server:
            h.equal(f"templates read {options}", server.ask("/apply-template", chat).json["prompt"], made)
            h.equal("and a request's own", server.ask("/apply-template", {**chat, "chat_template_kwargs": {"enable_thinking": 1, "level": 2, "reasoning_effort": 3}}).json["prompt"], "x123")
    h.refuses(2, "serve", h.gguf("stories260k"), models / "books4m", "--any-name", says="expected one model")
    for option in [["--chat-template-kwargs", "{"], ["--chat-template-kwargs", "[]"], ["--reasoning", "maybe"], ["--reasoning-format", "x"], ["--samplers", "top_k;no"], ["-ctk", "q9"], ["-ctk", "q8_0", "-ctv", "f16"]]:
        h.refuses(2, "serve", h.gguf("stories260k"), *option)


def facts_progress(h, models):
    """How much of a prompt is read, and how fast it goes, while a stream is written."""
    if not has_server(h):
        return
    text = " ".join(PROMPTS * 120)
    with Server(h, "--context", "4096") as server:
        chat = {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, "ignore_eos": True}
        for path, body in [("/v1/chat/completions", chat), ("/v1/completions", {**chat, "prompt": "Then" + text}), ("/completion", {**chat, "prompt": "Or" + text})]:
            for turn in ["new", "known"]:
                events = [e for e in server.events(path, {**body, "return_progress": True, "timings_per_token": True, "stream_options": {"include_usage": True}}) if e != "[DONE]"]
                said = [e["prompt_progress"] for e in events if "prompt_progress" in e]
                total = next(e["timings"] for e in reversed(events) if "timings" in e)
                total = total["prompt_n"] + total["cache_n"]
                h.fact(f"{path}, {turn}: from what was there to all of it", said[0]["processed"] == said[0]["cache"] and (said[0]["cache"] > 1) == (turn == "known") and said[-1]["processed"] == said[-1]["total"] == total, said)
                h.fact("every pass brings some", all(a["processed"] < b["processed"] and a["cache"] == b["cache"] and a["time_ms"] <= b["time_ms"] for a, b in zip(said, said[1:])) and (turn == "known" or len(said) > 3), said)
                written = [e for e in events if "prompt_progress" not in e]
                h.equal("before all else", events[:len(said)], [e for e in events if "prompt_progress" in e])
                counts = [e["timings"]["predicted_n"] for e in written if "timings" in e]
                h.fact("timings_per_token", counts == sorted(counts) and counts[0] == 1 and counts[-1] == 4 and ("role" not in str(written[0]) or "timings" not in written[0]), counts)
        plain = server.events("/v1/chat/completions", chat)
        h.equal("neither unless asked", [sum(name in str(e) for e in plain) for name in ["prompt_progress", "timings"]], [0, 1])
        h.equal("nor where nothing streams", server.ask("/v1/chat/completions", {**chat, "return_progress": True}).status, 200)


def facts_thoughts(h, models):
    """How long a model thinks, and where its thoughts are."""
    if not has_server(h):
        return
    model, end = write_chat_model(h.temporary("thinks"), "dense"), SPECIAL.index("</think>")
    template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# </think><tool_call> #}"
    chat = {"messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 24, "return_token_ids": True, "ignore_eos": True, "logit_bias": {str(end): -100}}
    say = lambda server, **more: server.ask("/v1/chat/completions", {**chat, **more}).json["choices"][0]
    with Server(h, "--chat-template", template, "--reasoning-budget", "5", model=model) as server:
        h.equal("--reasoning-budget", say(server)["token_ids"].index(end), 5)
        h.equal("a request's own", say(server, thinking_budget_tokens=9)["token_ids"].index(end), 9)
        h.equal("or none", end in say(server, thinking_budget_tokens=-1)["token_ids"], False)
        apart, together = say(server)["message"], say(server, reasoning_format="none")["message"]
        h.fact("reasoning_format: none", apart["reasoning_content"] and "reasoning_content" not in together and together["content"].split("</think>")[0].strip() == apart["reasoning_content"].strip(), (apart, together))
        events = server.events("/v1/chat/completions", {**chat, "reasoning_format": "none"})
        h.equal("streamed", "".join(e["choices"][0]["delta"].get("content") or "" for e in events[:-1] if e["choices"]), together["content"])
        refused = server.ask("/v1/chat/completions", {**chat, "reasoning_format": "x"})
        h.equal("refused", [refused.status, refused.error["param"]], [400, "reasoning_format"])
    with Server(h, "--chat-template", template, "--reasoning-budget", "5", "--reasoning-format", "none", model=model) as server:
        h.equal("--reasoning-format none", say(server)["message"]["content"], together["content"])
        h.equal("a request's own", say(server, reasoning_format="deepseek")["message"]["reasoning_content"], apart["reasoning_content"])


def facts_others(h, models):
    if not has_server(h):
        return
    with Server(h) as server:
        texts = ["The dog ran.", "A cat sat."]
        expected = [d["embedding"] for d in server.ask("/v1/embeddings", {"input": texts}).json["data"]]
        for name in ["content", "input"]:
            h.equal(f"/embedding with {name}", server.ask("/embedding", {name: texts}).json, [{"index": i, "embedding": [row]} for i, row in enumerate(expected)])
        h.equal("/embedding without", server.ask("/embedding", {}).status, 400)
        whole = server.ask("/completion", {"prompt": PROMPTS[0], **GREEDY}).json["content"]
        said = server.ask("/generate", {"inputs": PROMPTS[0], "parameters": {"max_new_tokens": 16, "details": True}}).json
        h.equal("/generate is greedy", [said["generated_text"], said["details"]["finish_reason"], said["details"]["generated_tokens"], "".join(t["text"] for t in said["details"]["tokens"])],
                [whole, "length", 16, whole])
        h.equal("with its prompt", server.ask("/generate", {"inputs": PROMPTS[0], "parameters": {"max_new_tokens": 16, "return_full_text": True}}).json, {"generated_text": PROMPTS[0] + whole})
        for path, body in [("/generate", {"stream": True}), ("/generate_stream", {})]:
            events = server.events(path, {"inputs": PROMPTS[0], "parameters": {"max_new_tokens": 16}, **body})
            h.equal(f"{path}: tokens", ["".join(e["token"]["text"] for e in events), events[-1]["generated_text"], events[-1]["details"]["finish_reason"], [e["generated_text"] for e in events[:-1]]],
                    [whole, whole, "length", [None] * 15])
        kept = server.ask("/generate", {"inputs": "x", "parameters": {"grammar": {"type": "regex", "value": "yes|no"}}}).json["generated_text"]
        h.fact("grammar", kept in ("yes", "no"), kept)
        drawn = [server.ask("/generate", {"inputs": "x", "parameters": {"do_sample": True, "seed": s, "max_new_tokens": 8}}).json["generated_text"] for s in (1, 1, 2)]
        h.fact("do_sample", drawn[0] == drawn[1] != drawn[2], drawn)
        for wrong in [{}, {"inputs": 5}, {"inputs": "x", "parameters": 5}, {"inputs": "x", "parameters": {"max_new_tokens": -1}}, {"inputs": "x", "parameters": {"best_of": 2}},
                      {"inputs": "x", "parameters": {"grammar": {"type": "x", "value": "y"}}}, {"inputs": "x", "parameters": {"temperature": "x"}}]:
            answer = server.ask("/generate", wrong)
            h.fact(f"refused: {wrong}", answer.status == 400 and answer.error["message"], answer)
