#!/bin/sh
# Fails when an object compiled for one instruction set offers a function that other objects could pick up.
#
#   check_symbols.sh OBJECT...
#
# The linker keeps one copy of each weak symbol. A shared inline function that the AVX-512 unit emits may so be the copy
# that the whole program calls, on machines without AVX-512 too. Weak functions there must carry the Arch in their name.
set -eu
[ $# -gt 0 ] || { echo "usage: check_symbols.sh OBJECT..." >&2; exit 2; }
status=0
for object in "$@"; do
  symbols=$("${NM:-nm}" -C "$object") || exit 2
  count=$(printf '%s\n' "$symbols" | grep -c ' [Ww] ' || true)
  if [ "$count" -eq 0 ]; then
    echo "$object: expected weak functions of the kernels, found none: is this an object of src/simd?" >&2
    status=1
  fi
  leaks=$(printf '%s\n' "$symbols" | grep ' W ' | grep -vE 'simd::(generic|avx2|avx2vnni|avx512|avx512vnni|amx|neon|dotprod)\b' || true)
  if [ -n "$leaks" ]; then
    echo "$object: weak functions without an instruction set in their name:" >&2
    printf '%s\n' "$leaks" | head -20 >&2
    status=1
  fi
done
[ $status -eq 0 ] && echo "no shared functions in $# objects"
exit $status
