#!/usr/bin/env python3
"""Fails when a document links to a file that is not there, or shows C or C++ that no example says and that is no program
that compiles, or when a header's table of contents is not what stands in it.

usage: check_documents.py ROOT
"""

import pathlib
import re
import subprocess
import sys
import textwrap

SKIPPED_FOLDERS = {"build", "node_modules", ".git", ".cache"}


def documents(root):
    for path in sorted(root.rglob("*.md")):
        if not SKIPPED_FOLDERS & set(path.relative_to(root).parts):
            yield path



def anchors(text):
    """The names by which headings can be linked to."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken_links(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        if not linked.exists():
            yield f"{path}: {target}: no such file"
        elif anchor and anchor not in anchors(linked.read_text(encoding="utf-8")):
            yield f"{path}: {target}: no such heading"


def lines(code):
    return [line for line in textwrap.dedent(code).strip("\n").split("\n")]


def is_part(block, example):
    """Whether the lines of block stand one after another in example, all indented by the same amount."""
    for start in range(len(example) - len(block) + 1):
        if lines("\n".join(example[start:start + len(block)])) == block:
            return True
    return False


def compiles(block, language, root):
    """Whether a whole program passes the compiler's checks."""
    standard = "-std=c++20" if language == "cpp" else "-std=c11"
    command = ["g++" if language == "cpp" else "gcc", "-x", "c++" if language == "cpp" else "c", standard, "-Wall", "-Wextra", "-Werror",
               "-fsyntax-only", f"-I{root / 'include'}", f"-I{root / 'capi'}", "-"]
    return subprocess.run(command, input=block, text=True, capture_output=True).returncode == 0


def foreign_quotes(root):
    examples = [path.read_text(encoding="utf-8").split("\n") for path in sorted((root / "examples").glob("*.c*"))]
    guides = {"add-a-format.md", "add-an-architecture.md", "add-an-isa.md"}  # files to be written, not programs to be run
    count = 0
    for document in documents(root):
        if document.name in guides:
            continue
        for language, block in re.findall(r"```(cpp|c)\n(.*?)```", document.read_text(encoding="utf-8"), re.S):
            count += 1
            if any(is_part(lines(block), example) for example in examples):
                continue
            if "int main(" not in block or not compiles(block, language, root):
                yield f"{document}: no example says, and no compiler takes: {lines(block)[0]} ..."
    if count == 0 or not examples:
        yield f"{root}: expected quotes of examples, found {count} quotes and {len(examples)} examples"


def wrong_contents(root):
    """The C headers are read as pages: sections are numbered, and listed at the top."""
    for name in ("bantam.h", "bantam-llama.h"):
        header = (root / "capi" / name).read_text(encoding="utf-8")
        listed = re.findall(r"^ \* +(\d+)\. (\w+) +\S", header, re.M)
        found = re.findall(r"^(?:/| )\* ---- (\d+)\. (\w+)\b.* ----", header, re.M)
        if listed != found or [int(number) for number, _ in found] != list(range(1, len(found) + 1)) or not found:
            yield f"capi/{name}: expected the sections {listed}, found {found}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    problems = [problem for path in documents(root) for problem in broken_links(path)]
    problems += foreign_quotes(root)
    problems += wrong_contents(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{sum(1 for _ in documents(root))} documents are sound")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
