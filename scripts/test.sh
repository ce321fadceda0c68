#!/usr/bin/env bash
# Builds everything and runs every test: under the address and undefined-behavior sanitizers, fuzzers for a minute and a half, then
# optimized, with the NEON kernels under emulation. With BANTAM_TEST_FAST=1 only optimized and without emulation.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

lines=$(mktemp) said=$(mktemp) coming=
trap 'rm -f "$lines" "$said"; [ -z "$coming" ] || kill "$coming" 2>/dev/null || true' EXIT
spent=()

# phase NAME COMMAND...: runs a command, and keeps how long it took. Where it fails this script ends.
phase() {
  local name=$1 begun=$SECONDS status=0
  shift
  : >"$lines"
  echo "== $name ($((SECONDS / 60)) min so far)"
  "$@" || status=$?
  spent+=("$(printf '%7d s  %s' $((SECONDS - begun)) "$name")")
  [ $status -eq 0 ] || finish $status "$name"
}

# finish STATUS [PHASE]: where the time went, the phase that failed, and last what ctest said last in it.
finish() {
  echo
  echo "== where $SECONDS s went"
  printf '%s\n' "${spent[@]}"
  echo
  [ "$1" -eq 0 ] || echo "FAILED: $2"
  sed -n '/tests passed/,$p' "$lines"
  exit "$1"
}

packages() {
  # Those of the fuzzers too: nobody else may install while the packages of peers are.
  local fuzzers=()
  [ "${BANTAM_TEST_FAST:-0}" = 1 ] || fuzzers=("${fuzz_packages[@]}")
  ensure_packages "${build_packages[@]}" "${test_packages[@]}" "${fuzzers[@]}"
}

# What tests of the release preset alone want, and skip with a word where it is missing. It comes from the network while others compile.
peers() {
  # What makes the API reference.
  ensure_packages "${reference_packages[@]}" || echo "these packages could not be installed: the API reference will not be checked"
  # llama.cpp, ready to run, to compare with, and clients of the server.
  local package missing=0
  for package in node-llama-cpp openai @anthropic-ai/sdk @langchain/openai ai puppeteer-core; do [ -d "tests/peers/node_modules/$package" ] || missing=1; done
  if command -v npm >/dev/null && [ $missing = 1 ]; then
    npm install --prefix tests/peers --omit=optional --ignore-scripts --no-package-lock --no-audit --no-fund --silent ||
      echo "npm could not install llama.cpp and clients of the server: comparing with the one and the tests of the others will be skipped"
  fi
}

# Waits for them, and says what they said.
peers_came() {
  wait "$coming" || true
  coming=
  cat "$said"
}

# run_tests PRESET [ctest option]...
run_tests() {
  ctest --preset "$1" -j "$(nproc)" "${@:2}" | tee "$lines"
}

phase "packages" packages
peers >"$said" 2>&1 </dev/null &
coming=$!
# What each half leaves to the other stands where it is left out: BANTAM_SANITIZE in the CMakeLists.txt of tests and above, and
# BANTAM_TEST_QUICK in the tests.
if [ "${BANTAM_TEST_FAST:-0}" = 1 ]; then
  phase "release: build" configure_and_build release
  phase "packages of peers" peers_came
  phase "release: tests" run_tests release -E '^aarch64$'
else
  phase "dev: build" configure_and_build dev
  phase "dev: tests" run_tests dev
  # A minute of bodies of requests on one processor, of all else on the others; http has as long as any.
  phase "fuzz" scripts/fuzz.sh 90 server=60
  # Other phases go here: what is quickest to fail before what takes longest, and ctest last, whose closing lines end the run.
  phase "release: build" configure_and_build release
  phase "packages of peers" peers_came
  phase "release: tests" run_tests release
fi
finish 0
