#!/usr/bin/env bash
# Builds as on a machine that lacks one of the packages that the build can do without, and then as on one that lacks all of them:
#
#   without-packages.sh BUILD [PACKAGE...]    BUILD: a folder, which is configured anew for each; PACKAGE: only these; "none", "all"
#
# Nothing is uninstalled. clang looks for headers in BUILD.include, which links to all of /usr/include but the package's, and pkg-config
# knows the files in BUILD.pkgconfig alone. The folder keeps its objects: only what the package changes is compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
include=$PWD/$build.include
pkgconfig=$PWD/$build.pkgconfig
python=$PWD/$build.python
multiarch=$(gcc -print-multiarch)

# package: its headers and its file for pkg-config
known="libdw-dev check libsubunit-dev python3-jsonschema zlib1g-dev libzstd-dev libmicrohttpd-dev libcjson-dev pkg-config"
headers_of() {
  case $1 in
    libcjson-dev) echo cjson ;;
    libdw-dev) echo elfutils dwarf.h ;;
    zlib1g-dev) echo zlib.h zconf.h ;;
    libzstd-dev) echo zstd.h zstd_errors.h zdict.h ;;
    libmicrohttpd-dev) echo microhttpd.h ;;
    check) echo check.h check_stdint.h ;;
    libsubunit-dev) echo subunit ;;
  esac
}
pc_of() {
  case $1 in
    libcjson-dev) echo libcjson libcjson_utils ;;
    libdw-dev) echo libdw ;;
    zlib1g-dev) echo zlib ;;
    libzstd-dev) echo libzstd ;;
    libmicrohttpd-dev) echo libmicrohttpd ;;
    check) echo check ;;
    libsubunit-dev) echo libsubunit ;;
  esac
}

# What the machine has, less the packages
hide() { # PACKAGE...
  local package name header
  rm -rf "$include" "$pkgconfig" "$python"
  mkdir -p "$include" "$pkgconfig" "$python"
  ln -s /usr/include/"$multiarch"/* "$include"
  ln -s /usr/include/* "$include" 2>/dev/null || true # what is in both is the first
  ln -s /usr/lib/"$multiarch"/pkgconfig/*.pc /usr/share/pkgconfig/*.pc "$pkgconfig"
  pkg_config=pkg-config
  for package; do
    for header in $(headers_of "$package"); do rm -f "$include/$header"; done
    for name in $(pc_of "$package"); do rm -f "$pkgconfig/$name.pc"; done
    if [ "$package" = pkg-config ]; then pkg_config=/nonexistent/pkg-config; fi
    if [ "$package" = python3-jsonschema ]; then echo 'raise ImportError("left out")' >"$python/jsonschema.py"; fi
  done
}

# As on a fresh machine: nothing is remembered of the packages that were found before.
configure() { # OPTION...
  rm -f "$build/meson-private/coredata.dat"
  there meson setup "$build" -Dwerror=true -Doptimization=0 \
    "-Dc_args=-g1 -nostdlibinc -isystem$include" "$@"
}

# Ninja too: it may run meson once more.
there() { # COMMAND...
  CC=clang PKG_CONFIG=$pkg_config PKG_CONFIG_LIBDIR=$pkgconfig PYTHONPATH=$python "$@"
}

expect() { # TEXT: meson says so
  grep -qE -- "$1" "$build/meson-logs/meson-log.txt" || {
    echo "$build/meson-logs/meson-log.txt does not say: $1" >&2
    return 1
  }
}

# Without an option that says so nobody ends up without the tool.
configure_without_cjson() { # OPTION
  if configure; then
    echo "meson setup left out the tool without cJSON" >&2
    return 1
  fi
  expect 'ERROR: .*libcjson-dev' && configure "$1"
}

build_without() { # PACKAGE
  # shellcheck disable=SC2046 # a word each
  hide $([ "$1" = all ] && echo "$known" || echo "$1")
  case $1 in
    none) configure -Dtools=enabled -Dsymbols=enabled -Dtests=enabled ;;
    all) configure_without_cjson -Dtools=auto && expect 'gpupool tool *: libcjson-dev' && expect 'most tests *: python3-jsonschema' ;;
    libcjson-dev) configure_without_cjson -Dtools=disabled && expect 'gpupool tool *: -Dtools=enabled' ;;
    pkg-config) configure && expect 'unit tests *: .*pkg-config' && expect 'gpupool tool *: YES' ;;
    zlib1g-dev | libzstd-dev | libmicrohttpd-dev) configure -Dtests=disabled && expect " : $1" ;; # of the tool alone
    *) configure && expect " : .*$1" ;;
  esac && there ninja -C "$build" && { [ "$1" != libdw-dev ] || says_that_it_lacks_libdw; }
}

# Installing libdw.so.1 would not help such a build.
says_that_it_lacks_libdw() {
  { "$build/tools/gpupool" symbolize /dev/null 2>&1 || true; } | grep 'needs a gpupool that was built with libdw'
}

shift
# shellcheck disable=SC2086 # a word each
[ $# -gt 0 ] || set -- $known all
for package; do
  build_without "$package"
done
