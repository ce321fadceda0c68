"""A format for each matrix by a function of one's own, and what it does to the text's perplexity."""

import sys
import tempfile
from pathlib import Path

import bantam

TEXT = Path(__file__).resolve().parent.parent / "models" / "paragraph.txt"


def choose(layer):
    """Finer codes where errors hurt: the projections back to the hidden state, the first and the last block."""
    if layer.index < 0:
        return None  # embeddings and head: as usual, 8 bits when the rest has 4
    if layer.index in (0, layer.count - 1) or layer.name.endswith("down_proj"):
        return "i8.g32"
    return "nf4"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: 13_choose_formats.py MODEL")
    model = bantam.load(sys.argv[1])
    text = TEXT.read_text()
    for title, format in (("chosen", choose), ("nf4 everywhere", "nf4")):
        small, report = bantam.compress(model, "rtn", format=format)
        quality = bantam.perplexity(small, text, model, context=256)
        print(f"{title:15} {report.bits_per_weight:.2f} bits a weight, perplexity {quality.base_perplexity:.2f} -> "
              f"{quality.perplexity:.2f}, KL {quality.kl_mean:.4f}")
    with tempfile.TemporaryDirectory() as folder:
        small.save(Path(folder) / "small.bantam")


if __name__ == "__main__":
    main()
