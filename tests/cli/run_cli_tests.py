"""Tests of the command line: run_cli_tests.py PROGRAM SHARED_DATA [GROUP...]"""
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import adapter_facts
import compress_facts
import embed_facts
import foreign_facts
import general_facts
import measure_facts
import naming_facts
import run_facts
import seq2seq_facts
import serve_chat_facts
import serve_facts
import serve_grpc_facts
import serve_guard_facts
import serve_models_facts
import serve_native_facts
import serve_ollama_facts
import serve_sockets_facts
import terminal_facts
import tokenize_facts
from harness import QUICK, Harness

GROUPS = [general_facts, tokenize_facts, naming_facts, run_facts, serve_facts, serve_chat_facts, serve_grpc_facts, serve_guard_facts, serve_models_facts, serve_native_facts, serve_ollama_facts, serve_sockets_facts, terminal_facts, measure_facts, embed_facts, seq2seq_facts, compress_facts, foreign_facts, adapter_facts]


def main():
    program, data, *wanted = sys.argv[1:]
    names = [group.__name__.removesuffix("_facts") for group in GROUPS]
    if unknown := set(wanted) - set(names):
        sys.exit(f"expected groups of {', '.join(names)}, found {', '.join(sorted(unknown))}")
    h = Harness(program, data)
    try:
        for group in GROUPS:
            name = group.__name__.removesuffix("_facts")
            if wanted and name not in wanted:
                continue
            for function in [value for key, value in vars(group).items() if key.startswith("facts_")]:
                h.group = f"{name}: {function.__name__.removeprefix('facts_')}"
                if QUICK and getattr(function, "figures", False):
                    print(f"skipped: {h.group}: figures, checked where BANTAM_TEST_QUICK is not set")
                    continue
                if "models" in function.__code__.co_varnames[: function.__code__.co_argcount]:
                    if not (h.data / "models").is_dir():
                        print(f"skipped: {h.group}: no shared data in {h.data}")
                        continue
                    arguments = [h, h.data / "models"]
                else:
                    arguments = [h]
                start = time.monotonic()
                try:
                    function(*arguments)
                except Exception as error:  # the next facts still want to be known
                    h.fact("runs to its end", False, f"{type(error).__name__}: {error}")
                print(f"{h.group}: {time.monotonic() - start:.1f} s", flush=True)
    finally:
        h.close()
    print(f"{h.passed} facts hold, {h.failed} do not")
    return 1 if h.failed else 0


if __name__ == "__main__":
    sys.exit(main())
