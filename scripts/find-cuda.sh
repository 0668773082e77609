#!/bin/sh
# Prints the folder that holds cuda.h, or fails with one sentence on stderr.
# Looked for, in this order: $CUDA_PATH, $CUDA_HOME, the toolkit of the nvcc on PATH, the usual places.
set -u

try() {
  for dir in "$1/include" "$1/targets/$(uname -m)-linux/include" "$1/targets/sbsa-linux/include"; do
    if [ -f "$dir/cuda.h" ] && [ -f "$dir/cuda_runtime_api.h" ]; then
      echo "$dir"
      exit 0
    fi
  done
}

[ -n "${CUDA_PATH:-}" ] && try "$CUDA_PATH"
[ -n "${CUDA_HOME:-}" ] && try "$CUDA_HOME"
if nvcc=$(command -v nvcc); then
  try "$(dirname "$(dirname "$(readlink -f "$nvcc")")")"
fi
for root in /usr/local/cuda /usr/local/cuda-*.* /opt/cuda /usr/lib/cuda /usr; do
  try "$root"
done
echo "CUDA headers not found: install the CUDA Toolkit (11.4 or newer; its cudart-dev package is enough) or set CUDA_PATH to its folder" >&2
exit 1
