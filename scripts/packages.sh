# Sourced by the other scripts: what must be installed, and how a preset is built.

# Lists say a package and, after a space, what it is for.

# Building the library, the program and the Python package.
build_packages=(
  "g++ the compiler"
  "cmake the build"
  "ninja-build the build"
  "pkg-config finding libraries"
  "ccache building again in a moment"
  "libxsimd-dev SIMD vectors"
  "libeigen3-dev matrices"
  "libtbb-dev threads of compression"
  "nlohmann-json3-dev JSON"
  "libcli11-dev the command line"
  "libboost-dev connections of the server: Asio and Beast, headers alone"
  "libssl-dev TLS of the server"
  "libgrpc++-dev gRPC of the server"
  "libedit-dev line editing and history of the chat"
  "libpcre2-dev regular expressions of tokenizers"
  "libutf8proc-dev Unicode of tokenizers"
  "libprotobuf-dev SentencePiece models"
  "protobuf-compiler SentencePiece models"
  "libxxhash-dev hashes of content"
  "pybind11-dev the Python package"
  "python3-dev the Python package"
  "python3-numpy the Python package"
  "doctest-dev the tests, which every build but those for packages is configured with"
)

# Testing it.
test_packages=(
  "python3-jinja2 what chat templates are compared with"
  "mypy what reads the types of the Python package"
  "g++-aarch64-linux-gnu the kernels of 64-bit ARM"
  "qemu-user emulated 64-bit ARM"
  "openssl certificates for tests of the server"
  "python3-grpcio a client of the server's gRPC"
  "python3-protobuf its messages"
)

# Feeding it broken input by the million.
fuzz_packages=(
  "clang libFuzzer's compiler"
  "libclang-rt-14-dev libFuzzer and the sanitizers of clang 14"
)

# Making the API reference.
reference_packages=(
  "doxygen the API reference of C and C++"
  "python3-sphinx the API reference"
  "python3-breathe the API reference of C and C++"
)

# ensure_packages "NAME WHY"...: installs what is missing of the packages given, after saying so. Does nothing, and needs no
# root, when nothing is missing.
ensure_packages() {
  local missing=() names=() entry
  for entry in "$@"; do
    dpkg-query -W -f='${Status}' "${entry%% *}" 2>/dev/null | grep -q 'ok installed' && continue
    missing+=("$entry")
    names+=("${entry%% *}")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "These packages are not installed here; apt-get gets them:" >&2
  for entry in "${missing[@]}"; do
    printf '  %-22s %s\n' "${entry%% *}" "$([ "$entry" = "${entry%% *}" ] || echo "${entry#* }")" >&2
  done
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "This user may not install them. As root: apt-get install ${names[*]}" >&2
      return 1
    fi
    root=(sudo)
  fi
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${names[@]}" >&2
}

# configure_and_build PRESET [TARGET...]: everything of a preset, or the targets given. A line for each step says how far it
# is: on a terminal always the same line.
configure_and_build() {
  local preset=$1
  shift
  if [ ! -f "build/$preset/build.ninja" ]; then
    echo "Configuring build/$preset ..."
    local answer
    answer=$(cmake --preset "$preset" 2>&1) || { printf '%s\n' "$answer"; return 1; }
  fi
  NINJA_STATUS="[%p, %e s, %u steps to begin] " cmake --build --preset "$preset" ${1:+--target "$@"}
}
