#!/bin/sh
# Settles on a real GPU what can only be settled there: builds with the CUDA toolkit that it finds, runs the checks of
# test/gpu/manifest.py within 8 minutes, and writes a report. Needs Python 3, a compiler, Meson, Ninja and the toolkit; no
# network. Without a GPU it lists what it skipped and exits 77. --help says more.
set -eu
if ! python3=$(command -v python3); then
  echo "gpu-check.sh: python3 is not installed" >&2
  exit 77
fi
exec "$python3" "$(dirname "$0")/../test/gpu/check.py" "$@"
