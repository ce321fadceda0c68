"""The stubs, by a type checker: programs that are right pass, and names and types that are wrong are found."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import bantam

try:
    import mypy
except ImportError:
    mypy = None

# Each line that ends in "# error: TEXT" must be refused with a message that has TEXT, and no other line.
PROGRAM = """
import bantam
from bantam.llama_cpp import LlamaRAMCache, LogitsProcessorList

model = bantam.load("m", memory="mapped")
small, report = bantam.compress(model, "gptq", format=lambda layer: "q4", group=64, calibration="t.txt", progress=True)
session = bantam.Session("m", context=64, kv="q8")
text: str = session.generate("It", max_tokens=3, temperature=0, stop=["."], mirostat=2, logit_bias={3: 1.0})
for piece in session.stream([1, 2], seed=3):
    piece.upper()
reply = session.chat([{"role": "user", "content": None}], tools=[{}], chat_template_kwargs={"enable_thinking": False}, top_k=3)
options: bantam.GenerateOptions = {"top_k": 4}
session.generate("x", **options)
llama = bantam.Llama("m", n_ctx=3, chat_format="chatml")
llama.set_cache(LlamaRAMCache(1 << 20))
llama("x", temperature=1.0, stop=".", logits_processor=LogitsProcessorList())
scores = llama.scores.sum()
error = bantam.NotFound("x", 2, "y").filename
scheduler = bantam.Scheduler("m", context=64, parallel=8)
request = scheduler.submit("x", max_tokens=3, priority=1, timeout=2.5, logprobs=2)
whole: str = request.result(timeout=3)
best: float = request.logprobs[0].top[0][1]


async def wait() -> str:
    async for piece in request:
        piece.upper()
    return await request


session.generate("x", max_token=3)  # error: max_token
session.generate("x", temperature="hot")  # error: temperature
session.stream("x", seed=1.5)  # error: seed
session.chat([], stop=3)  # error: stop
bantam.Session(model, contxt=3)  # error: contxt
bantam.Scheduler(model, paralell=3)  # error: paralell
scheduler.submit("x", priority="high")  # error: priority
bantam.compress(model, formt="q4")  # error: formt
bantam.compress(model, group="64")  # error: group
bantam.compress_file("a", "b", to=3)  # error: to
bantam.load("m", memroy="mapped")  # error: memroy
bantam.bench(model, promt=1)  # error: promt
bantam.Sampler(8, top_q=1)  # error: top_q
wrong: bantam.GenerateOptions = {"top_k": "4"}  # error: top_k
llama("x", temprature=1.0)  # error: temprature
llama.sample(temp="hot")  # error: temp
bantam.Llama("m", n_cxt=3)  # error: n_cxt
"""


@unittest.skipIf(mypy is None, "mypy is not installed")
class Types(unittest.TestCase):
    def test_mypy_finds_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "program.py"
            program.write_text(PROGRAM)
            # Only what mypy needs to know is looked at: NumPy's own types take it half a minute.
            command = [sys.executable, "-m", "mypy", "--no-error-summary", "--enable-incomplete-feature=Unpack", "--follow-imports=silent",
                       "--cache-dir", folder, str(program)]
            path = {**os.environ, "MYPYPATH": str(Path(bantam.__file__).parent.parent)}
            done = subprocess.run(command, capture_output=True, text=True, env=path, cwd=folder, check=False)
        found = {}
        for line in done.stdout.splitlines():
            if match := re.match(r".*program\.py:(\d+): error: (.*)", line):
                found.setdefault(int(match.group(1)), []).append(match.group(2))
        self.assertTrue(found, done.stdout + done.stderr)
        for number, line in enumerate(PROGRAM.splitlines(), 1):
            with self.subTest(line):
                name = line.split("# error: ")[1] if "# error: " in line else None
                if name is None:
                    self.assertNotIn(number, found)
                else:
                    self.assertTrue(any(name in message for message in found.get(number, [])), found.get(number))


if __name__ == "__main__":
    unittest.main()
