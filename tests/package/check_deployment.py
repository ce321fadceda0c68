"""What docs/deploy says of the program is so: switches that it has, metrics that it gives; and files are what their readers take.

check_deployment.py ROOT PROGRAM
"""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

root, program = Path(sys.argv[1]), sys.argv[2]
recipes = root / "docs" / "deploy"
failures = 0


def fact(name, holds, seen=""):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED: {name}: {seen}")


def switches(words, where):
    help_text = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[a-z][a-z0-9-]*", help_text))
    used = {word for word in words if word.startswith("--")}
    fact(f"{where}: names switches", used)
    fact(f"{where}: switches are the program's", used <= known, used - known)
    fact(f"{where}: begins with a verb of the program", "serve" in words, words)


def check_unit():
    text = (recipes / "bantam.service").read_text()
    command = re.search(r"^ExecStart=(.*)$", text, re.M)[1]
    switches(shlex.split(command), "bantam.service")
    fact("the unit's end waits longer than requests", int(re.search(r"TimeoutStopSec=(\d+)", text)[1]) > int(re.search(r"--drain (\d+)", command)[1]))
    if analyze := shutil.which("systemd-analyze"):
        # /usr/bin/bantam is not there yet where this is tested.
        folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"bantam-units-{os.getpid()}"
        folder.mkdir()
        try:
            (folder / "bantam.service").write_text(text.replace("/usr/bin/bantam", str(Path(program).resolve())))
            shutil.copy(recipes / "bantam.socket", folder)
            units = [str(folder / "bantam.service"), str(folder / "bantam.socket")]
            result = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True)
            complaints = [line for line in result.stderr.splitlines() if "bantam" in line]
            fact("systemd takes the units", not complaints, complaints)
        finally:
            shutil.rmtree(folder)
    else:
        print("skipped: systemd-analyze is not there")


def check_recipes():
    try:
        import yaml
    except ImportError:
        print("skipped: recipes in YAML: python3-yaml is not there")
        return
    compose = yaml.safe_load((recipes / "compose.yaml").read_text())["services"]["bantam"]
    switches(compose["command"], "compose.yaml")
    fact("compose.yaml builds what is there", (recipes / compose["build"]["context"] / compose["build"]["dockerfile"]).is_file())
    deployment, service = yaml.safe_load_all((recipes / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    switches(container["args"], "kubernetes.yaml")
    volumes = {volume["name"] for volume in pod["volumes"]}
    fact("what is mounted is there", {mount["name"] for mount in container["volumeMounts"]} == volumes, volumes)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    fact("the service and the deployment find the pods", service["spec"]["selector"] == labels == deployment["spec"]["selector"]["matchLabels"])


def check_dashboard():
    dashboard = json.loads((recipes / "grafana.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    used = {name for e in expressions for name in re.findall(r"\b(?:llamacpp|vllm|bantam):[a-z0-9_]+", e)}
    fact("the dashboard shows metrics", len(used) > 20, used)
    ids = [panel["id"] for panel in dashboard["panels"]]
    fact("panels have ids of their own", len(ids) == len(set(ids)), ids)
    # With sensors, whose figures are there where they are.
    folder = tempfile.TemporaryDirectory()
    chip, package = Path(folder.name, "class/hwmon/hwmon0"), Path(folder.name, "class/powercap/intel-rapl:0")
    for path, text in [(chip / "name", "coretemp"), (chip / "temp1_input", "50000"), (package / "name", "package-0"), (package / "energy_uj", "1")]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    policy = Path(folder.name, "policy.json")
    policy.write_text(json.dumps({"every_s": 0.05, "root": folder.name}))
    process = subprocess.Popen([program, "serve", "--governor", str(policy), str(root / "models" / "books4m"), "--port", "0", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline() or sys.exit("the server did not start")
        url = json.loads(text)["url"]
        urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", data=b'{"prompt": "The", "max_tokens": 2}')).read()
        # A rate takes two looks.
        end, metrics = time.monotonic() + 60, ""
        while "bantam:power_watts" not in metrics and time.monotonic() < end:
            metrics = urllib.request.urlopen(url + "/metrics").read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        folder.cleanup()
    there = set(re.findall(r"^([a-z]+:[a-z0-9_]+)", metrics, re.M))
    fact("metrics of the dashboard are the server's", used <= there, used - there)


check_unit()
check_recipes()
check_dashboard()
sys.exit(1 if failures else 0)
