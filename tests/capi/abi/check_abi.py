#!/usr/bin/python3
"""The border of libbantam.so as it was promised: names, layouts, the name of the library.

  check_abi.py LIBRARY HEADER EXPECTED_SONAME RECORD COMPILER

RECORD holds every exported function and the size and offset of every field of every public struct. Lines may be added to
it, when the interface grows; none may change or go away. Sizes of structs grow with new fields: they are recorded as the
smallest that was ever there.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def output_of(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def declared_functions(header):
    return set(re.findall(r"^BANTAM_API[^;(]*?\b(bantam_\w+)\(", header, re.M))


def structs(header):
    """name -> fields in order"""
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", header, re.S):
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        fields = []
        for line in filter(None, (part.strip() for part in body.split(";"))):
            pointer = re.search(r"\(\*(\w+)\)", line)
            fields.append(pointer.group(1) if pointer else re.search(r"(\w+)$", line).group(1))
        found[name] = fields
    return found


def layout(header_path, types, compiler):
    lines = [f'printf("{t} %zu\\n", sizeof({t}));' for t in types]
    lines += [f'printf("{t}.{f} %zu\\n", offsetof({t}, {f}));' for t, fields in types.items() for f in fields]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "layout.c"
        source.write_text('#include <stdio.h>\n#include "bantam.h"\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
        program = Path(folder) / "layout"
        output_of(compiler, "-std=c99", "-I", Path(header_path).parent, source, "-o", program)
        return dict(line.split() for line in output_of(program).splitlines())


def main():
    library, header_path, soname, record_path, compiler = sys.argv[1:]
    header = Path(header_path).read_text()
    recorded = [line for line in Path(record_path).read_text().splitlines() if line and not line.startswith("#")]
    functions = {line for line in recorded if " " not in line}
    fields = dict(line.split() for line in recorded if " " in line)
    errors = []

    exported = {line.split()[-1].split("@")[0] for line in output_of("nm", "-D", "--defined-only", library).splitlines()}
    for title, names in (("exported, not recorded", exported - functions), ("recorded, not exported", functions - exported),
                         ("declared, not exported", declared_functions(header) - exported),
                         ("exported, not declared", exported - declared_functions(header))):
        errors += [f"{title}: {name}" for name in sorted(names)]
    seen = layout(header_path, structs(header), compiler)
    for name, value in fields.items():
        grown = "." not in name and int(seen.get(name, -1)) > int(value)
        if seen.get(name) != value and not grown:
            errors.append(f"{name}: recorded {value}, found {seen.get(name, 'nothing')}")
    errors += [f"not recorded: {name} {value}" for name, value in seen.items() if name not in fields]
    found = re.search(r"SONAME.*\[(.*)\]", output_of("readelf", "-d", library)).group(1)
    if found != soname:
        errors.append(f"SONAME: expected {soname}, found {found}")
    print("\n".join(errors) if errors else f"{len(functions)} functions and {len(fields)} layouts as recorded")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
