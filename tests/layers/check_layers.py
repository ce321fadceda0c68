#!/usr/bin/env python3
"""Fails when a layer includes a later one, or a third-party header stands where it may not.

    check_layers.py [ROOT]        checks include/, src/, capi/ and bindings/ of the project
    check_layers.py --self-test   checks that breaks are found

The rules are those of docs/design.md, "Layers".
"""

import os
import re
import sys
import tempfile

# Folders of include/bantam and src, each a layer of its own, so that no two can include each other.
ORDER = ["core", "tensor", "interop", "simd", "quant", "kernels", "nn", "io", "text", "grammar", "model", "calibrate", "prune", "compress", "train",
         "session", "report", "server", "cli"]
LAYERS = {folder: number for number, folder in enumerate(ORDER)}
# src/simd instantiates the kernel templates, so it stands with them.
SOURCE_LAYERS = {**LAYERS, "simd": LAYERS["kernels"]}
TOP = LAYERS["cli"]  # the umbrella headers, capi and bindings

OFFLINE = ["src/calibrate", "src/compress", "src/prune", "src/train"]
# Third-party headers by the beginning of their name, and where they may be included.
THIRD_PARTY = [
    (r"(tbb|oneapi|sanitizer)/", ["src/core"]),
    (r"xsimd/", ["include/bantam/simd"]),
    (r"(immintrin|x86intrin|arm_neon|arm_sve)\.h", ["include/bantam/simd"]),
    (r"Eigen/", ["include/bantam/interop"] + OFFLINE),
    (r"nlohmann/", ["src/io", "src/text"]),
    (r"(pcre2|utf8proc)\.h", ["src/text"]),
    (r"google/", ["src/text", "src/io", "src/server/grpc"]),
    (r"(grpc|grpcpp)/", ["src/server/grpc"]),
    (r"xxhash\.h", ["src/io", "src/model", "src/session"]),
    (r"(CLI/|histedit\.h)", ["src/cli"]),
    (r"boost/(asio|beast)[/.]", ["src/server"]),
    (r"pybind11/", ["bindings"]),
]
# Definitions that the library compiles once: included by each other, by what compiles them, and by the header that stands for it.
IMPL = re.compile(r"include/bantam/\w+/impl/")
HEADER_ONLY = "include/bantam/header_only.hpp"
# These see the public headers alone, as any other user does.
OUTSIDE = ("capi", "bindings")
# The umbrella header pulls none of these, however far down.
UMBRELLA = "include/bantam/bantam.hpp"
UMBRELLA_BANS = r"(Eigen|xsimd|tbb|oneapi)/|immintrin\.h|arm_neon\.h"

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')


def read_includes(path):
    """Yields (line number, name, whether it stands in angle brackets)."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match[1] or match[2], match[1] is not None


def layer_of(path):
    """The layer of a file by its path from the root, or None."""
    parts = path.split("/")
    if parts[0] in OUTSIDE:
        return TOP
    if parts[0] == "include":
        return TOP if len(parts) == 3 else LAYERS.get(parts[2])
    return SOURCE_LAYERS.get(parts[1]) if len(parts) > 2 else TOP


def resolve(root, path, name):
    """The path from the root of a quoted include, or None for what no file of the project is."""
    candidates = ["include/" + name, os.path.dirname(path) + "/" + name]
    if not path.startswith(OUTSIDE):
        candidates.append("src/" + name)
    for candidate in candidates:
        candidate = os.path.normpath(candidate)
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_angled(path, name):
    if name == "fstream" and path.startswith("src/") and not path.startswith("src/core/"):
        return "<fstream>: it waits for pipes and says nothing of errors; bantam/io/file.hpp opens files"
    if re.fullmatch(r"unordered_(map|set)", name) and path != "include/bantam/core/hash.hpp":
        return f"<{name}>: names from files can be built to collide; HashMap and HashSet of bantam/core/hash.hpp have a key"
    for pattern, places in THIRD_PARTY:
        if re.match(pattern, name):
            if any(path.startswith(place + "/") for place in places):
                return None
            return f"<{name}> may stand only in {', '.join(places)}"
    if name.startswith("bantam/"):
        return f"<{name}>: headers of the project are included in quotes"
    if re.fullmatch(r"[a-z_]+", name):
        return None  # the standard library's
    if path.startswith("include/") and not IMPL.match(path):
        return f"<{name}>: public headers include the standard library and the project only"
    if re.fullmatch(r"(sys/|asm/|linux/|netinet/|arpa/)?[a-z0-9_]+\.h", name):
        return None  # the system's
    return f"<{name}> is no header that the design allows"


def transitive(root, path, seen):
    for _, name, angled in read_includes(os.path.join(root, path)):
        if angled:
            if re.match(UMBRELLA_BANS, name):
                yield path, name
            continue
        target = resolve(root, path, name)
        if target and target not in seen:
            seen.add(target)
            yield from transitive(root, target, seen)


def check(root):
    """All breaks below root, as lines."""
    breaks = []
    files = 0
    for top in ("include", "src", *OUTSIDE):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            for file in sorted(names):
                if not file.endswith((".hpp", ".cpp", ".h")):
                    continue
                files += 1
                path = os.path.relpath(os.path.join(folder, file), root)
                layer = layer_of(path)
                if layer is None:
                    breaks.append(f"{path}: this folder has no layer")
                    continue
                for number, name, angled in read_includes(os.path.join(root, path)):
                    if angled:
                        problem = check_angled(path, name)
                    else:
                        target = resolve(root, path, name)
                        if target is None:
                            generated = name.endswith((".pb.h", ".inc"))
                            problem = None if generated else f'"{name}" is no file of the project'
                        else:
                            included = layer_of(target)
                            problem = f'"{name}" belongs to a later layer' if included is not None and included > layer else None
                            if IMPL.match(target) and not (IMPL.match(path) or path == HEADER_ONLY or path.startswith("src/")):
                                problem = f'"{name}" holds definitions: include what declares them'
                    if problem:
                        breaks.append(f"{path}:{number}: {problem}")
    if os.path.isfile(os.path.join(root, UMBRELLA)):
        for path, name in transitive(root, UMBRELLA, {UMBRELLA}):
            breaks.append(f"{path}: <{name}> is reached from {UMBRELLA}")
    if files == 0:
        breaks.append(f"{root}: no sources found")
    return breaks, files


def self_test():
    cases = {
        "include/bantam/core/a.hpp": ('#include "bantam/nn/b.hpp"\n', "belongs to a later layer"),
        "include/bantam/nn/b.hpp": ("#include <Eigen/Core>\n", "may stand only in"),
        "include/bantam/quant/c.hpp": ("#include <sys/mman.h>\n", "public headers include"),
        "src/io/d.cpp": ("#include <immintrin.h>\n", "may stand only in"),
        "src/io/e.cpp": ("#include <boost/any.hpp>\n", "is no header that the design allows"),
        "src/misc/f.cpp": ("#include <vector>\n", "has no layer"),
        "include/bantam/bantam.hpp": ('#include "bantam/simd/g.hpp"\n', None),
        "include/bantam/simd/g.hpp": ("#include <xsimd/xsimd.hpp>\n", "is reached from"),
        "capi/i.cpp": ('#include "io/d.hpp"\n', "is no file of the project"),
        "src/io/d.hpp": ("#include <vector>\n", None),
        "src/model/k.cpp": ("#include <fstream>\n", "waits for pipes"),
        "include/bantam/core/impl/l.hpp": ("#include <sched.h>\n", None),
        "include/bantam/core/m.hpp": ('#include "bantam/core/impl/l.hpp"\n', "holds definitions"),
        "include/bantam/header_only.hpp": ('#include "bantam/core/impl/l.hpp"\n', None),
        "include/bantam/compress/n.hpp": ("#include <Eigen/Core>\n", "may stand only in"),
        "include/bantam/prune/o.hpp": ('#include "bantam/compress/n.hpp"\n', "belongs to a later layer"),
        "src/compress/p.cpp": ('#include "bantam/prune/o.hpp"\n', None),
        "src/io/j.cpp": ("#include <unordered_map>\n", "have a key"),
        "src/text/h.cpp": ('#include <vector>\n#include <utf8proc.h>\n#include "bantam/core/a.hpp"\n', None),
    }
    with tempfile.TemporaryDirectory() as root:
        for path, (text, _) in cases.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        breaks, _ = check(root)
        for path, (_, expected) in cases.items():
            found = [line for line in breaks if line.startswith(path)]
            if (expected is None) != (not found) or (expected and not any(expected in line for line in found)):
                print(f"{path}: expected {expected}, found {found}", file=sys.stderr)
                return 1
    print("breaks are found")
    return 0


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    breaks, files = check(os.path.abspath(root))
    for line in breaks:
        print(line, file=sys.stderr)
    if not breaks:
        print(f"{files} files keep to their layers")
    return 1 if breaks else 0


if __name__ == "__main__":
    sys.exit(main())
