#!/usr/bin/env python3
"""Runs every Python block of the documents, one after another for each document, as a reader would: in a folder with models/.

usage: run_python.py ROOT
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import bantam


def main():
    root = Path(sys.argv[1]).resolve()
    documents = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    count = 0
    for document in documents:
        blocks = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.S)
        names = {}
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.symlink(root / "models", "models")
            # Programs that read a native file are given one.
            bantam.compress_file("models/books4m", "model.bantam", format="i4.g64", keep={"*": "i4.g64"})
            sys.argv[1:] = ["model.bantam"]
            for number, block in enumerate(blocks, 1):
                exec(compile(block, f"{document.name}, block {number}", "exec"), names)
                count += 1
            os.chdir(root)
    print(f"\n{count} blocks of Python ran")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
