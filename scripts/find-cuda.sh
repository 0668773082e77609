#!/bin/sh
# Prints the folder of CUDA's headers, or fails with one sentence on stderr.
#
#   find-cuda.sh [VERSION]    that is at least VERSION, as CUDA_VERSION of cuda.h has it; 11040 if it is not given
#
# Looked for, in this order: $CUDA_PATH, $CUDA_HOME, the toolkit of the nvcc on PATH, the usual places. The first one that is
# new enough is taken. crt/ is in a package of its own, without which nothing compiles.
set -u
wanted=${1:-11040}
older=

try() {
  for dir in "$1/include" "$1/targets/$(uname -m)-linux/include" "$1/targets/sbsa-linux/include"; do
    if [ -f "$dir/cuda.h" ] && [ -f "$dir/cuda_runtime_api.h" ] && [ -f "$dir/crt/host_defines.h" ]; then
      version=$(sed -n 's/^#define CUDA_VERSION \([0-9]*\).*/\1/p' "$dir/cuda.h")
      if [ "${version:-0}" -ge "$wanted" ]; then
        echo "$dir"
        exit 0
      fi
      older=${older:-"those in $dir are of $(in_words "${version:-0}")"}
    fi
  done
}

in_words() { # 12050
  echo "$(($1 / 1000)).$(($1 % 1000 / 10))"
}

[ -n "${CUDA_PATH:-}" ] && try "$CUDA_PATH"
[ -n "${CUDA_HOME:-}" ] && try "$CUDA_HOME"
if nvcc=$(command -v nvcc); then
  try "$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
fi
for root in /usr/local/cuda /usr/local/cuda-*.* /opt/cuda /usr/lib/cuda /usr; do
  try "$root"
done
echo "CUDA headers $(in_words "$wanted") or newer were not found${older:+ ($older)}: the library needs those of 11.4, the tests and the" \
  "demo those of 12.5. NVIDIA's package repository has them (apt-get install cuda-minimal-build-13-0); a toolkit in an unusual place" \
  "is named by CUDA_PATH." >&2
exit 1
