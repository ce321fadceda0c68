"""Weights to NumPy and back: tensors of a model, rounding of arrays, products with packed weights."""

import sys

import numpy as np

import bantam

if len(sys.argv) != 2:
    sys.exit("usage: 12_numpy.py MODEL")
model = bantam.load(sys.argv[1])

norm = model["layers.0.input_layernorm"].numpy()  # a read-only view of the model's memory
down = model["layers.0.mlp.down"]
weights = down.numpy()  # (out, in) float32, decoded
print(f"{down}: {norm.size} norm weights, mean {norm.mean():.3f}")

x = np.random.default_rng(1).standard_normal((4, weights.shape[1]), dtype=np.float32)
exact = x @ weights.T
for format in ("i8", "nf4", "i4", "i3", "i2z"):
    packed = bantam.quantize(weights, format)  # the array is read in place, the lock of Python released
    error = np.linalg.norm(weights - packed.dequantize()) / np.linalg.norm(weights)
    y = packed.matmul(x)  # x @ W.T, weights decoded in registers
    print(f"{packed.format:8} {packed.bits_per_weight:5.3f} bits  weights {100 * error:5.2f} %  "
          f"outputs {100 * np.linalg.norm(exact - y) / np.linalg.norm(exact):5.2f} %")
