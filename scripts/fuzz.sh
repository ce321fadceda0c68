#!/usr/bin/env bash
# Runs the fuzzers: scripts/fuzz.sh [SECONDS | --runs N] [TARGET | TARGET=SECONDS]...
#   SECONDS         for all targets together (60), as many at once as there are processors; each gets its share
#   --runs N        executions of each target instead
#   TARGET=SECONDS  this one has seconds of its own; the others, or those that are named without, share the rest
# A target that is named twice runs twice at once: scripts/fuzz.sh 3600 server server
# Each target starts from its kept corpus (tests/fuzz/corpus/TARGET); what it finds besides goes to build/fuzz/found/TARGET.
# Prints a table; exits 1 when an input crashed, hung or took too much memory, which is kept under build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

seconds=60 runs=
case "${1:-}" in
  --runs) runs=$2; shift 2 ;;
  [0-9]*) seconds=$1; shift ;;
  -*) sed -n '2,8s/^# //p' "$0"; exit 2 ;;
esac

ensure_packages "${build_packages[@]}" "${fuzz_packages[@]}"
# For a minute the sanitized build has fuzzers, too. Those of a build by clang are directed by comparisons as well, and check every pointer.
preset=fuzz
[ -z "$runs" ] && [ "$seconds" -le 120 ] && [ ! -x build/fuzz/fuzz ] && preset=dev
mkdir -p build
# What was configured before libFuzzer was installed has no fuzzers.
[ ! -d build/$preset ] || cmake --preset $preset >/dev/null
configure_and_build $preset fuzz >build/fuzz.log 2>&1 || { tail -60 build/fuzz.log; exit 1; }

program=$PWD/build/$preset/fuzz
mapfile -t all < <("$program" --list)
declare -A own=()
targets=()
for name in "$@"; do
  if [[ $name =~ ^(.+)=([0-9]+)$ ]]; then own[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}; else targets+=("$name"); fi
done
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}" "${!own[@]}"; do
  printf '%s\n' "${all[@]}" | grep -qx "$target" || { echo "no target $target; there are: ${all[*]}" >&2; exit 2; }
done
at_once=$(nproc)
sharing=()
for target in "${targets[@]}"; do [ -n "${own[$target]:-}" ] || sharing+=("$target"); done
shared=$((seconds * at_once))
for target in "${!own[@]}"; do shared=$((shared - own[$target])); done
share=$((shared / (${#sharing[@]} > 0 ? ${#sharing[@]} : 1)))
share=$((share > seconds ? seconds : share > 0 ? share : 1))
targets=("${!own[@]}" "${sharing[@]}")
for target in "${sharing[@]}"; do own[$target]=$share; done

# An input has five seconds and 256 MB for one allocation: promises are far below (docs/security.md); under sanitizers, on a busy
# machine, this is what separates a hang from a wait.
# What a target makes once is made before the first input (tests/fuzz/libfuzzer/main.cpp).
limits=(-timeout=5 -malloc_limit_mb=256 -rss_limit_mb=1024 -max_len=4096 -report_slow_units=5 -print_final_stats=1)
# The hundred rarest features direct the search. Else all are looked through that came up to 255 times: two thirds of the time of targets that
# run a model, which have a hundred thousand.
limits+=(-entropic_feature_frequency_threshold=0)
export ASAN_OPTIONS=allocator_may_return_null=0:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1

# Corpora lie in memory while they grow: making their files on a disk took a seventh of the time.
corpora=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/bantam-fuzz.XXXXXX")
trap 'rm -rf "$corpora"' EXIT

# figure PATTERN LOG: the last number after PATTERN in what libFuzzer printed, or 0.
figure() { grep -o "$1 *[0-9]*" "$2" | tail -1 | grep -o '[0-9]*$' || echo 0; }

# fuzz TARGET NUMBER: runs it and prints its row, and its error below. Fails when it failed. NUMBER tells two runs of one target apart.
#
# It goes in rounds of 45 s, each from the kept corpus and 20 of the inputs that were found: one long run slows down as it finds inputs that
# ask for more (the server's from 1300 to 450 executions a second within an hour).
fuzz() {
  local target=$1 log=build/fuzz/$1.$2.log round=$corpora/$1.$2
  local kept=tests/fuzz/corpus/$target found=build/fuzz/found/$target crashes=build/fuzz/crashes/$target
  mkdir -p "$kept" "$found" "$crashes"
  local options=("${limits[@]}" "-artifact_prefix=$crashes/")
  [ -f "tests/fuzz/words/$target.dict" ] && options+=("-dict=tests/fuzz/words/$target.dict")
  # A server keeps what later requests may want, which looks like a leak until the end: to search all of memory after each takes most of the time.
  case "$target" in server | http) options+=(-detect_leaks=0) ;; esac

  local status=0 executions=0 began=$SECONDS left=${runs:-${own[$target]}} bounds
  while [ "$left" -gt 0 ] && [ $status -eq 0 ]; do
    if [ -n "$runs" ]; then bounds=(-max_total_time=45 "-runs=$left"); else bounds=("-max_total_time=$((left < 45 ? left : 45))"); fi
    mkdir -p "$round"
    find "$found" -type f | shuf -n 20 | xargs -r cp -t "$round"
    TMPDIR=$corpora "$program" "$target" "${options[@]}" "${bounds[@]}" "$round" "$kept" >"$log" 2>&1 || status=1
    find "$round" -type f -exec mv -t "$found" {} +
    executions=$((executions + $(figure number_of_executed_units: "$log")))
    if [ -n "$runs" ]; then left=$((runs - executions)); else left=$((own[$target] - (SECONDS - began))); fi
  done

  local row
  row=$(printf '%-18s %12s %8s %9s %7s  %s' "$target" $executions $((executions / (SECONDS - began + 1))) "$(figure ft: "$log")" "$(figure corp: "$log")" $status)
  if [ $status -ne 0 ]; then
    local input
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    row+=$'\n'$(grep -m1 -E 'ERROR: |runtime error: |terminating with|Broken' "$log" || tail -5 "$log")
    row+=$'\n'"  $target: the input is kept; replay it: $program $target ${input:-(see $log)}"
  fi
  # One write: others print at the same time.
  printf '%s\n' "$row"
  return $status
}

printf '%-18s %12s %8s %9s %7s  %s\n' target executions exec/s features corpus crashes
failed=0
running=0
number=0
for target in "${targets[@]}"; do
  if [ $running -eq "$at_once" ]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  number=$((number + 1))
  fuzz "$target" $number &
  running=$((running + 1))
done
for ((; running > 0; running--)); do wait -n || failed=1; done
exit $failed
