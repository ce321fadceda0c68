#!/usr/bin/env bash
# usage: check_archive.sh ARCHIVE GLIBC
#
# Fails unless the portable archive runs from a folder of its own, and asks of the system for nothing but the C library, and
# for no newer version of that than GLIBC (2.27).
set -euo pipefail
archive=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$archive" -C "$folder" --strip-components=1

asked=0
count=0
while IFS= read -r file; do
  [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
  count=$((count + 1))
  others=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vxE '(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so\.[0-9]+' || true)
  [ -z "$others" ] || { echo "${file#"$folder"/} needs ${others//$'\n'/, }" >&2; exit 1; }
  newest=$(objdump -T "$file" | grep -oE '\bGLIBC_[0-9.]+' | cut -d_ -f2 | sort -uV | tail -1)
  [ "$(printf '%s\n' "$newest" "$2" | sort -V | tail -1)" = "$2" ] ||
    { echo "${file#"$folder"/} needs glibc $newest, newer than $2" >&2; exit 1; }
  asked=$(printf '%s\n' "$asked" "$newest" | sort -V | tail -1)
done < <(find "$folder" -type f -size +16c ! -name '*.a')
[ "$count" -ge 2 ] || { echo "expected the program and the library in $archive, found $count files of code" >&2; exit 1; }

words=$(cd / && env -i "$folder/bin/bantam" run "$folder/share/bantam/models/books4m" -p "It was a dark night, and the" -n 8 --seed 7 2>/dev/null)
[ -n "$words" ]
echo "$(basename "$archive"): $count files of code run from any folder and ask for glibc $asked alone"
