"""Clients that their makers publish against `bantam serve`.

usage: check_clients.py BANTAM SHARED_DATA SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where the packages of npm, the data or the server are absent.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

# Each script, the package that it is about, and what the address ends with.
CLIENTS = [("openai_client.mjs", "openai", "/v1"), ("responses_client.mjs", "openai", ""), ("anthropic_client.mjs", "@anthropic-ai/sdk", ""),
           ("langchain_client.mjs", "@langchain/openai", ""), ("ai_client.mjs", "ai", ""), ("ollama_client.mjs", "ollama", ""), ("page_client.mjs", "puppeteer-core", "/")]
# With thoughts and calls as Qwen's models mark them.
TEMPLATE = """{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or "" }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def main():
    bantam, data, scripts = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    peers = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts))
    clients = [client for client in CLIENTS if (peers / "node_modules" / client[1]).exists()]
    if shutil.which("node") is None or not clients:
        skip("the npm packages of clients are not installed (tests/peers/README.md)")
    for missing in sorted({package for _, package, _ in CLIENTS} - {package for _, package, _ in clients}):
        print(f"skipped: {missing} is not installed (tests/peers/README.md)")
    chromium = os.environ.get("BANTAM_CHROMIUM", "/usr/bin/chromium")
    if not pathlib.Path(chromium).exists():
        print(f"skipped: the page is not looked at, there is no {chromium}")
        clients = [client for client in clients if client[1] != "puppeteer-core"]
    model = data / "models" / "stories260k" / "stories260k-f32.gguf"
    if not model.exists():
        skip("no shared models")
    second = data / "models" / "babyllama105" / "babyllama105-f32.gguf"
    sys.exit(max(ask(bantam, [model, *beside], peers, scripts, clients) for beside in ([], [second])))


def ask(bantam, models, peers, scripts, clients):
    """The clients at a server of these models: the status to end with."""
    command = [bantam, "serve", *models, "--port", "0", "--alias", "tiny", "--context", "100000", "--parallel", "2", "--queue", "4", "--api-key", "secret", "--drain", "1",
               "--chat-template", TEMPLATE]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in server.stderr:
            said += line
            if match := re.search(r"listening on (http://\S+)", line):
                break
        else:
            skip("this build has no server") if "Boost" in said else sys.exit(f"the server did not start: {said}")
        environment = {**os.environ, "BANTAM_PEERS": str(peers), "BANTAM_SERVED": " ".join(path.stem for path in models[1:])}
        failed = [script for script, _, end in clients if subprocess.run(["node", scripts / script, match[1] + end, "tiny"], env=environment, timeout=300).returncode]
    finally:
        server.terminate()
        server.communicate(timeout=60)
    return 1 if failed else server.returncode


if __name__ == "__main__":
    main()
