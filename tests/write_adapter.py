"""Random adapters of models/books4m, as PEFT writes them: for tests of the program and of the Python package.

    write_adapter.py FOLDER [SEED]
"""

import json
import random
import struct
import sys
from pathlib import Path

import tensor_file

# (rows, columns) of some matrices of each layer; k_proj is left as it is.
MATRICES = {"self_attn.q_proj": (256, 256), "self_attn.v_proj": (128, 256), "self_attn.o_proj": (256, 256), "mlp.gate_proj": (768, 256), "mlp.down_proj": (256, 768)}


def write_adapter(folder, seed=1, rank=4, layers=4, matrices=MATRICES, **config):
    """The folder, with adapter_config.json and adapter_model.safetensors."""
    draw = random.Random(seed)
    tensors = {}

    def add(name, rows, columns, spread):
        values = [draw.gauss(0, spread) for _ in range(rows * columns)]
        tensors[name] = ("F32", [rows, columns], struct.pack(f"<{len(values)}f", *values))

    for layer in range(layers):
        for name, (rows, columns) in matrices.items():
            module = f"base_model.model.model.layers.{layer}.{name}"
            add(f"{module}.lora_A.weight", rank, columns, columns ** -0.5)
            add(f"{module}.lora_B.weight", rows, rank, 0.1)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensor_file.write(folder / "adapter_model.safetensors", tensors)
    said = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none", "target_modules": [name.split(".")[1] for name in matrices]}
    (folder / "adapter_config.json").write_text(json.dumps({**said, **config}))
    return folder


if __name__ == "__main__":
    write_adapter(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
