#!/usr/bin/env bash
# usage: check_archive.sh ARCHIVE GLIBC [GLIBCXX]
#
# Fails unless the portable archive runs from a folder of its own, asks of the system for no library but the C library and
# the C++ runtime, and for no newer versions of them than those given (2.34, 3.4.29). Without GLIBCXX it may not ask for
# the C++ runtime at all.
set -euo pipefail
archive=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -xzf "$archive" -C "$folder" --strip-components=1

# newest PREFIX MAXIMUM FILE: fails if the file asks for a later version than MAXIMUM of the symbols that begin with PREFIX.
declare -A asked=([GLIBC]=0 [GLIBCXX]=0)
newest() {
  local found
  found=$(objdump -T "$3" | { grep -oE "\b$1_[0-9.]+" || true; } | cut -d_ -f2 | sort -uV | tail -1)
  asked[$1]=$(printf '%s\n' "${asked[$1]}" "$found" | sort -V | tail -1)
  [ "$(printf '%s\n' "${asked[$1]}" "$2" | sort -V | tail -1)" = "$2" ] ||
    { echo "${3#"$folder"/} needs $1 $found, more than $2" >&2; return 1; }
}

system='libc|libm|libdl|librt|libpthread|ld-linux-x86-64|ld-linux-aarch64'
[ $# -lt 3 ] || system+='|libstdc\+\+|libgcc_s'
count=0
while IFS= read -r file; do
  [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
  count=$((count + 1))
  newest GLIBC "$2" "$file"
  newest GLIBCXX "${3:-0}" "$file"
  for library in $(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    [[ $library =~ ^($system)\.so ]] || [ -e "$folder/lib/$library" ] ||
      { echo "${file#"$folder"/} needs $library, which the archive does not hold" >&2; exit 1; }
  done
done < <(find "$folder" -type f -size +16c ! -name '*.a')
[ "$count" -ge 2 ] || { echo "expected the program and the library in $archive, found $count files of code" >&2; exit 1; }

words=$(cd / && env -i "$folder/bin/bantam" run "$folder/share/bantam/models/books4m" -p "It was a dark night, and the" -n 8 --seed 7 2>/dev/null)
[ -n "$words" ]
echo "$(basename "$archive"): $count files of code run from any folder and ask for glibc ${asked[GLIBC]}, GLIBCXX ${asked[GLIBCXX]}"
