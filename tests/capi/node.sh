#!/usr/bin/env bash
# Builds the addon for Node.js against libbantam and streams by it:
# node.sh EXAMPLE_FOLDER HEADERS LIBRARY_FOLDER MODEL C_COMPILER
set -euo pipefail
if ! command -v node >/dev/null; then
  echo "skipped: no node on this machine"
  exit 77
fi
# The headers lie beside the program where Node.js itself is installed, in Debian in libnode-dev.
for headers in "$(dirname "$(readlink -f "$(command -v node)")")/../include/node" /usr/include/node /usr/include/nodejs/src; do
  [ ! -f "$headers/node_api.h" ] || break
done
if [ ! -f "$headers/node_api.h" ]; then
  echo "skipped: no node_api.h on this machine"
  exit 77
fi
"$5" -std=c11 -Wall -Wextra -Werror -O2 -shared -fPIC -I "$2" -I "$headers" "$1/addon.c" -L "$3" -lbantam -o bantam.node
env LD_LIBRARY_PATH="$3" node "$1/stream.cjs" "$PWD/bantam.node" "$4"
