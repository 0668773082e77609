#!/bin/sh
# Builds gpupool and runs an ordinary CUDA program under it: on the GPU where there is one, else on the simulated one.
# On a fresh Debian or Ubuntu it installs the packages it needs first (as root or with sudo). Run it as often as you like.
set -eu
cd "$(dirname "$0")/.."
. scripts/steps.sh

find_cuda_headers
install_build_packages
# As test.sh builds it, which then only goes on. A folder that is configured stays as it is.
[ -f build/meson-private/coredata.dat ] || set -- -Ddebug_level=3
step "configure" configure build "$@"
step "build" ninja -C build demo-programs

#
# Which GPU
#
simulated=$PWD/build/test/sim
runtime=$(basename "$(readlink "$simulated/libcudart.so")") # that of the programs
trace=build/test/workloads/gpt2-medium-train.csv
if gpu=$(scripts/find-gpu.py "$CUDA_INCLUDE" "$runtime" 2>build/logs/find-gpu.log); then
  libraries=$(echo "$gpu" | sed -n 1p)
  echo "== GPU: $(echo "$gpu" | sed -n 2p)"
  if [ "$(echo "$gpu" | sed -n 3p)" -lt 14000 ]; then
    trace=build/test/workloads/llm-inference-growing-cache.csv # 2.6 GiB; the other wants 11
  fi
else
  libraries=$simulated
  echo "== GPU: none ($(tail -n 1 build/logs/find-gpu.log)); running on the simulated one"
fi
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH#:}"

#
# The program, and what it left
#
number=1
mkdir -p build/demo
until mkdir "build/demo/$number" 2>/dev/null; do
  number=$((number + 1))
done
folder=build/demo/$number

show() { # NAME COMMAND...
  show_name=$1
  shift
  printf '\n$'
  printf ' %s' "$@"
  printf '\n'
  "$@" || {
    step_failed "$show_name" "exit status $?"
    exit 1
  }
}

show "run a program under the pool" build/tools/gpupool run --output "$folder/snapshot.%r.json" -- \
  build/test/prog/replay $trace --check --repeat 3
if ! [ -s "$folder/snapshot.exit.json" ]; then
  step_failed "run a program under the pool" "it left no snapshot in $folder"
  exit 1
fi
show "summary" build/tools/gpupool summary "$folder/snapshot.exit.json"

where=
[ "$libraries" = "$simulated" ] && where=", on a machine with a GPU"
printf '\nYour own program%s: %s\n' "$where" "$PWD/build/tools/gpupool run -- PROGRAM ARGS"
