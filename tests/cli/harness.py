"""Runs the program and keeps count of facts: a failed one is printed, with what was seen."""
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

# Generous: the machine may be busy, and a build with sanitizers is slow.
TIMEOUT = 300
# Sanitizers look for errors of memory, with short texts.
QUICK = "BANTAM_TEST_QUICK" in os.environ


def figures(function):
    """Marks facts about figures, which take thousands of tokens: sanitized runs leave them to the optimized ones."""
    function.figures = True
    return function


class Result:
    def __init__(self, process, out, err):
        self.status = process.returncode
        self.out = out
        self.err = err.decode("utf-8", "replace")

    @property
    def text(self):
        return self.out.decode("utf-8")  # raises, as it should, for what is not UTF-8

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"status {self.status}, stdout {self.out[:300]!r}, stderr {self.err[:600]!r}"


class Harness:
    def __init__(self, program, data):
        self.program = str(Path(program).resolve())
        self.data = Path(data)
        self.failed = 0
        self.passed = 0
        self.group = ""
        self.folder = Path(tempfile.mkdtemp(prefix="bantam-cli-"))

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def fact(self, name, holds, seen=""):
        """States that something holds. `seen` is shown when it does not."""
        if holds:
            self.passed += 1
            return True
        self.failed += 1
        print(f"FAILED: {self.group}: {name}" + (f"\n        {seen}" if str(seen) else ""), flush=True)
        return False

    def equal(self, name, found, expected):
        return self.fact(name, found == expected, f"expected {str(expected)[:400]!r}, found {str(found)[:400]!r}")

    # Models and texts ------------------------------------------------------------------------------------------------

    def model(self, name):
        return str(self.data / "models" / name)

    def gguf(self, name):
        return str(next((self.data / "models" / name).glob("*.gguf")))

    def corpus(self, name):
        return str(self.data / "corpora" / name)

    def temporary(self, name):
        return str(self.folder / name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    # Running ---------------------------------------------------------------------------------------------------------

    def start(self, *arguments, file_limit=None, processors=None, **how):
        def limit():
            if processors is not None:
                os.sched_setaffinity(0, processors)
            if file_limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        how.setdefault("stdin", subprocess.DEVNULL)
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([self.program, *map(str, arguments)], preexec_fn=limit, **how)

    def run(self, *arguments, input=None, **how):
        if input is not None:
            how["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **how)
        try:
            out, err = process.communicate(input.encode() if isinstance(input, str) else input, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fact(f"{arguments} ends", False, f"still running after {TIMEOUT} s")
            return Result(process, b"", b"")
        return Result(process, out or b"", err or b"")

    def succeeds(self, *arguments, **how):
        result = self.run(*arguments, **how)
        self.fact(f"{' '.join(map(str, arguments))[:200]} succeeds", result.status == 0, result)
        return result

    def json(self, *arguments, **how):
        """The one document that --json prints; standard error stays free of progress and statistics."""
        result = self.succeeds(*arguments, "--json", **how)
        try:
            return result.json
        except ValueError:
            self.fact(f"{arguments} prints one JSON document", False, result)
            return {}

    def refuses(self, status, *arguments, says="", **how):
        """Exit status, nothing on standard output, one line `bantam: ...` on standard error."""
        if QUICK:
            # To look for leaks takes a third of a start, to remember who asked for memory a quarter of the rest. Both are done where the program
            # does its work.
            options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0:malloc_context_size=1"
            how["env"] = {**how.get("env", os.environ), "ASAN_OPTIONS": options}
        result = self.run(*arguments, **how)
        name = " ".join(map(str, arguments))[:200]
        self.equal(f"{name}: exit status", result.status, status)
        self.equal(f"{name}: nothing on standard output", result.out, b"")
        one_line = result.err.startswith("bantam: ") and result.err.endswith("\n") and result.err.count("\n") == 1
        self.fact(f"{name}: one line on standard error", one_line, result)
        if status == 2:
            self.fact(f"{name}: a hint at the help", "--help`)" in result.err, result)
        self.fact(f"{name}: says {says!r}", says in result.err, result)
        return result

    def interrupt(self, process, number=signal.SIGINT, limit=20.0):
        """Sends a signal; returns the exit status and the seconds that it took to end."""
        start = time.monotonic()
        process.send_signal(number)
        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return process.returncode, time.monotonic() - start


def read_available(descriptor):
    """What one unbuffered read of a pipe brings."""
    return os.read(descriptor, 1 << 20)
