#!/bin/sh
# Makes Debian packages of the commit that is checked out, or of an unpacked archive of `meson dist`, and lets lintian judge them.
#
#   scripts/make-debs.sh [FOLDER]    puts libgpupool, gpupool and python3-gpupool into FOLDER (dist)
#
# Needs CUDA headers, and dpkg-dev, debhelper, dh-python and lintian. scripts/debian is their debian/.
set -eu
cd "$(dirname "$0")/.."
output=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
work=$PWD/build-debs
tree=$work/gpupool
rm -rf "$work"
mkdir -p "$tree"
if [ -e .git ]; then
  git archive HEAD | tar -x -C "$tree"
else
  tar --exclude='./build*' --exclude=./dist -c . | tar -x -C "$tree"
fi
cp -r "$tree/scripts/debian" "$tree/debian"
(cd "$tree" && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage --no-sign --build=binary) >"$work/log" 2>&1 || {
  tail -n 40 "$work/log" >&2
  echo "make-debs.sh: dpkg-buildpackage failed; its whole output: $work/log" >&2
  exit 1
}
lintian --fail-on error,warning "$work"/*.changes
cp "$work"/*.deb "$output"
ls "$output"/*.deb
