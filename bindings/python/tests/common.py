"""What the tests share: the bundled model, a folder that goes away, a model with a chat template."""

import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import bantam

ROOT = Path(os.environ["BANTAM_SOURCE_DIR"])
SHARED = Path(os.environ.get("BANTAM_SHARED_DATA", ROOT.parent / "shared" / "data"))
MODEL = ROOT / "models" / "books4m"
TEXT = (ROOT / "models" / "paragraph.txt").read_text()
GREEDY = {"temperature": 0}
QUICK = "BANTAM_TEST_QUICK" in os.environ  # sanitizers look for errors of memory, with short texts

sys.path.append(str(ROOT / "tests"))
import tensor_file  # noqa: E402
from write_adapter import write_adapter  # noqa: E402

model = bantam.load(MODEL)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


def first_layers(folder, layers=2):
    """A folder with the bundled model cut to its first layers: for work over whole models that takes long under sanitizers."""
    shutil.copytree(MODEL, folder)
    config = json.loads((MODEL / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    tensors = tensor_file.read(MODEL / "model.safetensors")
    tensor_file.write(folder / "model.safetensors", {name: tensor for name, tensor in tensors.items() if not name.startswith("model.layers.") or int(name.split(".")[2]) < layers})
    return folder


PLAIN_TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "


def chat_model(folder, template=PLAIN_TEMPLATE):
    """books4m with a chat template."""
    folder = folder.with_suffix("")
    shutil.copytree(MODEL, folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    config["chat_template"] = template
    path.write_text(json.dumps(config))
    return folder
