#!/bin/sh
# Builds gpupool and runs its test suite, on the simulated GPU. Arguments go to `meson test`:
#
#   scripts/test.sh                    what takes minutes at most; it says what is left out
#   scripts/test.sh --all              everything
#   scripts/test.sh --setup quick      nearly every test, those that try every place in some: with the suite `long` what .ci/run does
#   scripts/test.sh --suite unit       one suite, whole
#   scripts/test.sh preload-replay     one test, whole
#
# On a fresh Debian or Ubuntu it installs the packages it needs first (as root or with sudo). The build has every assert
# compiled in (debug_level=3), walks of whole structures included: the random workloads of the suite are worth little
# without. They cost time: measure, and use, a build with the default options.
set -eu
cd "$(dirname "$0")/.."
. scripts/steps.sh

find_cuda_headers
install_build_packages
install_browser
step "configure" configure build -Ddebug_level=3
step "build" ninja -C build
if [ "${1:-}" = --all ]; then
  shift
elif [ $# -eq 0 ]; then
  # Fewer cases: of tests that read GP_QUICK
  echo "== left out, for --all: $(meson test -C build --no-rebuild --list --suite long --suite slow | sed 's|.* / ||' | sort | paste -sd ' ')," \
    "the traces of ../shared, most cases of fault, preload-resolve, reuse-*, ring-*"
  set -- --setup short
fi
echo "== tests"
meson_test build "$@"
