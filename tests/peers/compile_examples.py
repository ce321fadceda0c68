"""llama.cpp's examples must compile as they are published, with bantam's headers in the place of its own, and work.

usage: compile_examples.py BANTAM LIBBANTAM CXX SHARED_DATA SCRIPTS_FOLDER
node-llama-cpp carries the sources of its llama.cpp in a bundle; exits with 77 (skipped), saying why, where it or git is absent.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

EXAMPLES = ["simple", "simple-chat", "embedding"]
PROMPT = "Once upon a time"


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stderr}"
    return done.stdout


def compile_all(folder, bundle, library, compiler):
    """The programs, compiled of the bytes that the bundle holds."""
    headers = pathlib.Path(__file__).resolve().parents[2] / "capi" / "llama"
    output("git", "clone", "-q", "--no-checkout", bundle, folder / "source")
    programs = {}
    for name in EXAMPLES:
        source = folder / f"{name}.cpp"
        source.write_text(output("git", "-C", folder / "source", "show", f"HEAD:examples/{name}/{name}.cpp"))
        programs[name] = folder / name
        output(compiler, "-std=c++17", "-O1", "-I", headers, source, library, f"-Wl,-rpath,{library.parent}", "-o", programs[name])
    return programs


def chat_model(folder, model):
    """A Hugging Face folder of a model with a chat template."""
    chat = folder / "chat"
    shutil.copytree(model, chat)
    path = chat / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    config["chat_template"] = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
    path.write_text(json.dumps(config))
    return chat


def main():
    bantam, library, compiler, data, scripts = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]), pathlib.Path(sys.argv[5])
    bundle = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts)) / "node_modules" / "node-llama-cpp" / "llama" / "gitRelease.bundle"
    if shutil.which("git") is None or not bundle.exists():
        skip("node-llama-cpp or git is not installed (tests/peers/README.md)")
    model = data / "models" / "stories260k" / "stories260k-f32.gguf"
    if not model.exists():
        skip("no shared models")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = compile_all(folder, bundle, library, compiler)

        # BOS is shown as what it is called; the rest is the text that the program makes.
        text = output(programs["simple"], "-m", model, "-n", 24, PROMPT)
        ours = output(bantam, "run", model, "-p", PROMPT, "-n", 24, "--temperature", 0, "--ignore-eos", "--quiet")
        assert PROMPT + ours.rstrip("\n") in text, (text, ours)

        chat = chat_model(folder, pathlib.Path(__file__).resolve().parents[2] / "models" / "books4m")
        said = output(programs["simple-chat"], "-m", chat, "-c", 64, input="Hello\n")
        assert said.count("\033[33m") == 1 and len(said) > 40, said

        lines = "The sun is warm.\nThe sun is hot.\nA dog"
        rows = json.loads(output(programs["embedding"], "-m", model, "-p", lines, "--pooling", "mean", "--embd-output-format", "json"))["data"]
        widths = {len(row["embedding"]) for row in rows}
        assert len(rows) == 3 and len(widths) == 1, rows
        products = [sum(a * b for a, b in zip(rows[i]["embedding"], rows[j]["embedding"])) for i, j in ((0, 0), (0, 1), (0, 2))]
        assert abs(products[0] - 1) < 1e-4 and products[1] > products[2], products
    print(f"{', '.join(EXAMPLES)}: compiled as published, and run")


main()
