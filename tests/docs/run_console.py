#!/usr/bin/env python3
"""Runs what a document shows of a console, and fails where the program prints something else.

usage: run_console.py PROGRAM ROOT DOCUMENT...

Commands of ```console blocks are run in order in a folder of their own, if they are followed by what they print, up to a line of
`...` where that is shown in part; a line may end in ` ...` too. Numbers may differ by a unit of the last digit that is printed,
because norms and attention have other last bits on other instruction sets; here it is the one that every machine has.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def commands(text):
    """(command, lines that it prints) of all consoles."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        command, printed = None, []
        for line in block.splitlines() + ["$ "]:
            if not line.startswith(("$ ", "# ")):
                printed.append(line)
                continue
            if command and any(printed):
                yield command, [line for line in printed if line]
            command, printed = (line[2:] if line.startswith("$ ") else None), []


def agree(shown, found):
    """Whether a line is the one that is shown, numbers to within the last digit."""
    if shown.endswith(" ..."):
        shown = shown[:-4]
        found = found[:len(shown)]
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", found).split():
        return False
    for a, b in zip(NUMBER.findall(shown), NUMBER.findall(found)):
        digits = len(a.partition(".")[2])
        if abs(float(a) - float(b)) > 1.5 * 10.0**-digits * ("." in a):
            return False
    return True


def problems_of(command, shown, found):
    lines = found.rstrip("\n").split("\n")
    for i, line in enumerate(shown):
        if line == "...":
            return
        if i >= len(lines) or not agree(line, lines[i]):
            yield f"$ {command}\n  shown: {line}\n  found: {lines[i] if i < len(lines) else '(nothing)'}"
            return
    if len(lines) > len(shown):
        yield f"$ {command}\n  prints more than is shown: {lines[len(shown)]}"


def main():
    program, root = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    count, problems = 0, []
    for document in sys.argv[3:]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "models").symlink_to(root / "models")
            for command, shown in commands((root / document).read_text(encoding="utf-8")):
                if not command.startswith("bantam "):
                    continue
                count += 1
                done = subprocess.run(re.sub(r"^bantam\b", f"'{program}'", command), shell=True, cwd=folder, text=True, capture_output=True,
                                      env={**os.environ, "BANTAM_ISA": "generic"}, stdin=subprocess.DEVNULL)
                if done.returncode:
                    problems.append(f"{document}: $ {command}\n  exit status {done.returncode}: {done.stderr}")
                problems += [f"{document}: {problem}" for problem in problems_of(command, shown, done.stdout)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if count == 0:
        print("expected commands with what they print, found none", file=sys.stderr)
        return 1
    if not problems:
        print(f"{count} commands print what the documents show")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
