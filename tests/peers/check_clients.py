"""OpenAI's own client against `bantam serve`.

usage: check_clients.py BANTAM SHARED_DATA SCRIPTS_FOLDER
Exits with 77 (skipped), saying why, where the npm package openai, the data or the server is absent.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def main():
    bantam, data, scripts = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    peers = pathlib.Path(os.environ.get("BANTAM_PEERS", scripts))
    if shutil.which("node") is None or not (peers / "node_modules" / "openai").exists():
        skip("the npm package openai is not installed (tests/peers/README.md)")
    model = data / "models" / "stories260k" / "stories260k-f32.gguf"
    if not model.exists():
        skip("no shared models")
    command = [bantam, "serve", model, "--port", "0", "--alias", "tiny", "--context", "100000", "--parallel", "2", "--queue", "4", "--api-key", "secret", "--drain", "1"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in server.stderr:
            said += line
            if match := re.search(r"listening on (http://\S+)", line):
                break
        else:
            skip("this build has no server") if "Boost" in said else sys.exit(f"the server did not start: {said}")
        client = subprocess.run(["node", scripts / "openai_client.mjs", match[1] + "/v1", "tiny"], env={**os.environ, "BANTAM_PEERS": str(peers)}, timeout=300)
    finally:
        server.terminate()
        server.communicate(timeout=60)
    sys.exit(client.returncode or server.returncode)


if __name__ == "__main__":
    main()
