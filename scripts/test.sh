#!/bin/sh
# Builds gpupool and runs its test suite, on the simulated GPU. Arguments go to `meson test`:
#
#   scripts/test.sh                    everything
#   scripts/test.sh --suite unit       one suite
#   scripts/test.sh preload-replay     one test
#
# On a fresh Debian or Ubuntu it installs the packages it needs first (as root or with sudo). The build has every assert
# compiled in (debug_level=3), walks of whole structures included: the random workloads of the suite are worth little
# without. They cost time: measure, and use, a build with the default options.
set -eu
cd "$(dirname "$0")/.."
. scripts/steps.sh

install_build_packages
install_browser
find_cuda_headers
step "configure" configure build -Ddebug_level=3
step "build" ninja -C build
echo "== tests"
meson_test build "$@"
