"""What a person at a terminal sees: chats, progress, the end of a line."""
import fcntl
import json
import math
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def chat_model(h, models, name="chat-model", template=TEMPLATE):
    """stories260k with a chat template."""
    folder = Path(h.temporary(name))
    if not folder.exists():
        folder.mkdir()
        for file in (models / "stories260k").iterdir():
            if file.suffix != ".gguf":
                shutil.copy(file, folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config["chat_template"] = template
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


def facts_reasoning(h, models):
    # The template opens the reasoning, and this model never ends it.
    model = chat_model(h, models, "thinking-model", TEMPLATE.replace("<assistant>", "<assistant><think>"))
    arguments = ["run", model, "--chat", "-n", 10, "--temperature", 0]
    plain = h.succeeds(*arguments, input="Hello\n").text
    h.equal("through a pipe the reply is as it was written", h.succeeds(*arguments, "--reasoning", "raw", input="Hello\n").text, plain)
    h.equal("thoughts are shown", h.succeeds(*arguments, "--reasoning", "show", input="Hello\n").text.strip(), plain.strip())
    h.equal("or hidden", h.succeeds(*arguments, "--reasoning", "hide", input="Hello\n").text, "\n")
    h.equal("JSON has all", h.json(*arguments, "--reasoning", "hide", input="Hello\n")["replies"][0]["text"] + "\n", plain)
    spoken = chat_model(h, models, "speaking-model", TEMPLATE + "{# <think> #}")
    arguments[1] = spoken
    h.equal("what is said is not hidden", h.succeeds(*arguments, "--reasoning", "hide", input="Hello\n").text,
            h.succeeds(*arguments, input="Hello\n").text)
    h.refuses(2, "run", model, "-p", "x", "--reasoning", "hide", says="--chat")
    h.refuses(2, "run", model, "--chat", "--reasoning", "loud", says="--reasoning")
    terminal = Terminal(h, "run", model, "-n", 8, "--temperature", 0, "-p", "Hello", "--chat")
    h.fact("a terminal dims them", terminal.until(rb"\x1b\[2m[^\x1b]+\x1b\[22m"), terminal.seen)
    terminal.type(b"/bye\r")
    terminal.end()


def shown(seen):
    """What a terminal would show of it, roughly: without colors, movements of the cursor and marks of pasting."""
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()=>][A-Z0-9]?|\r|\x07", b"", seen)
    while b"\x08" in text:
        text = re.sub(rb"[^\x08]?\x08", b"", text, count=1)
    return text.decode("utf-8", "replace")


class ChatTerminal(Terminal):
    """A chat whose history is a file of the test's own."""

    def __init__(self, h, *arguments, term="xterm", columns=100, state="state", preload=None, **how):
        self.state = Path(h.temporary(state))
        environment = {**os.environ, "TERM": term, "XDG_STATE_HOME": str(self.state), "LC_ALL": "C.UTF-8"}
        if preload:
            environment["LD_PRELOAD"] = preload
        super().__init__(h, *arguments, env=environment, **how)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def prompt(self):
        """Waits for the editor, which asks for marks of pasting when it is ready to read."""
        return self.until(rb"\x1b\[\?2004h[^\n]*> ")

    def say(self, text):
        """Types a line and waits for the prompt after what comes of it; returns what was shown."""
        self.type(text.encode() + b"\r")
        self.prompt()
        return shown(self.seen)


def facts_chat_typed(h, models):
    model = chat_model(h, models)
    terminal = ChatTerminal(h, "run", model, "--chat", "-n", 12, "--temperature", 0)
    h.fact("a prompt appears, and a line about help", terminal.prompt() and b"/help" in terminal.seen, terminal.seen)
    reply = terminal.say("Hello")
    h.fact("a reply and the next prompt", re.search(r"Hello\n.+\n.*> $", reply, re.S), reply)
    terminal.type(b"/exit\r")
    h.equal("/exit leaves", terminal.end(), 0)

    terminal = ChatTerminal(h, "run", model, "--temperature", 0, "--ignore-eos", "--context", 1000000)
    h.fact("a terminal opens the chat by itself", terminal.prompt(), terminal.seen)
    terminal.type(b"Hello\r")
    h.fact("an endless reply begins", terminal.until(rb"Hello\r?\n(.|\n){40}"), terminal.seen)
    terminal.process.send_signal(signal.SIGINT)
    h.fact("Ctrl-C stops the reply only", terminal.prompt(), terminal.seen[-80:])
    terminal.type(b"\x04")
    h.equal("Ctrl-D leaves", terminal.end(), 0)

    terminal = ChatTerminal(h, "run", model, "--chat", "--temperature", 0, "-p", "word " * 25000, "--context", 1000000)
    h.fact("a long prompt shows how far it is", terminal.until(rb"tokens of the prompt, "), terminal.seen)
    terminal.process.send_signal(signal.SIGINT)
    h.fact("Ctrl-C stops the reading only", terminal.prompt(), terminal.seen[-80:])
    terminal.type(b"Hello\r")
    h.fact("the chat goes on", terminal.until(rb"Hello\r?\n.{20}"), terminal.seen[-80:])
    terminal.process.send_signal(signal.SIGINT)
    terminal.prompt()
    terminal.type(b"/exit\r")
    h.equal("and leaves", terminal.end(), 0)

    for term in ["xterm", "dumb"]:
        terminal = ChatTerminal(h, "run", model, "--chat", "-n", 5, term=term)
        terminal.until(rb"> ")
        time.sleep(0.2)
        terminal.process.send_signal(signal.SIGINT)
        h.equal(f"{term}: Ctrl-C at an empty prompt leaves", terminal.end(), 130)
    terminal = ChatTerminal(h, "run", model, "-n", 5, "--temperature", 0, term="dumb")
    h.fact("a terminal that cannot be drawn on gets plain lines", terminal.until(rb"\n> "), terminal.seen)
    terminal.type(b"Hello\n")
    h.fact("and replies", terminal.until(rb"Hello\r\n.+\r\n> "), terminal.seen)
    terminal.type(b"/bye\n")
    h.equal("and leaves", terminal.end(), 0)


def facts_chat_editing(h, models):
    model = chat_model(h, models)
    terminal = ChatTerminal(h, "run", model, "-n", 8, "--temperature", 0, state="editing")
    terminal.prompt()
    first = terminal.say("Hello world")
    terminal.type(b"garbage")
    terminal.until(rb"garbage")
    terminal.process.send_signal(signal.SIGINT)
    h.fact("Ctrl-C on a line discards the line", terminal.prompt(), terminal.seen)
    terminal.say("/reset")
    terminal.type(b"\x1b[A\x1b[A")  # the line before /reset
    h.fact("arrows bring lines back", terminal.until(rb"Hello world"), terminal.seen)
    terminal.type(b"\r")
    terminal.prompt()
    h.equal("which say the same", shown(terminal.seen).strip().splitlines()[-2:], first.strip().splitlines()[-2:])
    history = terminal.state / "bantam" / "chat_history"
    h.equal("lines are remembered", history.read_text().splitlines(), ["Hello world", "/reset", "Hello world"])
    h.equal("by their owner alone", history.stat().st_mode & 0o777, 0o600)
    terminal.type("Größe 日本語".encode() + b"\x7f\x1b[D\x1b[D\x1b[D!\r")
    terminal.prompt()
    h.equal("characters are whole, wide ones too", history.read_text().splitlines()[-1], "Größe! 日本")
    terminal.type(b"/bye\r")
    h.equal("it ends well", terminal.end(), 0)

    terminal = ChatTerminal(h, "run", model, "-n", 8, "--temperature", 0, columns=20, state="editing")
    terminal.prompt()
    terminal.type(b"\x1b[A\x1b[A")
    h.fact("the next chat knows them", terminal.until("日本".encode()), terminal.seen)
    terminal.type(b"\x15" + b"long " * 30 + b"\r")
    h.fact("a narrow terminal takes a long line", terminal.prompt(), terminal.seen)
    h.equal("whole", history.read_text().splitlines()[-1], ("long " * 30))
    before = history.read_text()
    terminal.type(b"\x04")
    h.equal("and it ends well", terminal.end(), 0)
    terminal = ChatTerminal(h, "run", model, "-n", 8, "--no-history", state="editing")
    terminal.prompt()
    terminal.say("Hello")
    terminal.type(b"/bye\r")
    terminal.end()
    h.equal("--no-history", history.read_text(), before)
    history.write_text("\x1b]0;title\x07\n" + "a line\n" * 5000 + "x" * 100000 + "\n\xff\n", encoding="latin-1")
    history.chmod(0o644)
    terminal = ChatTerminal(h, "run", model, "-n", 8, state="editing")
    terminal.prompt()
    terminal.say("Hello")
    h.fact("a long history is cut", history.stat().st_size < 20000 and history.read_text().endswith("Hello\n"), history.stat())
    h.equal("and private again", history.stat().st_mode & 0o777, 0o600)
    terminal.type(b"/bye\r")
    h.equal("whatever it held", terminal.end(), 0)


def preloaded(h, name):
    library = os.environ.get(name)
    if library is None:
        print(f"skipped: {h.group}: {name} names no library (with sanitizers nothing is preloaded)")
    return library


def facts_chat_interrupted(h, models):
    """Ctrl-C while the editor is about to wait, handled on another thread: found once by a busy machine."""
    late_wait = preloaded(h, "BANTAM_LATE_WAIT")
    if late_wait is None:
        return
    terminal = ChatTerminal(h, "run", chat_model(h, models), "-n", 8, "--threads", 2, preload=late_wait)
    terminal.prompt()
    terminal.say("Hello")
    for _ in range(20):
        terminal.type(b"x")
        terminal.until(rb"x")
        terminal.seen = b""
        terminal.process.send_signal(signal.SIGINT)
        if not h.fact("Ctrl-C is not lost before the wait", terminal.prompt(), terminal.seen):
            break
    terminal.type(b"/bye\r")
    h.equal("it ends well", terminal.end(), 0)


def facts_chat_messages(h, models):
    """Messages of several lines, told by how many tokens the model reads."""
    model = chat_model(h, models)
    expected = len(h.succeeds("tokenize", model, "--no-special", "--parse-special", input="<user>one\ntwo\n\nthree\n<assistant>").json)
    for way in [b"one\\\rtwo\\\r\\\rthree\r", b'"""one\rtwo\r\rthree"""\r', b'"""\x15"""one\rtwo\r\rthree"""\r',
                b"\x1b[200~one\rtwo\r\rthree\x1b[201~\r"]:
        terminal = ChatTerminal(h, "run", model, "-n", 0)
        terminal.prompt()
        terminal.type(way)
        terminal.until(rb"three")
        terminal.prompt()
        said = terminal.say("/stats")
        h.fact(f"{way!r} is one message", f"last reply: {expected} prompt tokens" in said, said)
        terminal.type(b"/bye\r")
        h.equal("it ends well", terminal.end(), 0)


def facts_chat_commands(h, models):
    model = chat_model(h, models)
    terminal = ChatTerminal(h, "run", model, "-n", 12, "--seed", 7)
    terminal.prompt()
    listed = terminal.say("/help")
    for command in ["/help", "/reset", "/regen", "/system TEXT", "/save FILE", "/load FILE", "/stats", "/bye"]:
        h.fact(f"/help lists {command}", command in listed, listed)
    said = terminal.say("/rset")
    h.fact("a slip is answered", "unknown command /rset; did you mean /reset?" in said, said)
    said = terminal.say("/regen")
    h.fact("nothing to generate again", "expected a reply to generate again" in said, said)
    reply = terminal.say("/usr/lib is a path")
    h.fact("a path is a message", "unknown command" not in reply, reply)
    again = terminal.say("/regen")
    h.fact("another reply", again.splitlines()[1:] != reply.splitlines()[1:], again)
    said = terminal.say("/system Be brief.")
    said = terminal.say("/system")
    h.fact("/system is kept", "Be brief." in said, said)
    said = terminal.say("/stats")
    h.fact("/stats", re.search(r"12 generated at .* tok/s.*\n.* of 512 tokens of context, 3 messages", said, re.S), said)
    file = Path(h.temporary("saved.json"))
    said = terminal.say(f"/save {file}")
    saved = json.loads(file.read_text())
    h.equal("/save: roles", [m["role"] for m in saved["messages"]], ["system", "user", "assistant"])
    h.fact("/save: settings", saved["settings"]["max_tokens"] == 12 and saved["settings"]["seed"] == 7, saved)
    said = terminal.say(f"/save {model}/config.json")
    h.fact("/save spares other files", "expected" in said and json.loads(Path(model, "config.json").read_text())["model_type"] == "llama", said)
    third = terminal.say("And then?")
    terminal.say("/reset")
    said = terminal.say(f"/load {file}")
    h.fact("/load says what came", "3 messages" in said, said)
    said = terminal.say("/stats")
    h.fact("and it is there", "3 messages" in said, said)
    h.fact("the talk goes on", len(terminal.say("And then?")) > 12, third)
    for name, content in [("none", None), ("text", "hello"), ("json", "{}"), ("version", '{"bantam_chat":2}'), ("nothing", '{"bantam_chat":1}'),
                          ("roles", '{"bantam_chat":1,"messages":[{"role":"user","content":"x"},{"role":"root","content":"x"}]}'),
                          ("types", '{"bantam_chat":1,"messages":[{"role":1,"content":"x"}]}'), ("many", '{"bantam_chat":1,"messages":' + "[" * 100000),
                          ("range", '{"bantam_chat":1,"messages":[],"settings":{"top_p":7}}'), ("huge", '{"bantam_chat":1,"messages":[],"settings":{"top_k":1e99}}')]:
        path = h.temporary(f"chat-{name}.json")
        if content is not None:
            h.write(f"chat-{name}.json", content)
        said = terminal.say(f"/load {path}")
        h.fact(f"/load refuses: {name}", "bantam: /load: " in said, said[-300:])
    said = terminal.say("/stats")
    h.fact("and the chat is as it was", "5 messages" in said, said)
    terminal.type(b"/bye\r")
    h.equal("/bye leaves", terminal.end(), 0)


def facts_chat_without_end(h, models):
    """More talk than the context holds."""
    model = chat_model(h, models)
    terminal = ChatTerminal(h, "run", model, "--context", 128, "-n", 30, "--ignore-eos", "--system", "Be brief.", "--temperature", 0)
    terminal.prompt()
    talk = "".join(terminal.say(f"Tell me more of Lily and of the dog {i}") for i in range(8))
    h.fact("it goes on, with a word", talk.count("Tell me more") >= 8 and "messages are left out of what the model reads" in talk, talk)
    said = terminal.say("/stats")
    h.fact("/stats tells of it", "17 messages, the oldest" in said, said)
    terminal.say("word " * 300)
    said = terminal.say("Hello")
    h.fact("a message too long is refused, and the chat goes on", "expected at most 128 tokens" not in said, said)
    terminal.type(b"/bye\r")
    h.equal("it ends well", terminal.end(), 0)


def facts_chat_without_template(h, models):
    terminal = ChatTerminal(h, "run", h.model("stories260k"), "-n", 20, "--temperature", 0)
    h.fact("a word about it", terminal.prompt() and b"no chat template" in terminal.seen, terminal.seen)
    said = terminal.say("Once upon a time")
    text = h.succeeds("run", h.model("stories260k"), "-p", "Once upon a time", "-n", 20, "--temperature", 0, "-q").text
    h.fact("it goes on with the text", text.strip()[:30] in said.replace("\n", " "), said)
    terminal.type(b"/bye\r")
    h.equal("it ends well", terminal.end(), 0)


def facts_no_prompt(h, models):
    terminal = Terminal(h, "run", h.model("stories260k"), stdout=subprocess.PIPE)
    h.fact("without a terminal to answer on, a prompt is asked for", terminal.until(rb"expected a prompt"), terminal.seen)
    h.equal("it is wrong usage", terminal.end(), 2)


def facts_last_line(h, models):
    terminal = Terminal(h, "run", h.model("stories260k"), "-p", "Once upon a time", "-n", 5, "--temperature", 0)
    status = terminal.end()
    h.fact("text on a terminal ends its line", status == 0 and re.search(rb"little\r\nbantam: 5 prompt tokens", terminal.seen), terminal.seen)


def wide_model(h, models, width):
    """stories260k with MLPs of another width, all weights of which are zeros."""
    folder = Path(chat_model(h, models, "wide-model"))
    config = json.loads((folder / "config.json").read_text())
    narrow, config["intermediate_size"] = config["intermediate_size"], width
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "r+b") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        end = 0
        for name, entry in header.items():
            if name != "__metadata__":
                entry["shape"] = [width if size == narrow else size for size in entry["shape"]]
                begin, end = end, end + 4 * math.prod(entry["shape"])
                entry["data_offsets"] = [begin, end]
        text = json.dumps(header).encode()
        file.truncate(0)
        file.seek(0)
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return str(folder)


def facts_slow_drive(h, models):
    slow_drive = preloaded(h, "BANTAM_SLOW_DRIVE")
    if slow_drive is None:
        return
    flag, all_on_disk = Path(h.temporary("drive-sleeps")), h.write("map.json", '{"": "disk"}')
    os.environ["SLOW_DRIVE"] = str(flag)
    terminal = ChatTerminal(h, "run", chat_model(h, models), "-n", 8, "--temperature", 0, "--device-map", all_on_disk, preload=slow_drive)
    del os.environ["SLOW_DRIVE"]
    terminal.prompt()
    right = terminal.say("Hello")
    terminal.say("/reset")
    flag.touch()
    late = terminal.say("Hello")
    h.fact("a drive that does not answer is told of", re.search(r"bantam: nothing has come from the drive for 3 s, still waiting\n", late), late)
    h.equal("nothing else has changed", [line for line in late.split("\n") if not line.startswith("bantam: ")], [line for line in right.split("\n") if not line.startswith("bantam: ")])
    terminal.type(b"/bye\r")
    h.equal("it ends well", terminal.end(), 0)


def facts_loading(h, models):
    large = wide_model(h, models, 10000)
    terminal = Terminal(h, "run", large, "-p", "Once", "-n", 1)
    h.equal("a large model is loaded", terminal.end(), 0)
    h.fact("and a bar says how far it is, and how fast", re.search(rb"\] 0\.\d\d/0\.04 GB at \d+\.\d\d GB/s, 0 s left", terminal.seen), terminal.seen)
    for arguments in [["run", large, "-p", "Once", "-n", 1, "-q"], ["run", large, "-p", "Once", "-n", 1, "--json"], ["run", h.model("stories260k"), "-p", "Once", "-n", 1]]:
        terminal = Terminal(h, *arguments, stdout=subprocess.PIPE)
        h.equal(f"{arguments} ends well", terminal.end(), 0)
        h.fact(f"{arguments}: no bar", b"GB/s" not in terminal.seen, terminal.seen)


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
