"""`bantam serve MODEL...`: several models behind one server, loaded when they are wanted and unloaded when others need their room."""
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

from harness import QUICK, TIMEOUT, figures
from serve_facts import CHAT, Server, has_server, post

MODELS = ["stories260k", "babyllama105", "books4m"]
FIRST, SECOND, THIRD = MODELS


def names_of(h):
    return {name: Path(h.gguf(name)).stem for name in MODELS}


class Router(Server):
    """A server of all models of the shared data, by the names of MODELS."""

    def __init__(self, h, *options, models=MODELS, **how):
        self.names = names_of(h)
        super().__init__(h, *[h.gguf(name) for name in models[1:]], *options, model=h.gguf(models[0]), **how)

    def complete(self, name, tokens=8, path="/completion", **more):
        return self.ask(path, {"prompt": "Once", "n_predict": tokens, "temperature": 0, "model": self.names[name], **more})

    def states(self):
        return {one["id"]: one["status"]["value"] for one in self.ask("/v1/models").json["data"]}

    def is_loaded(self, name):
        return self.states()[self.names[name]] == "loaded"

    def figure(self, metric, name):
        text = self.ask("/metrics").body.decode()
        return float(re.search(rf'^{re.escape(metric)}{{model_name="{re.escape(self.names[name])}"[^}}]*}} (\S+)$', text, re.M)[1])

    def until(self, holds, limit=30.0):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if holds():
                return True
            time.sleep(0.02)
        return False


class Long:
    """A text that is generated for a while, as a stream."""

    def __init__(self, server, name, tokens):
        self.body = {"prompt": "Once", "max_tokens": tokens, "ignore_eos": True, "stream": True, "model": server.names[name]}
        self.answer = None
        self.thread = threading.Thread(target=lambda: setattr(self, "answer", server.ask("/v1/completions", self.body)))
        self.thread.start()
        server.until(lambda: server.figure("llamacpp:requests_processing", name) == 1)

    @property
    def runs(self):
        return self.thread.is_alive()

    def ended_well(self):
        self.thread.join(TIMEOUT)
        return self.answer is not None and self.answer.status == 200 and self.answer.body.endswith(b"data: [DONE]\n\n") and b'"error"' not in self.answer.body


def facts_choice(h, models):
    if not has_server(h):
        return
    alone = {}
    for name in MODELS:
        with Server(h, model=h.gguf(name)) as server:
            alone[name] = server.ask("/completion", {"prompt": "Once", "n_predict": 8, "temperature": 0}).json["tokens"]
    with Router(h) as server:
        names = list(server.names.values())
        h.equal("nothing is loaded at the start", server.states(), {name: "unloaded" for name in names})
        h.fact("/v1/models/ID says so, too", server.ask(f"/v1/models/{names[1]}").json["status"]["value"] == "unloaded")
        for name in MODELS:
            answer = server.complete(name).json
            h.equal(f"{name}: the tokens that it has alone", [answer["tokens"], answer["model"]], [alone[name], server.names[name]])
        h.equal("all are loaded", server.states(), {name: "loaded" for name in names})
        for name in ("", "default", None):
            h.equal(f"{name!r} is the first", server.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 1, "model": name}).json["model"], names[0])
        for path, body in [("/v1/chat/completions", {"messages": CHAT}), ("/completion", {"prompt": "a"}), ("/tokenize", {"content": "a"}), ("/v1/embeddings", {"input": "a"})]:
            answer = server.ask(path, {**body, "model": "other"})
            h.fact(f"{path}: another model is 404", answer.status == 404 and answer.error["code"] == "model_not_found" and names[0] in answer.error["message"], answer)
        answer = server.ask("/v1/messages", {"messages": CHAT, "max_tokens": 1, "model": "other"})
        h.fact("in Anthropic's shape on its paths", answer.status == 404 and answer.json["type"] == "error" and answer.error["type"] == "not_found_error", answer)
        for path in ("/props", "/slots", "/lora-adapters", "/metrics"):
            h.equal(f"{path}?model=", [server.ask(f"{path}?model={name}").status for name in [*names, "other"]], [200, 200, 200, 404])
        h.equal("/props of each", [server.ask(f"/props?model={name}").json["model_alias"] for name in names], names)
        vocabularies = [one["meta"]["n_vocab"] for one in server.ask("/v1/models").json["data"]]
        h.equal("/v1/models has each", len(set(vocabularies)), len(MODELS))
        metrics = server.ask("/metrics").body.decode()
        for name in names:
            h.fact(f"/metrics of {name}", f'llamacpp:tokens_predicted_total{{model_name="{name}"}}' in metrics, metrics[:300])
        types = re.findall(r"^# TYPE (\S+)", metrics, re.M)
        h.equal("each name has one type", len(types), len(set(types)))
        families = [re.sub(r"(_bucket|_sum|_count)?({.*)? \S+$", "", line) for line in metrics.splitlines() if not line.startswith("#")]
        runs = [name for i, name in enumerate(families) if i == 0 or families[i - 1] != name]
        h.equal("lines of a name stand together", len(runs), len(set(runs)))
        with Server(h) as single:
            single.ask("/completion", {"prompt": "Once", "n_predict": 1})
            shape = lambda text: {re.sub(r'="[^"]*"', "", line.rsplit(" ", 1)[0]) for line in text.splitlines() if line.startswith(("llamacpp:", "vllm:"))}
            h.equal("?model= gives the figures that one model alone has", shape(server.ask(f"/metrics?model={names[0]}").body.decode()), shape(single.ask("/metrics").body.decode()))
            h.fact("one model alone has no status", "status" not in single.ask("/v1/models").json["data"][0])
        kept = server.ask("/v1/responses", {"input": "Hi", "model": names[0], "max_output_tokens": 2}).json["id"]
        other = server.ask("/v1/responses", {"input": "And?", "model": names[1], "max_output_tokens": 2, "previous_response_id": kept})
        h.fact("another model goes on from a response", other.status == 200 and other.json["model"] == names[1], other)
        h.equal("and both are there", [server.ask(f"/v1/responses/{one}").status for one in (kept, other.json["id"])], [200, 200])


def facts_folder(h, models):
    if not has_server(h):
        return
    folder = Path(h.temporary("models"))
    (folder / "inside").mkdir(parents=True)
    (folder / "empty").mkdir()
    for name, path in [("stories260k", "one.gguf"), ("babyllama105", "inside/two.gguf"), ("books4m", "mmproj-three.gguf")]:
        os.symlink(h.gguf(name), folder / path)
    os.symlink(h.gguf("books4m"), folder / "big-00002-of-00003.gguf")
    os.symlink(h.model("babyllama105"), folder / "hub")
    h.write("models/notes.txt", "nothing")
    with Server(h, "--models-dir", str(folder), "--alias", "first") as server:
        # one.gguf is the first.
        h.equal("--models-dir beside a model", [one["id"] for one in server.ask("/v1/models").json["data"]], ["first", "hub", "two"])
        h.equal("a folder of it", server.ask("/completion", {"prompt": "Once", "n_predict": 1, "model": "hub"}).status, 200)
    gguf = h.gguf("stories260k")
    with Server(h, "--models-dir", str(folder), "--alias", "first,again") as server:
        h.equal("by each of its names", [server.ask("/completion", {"prompt": "Once", "n_predict": 1, "model": name}).status for name in ["first", "again", "first,again"]], [200, 200, 404])
        h.equal("listed by the first", [one["id"] for one in server.ask("/v1/models").json["data"]], ["first", "hub", "two"])
    with Server(h, "--alias", "first,again") as server:
        h.equal("the only one, too", [server.ask("/completion", {"prompt": "Once", "n_predict": 1, "model": name}).json["model"] for name in ["again", "first"]], ["first"] * 2)
        h.equal("other names", server.ask("/v1/completions", {"prompt": "Once", "model": "first,again"}).status, 404)
    h.refuses(2, "serve", gguf, h.gguf("books4m"), "--alias", "first,books4m-f16", "--port", "0", says="names that differ")
    h.refuses(2, "serve", gguf, "--alias", "first,", "--port", "0", says="--alias: expected something between commas")
    h.refuses(2, "serve", "--port", "0", says="--models-dir")
    h.refuses(2, "serve", gguf, str(folder / "one.gguf"), gguf, "--alias", "one", "--port", "0", says="names that differ")
    h.refuses(1, "serve", gguf, h.temporary("not-there"), "--port", "0", says="not-there")
    h.refuses(1, "serve", "--models-dir", h.temporary("not-there"), "--port", "0", says="not-there")
    h.refuses(1, "serve", "--models-dir", str(folder / "empty"), "--port", "0", says="expected models, found none")


def facts_load_once(h, models):
    if not has_server(h):
        return
    with Router(h, "--queue", "100") as server:
        answers = []
        threads = [threading.Thread(target=lambda name=name: answers.append(server.complete(name))) for name in MODELS * 10]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        h.equal("all are answered", [a.status for a in answers], [200] * len(threads))
        h.equal("each was loaded once", [server.figure("bantam:model_loads_total", name) for name in MODELS], [1.0] * len(MODELS))
        h.equal("llama-server's load of what is there", server.ask("/models/load", {"model": server.names[FIRST]}).json, {"success": True})


def facts_least_recently_used(h, models):
    if not has_server(h):
        return
    with Router(h, "--models-max", "2") as server:
        for name in (FIRST, SECOND, FIRST, THIRD):
            h.equal(f"{name} answers", server.complete(name).status, 200)
            time.sleep(0.5)  # until it is given back, which is when it was used last: on a busy machine that can take a while
        h.equal("what was used longest ago went", [server.is_loaded(name) for name in MODELS], [True, False, True])
        before = server.figure("llamacpp:tokens_predicted_total", SECOND)
        h.equal("its figures stay, and go on", [before, server.complete(SECOND).status], [8.0, 200])
        h.fact("from there", server.until(lambda: server.figure("llamacpp:tokens_predicted_total", SECOND) == 16, 5))
        h.equal("looking does not count as use", [server.ask(f"/props?model={server.names[THIRD]}").status, server.complete(FIRST).status, server.is_loaded(THIRD)], [200, 200, False])


def facts_in_use(h, models):
    if not has_server(h):
        return
    with Router(h, "--models-max", "1", "--max-wait", "1", "--context", "100000", "--queue", "0", "--parallel", "1", "--drain", "1") as server:
        long = Long(server, FIRST, 20000)
        answer = server.complete(SECOND)
        h.fact("who waits for too long is told so", answer.status == 503 and answer.headers["Retry-After"] and "was not there in 1 s" in answer.error["message"], answer)
        answer = server.ask("/v1/messages", {"messages": CHAT, "max_tokens": 1, "model": server.names[SECOND]})
        h.fact("in Anthropic's shape on its paths", answer.status == 503 and answer.error["type"] == "overloaded_error", answer)
        first = threading.Thread(target=lambda: server.complete(SECOND))
        first.start()
        server.until(lambda: server.figure("bantam:model_requests_waiting", SECOND) == 1)
        answer = server.complete(SECOND)
        h.fact("more than the queue takes", answer.status == 429 and answer.headers["Retry-After"], answer)
        first.join()
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(post("/completion", json.dumps({"prompt": "a", "model": server.names[SECOND]}).encode()))
        h.fact("a client that goes", server.until(lambda: server.figure("bantam:model_requests_waiting", SECOND) == 1))
        s.close()
        h.fact("waits no more", server.until(lambda: server.figure("bantam:model_requests_waiting", SECOND) == 0, 0.8))
        h.equal("the model in use was left alone", [long.runs, server.is_loaded(FIRST), server.figure("bantam:model_unloads_total", FIRST)], [True, True, 0.0])
    h.fact("until the server ended", long.answer is not None or not long.thread.join(TIMEOUT))
    with Router(h, "--models-max", "1", "--context", "100000") as server:
        long = Long(server, FIRST, 8000)
        answers = {}
        threads = [threading.Thread(target=lambda name=name: answers.update({name: server.complete(name)})) for name in (SECOND, FIRST)]
        threads[0].start()
        server.until(lambda: server.figure("bantam:model_requests_waiting", SECOND) == 1)
        # The model that has to go takes nothing more, so that who waits gets its turn. It is chosen a moment later.
        time.sleep(0.3)
        threads[1].start()
        h.fact("new requests for it wait behind", server.until(lambda: server.figure("bantam:model_requests_waiting", FIRST) == 1) and long.runs)
        h.fact("others go on", server.ask("/health").status == 200 and server.ask("/v1/models").status == 200)
        h.fact("what was at hand ends as it would have", long.ended_well(), long.answer)
        for t in threads:
            t.join(TIMEOUT)
        h.equal("then the others have their turns", [answers[name].status for name in (SECOND, FIRST)], [200, 200])
        h.equal("one after the other", [server.figure("bantam:model_loads_total", name) for name in (FIRST, SECOND)], [2.0, 1.0])


def resident(server):
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[1])


# What a process takes under sanitizers is theirs, and what was given back stays with them for a while.
@figures
def facts_memory(h, models):
    if not has_server(h):
        return
    options = ["--context", "256", "--models-max", "0"]
    with Router(h, *options, "--memory", "1GiB") as server:
        base = resident(server)
        whole = {name: server.complete(name).json["tokens"] for name in MODELS}
        bytes_of = {name: server.figure("bantam:model_bytes", name) for name in MODELS}
        h.fact("all of them fit", all(server.is_loaded(name) for name in MODELS), server.states())
    h.fact("each counts its weights and more", all(bytes_of[name] > Path(h.gguf(name)).stat().st_size for name in MODELS), bytes_of)
    slack = 12 << 20
    for pair in ([FIRST, SECOND], [SECOND, THIRD], [THIRD, FIRST]):
        both = sum(bytes_of[name] for name in pair)
        for memory, fits in [(base + both + slack, True), (base + both - slack, False)]:
            with Router(h, *options, "--memory", int(memory), models=pair) as server:
                h.equal(f"{pair} in {memory}", [server.complete(name).status for name in pair], [200, 200])
                h.equal("the first stays where there is room for both", server.is_loaded(pair[0]), fits)
                loaded = sum(server.figure("bantam:model_bytes", name) for name in pair)
                h.fact("what is loaded fits", base + loaded <= memory + slack, [base, loaded, memory])
    # Where too little is left for the largest even alone it is read from its file, and the others go: the least bound that it runs in.
    for memory in range(int(base + bytes_of[THIRD]) - (8 << 20), int(base + bytes_of[THIRD]) + (16 << 20), 1 << 19):
        with Router(h, *options, "--memory", memory, models=[FIRST, THIRD]) as server:
            answers = [server.complete(name) for name in (FIRST, THIRD)]
            if any(answer.status != 200 for answer in answers):
                continue
            h.equal("streamed or not, texts are the same", [answer.json["tokens"] for answer in answers], [whole[FIRST], whole[THIRD]])
            h.fact(f"in {memory} it has less than it wants", server.figure("bantam:model_bytes", THIRD) < bytes_of[THIRD], bytes_of[THIRD])
            h.equal("one at a time", [server.is_loaded(name) for name in (FIRST, THIRD)], [False, True])
            break
    else:
        h.fact("there is a bound that it is read in", False)


def facts_failure(h, models):
    if not has_server(h):
        return
    broken = h.temporary("broken.gguf")
    Path(broken).write_bytes(Path(h.gguf("stories260k")).read_bytes()[:200000])
    with Server(h, broken) as server:
        for _ in range(2):
            answer = server.ask("/completion", {"prompt": "a", "model": "broken"})
            message = answer.error["message"]
            h.fact("a model that cannot be loaded is a line", answer.status == 500 and message.startswith("the model broken could not be loaded: broken.gguf") and "\n" not in message and str(h.folder) not in message, answer)
        state = server.ask("/v1/models/broken").json["status"]
        h.fact("and a status", state["value"] == "failed" and state["failed"] is True and "broken.gguf" in state["error"], state)
        h.equal("others are there", server.ask("/completion", {"prompt": "a", "n_predict": 1}).status, 200)
        shutil.copy(h.gguf("stories260k"), broken)
        h.equal("once it is mended it is loaded", [server.ask("/completion", {"prompt": "a", "n_predict": 1, "model": "broken"}).status, server.ask("/v1/models/broken").json["status"]["value"]], [200, "loaded"])
        h.fact("standard error has its path", any(broken in line for line in server.lines), server.lines)


def facts_by_hand(h, models):
    if not has_server(h):
        return
    with Router(h, "--no-models-autoload") as server:
        answer = server.complete(FIRST)
        h.fact("without autoload nothing is loaded", answer.status == 400 and answer.error["code"] == "model_not_loaded", answer)
        h.equal("/models/load", server.ask("/models/load", {"model": server.names[FIRST]}).json, {"success": True})
        h.fact("does", server.until(lambda: server.is_loaded(FIRST)))
        h.equal("then it answers", server.complete(FIRST).status, 200)
        h.equal("/models/unload", server.ask("/models/unload", {"model": server.names[FIRST]}).json, {"success": True})
        h.fact("does", server.until(lambda: not server.is_loaded(FIRST)))
        h.equal("what makes no sense", [server.ask(path, body).status for path, body in [("/models/unload", {"model": server.names[FIRST]}), ("/models/load", {"model": "other"}), ("/models/load", {}), ("/models/load", b"{")]], [400, 404, 400, 400])
    with Router(h) as server:
        h.equal("?autoload=false", [server.ask(f"/props?model={server.names[FIRST]}&autoload=false").status, server.is_loaded(FIRST)], [400, False])
        h.equal("?autoload=true", server.ask(f"/props?model={server.names[FIRST]}&autoload=true").status, 200)
        long = Long(server, FIRST, 1000)
        server.ask("/models/unload", {"model": server.names[FIRST]})
        h.fact("unloading waits for what is at hand", long.ended_well(), long.answer)
        h.fact("and then happens", server.until(lambda: not server.is_loaded(FIRST)))


def facts_keep_alive(h, models):
    if not has_server(h):
        return
    with Router(h, "--keep-alive", "1") as server:
        server.complete(FIRST)
        server.complete(SECOND, keep_alive=-1)
        h.equal("both are loaded", [server.is_loaded(name) for name in (FIRST, SECOND)], [True, True])
        h.fact("an idle model goes", server.until(lambda: not server.is_loaded(FIRST), 10))
        h.fact("one that is kept stays", server.is_loaded(SECOND))
        server.complete(SECOND, keep_alive="0m1s")
        h.fact("until a request says otherwise", server.until(lambda: not server.is_loaded(SECOND), 10))
    with Router(h) as server:
        h.equal("keep_alive 0", [server.complete(FIRST, keep_alive=0).status, server.until(lambda: not server.is_loaded(FIRST), 5)], [200, True])
        for wrong in ("5x", "m", "", [], "5", "1e999h"):
            h.equal(f"keep_alive {wrong!r} makes no sense", server.complete(FIRST, keep_alive=wrong).status, 400)
    with Server(h, "--keep-alive", "1") as server:
        end = time.monotonic() + 10
        while not any("unloaded" in line for line in server.lines) and time.monotonic() < end:
            time.sleep(0.02)
        h.equal("one model alone goes, too, and comes again", [any("unloaded" in line for line in server.lines), server.ask("/completion", {"prompt": "a", "n_predict": 1}).status], [True, 200])


def replace(path, other):
    """As deployments do: whole, under the same name."""
    shutil.copy(other, f"{path}.new")
    os.rename(f"{path}.new", path)


def facts_reload(h, models):
    if not has_server(h):
        return
    if QUICK:
        print("skipped: a model that is replaced where there is no room for both: sanitizers keep the first one's memory")
    for memory in (None,) if QUICK else (None, "tight"):
        path = h.temporary("served.gguf")
        shutil.copy(h.gguf(FIRST), path)
        options = ["--context", "2000"]
        if memory:
            with Server(h, h.gguf(SECOND), *options, "--memory", "1GiB", model=path) as server:
                base = resident(server)
                server.ask("/completion", {"prompt": "a", "n_predict": 1})
                bytes_of = float(re.search(r'model_bytes{model_name="served"} (\S+)', server.ask("/metrics").body.decode())[1])
            options += ["--memory", int(base + 1.5 * bytes_of)]
        with Server(h, *options, model=path) as server:
            # None while the old one is gone and the new one is not there.
            vocabulary = lambda: server.ask("/v1/models").json["data"][0].get("meta", {}).get("n_vocab")
            before = vocabulary()
            result = {}
            body = {"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": True}
            thread = threading.Thread(target=lambda: result.update(answer=server.ask("/v1/completions", body)))
            thread.start()
            server.wait_for("llamacpp:requests_processing", 1)
            replace(path, h.gguf(SECOND))
            server.process.send_signal(signal.SIGHUP)
            answered = []
            end = time.monotonic() + TIMEOUT
            while vocabulary() in (before, None) and time.monotonic() < end:
                answered.append(server.ask("/completion", {"prompt": "Once", "n_predict": 1}).status)
            h.fact(f"{memory}: no request was dropped", set(answered) <= {200}, answered)
            h.equal("the new model answers", [vocabulary() not in (before, None), server.ask("/completion", {"prompt": "Once", "n_predict": 1}).status], [True, 200])
            thread.join(TIMEOUT)
            h.fact("what began on the old one ended on it", result["answer"].status == 200 and result["answer"].body.endswith(b"data: [DONE]\n\n") and b'"error"' not in result["answer"].body, result["answer"].body[-200:])
            replace(path, h.gguf(FIRST))
            h.equal("/models/reload", server.ask("/models/reload", "", method="POST").json, {"success": True, "models": ["served"]})
            end = time.monotonic() + TIMEOUT
            while vocabulary() != before and time.monotonic() < end:
                time.sleep(0.02)
            h.equal("does the same", vocabulary(), before)
            h.equal("nothing changed", server.ask("/models/reload", {"model": "served"}).json["models"], [])
            Path(f"{path}.new").write_bytes(b"GGUF")
            os.rename(f"{path}.new", path)
            server.ask("/models/reload", {})
            end = time.monotonic() + 20
            while not any("could not be loaded" in line for line in server.lines) and time.monotonic() < end:
                time.sleep(0.02)
            h.equal("a file that is no model leaves the old one", [any("could not be loaded" in line for line in server.lines), server.ask("/completion", {"prompt": "Once", "n_predict": 1}).status], [True, 200])


def facts_kept(h, models):
    if not has_server(h):
        return
    cache = h.temporary("kept")
    with Router(h, "--models-max", "1", "--cache-file", cache) as server:
        prompt = "Once upon a time there was a little girl who liked to play"
        ask = lambda name: server.complete(name, prompt=prompt).json["timings"]["cache_n"]
        h.equal("nothing is there yet", [ask(FIRST), ask(SECOND)], [0, 0])
        h.fact("what is kept of a model's texts outlives its unloading", ask(FIRST) > 5 and ask(SECOND) > 5)
        server.end()
    h.equal("in a file for each", sorted(path.name for path in Path(cache).parent.glob("kept.*")), sorted(f"kept.{name}" for name in list(names_of(h).values())[:2]))


def facts_end(h, models):
    if not has_server(h):
        return
    server = Router(h, "--models-max", "1", "--context", "100000", "--drain", "20")
    long = Long(server, FIRST, 1500)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(server.complete(SECOND)))
    waiting.start()
    server.until(lambda: server.figure("bantam:model_requests_waiting", SECOND) == 1)
    status = server.end()
    waiting.join(TIMEOUT)
    h.fact("who waits for a model when the server ends is told so", answers[0].status == 503 and "shutting down" in answers[0].error["message"], answers[0])
    h.fact("what is at hand is answered to its end", long.ended_well(), long.answer)
    h.equal("exit status", status, 0)


def facts_ladder(h, models):
    if not has_server(h):
        return
    sensors = Path(h.temporary("sys"))
    zone = sensors / "class" / "thermal" / "thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("x86_pkg_temp\n")
    warm = lambda celsius: (zone / "temp").write_text(f"{1000 * celsius}\n")
    warm(40)
    names = names_of(h)
    options = ["--ladder", names[SECOND], "--ladder", names[THIRD], "--ladder-temperature", "80", "--ladder-sensors", str(sensors), "--ladder-rest", "1"]
    with Router(h, *options) as server:
        answers = lambda name="": server.ask("/completion", {"prompt": "Once", "n_predict": 1, "model": name}).json["model"]
        h.equal("a cool machine", answers(), names[FIRST])
        warm(90)
        h.fact("a hot one steps down", server.until(lambda: answers() == names[SECOND], 10))
        h.equal("/metrics says so", server.metric("bantam:ladder_level"), 1.0)
        h.equal("whoever names the first is redirected, others are not", [answers(names[FIRST]), answers("default"), answers(names[THIRD])], [names[SECOND], names[SECOND], names[THIRD]])
        h.fact("and further", server.until(lambda: answers() == names[THIRD], 10))
        h.equal("what reads nothing of it stays", server.ask("/props").json["model_alias"], names[FIRST])
        warm(79)
        time.sleep(2.5)
        h.equal("a little cooler is no reason to go back", answers(), names[THIRD])
        warm(40)
        h.fact("a cool one is", server.until(lambda: answers() == names[FIRST], 20))
        text = server.ask("/metrics").body.decode()
        h.fact("steps are counted", 'bantam:ladder_steps_total{direction="down"} 2' in text and 'bantam:ladder_steps_total{direction="up"} 2' in text, text[-2000:])
    with Router(h, "--ladder", names[SECOND], "--ladder-latency", "0.000001", "--ladder-rest", "100") as server:
        asked = lambda: server.ask("/completion", {"prompt": "Once", "n_predict": 1}).json["model"]
        h.fact("latency is a reason", server.until(lambda: asked() == names[SECOND], 10))
    with Router(h, "--ladder", names[SECOND], "--ladder-memory", "100000GiB") as server:
        asked = lambda: server.ask("/completion", {"prompt": "Once", "n_predict": 1}).json["model"]
        h.fact("so is memory", server.until(lambda: asked() == names[SECOND], 10))
    gguf = [h.gguf(FIRST), h.gguf(SECOND)]
    for wrong, says in [(["--ladder", names[SECOND]], "--ladder-latency"), (["--ladder", "other", "--ladder-latency", "1"], "expected the name of a model"), (["--ladder", names[FIRST], "--ladder-latency", "1"], "another model than the first")]:
        h.refuses(2, "serve", *gguf, "--port", "0", *wrong, says=says)


def facts_canary(h, models):
    if not has_server(h):
        return
    names = names_of(h)
    path = h.temporary("same.gguf")
    shutil.copy(h.gguf(FIRST), path)
    with Server(h, path, "--canary", "same", "--canary-share", "50", "--canary-drift", "0.3") as server:
        asked = lambda i: server.ask("/completion", {"prompt": f"Once upon {i}", "n_predict": 8, "seed": i, "temperature": 0.8}).json
        asked(0)
        loaded = lambda: server.ask("/v1/models/same").json["status"]["value"] == "loaded"
        end = time.monotonic() + 20
        while not loaded() and time.monotonic() < end:
            time.sleep(0.02)
        seen = [asked(i) for i in range(120)]
        share = sum(one["model"] == "same" for one in seen)
        h.fact("a canary takes its share", 35 < share < 85, share)
        h.equal("one conversation stays with one model", [asked(i)["model"] for i in range(20)], [one["model"] for one in seen[:20]])
        h.fact("log probabilities that nobody asked for are not there", "completion_probabilities" not in seen[0], seen[0])
        h.equal("the same weights stay", server.metric("bantam:canary_rolled_back"), 0.0)
        h.fact("and drift little", abs(server.metric("bantam:canary_drift")) < 0.3, server.metric("bantam:canary_drift"))
        h.equal("who names it has it", server.ask("/completion", {"prompt": "a", "n_predict": 1, "model": "same"}).json["model"], "same")
    with Router(h, "--canary", names[SECOND], "--canary-share", "50", "--canary-drift", "0.1") as server:
        asked = lambda i: server.ask("/completion", {"prompt": f"Once upon {i}", "n_predict": 8, "temperature": 0.8}).json["model"]
        asked(0)
        server.until(lambda: server.is_loaded(SECOND))
        for i in range(400):
            asked(i)
            if i % 20 == 0 and server.metric("bantam:canary_rolled_back") == 1:
                break
        h.equal("another model is rolled back", server.metric("bantam:canary_rolled_back"), 1.0)
        h.equal("and takes nothing more", {asked(i) for i in range(20)}, {names[FIRST]})
        h.fact("standard error says why", any("rolled back" in line and "nats" in line for line in server.lines), server.lines)
    broken = h.write("broken-canary.gguf", b"GGUF")
    with Server(h, broken, "--canary", "broken-canary", "--canary-share", "100") as server:
        statuses = []
        end = time.monotonic() + 20
        while not any("rolled back" in line for line in server.lines) and time.monotonic() < end:
            statuses.append(server.ask("/completion", {"prompt": "a", "n_predict": 1}).status)
        h.equal("one that cannot be loaded costs nobody an answer", [set(statuses), server.metric("bantam:canary_rolled_back")], [{200}, 1.0])
    h.refuses(2, "serve", h.gguf(FIRST), h.gguf(SECOND), "--port", "0", "--canary", names[SECOND], "--canary-share", "101", says="0 to 100")
