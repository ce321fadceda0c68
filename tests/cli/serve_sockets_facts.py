"""`bantam serve`: TLS and Unix sockets."""
import os
import shutil
import signal
import socket
import ssl
import subprocess

from serve_facts import CHAT, PROMPTS, Server, endless, has_server, post


def make_certificate(h):
    """Names of a key, its certificate, a key with a password, and another key."""
    names = [h.temporary(name) for name in ["key.pem", "certificate.pem", "locked.pem", "other.pem"]]
    make = lambda *words: subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    make("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", names[0], "-out", names[1], "-days", "30", "-subj", "/CN=test",
         "-addext", "subjectAltName=IP:127.0.0.1")
    make("ec", "-in", names[0], "-aes128", "-passout", "pass:word", "-out", names[2])
    make("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", names[3])
    return names


def facts_tls(h, models):
    if not has_server(h):
        return
    if shutil.which("openssl") is None:
        print(f"skipped: {h.group}: there is no openssl to make a certificate with")
        return
    model = h.gguf("stories260k")
    key, certificate, locked, other = make_certificate(h)
    if "without OpenSSL" in h.run("serve", model, "--port", "0", "--ssl-key-file", key, "--ssl-cert-file", h.temporary("none")).err:
        print(f"skipped: {h.group}: this build has no TLS")
        return
    for files, says in [((h.temporary("none"), certificate), "none"), ((key, h.temporary("none")), "none"), ((certificate, certificate), "certificate.pem"), ((key, key), "key.pem"), ((locked, certificate), "locked.pem"),
                        ((other, certificate), "other.pem"), ((key, None), "one of them"), ((None, certificate), "one of them")]:
        options = [word for name, file in zip(["--ssl-key-file", "--ssl-cert-file"], files) if file for word in (name, file)]
        h.refuses(1, "serve", model, "--port", "0", *options, says=says)
    context = ssl.create_default_context(cafile=certificate)
    with Server(h, "--ssl-key-file", key, "--ssl-cert-file", certificate, "--context", "100000", "--drain", "1", tls=context) as server:
        h.fact("it says https", any("listening on https://127.0.0.1:" in line for line in server.lines), server.lines)
        body = {"prompt": PROMPTS[0], "max_tokens": 30, "temperature": 0}
        expected = h.json("run", model, "-p", PROMPTS[0], "-n", "30", "--temperature", "0")["text"]
        one = server.connect()
        h.equal("texts, on one connection", [server.ask("/v1/completions", body, connection=one).json["choices"][0]["text"] for _ in range(3)], [expected] * 3)
        one.close()
        h.equal("streams", "".join(e["choices"][0]["text"] for e in server.events("/v1/completions", body)[:-1]), expected)
        h.equal("a large body", server.ask("/tokenize", {"content": "a " * 500000}).status, 200)
        for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
            some = ssl.create_default_context(cafile=certificate)
            some.minimum_version = some.maximum_version = version
            with socket.create_connection(("127.0.0.1", server.port)) as raw, some.wrap_socket(raw, server_hostname="127.0.0.1") as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                out = b""
                while part := s.recv(1000):  # raises where the end is not said
                    out += part
                h.fact(f"{version.name}, to its end", out.endswith(b'{"status":"ok"}'), out)
        old = ssl.create_default_context(cafile=certificate)
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        try:
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            with socket.create_connection(("127.0.0.1", server.port)) as raw, old.wrap_socket(raw, server_hostname="127.0.0.1"):
                h.fact("TLS 1.1 is refused", False)
        except (ssl.SSLError, ConnectionError, ValueError):
            h.fact("TLS 1.1 is refused", True)
        h.fact("plain text gets no answer", b"HTTP/1.1" not in server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
        hello = bytes.fromhex("16030100fa010000f60303") + b"x" * 250
        for data in [b"", b"\x16", hello[:20], hello, b"\x00" * 5000, b"\x16\x03\x01\xff\xff" + b"x" * 70000]:
            server.raw(data, read=False)
        h.fact("broken handshakes leave nothing behind", server.wait_for("bantam:connections", 1, 20.0), server.metric("bantam:connections"))
        for data in [post("/v1/completions", endless(stream=True)), post("/v1/completions", endless())]:
            with socket.create_connection(("127.0.0.1", server.port)) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as s:
                s.sendall(data)
                h.fact("a request runs", server.wait_for("bantam:requests", 1))
            h.fact("and ends with its client", server.wait_for("bantam:requests", 0, 5.0))
        h.equal("it still works", server.ask("/v1/chat/completions", {"messages": CHAT, "max_tokens": 3}).status, 200)


def facts_unix(h, models):
    if not has_server(h):
        return
    path = h.temporary("door.sock")
    with Server(h, "--host", path) as server:
        h.equal("the path is told", server.path, path)
        chat = {"messages": CHAT, "max_tokens": 5, "temperature": 0}
        h.equal("chats", server.ask("/v1/chat/completions", chat).status, 200)
        h.equal("streams", server.events("/v1/chat/completions", chat)[-1], "[DONE]")
        h.refuses(1, "serve", h.gguf("stories260k"), "--host", path, says="expected an address to listen on")
        h.equal("whoever was refused took nothing away", server.ask("/health").status, 200)
    h.fact("the file goes with the server", not os.path.exists(path))
    server = Server(h, "--host", path)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.end()
    h.fact("a killed server leaves it", os.path.exists(path))
    with Server(h, "--host", path) as server:
        h.equal("and the next one takes its place", server.ask("/health").status, 200)
    h.write("no.sock", "text")
    h.refuses(1, "serve", h.gguf("stories260k"), "--host", h.temporary("no.sock"), says="expected an address")
    h.equal("a file that is no socket stays", open(h.temporary("no.sock")).read(), "text")
    h.refuses(1, "serve", h.gguf("stories260k"), "--host", h.temporary("nowhere/x.sock"), says="expected an address")
    h.refuses(1, "serve", h.gguf("stories260k"), "--host", h.temporary("x" * 200 + ".sock"), says="expected an address")
