"""safetensors files, read and written by the format's public definition and with nothing of this project.

https://huggingface.co/docs/safetensors: eight bytes with the length of a JSON header, the header, the tensors' bytes.
"""

import json
from pathlib import Path

# By NumPy's names of types.
TYPES = {"<f4": "F32", "<f2": "F16", "<i4": "I32", "<i8": "I64", "|i1": "I8", "|u1": "U8"}


def header(path):
    """The header as it stands, and where it ends in the file."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def places(path):
    """Name -> type, shape, and where its bytes begin and end in the file. What only fills room between tensors is left out."""
    entries, data = header(path)
    return {name: (t["dtype"], t["shape"], *(data + offset for offset in t["data_offsets"])) for name, t in entries.items()
            if name != "__metadata__" and not name.startswith("__pad_")}


def read(path):
    """Name -> type, shape and bytes."""
    data = Path(path).read_bytes()
    return {name: (kind, shape, data[begin:end]) for name, (kind, shape, begin, end) in places(path).items()}


def read_arrays(path):
    """Name -> an array in the tensor's type; BF16 as the floats that it stands for."""
    import numpy as np

    kinds = {kind: name for name, kind in TYPES.items()} | {"BF16": "<u2"}
    arrays = {name: np.frombuffer(data, kinds[kind]).reshape(shape) for name, (kind, shape, data) in read(path).items()}
    return {name: (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array for name, array in arrays.items()}


def write(path, tensors):
    """Tensors by name: each a type, a shape and bytes, or an array of a type that TYPES has."""
    entries, blobs, at = {}, [], 0
    for name, tensor in tensors.items():
        kind, shape, data = tensor if isinstance(tensor, tuple) else (TYPES[tensor.dtype.str], tensor.shape, tensor.tobytes())
        entries[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))
