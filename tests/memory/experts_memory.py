"""Memory of GPTQ over experts grows by what a layer holds, whatever its experts' number: they are rounded one at a time.

usage: experts_memory.py BANTAM GENERATOR
Generates two models that differ in the number of experts alone, and compares the largest resident sets of compressing them.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from peak_memory import peak_of

DIM, EXPERT_FFN, LAYERS = 512, 512, 1
SHAPE = ["--shape", "qwen3-30b-a3b", "--dim", DIM, "--layers", LAYERS, "--heads", 4, "--kv-heads", 2, "--head-dim", 64, "--vocab", 4096, "--context", 256,
         "--expert-ffn", EXPERT_FFN, "--format", "hf"]
# A layer in bf16, and what it becomes in 4 bits with scales and in another's place; tables of tensors, huge pages half used.
COPIES, SLACK_BYTES = 1.5, 16 << 20


def main():
    bantam, generator = sys.argv[1:3]
    peaks, layers = [], []
    with tempfile.TemporaryDirectory() as folder:
        for experts in (8, 40):
            model = pathlib.Path(folder) / f"experts-{experts}"
            subprocess.run(["/usr/bin/python3", generator, *map(str, SHAPE), "--experts", str(experts), model], check=True, stdout=subprocess.DEVNULL)
            out, peak = peak_of([bantam, "compress", model, "-o", model.with_suffix(".bantam"), "--method", "gptq", "--format", "i4", "--samples", 2, "--tokens", 128, "--json"])
            report = json.loads(out)
            warned = [line for line in report["warnings"] if "experts saw fewer calibration tokens" in line]
            if len(warned) != LAYERS:
                sys.exit(f"{experts} experts: expected {LAYERS} layers whose experts saw too few tokens, found {report['warnings']}")
            peaks.append(peak)
            layers.append(experts * 3 * DIM * EXPERT_FFN * 2)
            print(f"{experts} experts, {layers[-1] / 1e6:.0f} MB a layer: peak {peak / 1e6:.0f} MB")
    allowed = COPIES * (layers[1] - layers[0]) + SLACK_BYTES
    grown = peaks[1] - peaks[0]
    print(f"grown by {grown / 1e6:.0f} MB, allowed {allowed / 1e6:.0f} MB: {'ok' if grown <= allowed else 'TOO MUCH'}")
    sys.exit(0 if grown <= allowed else 1)


if __name__ == "__main__":
    main()
