"""Reads and writes GGUF files (version 3, little-endian) with numpy: for the scripts of tests and benchmarks."""

import mmap
import os
import struct
from pathlib import Path

import numpy as np

# Tensor types that the scripts handle: name -> (id in the file, weights a block, bytes a block).
TENSOR_TYPES = {
    "f32": (0, 1, 4),
    "f16": (1, 1, 2),
    "q4_0": (2, 32, 18),
    "q4_1": (3, 32, 20),
    "q5_0": (6, 32, 22),
    "q5_1": (7, 32, 24),
    "q8_0": (8, 32, 34),
    "q2_K": (10, 256, 84),
    "q3_K": (11, 256, 110),
    "q4_K": (12, 256, 144),
    "q5_K": (13, 256, 176),
    "q6_K": (14, 256, 210),
    "iq2_xxs": (16, 256, 66),
    "iq2_xs": (17, 256, 74),
    "iq3_xxs": (18, 256, 98),
    "iq1_s": (19, 256, 50),
    "iq4_nl": (20, 32, 18),
    "iq3_s": (21, 256, 110),
    "iq2_s": (22, 256, 82),
    "iq4_xs": (23, 256, 136),
    "iq1_m": (29, 256, 56),
    "bf16": (30, 1, 2),
    "tq1_0": (34, 256, 54),
    "tq2_0": (35, 256, 66),
    "mxfp4": (39, 32, 17),
    "q1_0": (41, 128, 18),
    "q2_0": (42, 64, 18),
}
TYPE_NAMES = {number: name for name, (number, _, _) in TENSOR_TYPES.items()}

# general.file_type: what most tensors of a file are.
FILE_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_K": 10, "q3_K": 12, "q4_K": 15,
    "q5_K": 17, "q6_K": 18, "iq2_xxs": 19, "iq2_xs": 20, "iq3_xxs": 23, "iq1_s": 24, "iq4_nl": 25, "iq3_s": 26, "iq2_s": 28,
    "iq4_xs": 30, "iq1_m": 31, "bf16": 32, "tq1_0": 36, "tq2_0": 37, "mxfp4": 38, "q1_0": 40, "q2_0": 41,
}

# Metadata value types: name -> (id in the file, struct code).
SCALARS = {
    "u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
    "f32": (6, "f"), "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d"),
}
SCALAR_NAMES = {number: name for name, (number, _) in SCALARS.items()}
STRING, ARRAY = 8, 9


def tensor_bytes(kind, shape):
    """Bytes of a tensor of that type; shape outermost first."""
    _, block, size = TENSOR_TYPES[kind]
    if shape[-1] % block:
        raise ValueError(f"{kind}: rows of {shape[-1]} weights are no multiple of {block}")
    return int(np.prod(shape, dtype=np.int64)) // block * size


class Tensor:
    """A tensor of a file: name, type, shape (outermost first, as numpy has it) and its bytes."""

    def __init__(self, name, kind, shape, data):
        self.name, self.kind, self.shape, self.data = name, kind, tuple(shape), data

    def to_f32(self):
        """The weights as a float32 array, for the float types."""
        if self.kind == "bf16":
            return (np.frombuffer(self.data, "<u2").astype("<u4") << 16).view("<f4").reshape(self.shape)
        return np.frombuffer(self.data, {"f32": "<f4", "f16": "<f2"}[self.kind]).astype(np.float32).reshape(self.shape)


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self):
        size = self.scalar("Q")
        if size > len(self.data) - self.at:
            raise ValueError(f"byte {self.at}: string of {size} bytes beyond the end of the file")
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, count = self.scalar("I"), self.scalar("Q")
            return inner, [self.value(inner) for _ in range(count)]
        return self.scalar(SCALARS[SCALAR_NAMES[kind]][1])


def read(path):
    """(metadata, tensors) of a file: metadata as {key: (type id, value)}, strings as bytes; tensors mapped, in order."""
    with open(path, "rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    cursor = _Cursor(data)
    magic, version, tensor_count, key_count = struct.unpack_from("<4sIQQ", data, 0)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"{path}: expected GGUF version 2 or 3, found {magic!r} version {version}")
    cursor.at = 24
    metadata = {}
    for _ in range(key_count):
        key = cursor.string().decode()
        kind = cursor.scalar("I")
        metadata[key] = (kind, cursor.value(kind))
    infos = []
    for _ in range(tensor_count):
        name = cursor.string().decode()
        shape = [cursor.scalar("Q") for _ in range(cursor.scalar("I"))][::-1]
        number, offset = cursor.scalar("I"), cursor.scalar("Q")
        if number not in TYPE_NAMES:
            raise ValueError(f"{path}: {name}: tensor type {number} is none of {', '.join(TENSOR_TYPES)}")
        infos.append((name, TYPE_NAMES[number], shape, offset))
    alignment = metadata.get("general.alignment", (4, 32))[1]
    start = -(-cursor.at // alignment) * alignment
    tensors = []
    for name, kind, shape, offset in infos:
        size = tensor_bytes(kind, shape)
        if start + offset + size > len(data):
            raise ValueError(f"{path}: {name}: ends at byte {start + offset + size} of a file of {len(data)}")
        tensors.append(Tensor(name, kind, shape, data[start + offset:start + offset + size]))
    return metadata, tensors


def string(text):
    """A metadata value."""
    return STRING, text if isinstance(text, bytes) else text.encode()


def scalar(kind, value):
    """A metadata value of a type of SCALARS."""
    return SCALARS[kind][0], value


def array(kind, values):
    """A metadata value: an array of a type of SCALARS, or of strings ("string")."""
    if kind == "string":
        return ARRAY, (STRING, [value if isinstance(value, bytes) else value.encode() for value in values])
    return ARRAY, (SCALARS[kind][0], list(values))


def _pack(kind, value):
    if kind == STRING:
        return struct.pack("<Q", len(value)) + value
    if kind == ARRAY:
        inner, values = value
        head = struct.pack("<IQ", inner, len(values))
        if inner in (STRING, ARRAY):
            return head + b"".join(_pack(inner, item) for item in values)
        return head + struct.pack(f"<{len(values)}{SCALARS[SCALAR_NAMES[inner]][1]}", *values)
    return struct.pack("<" + SCALARS[SCALAR_NAMES[kind]][1], value)


def write(path, metadata, tensors):
    """Writes a file, whole or not at all. tensors: (name, type, shape outermost first, iterable of bytes-like chunks);
    chunks are taken one at a time, so that a model never needs to be in memory."""
    alignment = metadata.get("general.alignment", (4, 32))[1]
    header = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))]
    for key, (kind, value) in metadata.items():
        header += [_pack(STRING, key.encode()), struct.pack("<I", kind), _pack(kind, value)]
    offset = 0
    for name, kind, shape, _ in tensors:
        header += [_pack(STRING, name.encode()), struct.pack("<I", len(shape))]
        header += [struct.pack("<Q", extent) for extent in reversed(shape)]
        header.append(struct.pack("<IQ", TENSOR_TYPES[kind][0], offset))
        offset += -(-tensor_bytes(kind, shape) // alignment) * alignment
    header = b"".join(header)

    def chunks():
        yield header
        yield bytes(-len(header) % alignment)
        for name, kind, shape, pieces in tensors:
            size = 0
            for piece in pieces:
                size += memoryview(piece).nbytes
                yield piece
            expected = tensor_bytes(kind, shape)
            if size != expected:
                raise ValueError(f"{name}: expected {expected} bytes, was given {size}")
            yield bytes(-size % alignment)

    write_whole(path, chunks())


def write_whole(path, chunks):
    """Writes chunks of bytes to a file that appears under its name only when complete."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
