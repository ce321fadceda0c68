#!/usr/bin/env bash
# Makes build/sysroot, what cmake/portable.cmake builds for: Ubuntu 18.04's glibc 2.27, older than that of any distribution
# of the last five years, and the libraries of this system, Debian 12, in their static form.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

complete=build/sysroot/$(cat scripts/sysroot.sh scripts/sysroot/* cmake/portable.cmake | sha256sum | cut -c1-16)
[ ! -e "$complete" ] || exit 0
ensure_packages "${build_packages[@]}" xz-utils
sysroot=$PWD/build/sysroot
scratch=$PWD/build/sysroot-scratch
rm -rf "$sysroot" "$scratch"
mkdir -p "$sysroot" "$scratch"

# fetch URL SHA256: into the scratch folder, by apt's own downloader, which every Debian has.
fetch() {
  /usr/lib/apt/apt-helper -qq download-file "$1" "$scratch/${1##*/}" "SHA256:$2"
}

ubuntu=http://archive.ubuntu.com/ubuntu/pool/main
fetch $ubuntu/g/glibc/libc6_2.27-3ubuntu1_amd64.deb 1e1eb86fd646aa68f7144ec692b837b6b352d215880c6a2d0c92c19d36938427
fetch $ubuntu/g/glibc/libc6-dev_2.27-3ubuntu1_amd64.deb e426c70a940a7d0c5c95823a5fd01f26bd8bcb08d109df2f8c96c439da8dc440
fetch $ubuntu/l/linux/linux-libc-dev_4.15.0-20.21_amd64.deb 4a73fc5ea2d0284e9c9c84cba68cbe5880505afbae0a3201c65c336daf8f8239
for package in "$scratch"/*.deb; do
  dpkg -x "$package" "$sysroot"
done
# Links that would lead out of it.
find "$sysroot" -lname '/*' -exec sh -c 'ln -sfnr "$0$(readlink "$1")" "$1"' "$sysroot" {} \;

# Headers and static libraries of this system. No shared ones: they ask for this system's C library.
dpkg -L libxsimd-dev libeigen3-dev nlohmann-json3-dev libcli11-dev libboost1.74-dev libpcre2-dev libutf8proc-dev libprotobuf-dev \
  libxxhash-dev pybind11-dev libpython3.11-dev |
  grep -E '^/usr/(include|lib/x86_64-linux-gnu|lib/cmake|share/cmake|share/eigen3)/' | grep -v '\.so' |
  tar -C / -cf - --no-recursion -T - | tar -C "$sysroot" -xf -

lib=$sysroot/usr/lib/x86_64-linux-gnu
gcc --sysroot="$sysroot" -std=c17 -Wall -Wextra -O2 -fPIC -fvisibility=hidden \
  -c scripts/sysroot/newer_glibc.c -o "$scratch/newer_glibc.o"
ar r "$lib/libc_nonshared.a" "$scratch/newer_glibc.o"

# library NAME TARGET [OPTION of CMake]...: builds a library of Debian's sources that Debian has in no fitting form.
library() {
  mkdir "$scratch/$1"
  tar -C "$scratch/$1" --strip-components=1 -xf "$scratch/$1"_*.orig.tar.*
  cmake -G Ninja -S "$scratch/$1" -B "$scratch/$1/build" --toolchain "$PWD/cmake/portable.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX=/usr "${@:3}"
  cmake --build "$scratch/$1/build" --target "$2"
}
debian=http://deb.debian.org/debian/pool/main
# oneTBB: Debian's is shared alone.
fetch $debian/o/onetbb/onetbb_2021.8.0.orig.tar.xz 7e9111b8bb59c8800bf6d0b06afe7b0891937443d2dae1ee1101c8e2ede6a7ef
library onetbb all -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF
DESTDIR=$sysroot cmake --install "$scratch/onetbb/build"
# protobuf: Debian's static one cannot go into shared libraries. Its headers can stay.
fetch $debian/p/protobuf/protobuf_3.21.12.orig.tar.gz 930c2c3b5ecc6c9c12615cf5ad93f1cd6e12d0aba862b572e076259970ac3a53
library protobuf libprotobuf-lite -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_WITH_ZLIB=OFF
cp "$scratch/protobuf/build/libprotobuf-lite.a" "$lib"

rm -rf "$scratch"
touch "$complete"
