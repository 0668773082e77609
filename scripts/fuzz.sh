#!/bin/sh
# Looks for inputs that a reader cannot bear, with libFuzzer (clang), the address and the undefined behaviour sanitizer:
#
#   scripts/fuzz.sh TARGET [SECONDS] [LIBFUZZER-OPTION...]     pickle, snapshot, recover, suppressions, ...
#
# What it learns is kept in build-fuzz/corpus/TARGET. An input that fails is left in build-fuzz, and its name printed: mend
# the reader, and put the input into test/fuzz/corpus/TARGET, where every test run tries it from then on.
set -eu
cd "$(dirname "$0")/.."

target=${1:?"usage: scripts/fuzz.sh TARGET [SECONDS] [LIBFUZZER-OPTION...]"}
seconds=${2:-60}
[ $# -lt 2 ] && shift || shift 2
if [ ! -f "test/fuzz/fuzz_$target.c" ]; then
  echo "fuzz.sh: there is no target $target; there are:" test/fuzz/fuzz_*.c | sed 's/test.fuzz.fuzz_\([a-z_]*\)\.c/\1/g; s/ main//' >&2
  exit 2
fi
if [ ! -f build-fuzz/build.ninja ]; then
  CC=clang meson setup build-fuzz -Dfuzzer=true -Dtools=enabled -Ddebug_level=3 -Db_sanitize=address,undefined \
    -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link
fi
ninja -C build-fuzz "test/fuzz/fuzz_$target"
mkdir -p "build-fuzz/corpus/$target"
cd build-fuzz
exec env UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "test/fuzz/fuzz_$target" "corpus/$target" "../test/fuzz/corpus/$target" \
  -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -artifact_prefix="$target-" "$@"
