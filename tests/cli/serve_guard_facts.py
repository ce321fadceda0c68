"""`bantam serve` that protects itself, and is seen: limits of rate, of log probabilities, a breaker, a log, traces."""
import json
import os
import re
import socket
import subprocess
import time

from serve_facts import CHAT, Server

COMPLETION = {"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}


def facts_rates(h, models):
    with Server(h, "--rate-requests", "2", "--api-key", "one", "--api-key", "two") as s:
        key = {"Authorization": "Bearer one"}
        answers = [s.ask("/v1/completions", COMPLETION, headers=key) for _ in range(3)]
        h.equal("as many requests as a minute has, then 429", [a.status for a in answers], [200, 200, 429])
        h.equal("answers say what is left", [a.headers["x-ratelimit-remaining-requests"] for a in answers], ["1", "0", "0"])
        h.fact("and when to come again", 1 <= int(answers[2].headers["Retry-After"]) <= 30, answers[2].headers)
        h.equal("in the API's shape", answers[2].error["code"], "rate_limit_exceeded")
        h.equal("streams have the headers, too", s.ask("/v1/completions", {**COMPLETION, "stream": True}, headers={"X-Api-Key": "two"}).headers["x-ratelimit-limit-requests"], "2")
        h.equal("who looks is not counted", s.ask("/v1/models", headers=key).status, 200)
        text = s.ask("/metrics", headers=key).body.decode()
        h.fact("metrics count them", 'bantam:rate_limited_total{what="requests"} 1' in text, text)
        h.equal("a wrong key spends nobody's", s.ask("/v1/completions", COMPLETION, headers={"X-Api-Key": "no"}).status, 401)
        anthropic = s.ask("/v1/messages", {"max_tokens": 1, "messages": CHAT}, headers=key)
        h.equal("Anthropic's clients get its error", (anthropic.status, anthropic.json["error"]["type"]), (429, "rate_limit_error"))
    with Server(h, "--rate-tokens", "5") as s:
        first, second = s.ask("/v1/completions", COMPLETION), s.ask("/v1/completions", COMPLETION)
        h.equal("tokens are owed when they are known", (first.status, second.status), (200, 429))
        h.equal("none are left then", second.headers["x-ratelimit-remaining-tokens"], "0")
    with Server(h, "--rate-tokens", "5") as s:
        answers = [s.ask("/v1/embeddings", {"input": "One two three four"}) for _ in range(2)]
        h.equal("tokens of embeddings count", [a.status for a in answers], [200, 429])


def facts_guesses(h, models):
    with Server(h, "--api-key", "secret", "--wrong-keys", "3") as s:
        ask = lambda key: s.ask("/tokenize", {"content": "x"}, headers={"X-Api-Key": key})
        h.equal("wrong keys, until there are too many", [ask(key).status for key in ["a", "secret", "b", "c", "d", "secret"]], [401, 200, 401, 401, 429, 429])
        h.fact("with when to come again", int(ask("e").headers["Retry-After"]) >= 1)
        h.equal("what is open stays open", s.ask("/health").status, 200)
    with Server(h, "--api-key", "secret") as s:
        h.equal("any number, where nobody says", {s.ask("/tokenize", {"content": "x"}).status for _ in range(50)}, {401})


def facts_spelling(h, models):
    # A vocabulary of characters, without bytes.
    with Server(h, "--breaker", "0.1", model=h.gguf("babyllama105")) as s:
        for _ in range(12):
            answer = s.ask("/v1/completions", {"prompt": "Once", "max_tokens": 4, "grammar": 'root ::= "a" "\\u65e5"'})
        h.equal("what it cannot spell is for who asked to mend", (answer.status, answer.error["param"]), (400, "grammar"))
        h.equal("and breaks nothing", s.ask("/v1/completions", COMPLETION).status, 200)


def facts_gone(h, models):
    with Server(h) as s:
        # Words that no cache knows, so that cutting them takes a while.
        text = " ".join(f"{i:x}{i * 7919:x}" for i in range(300000))
        body = json.dumps({"content": text}).encode()
        begin = time.monotonic()
        whole = s.ask("/tokenize", body).status
        seconds = time.monotonic() - begin
        h.equal("a long text is cut into tokens", whole, 200)
        with socket.create_connection(("127.0.0.1", s.port)) as client:
            client.sendall(f"POST /tokenize HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(min(0.1, seconds / 4))
        end = time.monotonic() + 30
        is_told = lambda: 'bantam:http_responses_total{code="499"} 1' in s.ask("/metrics").body.decode()
        while not is_told() and time.monotonic() < end:
            time.sleep(0.02)
        h.fact("and is not where its client goes away", is_told())


def facts_logits(h, models):
    with Server(h, "--max-logprobs", "2") as s:
        ask = {**COMPLETION, "logprobs": 2}
        h.equal("as many log probabilities as the server gives", s.ask("/v1/completions", ask).status, 200)
        h.equal("more are refused", s.ask("/v1/completions", {**ask, "logprobs": 3}).error["param"], "top_logprobs")
        h.equal("in llama.cpp's words, too", s.ask("/completion", {"prompt": "x", "n_probs": 3}).status, 400)
        h.equal("of prompts, too", [s.ask("/v1/completions", {**COMPLETION, "prompt_logprobs": n}).status for n in [2, 3]], [200, 400])
        h.equal("with biases none", s.ask("/v1/completions", {**ask, "logit_bias": {"5": 1}}).error["param"], "logit_bias")
        h.equal("biases alone are taken", s.ask("/v1/completions", {**COMPLETION, "logit_bias": {"5": 1}}).status, 200)
        h.equal("metrics say the limit", s.metric("bantam:most_logprobs"), 2)
    with Server(h, "--no-logprobs") as s:
        for path, body in [("/v1/completions", {**COMPLETION, "logprobs": 0}), ("/v1/completions", {**COMPLETION, "prompt_logprobs": 0}), ("/v1/chat/completions", {"messages": CHAT, "logprobs": True, "max_tokens": 1}),
                           ("/completion", {"prompt": "x", "n_probs": 1}), ("/v1/completions", {**COMPLETION, "logit_bias": {"5": 1}})]:
            h.equal(f"{path}: no log probabilities", s.ask(path, body).status, 400)
        details = s.ask("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 2, "details": True}})
        h.equal("details have none", [t["logprob"] for t in details.json["details"]["tokens"]], [None, None])


def facts_log(h, models):
    path = h.temporary("requests.jsonl")
    with Server(h, "--request-log", path, "--api-key", "secret") as s:
        key = {"X-Api-Key": "secret"}
        s.ask("/v1/completions", COMPLETION, headers=key)
        s.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 3, "stream": True}, headers=key)
        s.ask("/v1/completions", {"prompt": 1.5}, headers=key)
        s.ask("/v1/completions", COMPLETION)
        s.ask("/v1/models", headers=key)
        s.end()
    with open(path) as file:
        text = file.read()
    lines = [json.loads(line) for line in text.splitlines()]
    h.equal("a line for each request", [(x["endpoint"], x["status"]) for x in lines],
            [("/v1/completions", 200), ("/v1/chat/completions", 200), ("/v1/completions", 400), ("/v1/completions", 401)])
    h.equal("models of those that came so far", [x["model"] for x in lines[:2]], [os.path.basename(h.gguf("stories260k")).removesuffix(".gguf")] * 2)
    h.equal("clients by key or address", [x["client"] for x in lines], ["key 1", "key 1", "key 1", "127.0.0.1"])
    h.equal("tokens", [x["completion_tokens"] for x in lines], [4, 3, 0, 0])
    h.fact("and times", lines[0]["total_ms"] >= lines[0]["first_token_ms"] > 0 and lines[0]["prompt_tokens"] > 0, lines[0])
    h.fact("neither keys nor texts", "secret" not in text and "Once" not in text, text)
    with Server(h, "--request-log", path) as s:
        body = json.dumps({**COMPLETION, "max_tokens": 400, "ignore_eos": True, "n": 8})
        with socket.create_connection(("127.0.0.1", s.port)) as client:
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            s.wait_for("bantam:requests", 1)
        s.wait_for("bantam:requests", 0)
        s.end()
    with open(path) as file:
        last = json.loads(file.read().splitlines()[-1])
    h.fact("who went away before the answer", last["status"] == 499 and last["completion_tokens"] < 3200, last)
    with Server(h, "--request-log", path, "--log-texts") as s:
        s.ask("/v1/completions", COMPLETION)
        s.end()
    with open(path) as file:
        last = json.loads(file.read().splitlines()[-1])
    h.fact("texts where they are asked for", "Once upon" in last["body"] and "choices" in last["answer"], last)
    with Server(h, "--request-log", "/dev/full") as s:
        for _ in range(3):
            h.equal("a full disk hurts no request", s.ask("/v1/completions", COMPLETION).status, 200)
        h.fact("is counted", s.wait_for("bantam:request_log_lost_total", 3))
        s.end()
        h.equal("and told once", sum("not logged" in line for line in s.lines), 1)


def facts_breaker(h, models):
    # No first token comes within a nanosecond: all are late.
    with Server(h, "--breaker", "0.5", "--breaker-first-token", "1e-9", "--breaker-rest", "1") as s:
        answers = [s.ask("/v1/completions", COMPLETION) for _ in range(12)]
        h.equal("ten that come late, then none is let in", [a.status for a in answers], [200] * 10 + [503] * 2)
        h.equal("with when to come again", answers[-1].headers["Retry-After"], "1")
        h.equal("metrics say so", (s.metric("bantam:breaker_state"), s.metric("bantam:breaker_refused_total")), (2, 2))
        h.equal("what needs no model is served", s.ask("/tokenize", {"content": "a"}).status, 200)
        end = time.monotonic() + 30
        while s.ask("/v1/completions", COMPLETION).status == 503 and time.monotonic() < end:
            time.sleep(0.1)
        h.equal("one is let through after a while, and opens it again", s.metric("bantam:breaker_opened_total"), 2)


def check_trace(h, text, what):
    events = json.loads(text)["traceEvents"]
    open_phases, names = set(), set()
    for e in events:
        if e["ph"] == "b":
            open_phases.add((e["id"], e["name"]))
        elif e["ph"] == "e":
            open_phases.remove((e["id"], e["name"]))
        names.add(e["name"])
    h.equal(f"{what}: phases end", open_phases, set())
    return names


def facts_traces(h, models):
    path = h.temporary("trace.json")
    with Server(h, "--trace", path) as s:
        s.ask("/v1/completions", COMPLETION)
        names = check_trace(h, s.ask("/debug/trace?seconds=0").body, "/debug/trace")
        h.equal("seconds that make no sense", [s.ask(f"/debug/trace?{q}").status for q in ("seconds=x", "seconds=-1", "seconds=301", "minutes=1")], [400] * 4)
        h.fact("events are counted", s.metric("bantam:trace_events") > 0)
        s.end()
    with open(path) as file:
        names = check_trace(h, file.read(), "--trace")
    h.fact("the scheduler's passes", {"prompt piece", "decode"} <= names, names)
    h.fact("a request and its phases", {"request", "parse", "queue", "prompt", "generate", "answer"} <= names, names)
    with Server(h) as s:
        s.ask("/v1/completions", COMPLETION)
        h.equal("nothing is kept where nobody asks", s.metric("bantam:trace_events"), 0)
        with socket.create_connection(("127.0.0.1", s.port)) as client:
            client.sendall(b"GET /debug/trace?seconds=300 HTTP/1.1\r\nHost: h\r\n\r\n")
            end = time.monotonic() + 30
            while s.metric("bantam:trace_events") == 0 and time.monotonic() < end:
                time.sleep(0.02)
            h.fact("it is while somebody does", s.metric("bantam:trace_events") > 0)
        h.fact("until they go away", s.wait_for("bantam:trace_events", 0))



def facts_probe(h, models):
    path = h.temporary("probe.json")

    def probed(model=None):
        """Of a server that probed at least once: /health, and what it says."""
        with Server(h, "--probe", "1", "--probe-file", path, "--alias", "m", model=model) as s:
            end = time.monotonic() + 60
            while time.monotonic() < end and not re.search(r'probes_total{result="(same|other|failed)"} [1-9]', s.ask("/metrics").body.decode()):
                time.sleep(0.05)
            answer, healthy = s.ask("/health"), s.metric("bantam:probe_healthy")
            h.equal("an unhealthy server serves on", s.ask("/v1/completions", COMPLETION).status, 200)
            s.end()
            return answer.status, healthy, sum("the probe" in line for line in s.lines)

    h.equal("the first answer is right", probed(), (200, 1, 0))
    h.equal("and after the next start", probed(), (200, 1, 0))
    with open(h.gguf("stories260k"), "rb") as file:
        data = bytearray(file.read())
    for at in range(len(data) // 2, len(data), 4096):
        data[at] ^= 0x40
    broken = h.temporary("broken.gguf")
    with open(broken, "wb") as file:
        file.write(data)
    h.equal("a bit in each page of the weights is found, and told once", probed(broken), (503, 0, 1))
    h.write("probe.json", json.dumps({**json.load(open(path)), "hash": "0"}))
    h.equal("as is another hash", probed(), (503, 0, 1))
    h.refuses(2, "serve", h.gguf("stories260k"), "--probe-file", path, says="--probe")


def facts_sockets_of_others(h, models):
    def start(listener, *options, count="1", pid="$$", **environment):
        script = f'exec 3<&{listener.fileno()}; export LISTEN_PID={pid} LISTEN_FDS={count}; exec "$0" "$@"'
        words = ["/bin/bash", "-c", script, h.program, "serve", h.gguf("stories260k"), "--port", "0", *options]
        return subprocess.Popen(words, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **environment})

    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.settimeout(60)
    notify.bind(h.temporary("notify"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        waiting = socket.create_connection(("127.0.0.1", port))
        waiting.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        process = start(listener, NOTIFY_SOCKET=h.temporary("notify"))
        h.equal("the manager hears when it is ready", notify.recv(100), b"READY=1")
        waiting.settimeout(60)
        h.fact("who came before it was there is answered", waiting.recv(1000).startswith(b"HTTP/1.1 200"))
        process.terminate()
        h.equal("and when it ends", notify.recv(100), b"STOPPING=1")
        _, err = process.communicate(timeout=60)
        h.fact("it says where it listens", f"listening on http://127.0.0.1:{port}" in err.decode(), err)
        with socket.create_connection(("127.0.0.1", port)):
            h.equal("the socket is its owner's after that", process.returncode, 0)
    path = h.temporary("owned.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        process = start(listener, NOTIFY_SOCKET=h.temporary("notify"))
        notify.recv(100)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(path)
            client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            h.fact("sockets of Unix, too", client.recv(1000).startswith(b"HTTP/1.1 200"))
        process.terminate()
        process.communicate(timeout=60)
        h.fact("whose file stays", os.path.exists(path))
        process = start(listener, count="2")
        h.fact("several are refused", b"expected one socket, found 2" in process.communicate(timeout=60)[1])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start(listener, pid="1", NOTIFY_SOCKET=h.temporary("notify"))
        notify.recv(100)
        process.terminate()
        h.fact("one for another process is let be", f":{listener.getsockname()[1]}" not in process.communicate(timeout=60)[1].decode())
    with open("/dev/null") as file:
        process = start(file)
        h.fact("what is no socket is refused", b"expected a socket that listens" in process.communicate(timeout=60)[1])
    notify.close()


def facts_governor(h, models):
    root = h.folder / "sys"

    def heat(celsius):
        chip = root / "class/hwmon/hwmon0"
        chip.mkdir(parents=True, exist_ok=True)
        for name, text in [("name", "coretemp"), ("temp1_crit", "100000"), ("temp1_input", str(1000 * celsius))]:
            (chip / name).write_text(text + "\n")

    def spend(joules):
        package = root / "class/powercap/intel-rapl:0"
        package.mkdir(parents=True, exist_ok=True)
        (package / "name").write_text("package-0\n")
        (package / "energy_uj").write_text(f"{1000000 * joules}\n")

    heat(50)
    spend(1)
    policy = h.write("policy.json", json.dumps({"every_s": 0.02, "hold_s": 0.1, "root": str(root)}))
    long = {**COMPLETION, "max_tokens": 100, "n": 4, "temperature": 0.8, "seed": 3}
    with Server(h) as s:
        expected = [c["text"] for c in s.ask("/v1/completions", long).json["choices"]]
        h.fact("nobody governs where nobody asked", "governor" not in s.ask("/metrics").body.decode())
    with Server(h, "--governor", policy, "--threads", "2") as s:
        h.equal("all of it while it is cool", s.metric("bantam:governor_share"), 1)
        heat(97)
        h.fact("the least when it is hot", s.wait_for("bantam:governor_share", 0.25))
        h.equal("the same texts then", [c["text"] for c in s.ask("/v1/completions", long).json["choices"]], expected)
        spend(31)
        h.fact("energy is counted", s.wait_for("bantam:energy_joules_total", 30))
        h.fact("and divided among tokens", 0 < s.metric("bantam:joules_per_token") < 30 / 100)
        heat(50)
        h.fact("all of it again when it was cool for a while", s.wait_for("bantam:governor_share", 1))
        h.equal("and the same texts", [c["text"] for c in s.ask("/v1/completions", long).json["choices"]], expected)
        h.equal("temperatures are told", s.metric("bantam:temperature_headroom_celsius"), 50)
        s.end()
        h.equal("the first step and the last", sum("governor:" in line for line in s.lines), 2)
    h.refuses(1, "serve", h.gguf("stories260k"), "--governor", h.write("bad.json", '{"hot": 1}'), says="hot: expected a name of a policy")
    h.refuses(1, "serve", h.gguf("stories260k"), "--governor", h.temporary("nowhere.json"), says="nowhere.json")
