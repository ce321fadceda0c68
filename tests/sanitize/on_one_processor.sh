#!/usr/bin/env bash
# on_one_processor.sh FOLDER COMMAND...: runs a command on a processor that no other of its kind has, if one is free.
#
# As many tests run at once as there are processors. Each of them would start a thread on every one, and threads wait for each other by looking:
# what one test waits for another has to compute. FOLDER holds a lock for each processor.
#
# CTest's PROCESSOR_AFFINITY means the same and does nothing in Debian's CMake 3.25, which is linked with the system's libuv.
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
if command -v taskset >/dev/null && command -v flock >/dev/null; then
  for processor in $(taskset -pc $$ | sed 's/.*: //; s/,/ /g'); do
    # A list holds ranges too: 0-3.
    for number in $(seq "${processor%-*}" "${processor#*-}"); do
      exec 9>"$folder/$number"
      if flock -n 9; then exec taskset -c "$number" "$@"; fi
    done
  done
fi
exec "$@"
