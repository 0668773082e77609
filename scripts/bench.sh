#!/bin/sh
# Measures what the pool costs, beside other allocators in the same run, and says where the goals are:
#
#   scripts/bench.sh           at most two minutes, after the build
#   scripts/bench.sh --quick   seconds, and less exact
#
# On the simulated GPU; doc/performance.md tells how to read it. Builds in build-release, with the options that users
# have: asserts cost time.
set -eu
cd "$(dirname "$0")/.."
. scripts/steps.sh

find_cuda_headers
install_build_packages
step "configure" configure build-release -Dbuildtype=release -Ddebug_level=0
step "build" ninja -C build-release bench-programs
exec python3 test/bench/table.py build-release "$@"
