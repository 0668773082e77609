#!/bin/sh
# What not knowing costs while the device lags: bench-fences.sh BUILD/test/bench/bench_fences
# The traces that the build has made, and those of ../shared/traces where they are there. The file comment of
# test/bench/bench_fences.c says what is printed.
root=$(cd "$(dirname "$0")/.." && pwd)
set -- "$@" "$(dirname "$1")"/../workloads/*.csv
for trace in "$root"/../shared/traces/*.csv; do
  [ -e "$trace" ] && set -- "$@" "$trace"
done
exec "$@"
