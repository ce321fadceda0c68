# Sourced by the other scripts: makes sure that Debian or Ubuntu packages are there.

# Installs what is missing of the packages given. Does nothing, and needs no root, when nothing is missing.
ensure_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "Installing packages that the build or the tests need: ${missing[*]}" >&2
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "These packages are missing and this user may not install them: apt-get install ${missing[*]}" >&2
      return 1
    fi
    root=(sudo)
  fi
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Building the library and the program.
build_packages=(
  g++ cmake ninja-build pkg-config ccache
  libxsimd-dev libeigen3-dev libtbb-dev       # SIMD vectors, matrices, offline threads
  nlohmann-json3-dev libcli11-dev             # JSON, command line
  libpcre2-dev libutf8proc-dev                # regular expressions and Unicode of tokenizers
  libprotobuf-dev protobuf-compiler           # SentencePiece models
  libxxhash-dev                               # content hashes
  pybind11-dev python3-dev python3-numpy      # the Python package
  doctest-dev                                 # the tests, which are part of every build but those for packages
)

# Testing it.
test_packages=(
  python3-jinja2                              # what chat templates are compared with
  g++-aarch64-linux-gnu qemu-user             # the NEON kernels, emulated
)

# Making the API reference.
reference_packages=(doxygen python3-sphinx python3-breathe)

# configure_and_build PRESET [TARGET...]
configure_and_build() {
  local preset=$1
  shift
  if [ ! -f "build/$preset/build.ninja" ]; then cmake --preset "$preset" >"/tmp/bantam-configure-$$" || { cat "/tmp/bantam-configure-$$"; return 1; }; fi
  rm -f "/tmp/bantam-configure-$$"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
