#!/usr/bin/env bash
# Makes the API reference of C++, C and Python as HTML, in build/reference/html.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
ensure_packages "${build_packages[@]}" doxygen python3-sphinx python3-breathe

configure_and_build release bantam-python bantam-python-files >/dev/null
mkdir -p build/reference
{ cat docs/reference/Doxyfile; echo "OUTPUT_DIRECTORY = build/reference"; } | doxygen -
BANTAM_XML=$PWD/build/reference/xml BANTAM_PYTHON=$PWD/build/release/python \
  /usr/bin/python3 -m sphinx -q -b html docs/reference build/reference/html
echo "build/reference/html/index.html"
