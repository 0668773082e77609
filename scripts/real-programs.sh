#!/bin/sh
# Runs real programs on the simulated GPU, without the library and under each type of it, and says what differs:
# doc/programs.md has the table. What it needs is built; see --help, and test/real/README.md.
set -eu
cd "$(dirname "$0")/.."
exec python3 test/real/run.py "$@"
