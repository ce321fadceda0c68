#!/usr/bin/env bash
# Builds a Rust program against libbantam and runs it: rust.sh SOURCE LIBRARY_FOLDER MODEL
set -euo pipefail
if ! command -v rustc >/dev/null || ! rustc --version >/dev/null 2>&1; then
  echo "skipped: no rustc on this machine"
  exit 77
fi
program=$(basename "$1" .rs)
rustc --edition 2021 -O "$1" -L "$2" -l bantam -o "$program"
env LD_LIBRARY_PATH="$2" "./$program" "$3"
