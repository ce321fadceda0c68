#!/usr/bin/env bash
# Makes all packages of this system, in build/packages: Debian's four, and an archive that runs from any folder.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

ensure_packages "${build_packages[@]}" dpkg-dev binutils

# build PRESET: everything that is installed, without tests.
build() {
  echo "== $1"
  configure_and_build "$1" >"build/$1.log" 2>&1 || { tail -60 "build/$1.log"; exit 1; }
}

rm -rf build/packages
mkdir -p build/packages
build debian
cpack -G DEB --config build/debian/CPackConfig.cmake -B build/packages/debian >/dev/null
build portable
cpack -G TGZ --config build/portable/CPackConfig.cmake -B build/packages/portable >/dev/null
mv build/packages/debian/*.deb build/packages/portable/*.tar.gz build/packages
rm -rf build/packages/debian build/packages/portable

# What the archive asks for is this system's; nothing may ask for more. gcc's versions of GLIBCXX are found in its library.
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
glibcxx=$(strings "$(g++ -print-file-name=libstdc++.so.6)" | grep -oE '^GLIBCXX_[0-9.]+' | cut -d_ -f2 | sort -V | tail -1)
tests/package/check_archive.sh build/packages/*.tar.gz "$glibc" "$glibcxx"
ls -l build/packages
