#!/usr/bin/env bash
# Builds everything and runs the tests; with BANTAM_TEST_ALL=1 also under the address and undefined-behavior sanitizers
# and the NEON kernels under emulation.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

ensure_packages "${build_packages[@]}" "${test_packages[@]}"

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

# With BANTAM_TEST_ALL=1 also the whole suite under sanitizers, and the NEON kernels under emulation.
if [ "${BANTAM_TEST_ALL:-0}" = 1 ]; then
  run dev
  run release
else
  run release -E '^aarch64$'
fi
