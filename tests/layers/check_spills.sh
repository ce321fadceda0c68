#!/bin/sh
# Fails when the innermost loops of the large integer tiles keep vectors in memory instead of registers.
#
#   check_spills.sh OBJECT     (of src/simd/avx512vnni.cpp, compiled with optimization)
#
# gcc 12.2 likes to spill dozens of zmm registers in these loops, which halves their speed without any other sign. Looks
# at every function tile_q8<avx512vnni, ..., 2, 5> and 6 (2 strips by 5 or 6 tokens), and 1, 6 and 10 to 12, and at strip_interleaved, takes the
# innermost loops that contain vpdpbusd, and searches them for zmm registers that are stored to the stack. A constant may come from there: a load is
# free beside a product. One store among twenty products is let pass: it hides beside them too, and some sums wait in memory on purpose.
set -eu
[ $# -eq 1 ] || { echo "usage: check_spills.sh OBJECT" >&2; exit 2; }
"${OBJDUMP:-objdump}" -d -C --no-show-raw-insn "$1" | awk '
  function finish(   i, k, jumps, inner, products, spills) {
    if (!wanted) return
    functions++
    for (i = 1; i <= count; i++) {
      if (target[i] == "" || !(target[i] in index_of) || index_of[target[i]] > i) continue
      inner = 1; products = 0; spills = 0
      for (k = index_of[target[i]]; k <= i; k++) {
        if (k < i && target[k] != "" && (target[k] in index_of) && index_of[target[k]] <= k && index_of[target[k]] > index_of[target[i]]) inner = 0
        if (text[k] ~ /vpdpbusd/) products++
        if (text[k] ~ /zmm[0-9]+,.*\(%r[sb]p[^)]*\)$/) spills++
      }
      if (inner && products > 0) {
        loops++
        if (spills * 20 > products) { print name ": " spills " stores to the stack among " products " products" > "/dev/stderr"; bad++ }
      }
    }
  }
  /^[0-9a-f]+ <.*>:$/ {
    finish()
    name = $0; sub(/^[0-9a-f]+ </, "", name); sub(/>:$/, "", name)
    wanted = name ~ /(tile_q8<.*avx512vnni.*, (2, [56]|1, (6|1[0-2]))|strip_interleaved<.*avx512vnni.*, [1-3])>/
    count = 0; split("", text); split("", target); split("", index_of)
    next
  }
  wanted && /^ *[0-9a-f]+:/ {
    count++
    address = $1; sub(/:$/, "", address)
    index_of[address] = count
    text[count] = $0
    if ($2 ~ /^j/) target[count] = $3
  }
  END {
    finish()
    if (functions == 0 || loops == 0) { print "expected tiles with loops of products, found " functions + 0 " tiles and " loops + 0 " loops" > "/dev/stderr"; exit 1 }
    if (bad > 0) exit 1
    print "no vector leaves its register in " loops " loops of " functions " tiles"
  }'
