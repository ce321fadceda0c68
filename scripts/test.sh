#!/usr/bin/env bash
# Builds everything and runs every test: under the address and undefined-behavior sanitizers, then optimized, with the
# NEON kernels under emulation. With BANTAM_TEST_FAST=1 only optimized and without emulation.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

ensure_packages "${build_packages[@]}" "${test_packages[@]}"

# What makes the API reference: without them its test skips with a word.
ensure_packages "${reference_packages[@]}" || echo "these packages could not be installed: the API reference will not be checked" >&2

# llama.cpp, ready to run, to compare with; without npm or its registry those tests skip with a word.
if command -v npm >/dev/null && [ ! -d tests/peers/node_modules/node-llama-cpp ]; then
  npm install --prefix tests/peers --omit=optional --ignore-scripts --no-package-lock --no-audit --no-fund --silent ||
    echo "npm could not install node-llama-cpp: the comparison with llama.cpp will be skipped" >&2
fi

# run PRESET [ctest options]: builds everything of a preset and runs its tests.
run() {
  local preset=$1
  shift
  echo "== $preset: build"
  mkdir -p build
  configure_and_build "$preset" >"build/$preset.log" 2>&1 || { tail -60 "build/$preset.log"; exit 1; }
  echo "== $preset: tests"
  ctest --preset "$preset" -j "$(nproc)" "$@"
}

if [ "${BANTAM_TEST_FAST:-0}" = 1 ]; then
  run release -E '^aarch64$'
else
  run dev
  run release
fi
