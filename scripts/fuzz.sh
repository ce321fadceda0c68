#!/usr/bin/env bash
# Runs the fuzzers: scripts/fuzz.sh [SECONDS | --runs N] [TARGET...]
#   SECONDS  for all targets together (60); each gets its share
#   --runs N executions of each target instead
# Each target starts from its kept corpus (tests/fuzz/corpus/TARGET); what it finds besides goes to build/fuzz/found/TARGET.
# Prints a table; exits 1 when an input crashed, hung or took too much memory, which is kept under build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

seconds=60 runs=
case "${1:-}" in
  --runs) runs=$2; shift 2 ;;
  [0-9]*) seconds=$1; shift ;;
  -*) sed -n '2,6s/^# //p' "$0"; exit 2 ;;
esac

ensure_packages "${build_packages[@]}" "${fuzz_packages[@]}"
mkdir -p build
configure_and_build fuzz fuzz >build/fuzz.log 2>&1 || { tail -60 build/fuzz.log; exit 1; }

program=$PWD/build/fuzz/fuzz
mapfile -t all < <("$program" --list)
targets=("${@:-${all[@]}}")
if [ $# -eq 0 ]; then targets=("${all[@]}"); fi
for target in "${targets[@]}"; do
  printf '%s\n' "${all[@]}" | grep -qx "$target" || { echo "no target $target; there are: ${all[*]}" >&2; exit 2; }
done
share=$((seconds / ${#targets[@]} > 0 ? seconds / ${#targets[@]} : 1))

# An input has five seconds and 256 MB for one allocation: promises are far below (docs/security.md); under sanitizers, on a busy
# machine, this is what separates a hang from a wait.
limits=(-timeout=5 -malloc_limit_mb=256 -rss_limit_mb=1024 -max_len=4096 -report_slow_units=5 -print_final_stats=1)
export ASAN_OPTIONS=allocator_may_return_null=0:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1

failed=0
printf '%-18s %12s %8s %9s %7s  %s\n' target executions exec/s coverage corpus crashes
for target in "${targets[@]}"; do
  kept=tests/fuzz/corpus/$target found=build/fuzz/found/$target crashes=build/fuzz/crashes/$target log=build/fuzz/$target.log
  mkdir -p "$kept" "$found" "$crashes"
  options=("${limits[@]}" "-artifact_prefix=$crashes/")
  [ -f "tests/fuzz/words/$target.dict" ] && options+=("-dict=tests/fuzz/words/$target.dict")
  if [ -n "$runs" ]; then options+=("-runs=$runs"); else options+=("-max_total_time=$share"); fi
  result=ok
  "$program" "$target" "${options[@]}" "$found" "$kept" >"$log" 2>&1 || result=failed
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)
  corpus=$(grep -o 'corp: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)
  printf '%-18s %12s %8s %9s %7s  %s\n' "$target" "${executions:--}" "${rate:--}" "${coverage:--}" "${corpus:--}" "$([ $result = ok ] && echo 0 || echo 1)"
  if [ $result = failed ]; then
    failed=1
    grep -m1 -E 'ERROR: |runtime error: |terminating with|Broken' "$log" || tail -5 "$log"
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    echo "  $target: the input is kept; replay it: $program $target ${input:-(see $log)}"
  fi
done
exit $failed
