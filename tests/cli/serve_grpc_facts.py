"""`bantam serve --grpc-port`: calls are requests of HTTP, and everything that stands in front of those."""
import importlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from serve_facts import CHAT, PROMPTS, Server, has_server
from serve_sockets_facts import make_certificate

PROTO = Path(__file__).resolve().parents[2] / "src/server/grpc"
SERVICE = "bantam.v1.Bantam"


class Client:
    """Calls by name, as stubs have them: `client.Chat(message, timeout=...)`."""

    def __init__(self, messages, port, key=None, certificate=None):
        import grpc

        address = f"127.0.0.1:{port}"
        self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(certificate).read_bytes())) if certificate else grpc.insecure_channel(address)
        self.metadata = [("authorization", f"Bearer {key}")] if key else None
        self.methods = {m.name: m for m in messages.DESCRIPTOR.services_by_name["Bantam"].methods}
        self.messages = messages

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.channel.close()

    def __getattr__(self, name):
        method = self.methods[name]
        reply = getattr(self.messages, method.output_type.name)
        kind = self.channel.unary_stream if name in ("Generate", "Chat") else self.channel.unary_unary
        call = kind(f"/{SERVICE}/{name}", request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(), response_deserializer=reply.FromString)
        return lambda message, timeout=60, metadata=None: call(message, timeout=timeout, metadata=metadata or self.metadata)


class Grpc(Server):
    def __init__(self, h, *options, **how):
        super().__init__(h, "--grpc-port", "0", *options, **how)
        self.grpc_port = int(next(line for line in self.lines if "gRPC on " in line).rsplit(":", 1)[1])


def messages_for(h):
    """The proto's messages; None where something is missing."""
    if not has_server(h):
        return None
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # servers are started beside threads of a client
    os.environ["GRPC_VERBOSITY"] = "NONE"
    try:
        import google.protobuf  # noqa: F401
        import grpc  # noqa: F401
    except ImportError as error:
        print(f"skipped: {h.group}: {error} (Debian: python3-grpcio, python3-protobuf)")
        return None
    if shutil.which("protoc") is None:
        print(f"skipped: {h.group}: there is no protoc")
        return None
    if "without it" in h.run("serve", h.gguf("stories260k"), "--port", "0", "--grpc-port", "0", "--host", "127.0.0.999").err:
        print(f"skipped: {h.group}: this build has no gRPC")
        return None
    if "bantam_pb2" not in sys.modules:
        folder = h.temporary("proto")
        os.makedirs(folder)
        subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={folder}", "bantam.proto"], check=True)
        sys.path.insert(0, folder)
    return importlib.import_module("bantam_pb2")


def failure(call):
    """Name of a call's status, and what it says."""
    import grpc

    try:
        result = call()
        if hasattr(result, "__next__"):
            list(result)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


def text_of(replies):
    return "".join(c.text for r in replies for c in r.choices)


def facts_texts(h, models):
    m = messages_for(h)
    if m is None:
        return
    with Grpc(h) as server, Client(m, server.grpc_port) as client:
        for body in [{"temperature": 0}, {"seed": 7, "temperature": 0.9, "top_p": 0.8}, {"seed": 3, "stop": ["the", "."]}, {"temperature": 0, "logit_bias": {100: -5.0}},
                     {"grammar": 'root ::= "a" [b-z]+'}, {"guided_choice": ["left", "right"], "seed": 5}]:
            expected = server.ask("/v1/completions", {"prompt": PROMPTS[0], "max_tokens": 20, "return_token_ids": True, "seed": 1, **body}).json
            choice = expected["choices"][0]
            replies = list(client.Generate(m.GenerateRequest(prompt=PROMPTS[0], options=m.Options(max_tokens=20, **{"seed": 1, **body}))))
            h.equal(f"{body}: texts are HTTP's", text_of(replies), choice["text"])
            h.equal(f"{body}: and tokens", [t for r in replies for c in r.choices for t in c.token_ids], choice["token_ids"])
            h.equal(f"{body}: and ends", [c.finish_reason for r in replies for c in r.choices if c.finish_reason], [choice["finish_reason"]])
            h.equal(f"{body}: and usage, at the end", [replies[-1].usage.prompt_tokens, replies[-1].usage.completion_tokens], [expected["usage"][k] for k in ["prompt_tokens", "completion_tokens"]])
        h.fact("texts come as they are written", len(replies) > 2, replies)
        ids = server.ask("/tokenize", {"content": PROMPTS[0], "add_special": True}).json["tokens"]
        tokens = m.GenerateRequest(prompt_tokens=ids, options=m.Options(max_tokens=5, temperature=0, n=2), logprobs=2)
        expected = server.ask("/v1/completions", {"prompt": ids, "max_tokens": 5, "temperature": 0, "n": 2, "logprobs": 2, "seed": 1}).json["choices"]
        replies = list(client.Generate(tokens))
        for i in range(2):
            lists = [c.logprobs for r in replies for c in r.choices if c.index == i]
            h.equal("log probabilities", [round(x, 6) for one in lists for x in one.token_logprobs], [round(x, 6) for x in expected[i]["logprobs"]["token_logprobs"]])
            h.equal("with the most probable ones", [dict(x.of_token) for one in lists for x in one.top_logprobs], expected[i]["logprobs"]["top_logprobs"])
        h.equal("a prompt's tokens, once for each text", [list(c.prompt_token_ids) for r in replies for c in r.choices if c.prompt_token_ids], [ids, ids])
        expected = server.ask("/v1/completions", {"prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1}).json["choices"][0]["prompt_logprobs"]
        reply = next(client.Generate(m.GenerateRequest(prompt_tokens=ids, options=m.Options(max_tokens=1, temperature=0, priority=-3), prompt_logprobs=1)))
        h.equal("those of prompts", [{str(id): [x.rank, x.decoded_token] for id, x in one.of_token.items()} for one in reply.choices[0].prompt_logprobs],
                [{id: [x["rank"], x["decoded_token"]] for id, x in (one or {}).items()} for one in expected])
        more = m.GenerateRequest(prompt="Once", options=m.Options(more_json='{"max_tokens": 3, "mirostat": 2, "mirostat_tau": 3, "seed": 4}'))
        h.equal("other fields", text_of(client.Generate(more)), server.ask("/v1/completions", {"prompt": "Once", "max_tokens": 3, "mirostat": 2, "mirostat_tau": 3, "seed": 4}).json["choices"][0]["text"])


def facts_chats(h, models):
    m = messages_for(h)
    if m is None:
        return
    parameters = '{"type": "object", "properties": {"z": {"enum": ["north", "south"]}, "a": {"type": "boolean"}}, "required": ["z", "a"]}'
    function = {"name": "turn", "description": "turns"}
    with Grpc(h) as server, Client(m, server.grpc_port) as client:
        messages = [m.Message(role="user", content=CHAT[0]["content"])]
        body = {"messages": CHAT, "max_tokens": 20, "seed": 9, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}
        expected = server.ask("/v1/chat/completions", body).json["choices"][0]
        replies = list(client.Chat(m.ChatRequest(messages=messages, options=m.Options(max_tokens=20, seed=9), logprobs=True, top_logprobs=1)))
        choices = [c for r in replies for c in r.choices]
        h.equal("replies are HTTP's", ["".join(c.delta.content for c in choices), choices[0].delta.role], [expected["message"]["content"], "assistant"])
        h.equal("with tokens", [t for c in choices for t in c.token_ids], expected["token_ids"])
        h.equal("and log probabilities", [[x.token, list(x.bytes), round(x.logprob, 6), x.top_logprobs[0].token] for c in choices for x in c.logprobs.content],
                [[x["token"], x["bytes"], round(x["logprob"], 6), x["top_logprobs"][0]["token"]] for x in expected["logprobs"]["content"]])
        body = {"messages": CHAT, "seed": 2, "tool_choice": "required", "tools": [{"type": "function", "function": {**function, "parameters": json.loads(parameters)}}]}
        expected = server.ask("/v1/chat/completions", body).json["choices"][0]
        tools = [m.Tool(type="function", function=m.Function(parameters_json=parameters, **function))]
        replies = list(client.Chat(m.ChatRequest(messages=messages, tools=tools, tool_choice_json='"required"', options=m.Options(seed=2))))
        calls = [call for r in replies for c in r.choices for call in c.delta.tool_calls]
        h.equal("calls of tools", ["".join(c.function.arguments for c in calls), calls[0].function.name, [c.finish_reason for r in replies for c in r.choices][-1]],
                [expected["message"]["tool_calls"][0]["function"][k] for k in ["arguments", "name"]] + ["tool_calls"])
        h.equal("schemas keep their order", calls and "".join(c.function.arguments for c in calls).index('"z"') < "".join(c.function.arguments for c in calls).index('"a"'), True)
        said = m.Message(role="assistant", tool_calls=[m.ToolCall(id=calls[0].id, type="function", function=m.CalledFunction(name="turn", arguments="{}"))])
        back = [*messages, said, m.Message(role="tool", tool_call_id=calls[0].id, content="done")]
        h.equal("their results come back", failure(lambda: client.Chat(m.ChatRequest(messages=back, tools=tools, options=m.Options(max_tokens=2)))), ("OK", ""))


def facts_others(h, models):
    m = messages_for(h)
    if m is None:
        return
    import grpc

    with Grpc(h) as server, Client(m, server.grpc_port) as client:
        text = "Once upon a time"
        ids = server.ask("/tokenize", {"content": text}).json["tokens"]
        h.equal("Tokenize", list(client.Tokenize(m.TokenizeRequest(content=text)).tokens), ids)
        h.equal("Tokenize nothing", list(client.Tokenize(m.TokenizeRequest(content="")).tokens), [])
        h.equal("Detokenize", client.Detokenize(m.DetokenizeRequest(tokens=ids)).content, server.ask("/detokenize", {"tokens": ids}).json["content"])
        expected = server.ask("/v1/embeddings", {"input": ["One", "Two three"]}).json
        reply = client.Embed(m.EmbedRequest(input=["One", "Two three"]))
        single = lambda x: struct.unpack("f", struct.pack("f", x))[0]
        h.equal("Embed", [list(d.embedding) for d in reply.data], [[single(x) for x in d["embedding"]] for d in expected["data"]])
        h.equal("and its usage", reply.usage.prompt_tokens, expected["usage"]["prompt_tokens"])
        listed = client.ListModels(m.ListModelsRequest()).data
        h.equal("ListModels", [(x.id, x.max_model_len) for x in listed], [(x["id"], x["max_model_len"]) for x in server.ask("/v1/models").json["data"]])
        check = client.channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=bytes, response_deserializer=bytes)
        h.equal("grpc.health.v1", check(b"", timeout=10), b"\x08\x01")
        unknown = client.channel.unary_unary(f"/{SERVICE}/Nothing", request_serializer=bytes, response_deserializer=bytes)
        h.equal("what there is not", failure(lambda: unknown(b"", timeout=10))[0], "UNIMPLEMENTED")
    second = h.temporary("second.gguf")
    shutil.copyfile(h.gguf("stories260k"), second)
    with Grpc(h, second, "--alias", "first") as server, Client(m, server.grpc_port) as client:
        names = [x.id for x in client.ListModels(m.ListModelsRequest()).data]
        h.equal("several models, by name", list(client.Tokenize(m.TokenizeRequest(model="second", content=text)).tokens), ids)
        h.equal("as lists show them", [x.status.value for x in client.ListModels(m.ListModelsRequest()).data], ["unloaded", "loaded"])
        h.fact("UnloadModel", client.UnloadModel(m.ModelRequest(model=names[1])).success)
        h.fact("LoadModel", client.LoadModel(m.ModelRequest(model=names[0])).success)
        h.equal("a model that there is not", failure(lambda: client.Tokenize(m.TokenizeRequest(model="other", content=text)))[0], "NOT_FOUND")


def facts_errors(h, models):
    m = messages_for(h)
    if m is None:
        return
    with Grpc(h, "--api-key", "secret", "--context", "256") as server, Client(m, server.grpc_port, "secret") as client, Client(m, server.grpc_port, "guess") as stranger:
        ask = lambda path, body: server.ask(path, body, headers={"X-Api-Key": "secret"}).error["message"]
        prompt = "Once upon a time"
        for message, body in [(m.Options(temperature=-0.5), {"temperature": -0.5}), (m.Options(stop=[""]), {"stop": [""]}), (m.Options(n=0), {"n": 0}), (m.Options(grammar="root ::= x"), {"grammar": "root ::= x"}),
                              (m.Options(json_schema="{"), {"json_schema": "{"}), (m.Options(top_p=1.5), {"top_p": 1.5}), (m.Options(logit_bias={99999: 1.0}), {"logit_bias": {"99999": 1.0}}),
                              (m.Options(more_json='{"best_of": 3}'), {"best_of": 3})]:
            h.equal(f"{body}: HTTP's words", failure(lambda: client.Generate(m.GenerateRequest(prompt=prompt, options=message))), ("INVALID_ARGUMENT", ask("/v1/completions", {"prompt": prompt, **body})))
        h.equal("no prompt", failure(lambda: client.Generate(m.GenerateRequest())), ("INVALID_ARGUMENT", ask("/v1/completions", {"stream": True})))
        h.equal("a role that there is not", failure(lambda: client.Chat(m.ChatRequest(messages=[m.Message(role="god", content="x")]))),
                ("INVALID_ARGUMENT", ask("/v1/chat/completions", {"messages": [{"role": "god", "content": "x"}]})))
        h.equal("a prompt that is too long", failure(lambda: client.Generate(m.GenerateRequest(prompt="a b " * 500)))[0], "INVALID_ARGUMENT")
        for options, says in [(m.Options(response_format_json="{"), "response_format_json"), (m.Options(more_json="[]"), "more_json: expected an object"),
                              (m.Options(max_tokens=3, more_json='{"max_tokens": 4}'), "max_tokens: expected one, found two"), (m.Options(more_json="[" * 100000), "more_json")]:
            status, details = failure(lambda: client.Generate(m.GenerateRequest(prompt=prompt, options=options)))
            h.fact(f"JSON that is none: {says}", status == "INVALID_ARGUMENT" and says in details, (status, details))
        for junk in [b"\xff" * 20, b"\x12\x7f", b"\x12\x02\xff\xfe", bytes(range(256)) * 100]:
            status, details = failure(lambda: client.Generate(junk))
            h.fact("bytes that are no message", status == "INVALID_ARGUMENT" and "expected a message bantam.v1.GenerateRequest" in details, (status, details))
        h.equal("too much", failure(lambda: client.Tokenize(m.TokenizeRequest(content="a" * (17 << 20))))[0], "RESOURCE_EXHAUSTED")
        h.equal("a wrong key", failure(lambda: stranger.Generate(m.GenerateRequest(prompt=prompt))), ("UNAUTHENTICATED", "expected a valid API key"))
        h.equal("the other header", failure(lambda: stranger.Tokenize(m.TokenizeRequest(content="x"), metadata=[("x-api-key", "secret")])), ("OK", ""))
        h.equal("all went", server.ask("/metrics", headers={"X-Api-Key": "secret"}).body.decode().count("bantam:requests 0"), 1)
        h.refuses(1, "serve", h.gguf("stories260k"), "--port", "0", "--grpc-port", str(server.grpc_port), says="expected an address for gRPC to listen on")
    h.refuses(2, "serve", h.gguf("stories260k"), "--host", h.temporary("s.sock"), "--grpc-port", "0", says="--grpc-port")
    with Grpc(h, "--rate-requests", "1") as server, Client(m, server.grpc_port) as client:
        h.equal("one a minute", [failure(lambda: client.Tokenize(m.TokenizeRequest(content="x")))[0] for _ in range(2)], ["OK", "RESOURCE_EXHAUSTED"])
        h.equal("whatever the way", server.ask("/tokenize", {"content": "x"}).status, 429)


def facts_refused_by_grpc(h, models):
    m = messages_for(h)
    if m is None:
        return
    # Calls that gRPC itself ends, here for their size, are told to us in two ways. Where the second came first they stayed for ever.
    with Grpc(h) as server, Client(m, server.grpc_port) as client:
        large = m.TokenizeRequest(content="a" * (17 << 20))
        h.equal("too much, again and again", {failure(lambda: client.Tokenize(large))[0] for _ in range(60)}, {"RESOURCE_EXHAUSTED"})
        h.equal("then one that is not", failure(lambda: client.Tokenize(m.TokenizeRequest(content="x"))), ("OK", ""))
        begin = time.monotonic()
        h.equal("the end", server.end(), 0)
        h.fact("which waits for none of them", time.monotonic() - begin < 20, time.monotonic() - begin)


def endless(m, **options):
    return m.GenerateRequest(prompt="Once", options=m.Options(max_tokens=100000, ignore_eos=True, **options))


def facts_many(h, models):
    m = messages_for(h)
    if m is None:
        return
    with Grpc(h, "--context", "100000", "--parallel", "4", "--queue", "40", "--drain", "1") as server, Client(m, server.grpc_port) as client:
        bodies = [{"seed": i, "max_tokens": 16, "n": 1 + i % 2} for i in range(16)]
        found = {}

        def run(i):
            texts = {}
            for reply in client.Generate(m.GenerateRequest(prompt=PROMPTS[i % 5], options=m.Options(**bodies[i]))):
                for c in reply.choices:
                    texts[c.index] = texts.get(c.index, "") + c.text
            found[i] = [texts[k] for k in sorted(texts)]

        threads = [threading.Thread(target=run, args=[i]) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {i: [c["text"] for c in server.ask("/v1/completions", {"prompt": PROMPTS[i % 5], **bodies[i]}).json["choices"]] for i in range(16)}
        h.equal("many at once", found, expected)
        stream = client.Generate(endless(m))
        next(stream)
        h.equal("one is at hand", server.metric("bantam:requests"), 1)
        stream.cancel()
        h.fact("cancelled: it ends", server.wait_for("bantam:requests", 0, 5))
        status, _ = failure(lambda: client.Generate(endless(m), timeout=0.4))
        h.equal("a deadline", status, "DEADLINE_EXCEEDED")
        h.fact("passed: it ends", server.wait_for("bantam:requests", 0, 5))
        waiting = [client.Generate(endless(m)) for _ in range(4 + 40)]
        h.fact("the queue fills", server.wait_for("bantam:requests", 44, 10), server.metric("bantam:requests"))
        h.equal("and then refuses", failure(lambda: client.Generate(endless(m)))[0], "RESOURCE_EXHAUSTED")
        for one in waiting[1:]:
            one.cancel()
        h.fact("those that wait, too", server.wait_for("bantam:requests", 1, 5))
        with Client(m, server.grpc_port) as gone:
            next(gone.Generate(endless(m)))
        h.fact("a client that goes away", server.wait_for("bantam:requests", 1, 5))
        begin = time.monotonic()
        h.equal("the end comes", server.end(), 0)
        h.equal("and is told", failure(lambda: waiting[0]), ("UNAVAILABLE", "the server is shutting down"))
        h.fact("in time", time.monotonic() - begin < 6, time.monotonic() - begin)


def facts_drain(h, models):
    m = messages_for(h)
    if m is None:
        return
    with Grpc(h, "--context", "4096") as server, Client(m, server.grpc_port) as client, Client(m, server.grpc_port) as late:
        request = m.GenerateRequest(prompt="Once", options=m.Options(max_tokens=1500, ignore_eos=True, temperature=0))
        expected = text_of(client.Generate(request))
        stream = client.Generate(request)
        first = next(stream)
        server.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 5
        while not any("draining" in line for line in server.lines) and time.monotonic() < end:
            time.sleep(0.01)
        # By a connection that is new and by one that is not: behind Shutdown() gRPC would cancel some.
        refusals = {failure(lambda: by.Tokenize(m.TokenizeRequest(content="x"))) for by in (late, client, late, client)}
        h.equal("new calls are refused", refusals, {("UNAVAILABLE", "the server is shutting down")})
        h.equal("what is at hand goes on to its end", first.choices[0].text + text_of(stream), expected)
        begin = time.monotonic()
        h.equal("and then the server ends", server.end(), 0)
        # Python's channels hear nothing while no call is at hand: they were waited for as long as calls may take to end, a minute.
        h.fact("whoever is still connected", time.monotonic() - begin < 20, time.monotonic() - begin)
    with Grpc(h, "--context", "100000") as server, Client(m, server.grpc_port) as client:
        streams = [client.Generate(endless(m)) for _ in range(3)]
        next(streams[0])
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        begin = time.monotonic()
        h.equal("who asks twice does not wait", server.end(), 0)
        h.fact("for streams that nobody reads", time.monotonic() - begin < 5, time.monotonic() - begin)
        h.fact("and their clients hear of it", all(failure(lambda: one)[0] in ("CANCELLED", "UNAVAILABLE") for one in streams))


def facts_tls(h, models):
    m = messages_for(h)
    if m is None:
        return
    if shutil.which("openssl") is None:
        print(f"skipped: {h.group}: there is no openssl to make a certificate with")
        return
    import ssl

    key, certificate, *_ = make_certificate(h)
    if "without OpenSSL" in h.run("serve", h.gguf("stories260k"), "--port", "0", "--ssl-key-file", key, "--ssl-cert-file", h.temporary("none")).err:
        print(f"skipped: {h.group}: this build has no TLS")
        return
    with Grpc(h, "--ssl-key-file", key, "--ssl-cert-file", certificate, tls=ssl.create_default_context(cafile=certificate)) as server:
        with Client(m, server.grpc_port, certificate=certificate) as client:
            expected = server.ask("/v1/completions", {"prompt": "Once", "max_tokens": 8, "temperature": 0}).json["choices"][0]["text"]
            h.equal("under TLS", text_of(client.Generate(m.GenerateRequest(prompt="Once", options=m.Options(max_tokens=8, temperature=0)))), expected)
        with Client(m, server.grpc_port) as plain:
            h.equal("without it nothing is said", failure(lambda: plain.Tokenize(m.TokenizeRequest(content="x"), timeout=5))[0], "UNAVAILABLE")
