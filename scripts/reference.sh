#!/usr/bin/env bash
# Makes the API reference of C++, C and Python as HTML, in build/reference/html.
# --check: as a test. Installs and builds nothing, exits with 77 where a tool is missing, and takes no warning.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

strict=()
if [ "${1:-}" = --check ]; then
  if ! command -v doxygen >/dev/null || ! /usr/bin/python3 -c "import breathe, sphinx" 2>/dev/null; then
    echo "skipped: doxygen, python3-sphinx and python3-breathe are not all installed"
    exit 77
  fi
  strict=(-W --keep-going)
else
  ensure_packages "${build_packages[@]}" "${reference_packages[@]}"
  configure_and_build release bantam-python
fi

mkdir -p build/reference
{ cat docs/reference/Doxyfile; echo "OUTPUT_DIRECTORY = build/reference"; } | doxygen -
BANTAM_XML=$PWD/build/reference/xml BANTAM_PYTHON=$PWD/build/release/python \
  /usr/bin/python3 -m sphinx -q "${strict[@]}" -b html docs/reference build/reference/html
echo "build/reference/html/index.html"
