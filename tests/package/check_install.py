#!/usr/bin/env python3
"""Installs a build, moves it, and uses it as its users do: programs in C++, C and Python outside the source tree, built by
CMake and pkg-config from what the documents say. Looks into the Debian packages.

usage: check_install.py SOURCE BUILD CMAKE CC CXX [PYTHON]

PYTHON is the interpreter that the Python package was built for; without it that part is left out.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile

PROMPT = "It was a dark night, and"


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


def run(*command, fails=False, **options):
    """The output of a command, which must succeed, or must fail."""
    command = [str(part) for part in command]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    expect((done.returncode != 0) == fails, f"{shlex.join(command)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def quote(document, language, containing):
    """The one block of a language in a document that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", document.read_text(encoding="utf-8"), re.S)
    found = [block for block in blocks if containing in block]
    expect(len(found) == 1, f"{document}: expected one block of {language} with {containing!r}, found {len(found)}")
    return found[0]


class Install:
    """What the checks share: the installed tree, the documents, the tools, a folder to work in."""

    def __init__(self, source, build, cmake, cc, cxx, python, scratch):
        self.source, self.build, self.cmake, self.python = source, build, cmake, python
        self.scratch = scratch
        self.environment = {**os.environ, "CC": cc, "CXX": cxx}
        for name in ("LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH", "DESTDIR"):
            self.environment.pop(name, None)
        first = scratch / "first"
        run(cmake, "--install", build, "--prefix", first)
        self.first = first
        self.prefix = scratch / "moved here"
        first.rename(self.prefix)
        self.models = self.prefix / "share/bantam/models"

    def project(self, name, languages, block, program):
        """A folder with a project whose program is linked as `block` says."""
        folder = self.scratch / name
        folder.mkdir()
        (folder / "models").symlink_to(self.models)
        (folder / program.name).write_text(program.text, encoding="utf-8")
        (folder / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES {languages})\n"
            f"add_executable(app {program.name})\n{block}", encoding="utf-8")
        return folder

    def configure(self, folder, *options, fails=False):
        return run(self.cmake, "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_PREFIX_PATH={self.prefix}", *options, fails=fails, env=self.environment)

    def build_and_run(self, folder, *arguments):
        run(self.cmake, "--build", folder / "build", env=self.environment)
        return run(folder / "build/app", *arguments, cwd=folder, env=self.environment)


class Program:
    def __init__(self, name, text):
        self.name, self.text = name, text


def cxx_program(install):
    return Program("main.cpp", quote(install.source / "README.md", "cpp", "int main("))


def c_program(install):
    return Program("08_embed.c", (install.source / "examples/08_embed.c").read_text(encoding="utf-8"))


def install_page(install):
    return install.source / "docs/install.md"


def nothing_names_its_place(install):
    """No text names the build, the source or the first prefix; no program looks for libraries in them."""
    places = [str(place).encode() for place in (install.source, install.build, install.first)]
    count = 0
    for path in install.prefix.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        count += 1
        content = path.read_bytes()
        if content.startswith(b"\x7fELF"):
            content = run("readelf", "-d", path).encode()
        elif b"\0" in content:
            continue
        for place in places:
            expect(place not in content, f"{path} names {place.decode()}")
    expect(count > 100, f"expected more than 100 installed files, found {count}")


def the_program_runs(install):
    said = run(install.prefix / "bin/bantam", "run", install.models / "books4m", "-p", PROMPT, "-n", "8", "--seed", "7",
               cwd="/", env=install.environment)
    expect(len(said.split()) > 2, f"expected words, found {said!r}")


def the_program_finds_its_module(install):
    if not (install.build / "bantam-grpc.so").is_file():
        return
    # Nobody but the module finds that a port is taken.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = run(install.prefix / "bin/bantam", "serve", install.models / "books4m", "--port", "0", "--grpc-port", taken.getsockname()[1], fails=True, cwd="/", env=install.environment)
    expect("for gRPC to listen on" in said, f"expected the module to say that a port is taken, found {said!r}")


def cxx_by_find_package(install):
    block = quote(install_page(install), "cmake", "find_package(bantam REQUIRED)")
    folder = install.project("cxx", "CXX", block, cxx_program(install))
    install.configure(folder)
    said = install.build_and_run(folder)
    expect("worst" in said and len(said.split()) > 20, f"expected a report and words, found {said!r}")
    expect((folder / "small.bantam").stat().st_size > 1e6, "small.bantam was not written")


def cxx_by_add_subdirectory(install):
    """Configured, and the program's own file compiled: the library itself is what the build tree has."""
    block = quote(install_page(install), "cmake", "add_subdirectory(bantam)")
    checks = """
foreach(target IN ITEMS bantam test_core example_01_stream bantam-python)
  if(TARGET ${target})
    message(FATAL_ERROR "${target} is built inside another project")
  endif()
endforeach()
"""
    folder = install.project("inside", "C CXX", block + checks, cxx_program(install))
    (folder / "bantam").symlink_to(install.source)
    install.configure(folder, "-GNinja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    expect("-Werror" not in (folder / "build/compile_commands.json").read_text(), "warnings are errors inside another project")
    plan = run("ninja", "-C", folder / "build", "-n", "-v")
    expect("libbantam.so" not in plan, "libbantam.so is built though nothing links it")
    # By its command: Ninja would first compile the objects that the library is made of, the kernels of all instruction sets.
    (compile,) = [entry for entry in json.loads((folder / "build/compile_commands.json").read_text()) if entry["file"] == str(folder / "main.cpp")]
    (folder / "build/CMakeFiles/app.dir").mkdir(exist_ok=True)
    run(*shlex.split(compile["command"]), cwd=compile["directory"], env=install.environment)
    run(install.cmake, "--install", folder / "build", "--prefix", folder / "installed")
    installed = list((folder / "installed").rglob("*")) if (folder / "installed").exists() else []
    expect(not installed, f"installing the project around it also installs {installed}")


def c_by_find_package(install):
    """In a project of C alone, on a system without the libraries that C++ needs."""
    block = quote(install_page(install), "cmake", "bantam::c)")
    without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("TBB", "Protobuf", "PkgConfig", "Threads")]
    folder = install.project("c", "C", block, c_program(install))
    install.configure(folder, *without)
    said = install.build_and_run(folder, install.models / "books4m")
    expect(len(said.split()) > 10, f"expected words, found {said!r}")

    plain = install.project("c_plain", "C CXX", block.replace(" COMPONENTS c", ""), c_program(install))
    said = install.configure(plain, *without)
    expect("bantam::c alone: bantam::bantam needs" in said, f"expected a word on what is missing, found {said!r}")
    insisting = install.project("c_insisting", "C CXX", block.replace("COMPONENTS c", "COMPONENTS bantam"), c_program(install))
    said = install.configure(insisting, *without, fails=True)
    expect(re.search(r"bantam::bantam\s+needs\s+Threads", said), f"expected what is missing, found {said!r}")


def versions_go_together(install):
    """In one project: what asks for a version that does not fit finds nothing, and then what fits is found."""
    fitting = {"0.2": False, "0.0": False, "1.0": False, "0.1": True, "0.1.0": True}
    asked = "".join(f"find_package(bantam {version} QUIET COMPONENTS c)\nmessage(STATUS \"bantam {version}: [${{bantam_FOUND}}]\")\n"
                    "unset(bantam_FOUND)\nunset(bantam_DIR CACHE)\n" for version in fitting)
    folder = install.project("versions", "C", asked, c_program(install))
    said = install.configure(folder)
    for version, fits in fitting.items():
        expect(f"bantam {version}: [{int(fits)}]" in said, f"expected version {version} to be {'found' if fits else 'refused'}, found {said}")


def c_by_pkg_config(install):
    command = quote(install_page(install), "sh", "pkg-config --cflags")
    expect(command in (install.source / "docs/c-api.md").read_text(encoding="utf-8"), "docs/c-api.md says it otherwise")
    folder = install.scratch / "pkg_config"
    folder.mkdir()
    program = c_program(install)
    (folder / program.name).write_text(program.text, encoding="utf-8")
    # A space in a path is what `$(pkg-config ...)` in a shell cannot carry.
    prefix = install.scratch / "prefix"
    prefix.symlink_to(install.prefix)
    environment = {**install.environment, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "LD_LIBRARY_PATH": f"{prefix}/lib"}
    run("sh", "-c", command, cwd=folder, env=environment)
    said = run(folder / "08_embed", install.models / "books4m", cwd=folder, env=environment)
    expect(len(said.split()) > 10, f"expected words, found {said!r}")


def python_package(install):
    folder = install.scratch / "python"
    folder.mkdir()
    (folder / "models").symlink_to(install.models)
    program = quote(install.source / "docs/python.md", "python", "print(session.stats)")
    program += "print(bantam.__file__)\n"
    packages = install.prefix / "lib/python3/dist-packages"
    said = run(install.python, "-B", "-c", program, cwd=folder, env={**install.environment, "PYTHONPATH": packages})
    expect("tok/s" in said and str(packages) in said, f"expected words and {packages}, found {said!r}")


def fresh_build(install):
    """A build folder that is configured like the demo's, with nothing built yet."""
    folder = install.scratch / "fresh"
    if not folder.exists():
        run(install.cmake, "-G", "Ninja", "-S", install.source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", env=install.environment)
    return folder


def demo_builds_all_that_is_installed(install):
    """`cmake --install` needs nothing that scripts/demo.sh does not build, and it builds no tests, examples or benchmarks."""
    folder = fresh_build(install)
    demo = (install.source / "scripts/demo.sh").read_text(encoding="utf-8")
    targets = re.search(r"^configure_and_build release (.*?)( [<>&].*)?$", demo, re.M)
    expect(targets, "scripts/demo.sh: expected a line `configure_and_build release TARGET...`")
    # Whatever is made is named by the command that makes it.
    built = set(run("ninja", "-C", folder, "-t", "commands", *targets[1].split()).split())
    installed = set()
    for script in folder.rglob("cmake_install.cmake"):
        installed.update(re.findall(rf'"{re.escape(str(folder))}/([^"]*?(?:/|\b)(?:bantam|[^"/]*\.(?:a|so)[.0-9]*))"', script.read_text()))
    expected = {"bantam", "libbantam-core.a", "libbantam.so.0.1.0"}
    expect(expected <= installed, f"expected {sorted(expected)} among what is installed, found {sorted(installed)}")
    lacking = [file for file in sorted(installed) if file not in built]
    expect(not lacking, f"cmake --install wants {lacking}, which scripts/demo.sh does not build")
    spare = [file for file in sorted(built) if re.match(r"(tests|examples|benchmarks)/", file)]
    expect(not spare, f"scripts/demo.sh builds {spare[:5]}")


def python_says_what_is_missing(install):
    """Where the module is not built, or built for another Python, `import bantam` fails in plain words."""
    folder = fresh_build(install) / "python"
    environment = {**install.environment, "PYTHONPATH": folder}
    for stray, words in ((None, "_bantam is not built"), ("_bantam.cpython-31-other.so", "_bantam.cpython-31-other.so is for another Python")):
        if stray:
            (folder / "bantam" / stray).touch()
        said = run(install.python, "-B", "-c", "import bantam", cwd="/", env=environment, fails=True)
        expect(re.search(rf"^ImportError: bantam: .*{re.escape(words)}", said, re.M), f"expected {words!r}, found {said!r}")


def debian_packages(install):
    """Each file is in the package where one looks for it, in no other, and the packages need what they use."""
    folder = install.scratch / "packages"
    run("cpack", "-G", "DEB", "--config", install.build / "CPackConfig.cmake", "-B", folder, env=install.environment)
    expected = {
        "bantam": (["usr/bin/bantam", "usr/share/bantam/models/books4m/model.safetensors", "usr/share/bash-completion/completions/bantam"],
                   ["libc6", "libtbb12", "libpcre2-8-0"]),
        "libbantam0": (["usr/lib/libbantam.so.0"], ["libc6", "libtbb12", "libprotobuf-lite"]),
        "libbantam-dev": (["usr/lib/libbantam.so", "usr/lib/libbantam-core.a", "usr/include/bantam.h", "usr/include/bantam-llama.h",
                           "usr/include/bantam/bantam.hpp", "usr/lib/pkgconfig/bantam.pc", "usr/lib/cmake/bantam/bantam-config.cmake"],
                          ["libbantam0 (= "]),
    }
    if (install.build / "bantam-grpc.so").is_file():
        expected["bantam-grpc"] = (["usr/lib/bantam/bantam-grpc.so", "usr/share/bantam/bantam.proto"], ["bantam (= ", "libgrpc++1"])
    if install.python:
        expected["python3-bantam"] = (["usr/lib/python3/dist-packages/bantam/__init__.py", "usr/lib/python3/dist-packages/bantam/py.typed"],
                                      ["python3 (>=", "python3 (<<", "python3-numpy", "libc6"])
    found = {path.name.split("_")[0]: path for path in folder.glob("*.deb")}
    expect(set(found) == set(expected), f"expected packages {sorted(expected)}, found {sorted(found)}")
    owners = {}
    for name, path in found.items():
        listing = run("dpkg-deb", "-c", path).splitlines()
        for line in listing:
            file = re.sub(r" -> .*", "", line.split(None, 5)[5]).removeprefix("./")
            if not file.endswith("/"):
                expect(file not in owners, f"{file} is in {name} and in {owners.get(file)}")
                owners[file] = name
    for name, (files, dependencies) in expected.items():
        for file in files + [f"usr/share/doc/{name}/copyright"]:
            expect(owners.get(file) == name, f"{file}: expected in {name}, found in {owners.get(file)}")
        depends = run("dpkg-deb", "-f", found[name], "Depends")
        for dependency in dependencies:
            expect(dependency in depends, f"{name} needs {depends.strip()}, which lacks {dependency}")
    stray = [file for file in owners if re.search(r"__pycache__|/tests?/", file)]
    expect(not stray, f"found {stray[:5]} in packages")


CHECKS = [nothing_names_its_place, the_program_runs, the_program_finds_its_module, cxx_by_find_package, cxx_by_add_subdirectory, c_by_find_package,
          versions_go_together, c_by_pkg_config, demo_builds_all_that_is_installed, python_says_what_is_missing, python_package,
          debian_packages]


def main():
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    cmake, cc, cxx = sys.argv[3:6]
    python = sys.argv[6] if len(sys.argv) > 6 else None
    failures = 0
    with tempfile.TemporaryDirectory(prefix="bantam-install-") as scratch:
        install = Install(source, build, cmake, cc, cxx, python, pathlib.Path(scratch))
        for check in CHECKS:
            name = check.__name__.replace("_", " ")
            if check in (python_package, python_says_what_is_missing) and not python:
                print(f"left out: {name}: the build has none")
                continue
            if check is debian_packages and not all(map(shutil.which, ("dpkg-deb", "dpkg-shlibdeps", "file"))):
                print(f"left out: {name}: dpkg-deb, dpkg-shlibdeps and file are not all installed (packages dpkg-dev, file)")
                continue
            try:
                check(install)
                print(f"ok: {name}", flush=True)
            except Failure as failure:
                print(f"FAILED: {name}: {failure}", flush=True)
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(str(failure))
