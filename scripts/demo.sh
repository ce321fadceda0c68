#!/usr/bin/env bash
# Builds the program, the C library and the Python package, compresses the bundled model to 4 bits and streams three
# continuations from it.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

ensure_packages "${build_packages[@]}"
echo "Building bantam into build/release: minutes the first time, a moment later." >&2
# All that cmake --install installs, and no tests, examples or benchmarks.
configure_and_build release bantam bantam-c bantam-python >&2

bantam=build/release/bantam
small=build/release/books4m-int4.bantam
perplexity() {
  printf '%.2f' "$($bantam perplexity "$1" models/paragraph.txt --context 256 --json | sed -n 's/.*"perplexity": *\([0-9.]*\).*/\1/p')"
}
# What the runs say about themselves comes after their text.
statistics=$(mktemp)
trap 'rm -f "$statistics"' EXIT

echo "== models/books4m: a llama of 4.2 million parameters, trained on old books, to 4 bits"
$bantam compress models/books4m -o "$small" --format int4
echo
echo "perplexity on models/paragraph.txt: $(perplexity models/books4m) before, $(perplexity "$small") after"

for prompt in "It was a dark night, and the" "The old captain looked at" "\"My dear,\" said she,"; do
  echo
  echo "== $prompt ..."
  $bantam run "$small" -p "$prompt" -n 60 --temperature 0.8 --seed 7 2>"$statistics"
  printf '\n\n'
  cat "$statistics"
done
