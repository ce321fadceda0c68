#!/usr/bin/env bash
# Makes all packages, in build/packages: Debian's five for this system, and on x86-64 an archive that runs from any folder of
# any distribution whose glibc is not older than 2.27.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

ensure_packages "${build_packages[@]}" dpkg-dev file binutils

# build PRESET: everything that is installed, without tests.
build() {
  echo "== $1"
  configure_and_build "$1" >"build/$1.log" 2>&1 || { tail -60 "build/$1.log"; exit 1; }
}

rm -rf build/packages
mkdir -p build/packages
build debian
cpack -G DEB --config build/debian/CPackConfig.cmake -B build/packages/debian >/dev/null
mv build/packages/debian/*.deb build/packages
rm -rf build/packages/debian

if [ "$(uname -m)" = x86_64 ]; then
  echo "== sysroot"
  scripts/sysroot.sh >build/sysroot.log 2>&1 || { tail -60 build/sysroot.log; exit 1; }
  build portable
  cpack -G TGZ --config build/portable/CPackConfig.cmake -B build/packages/portable >/dev/null
  mv build/packages/portable/*.tar.gz build/packages
  rm -rf build/packages/portable
  tests/package/check_archive.sh build/packages/*.tar.gz 2.27
fi
ls -l build/packages
