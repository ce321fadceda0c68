#!/bin/sh
# Builds the layers below io for 64-bit ARM and runs their tests under emulation.
#
#   run.sh BUILD_DIR
#
# Ends with 77, which test runners count as skipped, where the compiler or the emulator is missing.
set -eu
[ $# -eq 1 ] || { echo "usage: run.sh BUILD_DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
for program in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$program" >/dev/null || { echo "skipped: no $program here (packages g++-aarch64-linux-gnu, qemu-user)"; exit 77; }
done
# The outer build's variables would reach the inner one.
unset MAKEFLAGS MFLAGS CXXFLAGS LDFLAGS 2>/dev/null || true
cmake -G Ninja -S "$here" -B "$1" -DCMAKE_TOOLCHAIN_FILE="$here/../../cmake/aarch64.cmake" -DCMAKE_BUILD_TYPE=Release
cmake --build "$1" --parallel "$(nproc)"
ctest --test-dir "$1" --output-on-failure
