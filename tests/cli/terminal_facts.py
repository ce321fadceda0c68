"""What a person at a terminal sees: chats, progress, the end of a line."""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def chat_model(h, models):
    """stories260k with a chat template."""
    folder = Path(h.temporary("chat-model"))
    if not folder.exists():
        folder.mkdir()
        for file in (models / "stories260k").iterdir():
            if file.suffix != ".gguf":
                shutil.copy(file, folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config["chat_template"] = TEMPLATE
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder)


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, h, *arguments, **how):
        self.master, slave = pty.openpty()
        streams = {"stdin": slave, "stdout": slave, "stderr": slave, **how}
        self.process = h.start(*arguments, **streams, start_new_session=True)
        os.close(slave)
        self.seen = b""

    def until(self, pattern, seconds=60):
        """Reads until the pattern shows; whether it did."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                return False
            try:
                chunk = os.read(self.master, 1 << 16)
            except OSError:  # the other side is closed
                chunk = b""
            if not chunk:
                return bool(re.search(pattern, self.seen))
            self.seen += chunk
        return True

    def type(self, text):
        self.seen = b""
        os.write(self.master, text)

    def end(self):
        self.until(rb"\Znever", seconds=60)
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = None
        os.close(self.master)
        return status


def facts_chat_by_lines(h, models):
    model = chat_model(h, models)
    h.refuses(1, "run", h.model("stories260k"), "--chat", input="hello\n", says="chat template")
    arguments = ["run", model, "--chat", "-n", 10, "--temperature", 0]
    two = h.json(*arguments, input="Hello\nAnd then?\n")["replies"]
    h.equal("one reply a line", len(two), 2)
    h.equal("the first message, by the template", two[0]["prompt_tokens"],
            len(h.succeeds("tokenize", model, "--no-special", "--parse-special", input="<user>Hello\n<assistant>").json))
    h.fact("the second message adds itself only", 0 < two[1]["prompt_tokens"] < 60, two[1])
    plain = h.succeeds(*arguments, input="Hello\nAnd then?\n")
    h.equal("replies are the output", plain.text, "".join(reply["text"] + "\n" for reply in two))
    first = h.json(*arguments, "-p", "Hello")["replies"]
    h.equal("-p is the first message", [reply["tokens"] for reply in first], [two[0]["tokens"]])
    system = h.json(*arguments, "--system", "Be terse.", input="Hello\n")["replies"][0]
    h.fact("--system comes first", system["prompt_tokens"] > two[0]["prompt_tokens"], system)
    reset = h.json(*arguments, input="Hello\n/reset\nHello\n\n/exit\nnever\n")["replies"]
    h.equal("/reset forgets, /exit leaves", [reply["tokens"] for reply in reset], [two[0]["tokens"]] * 2)
    h.refuses(1, "run", model, "--chat", "-n", 5, "--context", 20, input="word " * 100 + "\n", says="context")
    h.refuses(2, "run", model, "--chat", "-f", "x")


def facts_chat_typed(h, models):
    model = chat_model(h, models)
    terminal = Terminal(h, "run", model, "--chat", "-n", 12, "--temperature", 0)
    h.fact("a prompt appears", terminal.until(rb"> "), terminal.seen)
    terminal.type(b"Hello\n")
    h.fact("a reply and the next prompt", terminal.until(rb"Hello\r\n.+\r\n> "), terminal.seen)
    terminal.type(b"/exit\n")
    h.equal("/exit leaves", terminal.end(), 0)

    terminal = Terminal(h, "run", model, "--chat", "--temperature", 0, "--ignore-eos", "--context", 1000000)
    terminal.until(rb"> ")
    terminal.type(b"Hello\n")
    h.fact("an endless reply begins", terminal.until(rb"Hello\r\n.{40}"), terminal.seen)
    terminal.process.send_signal(signal.SIGINT)
    h.fact("Ctrl-C stops the reply only", terminal.until(rb"\n> "), terminal.seen[-80:])
    terminal.type(b"\x04")
    h.equal("Ctrl-D leaves", terminal.end(), 0)

    terminal = Terminal(h, "run", model, "--chat", "--temperature", 0, "-p", "word " * 25000, "--context", 1000000)
    h.fact("a long prompt shows how far it is", terminal.until(rb"tokens of the prompt, "), terminal.seen)
    terminal.process.send_signal(signal.SIGINT)
    h.fact("Ctrl-C stops the reading only", terminal.until(rb"\r\x1b\[K> "), terminal.seen[-80:])
    terminal.type(b"Hello\n")
    h.fact("the chat goes on", terminal.until(rb"Hello\r\n.{20}"), terminal.seen[-80:])
    terminal.process.send_signal(signal.SIGINT)
    terminal.type(b"/exit\n")
    h.equal("and leaves", terminal.end(), 0)

    terminal = Terminal(h, "run", model, "--chat", "-n", 5)
    terminal.until(rb"> ")
    terminal.process.send_signal(signal.SIGINT)
    h.equal("Ctrl-C at the prompt leaves", terminal.end(), 130)


def facts_no_prompt(h, models):
    terminal = Terminal(h, "run", h.model("stories260k"))
    h.fact("a terminal is not read for a prompt", terminal.until(rb"expected a prompt"), terminal.seen)
    h.equal("it is wrong usage", terminal.end(), 2)


def facts_last_line(h, models):
    terminal = Terminal(h, "run", h.model("stories260k"), "-p", "Once upon a time", "-n", 5, "--temperature", 0)
    status = terminal.end()
    h.fact("text on a terminal ends its line", status == 0 and re.search(rb"little\r\nbantam: 5 prompt tokens", terminal.seen), terminal.seen)


def facts_progress(h, models):
    out = h.temporary("progress.bantam")
    for arguments, wanted in [(["compress", h.model("books4m"), "-o", out], True), (["compress", h.model("books4m"), "-o", out, "--json"], False),
                              (["perplexity", h.model("stories260k"), h.corpus("tinystories-plain.txt"), "--limit", 2000], True)]:
        terminal = Terminal(h, *arguments, stdout=subprocess.PIPE)
        status = terminal.end()
        result = terminal.process.stdout.read()
        h.equal(f"{arguments[0]} ends well", status, 0)
        h.equal(f"{arguments}: a bar on the terminal", b"[" in terminal.seen and b"left" in terminal.seen, wanted)
        h.fact("and none in the result", b"left" not in result and b"\r" not in result, result[:100])
        plain = h.succeeds(*arguments)
        h.fact(f"{arguments[0]}: no bar without a terminal", "\r" not in plain.err and "left" not in plain.err, plain)
